"""The microdata files, byte by byte for small places, and unharmed by retries and odd input."""

import getpass
import socket
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataframes import assert_frames

from das_spark.errors import OutputError
from das_spark.io.microdata_files import MicrodataWriting, records_of
from das_spark.products import PRODUCTS
from das_spark.spark.microdata import write_microdata
from das_spark.store import PublicLayout, Staging, finished, record_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PRODUCT = PRODUCTS["e2e_1940"]

#: Geocode -> {(hhgq, age18plus, hispanic, race): people}, and units by class with vacant ones last.
PLACES = {
    "0200010002": ({(0, 1, 0, 0): 3, (0, 0, 1, 5): 2, (4, 1, 0, 1): 3}, [2, 0, 0, 0, 1, 0, 0, 0, 1]),
    "0200010001": ({}, [0, 0, 0, 0, 0, 0, 0, 0, 0]),
    "0100020003": ({(0, 1, 0, 2): 1, (7, 1, 0, 0): 1}, [1, 0, 0, 0, 0, 0, 0, 1, 0]),
}
PERSON_END = "|".join(["9999"] * 9 + ["9"])
UNIT_END = "9|99|99|9|9|9|999|9|99|9|99|99|99|99"


def frames(spark, places=PLACES):
    rows, invariants = [], []
    for geocode, (people, units) in places.items():
        cells = sorted((int(PRODUCT.schema.ravel([cell])[0]), count) for cell, count in people.items())
        rows.append((geocode, geocode[:6], [cell for cell, _ in cells], [count for _, count in cells]))
        invariants += [
            (geocode, geocode[:6], "units", [int(n) for n in units[:-1]]),
            (geocode, geocode[:6], "vacant", [int(units[-1])]),
        ]
    estimates = spark.createDataFrame(rows, "geocode string, parent string, cells array<int>, counts array<long>")
    declared = spark.createDataFrame(invariants, "geocode string, parent string, name string, values array<long>")
    return estimates, declared


def staging(path: Path) -> Staging:
    return Staging(path / ".staging" / "microdata")


def write(spark, path: Path, places=PLACES, *, units=True, formats=("parquet", "text"), notices=(), form="parts"):
    estimates, declared = frames(spark, places)
    layout = PublicLayout(path)
    path.mkdir(parents=True, exist_ok=True)
    writing = MicrodataWriting(PRODUCT, layout, formats, staging(path), "2030-01-01", notices, form)
    written = write_microdata(writing, estimates, declared if units else None)
    return layout, written


def lines(layout, kind):
    return "".join(path.read_text() for path in sorted(layout.microdata(kind, "text").glob("part-*"))).splitlines()


def test_the_text_files_have_the_exact_layout(spark, tmp_path):
    layout, written = write(spark, tmp_path)
    head = "MPD1940|3.1.4|01|0002|0003"
    other = "MPD1940|3.1.4|02|0001|0002"
    assert lines(layout, "person") == [
        f"{head}|0|1|3|99|9|18|1|3|{PERSON_END}",
        f"{head}|1|1|5|99|9|18|1|1|{PERSON_END}",
        f"{other}|2|1|3|99|9|17|2|6|{PERSON_END}",
        f"{other}|3|1|3|99|9|17|2|6|{PERSON_END}",
        f"{other}|2|2|3|99|9|18|1|1|{PERSON_END}",
        f"{other}|3|2|3|99|9|18|1|1|{PERSON_END}",
        f"{other}|2|3|3|99|9|18|1|1|{PERSON_END}",
        f"{other}|4|1|5|99|9|18|1|2|{PERSON_END}",
        f"{other}|4|2|5|99|9|18|1|2|{PERSON_END}",
        f"{other}|4|3|5|99|9|18|1|2|{PERSON_END}",
    ]
    unit, other = "MUD1940|3.1.4|01|0002|0003", "MUD1940|3.1.4|02|0001|0002"
    assert lines(layout, "unit") == [
        f"{unit}|0|2|0|9|0|1|{UNIT_END}",
        f"{unit}|1|4|9|0|0|1|{UNIT_END}",
        f"{other}|2|2|0|9|0|3|{UNIT_END}",
        f"{other}|3|2|0|9|0|2|{UNIT_END}",
        f"{other}|4|4|6|0|0|3|{UNIT_END}",
        f"{other}|5|2|0|0|9|0|{UNIT_END}",
    ]
    assert records_of(written) == {"person.parquet": 10, "person.text": 10, "unit.parquet": 6, "unit.text": 6}


def test_parquet_says_the_same_in_the_same_columns(spark, tmp_path):
    layout, _ = write(spark, tmp_path)
    for kind in ("person", "unit"):
        table = pq.read_table(layout.microdata(kind, "parquet")).to_pandas().astype(str)
        names = [column.name for column in getattr(PRODUCT.microdata, kind)]
        text = [dict(zip(names, line.split("|"), strict=True)) for line in lines(layout, kind)]
        assert list(table.columns) == names
        assert table.to_dict("records") == text


@pytest.mark.parametrize("kind", ["person", "unit"])
def test_spark_reads_both_formats_back_alike(spark, tmp_path, kind):
    layout, _ = write(spark, tmp_path)
    names = [column.name for column in getattr(PRODUCT.microdata, kind)]
    # The file `metadata` beside the parts is no data.
    reader = spark.read.option("sep", "|").option("quote", "").option("pathGlobFilter", "part-*")
    text = reader.csv(str(layout.microdata(kind, "text")), ", ".join(f"{name} string" for name in names))
    parquet = spark.read.parquet(str(layout.microdata(kind, "parquet")))
    as_text = parquet.select([parquet[name].cast("string").alias(name) for name in parquet.columns])
    assert_frames(text.select(parquet.columns), as_text, ignore_row_order=True, ignore_metadata=True)


def test_metadata_has_the_first_line_and_names_no_user_and_no_machine(spark, tmp_path):
    layout, _ = write(spark, tmp_path, notices=("INSECURE: made with a test key",))
    text = (layout.microdata("person", "text") / "metadata").read_text()
    assert text.splitlines()[0] == PRODUCT.microdata.comment
    assert "# INSECURE: made with a test key" in text
    assert "# Records: 10" in text
    assert all(line.startswith("#") for line in text.splitlines())
    assert socket.gethostname() not in text
    assert getpass.getuser() not in text.split()
    assert str(tmp_path) not in text
    schema = pq.read_schema(next(layout.microdata("person", "parquet").glob("part-*")))
    assert b"INSECURE" in schema.metadata[b"das_spark.notices"]


def test_one_file_a_universe_has_its_metadata_first_and_no_names_of_columns(spark, tmp_path):
    layout, _ = write(spark, tmp_path / "parts")
    single, written = write(spark, tmp_path / "single", form="single")
    assert records_of(written) == {"person.parquet": 10, "person.text": 10, "unit.parquet": 6, "unit.text": 6}
    for kind, name in (("person", "MDF_PER.txt"), ("unit", "MDF_UNIT.txt")):
        folder = single.microdata(kind, "text")
        assert sorted(path.name for path in folder.iterdir()) == [name, "_SUCCESS"]
        whole = (folder / name).read_text().splitlines()
        comments = [line for line in whole if line.startswith("#")]
        assert whole == [*comments, *lines(layout, kind)]
        assert comments[0] == PRODUCT.microdata.comment
        labels = [line[2:].partition(":")[0] for line in comments[1:8]]
        assert labels == ["Created", "Records", "Command line", "uid", "username", "Boot Time", "Start Time"]
        assert socket.gethostname() not in "".join(comments)
        parts = sorted(single.microdata(kind, "parquet").glob("part-*"))
        assert [path.read_bytes() for path in parts] == [
            path.read_bytes() for path in sorted(layout.microdata(kind, "parquet").glob("part-*"))
        ]


def test_without_units_persons_alone_are_written_with_fillers(spark, tmp_path):
    layout, written = write(spark, tmp_path, units=False)
    assert records_of(written) == {"person.parquet": 10, "person.text": 10}
    assert all(line.split("|")[5:7] == ["999999999", "99999"] for line in lines(layout, "person"))
    table = pq.read_table(layout.microdata("person", "parquet"), columns=["EUID", "EPNUM"])
    assert table.to_pylist() == [{"EUID": 999_999_999, "EPNUM": 99_999}] * 10
    assert not layout.microdata("unit", "text").exists()


def test_the_promoted_files_are_those_reported_and_strangers_are_destroyed(spark, tmp_path):
    layout = PublicLayout(tmp_path)
    left = staging(tmp_path).folder / "person.parquet"
    left.mkdir(parents=True)
    (left / "part-00000-99.parquet").write_text("half")
    old = layout.microdata("person", "parquet")
    old.mkdir(parents=True)
    (old / "part-00077.parquet").write_text("of a dead driver")
    _, written = write(spark, tmp_path)
    for folder in written:
        place = layout.microdata(folder.kind, folder.format)
        assert finished(place)
        assert [record_of(path) for path in sorted(place.glob("part-*"))] == list(folder.files)
    assert not staging(tmp_path).folder.exists()


def test_where_the_run_was_lost_nothing_is_published_and_what_was_published_stays(spark, tmp_path):
    layout, written = write(spark, tmp_path)

    def lost():
        assert (tmp_path / "mine" / "person.parquet").is_dir(), "asked when all is written"
        raise OutputError("lost")

    estimates, declared = frames(spark)
    place = Staging(tmp_path / "mine", lost)
    with pytest.raises(OutputError, match="lost"):
        write_microdata(MicrodataWriting(PRODUCT, layout, ("parquet",), place, "2031-01-01"), estimates, declared)
    for folder in written:
        target = layout.microdata(folder.kind, folder.format)
        assert finished(target)
        assert [record_of(path) for path in sorted(target.glob("part-*"))] == list(folder.files)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_the_bytes_do_not_depend_on_the_partitioning_of_the_estimates(spark, tmp_path, partitions):
    rng = np.random.default_rng(5)
    places = {}
    for number in range(60):
        people = {(0, 1, 0, race): int(rng.integers(1, 5)) for race in range(int(rng.integers(0, 4)))}
        homes = min(2, sum(people.values()))
        places[f"01{number % 7:04d}{number:04d}"] = (people, [homes, 0, 0, 0, 0, 0, 0, 0, int(rng.integers(0, 2))])
    reference, _ = write(spark, tmp_path / "reference", places)
    estimates, declared = frames(spark, places)
    other = PublicLayout(tmp_path / "other")
    other.path.mkdir()
    shuffled = estimates.repartition(partitions, "counts")
    writing = MicrodataWriting(PRODUCT, other, ("parquet", "text"), staging(other.path), "2030-01-01")
    write_microdata(writing, shuffled, declared)
    for kind in ("person.parquet", "person.text", "unit.parquet", "unit.text"):
        both = [sorted((layout.path / "microdata" / kind).iterdir()) for layout in (reference, other)]
        assert [path.name for path in both[0]] == [path.name for path in both[1]]
        assert [path.read_bytes() for path in both[0]] == [path.read_bytes() for path in both[1]]


def test_people_that_cannot_be_dealt_stop_the_writer_and_leave_no_file(spark, tmp_path):
    places = {"0100020003": ({(0, 1, 0, 2): 1}, [2, 0, 0, 0, 0, 0, 0, 0, 0])}
    with pytest.raises(OutputError, match="0100020003"):
        write(spark, tmp_path, places)
    assert not (tmp_path / "microdata").exists()


def test_a_place_where_nobody_lives_gives_whole_empty_files(spark, tmp_path):
    layout, written = write(spark, tmp_path, {"0100020003": ({}, [0] * 9)})
    assert set(records_of(written).values()) == {0}
    table = pq.read_table(layout.microdata("person", "parquet"))
    assert table.num_rows == 0
    assert table.schema.field("EUID").type == pa.int32()
