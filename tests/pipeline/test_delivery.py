"""What is read is what was delivered: files are listed once, copies are refused, and all are held to a note."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.config import InputSettings
from das_spark.errors import InputError
from das_spark.pipeline.delivery import delivered_files, examined_files, input_files
from das_spark.pipeline.delivery_note import read_note, require_named

PERSONS = "geocode,count\n0101,7\n0102,5\n0103,3\n"
UNITS = "geocode,units\n0101,2\n0102,2\n0103,1\n"


@pytest.fixture
def delivery(tmp_path: Path) -> Path:
    """Persons in two files of CSV, compressed, and units in one of Parquet."""
    folder = tmp_path / "persons"
    folder.mkdir()
    (folder / "a.csv.gz").write_bytes(gzip.compress(PERSONS.encode()))
    (folder / "b.csv.gz").write_bytes(gzip.compress(b'geocode,count\r\n"0104",\r\n0105,1'))
    pq.write_table(pa.table({"geocode": ["0101", "0102"], "units": [1, 2]}), tmp_path / "units.parquet")
    return tmp_path


def settings(delivery: Path, expected: Path | None = None) -> InputSettings:
    return InputSettings(
        reader="tidy_counts",
        persons=str(delivery / "persons"),
        units=str(delivery / "units.parquet"),
        expected=None if expected is None else str(expected),
    )


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_file_is_listed_with_its_digest_and_records(delivery):
    found = delivered_files(settings(delivery))
    paths = [delivery / "persons" / "a.csv.gz", delivery / "persons" / "b.csv.gz", delivery / "units.parquet"]
    assert [(each.path, each.records) for each in found] == list(zip(map(str, paths), (3, 2, 2), strict=True))
    assert [(each.size, each.sha256) for each in found] == [(path.stat().st_size, sha256(path)) for path in paths]


def test_lines_are_the_records_of_other_files(tmp_path):
    (tmp_path / "persons.cef").write_text("1\n2\n3")
    (tmp_path / "units.cef").write_text("1\n")
    (tmp_path / "grfc.txt").write_text("4\n")
    given = InputSettings(
        reader="cef_2020",
        persons=str(tmp_path / "persons.cef"),
        units=str(tmp_path / "units.cef"),
        geography=str(tmp_path / "grfc.txt"),
    )
    assert {Path(file.path).name: file.records for file in delivered_files(given)} == {
        "persons.cef": 3,
        "units.cef": 1,
        "grfc.txt": 1,
    }


def test_a_copy_in_the_same_folder_is_refused(delivery):
    shutil.copy(delivery / "persons" / "a.csv.gz", delivery / "persons" / "a (copy).csv.gz")
    with pytest.raises(InputError, match=r"a\.csv\.gz: holds the same bytes as .*a \(copy\)\.csv\.gz"):
        examined_files(settings(delivery))


@pytest.mark.parametrize("text", ["", "geocode,count\n"])
def test_parts_without_a_record_may_be_alike(delivery, text):
    for name in ("c", "d"):
        (delivery / "persons" / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    assert len(examined_files(settings(delivery))) == 5
    assert [file.records for file in delivered_files(settings(delivery))] == [3, 2, 0, 0, 2]


def test_parts_of_other_folders_may_be_alike(tmp_path):
    for state in ("01", "02"):
        (tmp_path / "persons" / f"state={state}").mkdir(parents=True)
        (tmp_path / "persons" / f"state={state}" / "a.csv").write_text(PERSONS)
    (tmp_path / "units.csv").write_text(UNITS)
    given = InputSettings(reader="tidy_counts", persons=str(tmp_path / "persons"), units=str(tmp_path / "units.csv"))
    assert len(examined_files(given)) == 3


def written(delivery: Path, *rows: str, columns: str = "name,records,sha256") -> Path:
    path = delivery / "note.csv"
    path.write_text("\n".join([columns, *rows]) + "\n")
    return path


def right(delivery: Path) -> list[str]:
    digest = sha256(delivery / "persons" / "a.csv.gz")
    return [
        f"a.csv.gz,3,{digest.upper()}",
        "persons/b.csv.gz,2,",
        f"units.parquet,,{sha256(delivery / 'units.parquet')}",
    ]


def test_an_input_that_is_what_its_note_says_is_taken(delivery):
    assert len(examined_files(settings(delivery, written(delivery, *right(delivery))))) == 3


WRONG = {
    "a file that was not delivered": (lambda rows: rows[:2], ["units.parquet is read, and not said"]),
    "a file that is missing": (lambda rows: [*rows, "c.csv,1,"], ["c.csv is not read"]),
    "a file that is another one": (
        lambda rows: [*rows[:2], f"units.parquet,2,{'0' * 64}"],
        ["units.parquet has another SHA-256"],
    ),
    "a file that was cut short": (
        lambda rows: [rows[0], "b.csv.gz,777,", rows[2]],
        ["b.csv.gz has another number of records"],
    ),
    "a file that is said twice": (lambda rows: [*rows, rows[0]], ["a.csv.gz is said twice"]),
    "several at once": (
        lambda rows: ["a.csv.gz,777,", "c.csv,1,"],
        ["a.csv.gz has another number", "c.csv is not read", "b.csv.gz is read", "units.parquet is read"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_input_that_is_not_what_its_note_says_is_refused_without_a_number(delivery, name):
    changed, said = WRONG[name]
    with pytest.raises(InputError, match="the input is not what was delivered") as caught:
        examined_files(settings(delivery, written(delivery, *changed(right(delivery)))))
    for each in said:
        assert each in str(caught.value)
    assert "777" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ("name,records,sha256", "a.csv,three,"),
        ("name,records,sha256", "a.csv,-3,"),
        ("name,records,sha256", "a.csv,3,abc"),
        ("name,records,sha256", f"a.csv,3,{'g' * 64}"),
        ("name,records,sha256", ",3,"),
    ],
)
def test_a_note_that_says_something_else_is_named_by_its_record(delivery, columns, row):
    with pytest.raises(InputError, match="record 1 does not say a name, a number of records and a SHA-256"):
        read_note(str(written(delivery, row, columns=columns)))


@pytest.mark.parametrize("columns", ["file,records", "name,rows"])
def test_a_table_of_other_columns_is_no_note(delivery, columns):
    with pytest.raises(InputError, match="expected columns name, and records or sha256"):
        read_note(str(written(delivery, "a.csv,3", columns=columns)))


def test_the_command_lists_what_a_run_would_read(delivery, capsys):
    arguments = ["--set", f"input.persons={delivery}/persons", "--set", f"input.units={delivery}/units.parquet"]
    assert main(["input", "list", "pl94_2020_to_county", *arguments, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(Path(each["file"]).name, each["records"]) for each in listed] == [
        ("a.csv.gz", 3),
        ("b.csv.gz", 2),
        ("units.parquet", 2),
    ]
    assert main(["input", "list", "pl94_2020_to_county", *arguments]) == 0
    assert "RESTRICTED" in capsys.readouterr().out


def test_parts_without_a_record_may_be_alike_whatever_stands_between_fields(tmp_path):
    """They are looked at as the run file says that they are written."""
    (tmp_path / "persons").mkdir()
    for name in ("a", "b"):
        (tmp_path / "persons" / f"{name}.csv").write_text("geocode;count\n")
    (tmp_path / "units.csv").write_text(UNITS.replace(",", ";"))
    given = InputSettings(
        reader="tidy_counts", persons=str(tmp_path / "persons"), units=str(tmp_path / "units.csv"), delimiter=";"
    )
    assert len(examined_files(given)) == 3


@pytest.mark.parametrize("name", ["c.csv.gz~", "_c.csv.gz", ".c.csv.gz.X7f3Qa", "c.csv"])
def test_what_is_odd_to_its_reader_is_not_listed(delivery, name):
    shutil.copy(delivery / "persons" / "a.csv.gz", delivery / "persons" / name)
    with pytest.raises(InputError, match="the folder holds"):
        delivered_files(settings(delivery))


def test_marks_that_are_passed_over_are_named(delivery, capsys):
    (delivery / "persons" / "_SUCCESS").touch()
    (delivery / "_SUCCESS").touch()  # of something else
    arguments = ["--set", f"input.persons={delivery}/persons", "--set", f"input.units={delivery}/units.parquet"]
    assert main(["input", "list", "pl94_2020_to_county", *arguments]) == 0
    printed = capsys.readouterr().out
    assert f"holds no record by its name: {delivery}/persons/_SUCCESS" in printed
    assert f"{delivery}/_SUCCESS" not in printed


def test_a_table_is_counted_as_it_is_read_whatever_its_name(delivery):
    (delivery / "units.parquet").rename(delivery / "units.parq")
    given = settings(delivery).model_copy(update={"units": str(delivery / "units.parq")})
    assert [file.records for file in delivered_files(given)] == [3, 2, 2]


def test_names_are_held_to_the_note_before_a_file_is_read(delivery):
    paths = [str(path) for path in input_files(settings(delivery))]
    require_named(str(written(delivery, *right(delivery))), paths)
    (delivery / "persons" / "a.csv.gz").write_bytes(b"")
    require_named(str(written(delivery, "a.csv.gz,7,", *right(delivery)[1:])), paths)
    with pytest.raises(InputError, match="the input is not what was delivered") as refused:
        require_named(str(written(delivery, "nothing.csv,1,")), paths)
    for said in ("nothing.csv is not read", "a.csv.gz is read, and not said", "units.parquet is read, and not said"):
        assert said in str(refused.value)


def test_a_compressed_file_is_looked_at_without_a_word(delivery, capfd):
    delivered_files(settings(delivery))
    assert capfd.readouterr() == ("", "")
