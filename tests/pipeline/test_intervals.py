"""Intervals of a whole run: verified, the same by the command and from published measurements, and of areas."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from eight_blocks import BLOCKS, EMPTY, FORMATS, GEOUNITS, LEVELS, PRODUCT, write_run_file

from das_spark.cli.main import main
from das_spark.errors import ConfigurationError, InputError, OutputError
from das_spark.features.intervals import feature
from das_spark.features.intervals import finished as of_finished
from das_spark.features.intervals import passes as stage
from das_spark.features.intervals.finished import area_intervals, geounit_intervals, open_intervals
from das_spark.features.intervals.tables import intervals_layout
from das_spark.io.table_files import ABOUT
from das_spark.pipeline import verify_run
from das_spark.pipeline.statement import INSECURE
from das_spark.pipeline.table_writing import TablesWriting
from das_spark.pipeline.verified_files import REPORT, TIMES
from das_spark.store import PublicLayout, PublicManifest, RunLayout, finished, part_files

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

P1, _, _, _, P5 = PRODUCT.tables
TABLES = (P1, P5)
LENGTHS = {"County": 5, "Tract": 11, "Block": 16}
ENDS = ("", "_se", "_low", "_high")
COUNTY, TRACT = BLOCKS[0][:5], BLOCKS[0][:11]
ASKED = ["--table", "P5", "--table", "P1"]
FAILED, WRONG = 1, 2

WANTED = """
[output.intervals]
level = "0.9"
tables = ["P1", "P5"]
[measurement]
rows = "all"
"""


@pytest.fixture(scope="module")
def conf(tmp_path_factory) -> Path:
    return write_run_file(tmp_path_factory.mktemp("intervals"), "4", WANTED)


@pytest.fixture(scope="module")
def whole(conf, spark) -> RunLayout:
    """A whole run with intervals, which nobody may change."""
    assert main(["run", str(conf), "--run-id", "whole", "--test-key", "open"]) == 0
    return RunLayout.at(conf.parent / "runs", "whole")


@pytest.fixture(scope="module")
def by_geounit(whole) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows of the run's files by geocode and table."""
    return {
        (row["geocode"], table.name): row
        for table in TABLES
        for level in LEVELS
        for part in part_files(intervals_layout(whole.public).level(table.name, "parquet", level))
        for row in pq.ParquetFile(part).read().to_pylist()
    }


@pytest.fixture
def copied(whole, tmp_path) -> PublicLayout:
    """The public root of the run alone, in another place."""
    shutil.copytree(whole.public.path, tmp_path / "public")
    return PublicLayout(tmp_path / "public")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that is published below a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def four(row: Any, name: str) -> list[float]:
    return [float(row[f"{name}{end}"]) for end in ENDS]


def area_file(path: Path, areas: dict[str, list[str]]) -> Path:
    lines = [f"{code},{name}" for name, codes in areas.items() for code in codes]
    path.write_text("\n".join(["geocode,area", *lines]) + "\n")
    return path


def test_intervals_of_every_geounit_are_there_in_every_format_and_verified(whole, by_geounit):
    report = json.loads(whole.public.verification.read_text())
    assert report["passed"]
    names = {check["name"] for check in report["checks"]}
    assert {"intervals reach as far as their standard errors", "estimates of intervals sum to parents"} <= names
    assert {f"rows of intervals/P5.{format}" for format in FORMATS} <= names
    codes = {block[:length] for block in BLOCKS for length in LENGTHS.values()}
    assert set(by_geounit) == {(code, table.name) for code in codes for table in TABLES}
    layout = intervals_layout(whole.public)
    assert layout.abandoned == ()
    for table in TABLES:
        for level in LEVELS:
            assert all(finished(layout.level(table.name, format, level)) for format in FORMATS)
            (path,) = part_files(layout.level(table.name, "csv", level))
            rows = rows_of(path.read_text())
            assert list(rows[0]) == ["geocode", *(f"{name}{end}" for name in table.names for end in ENDS)]
            assert len(rows) == GEOUNITS[level]
            for row in rows:
                same = by_geounit[row["geocode"], table.name]
                assert all(four(row, name) == four(same, name) for name in table.names)
    # Only the tables that were asked for.
    assert {path.name for path in layout.path.iterdir()} == {f"{t.name}.{f}" for t in TABLES for f in FORMATS}


def test_estimates_are_unbiased_of_what_was_counted_and_the_exact_total_is_exact(by_geounit, conf):
    persons = pq.read_table(conf.parent / "census" / "persons.parquet").to_pylist()
    misses = 0
    for code in (*BLOCKS, TRACT, COUNTY):
        own = [row for row in persons if row["geocode"].startswith(code)]
        row = by_geounit[code, "P1"]
        truth = sum(each["count"] for each in own)
        estimate, error, low, high = four(row, P1.total.name)
        assert abs(estimate - truth) < 6 * max(error, 1e-6)
        misses += not low <= truth <= high
        if code in (COUNTY, EMPTY):  # an invariant; and a block without units, in which nobody can be
            assert (error, low, high) == (pytest.approx(0, abs=1e-5), truth, truth)
        else:
            assert error > 0
    assert misses <= 5  # of ten by 0.9 each


def test_the_manifest_counts_the_rows_and_describes_the_columns(whole):
    manifest = PublicManifest.load(whole.public.manifest)
    names = [f"intervals/{table.name}.{format}" for table in TABLES for format in FORMATS]
    rows = {name: count for name, count in manifest.rows.items() if name.startswith("intervals/")}
    assert rows == dict.fromkeys(names, sum(GEOUNITS.values()))
    assert [record.name for record in manifest.stages][-2:] == ["tabulate", "intervals"]
    assert manifest.stages[-1].outputs == tuple(names)
    described = [each for each in manifest.data_dictionary if each["path"].startswith("intervals/")]
    assert [each["path"] for each in described] == [f"intervals/{t.name}.<format>/level=<geolevel>" for t in TABLES]
    for table, each in zip(TABLES, described, strict=True):
        columns = {column["name"]: column for column in each["columns"]}
        assert list(columns) == ["geocode", *(f"{name}{end}" for name in table.names for end in ENDS)]
        types = ("double", "double", "long", "long")
        assert tuple(columns[f"{table.names[2]}{end}"]["type"] for end in ENDS) == types
        assert columns[f"{table.names[2]}_se"]["meaning"].startswith(f"{table.path(2)}: ")
    assert manifest.config["output"]["intervals"] == {"level": "9/10", "tables": ["P1", "P5"], "geolevels": [*LEVELS]}


def test_every_folder_says_what_an_interval_is_and_that_the_run_is_insecure(whole):
    for table in TABLES:
        for format in FORMATS:
            text = (intervals_layout(whole.public).table(table.name, format) / ABOUT).read_text()
            assert text.startswith(f"{table.name}. {table.title}\n")
            assert INSECURE in text
            assert "Intervals of 90 %" in text
            assert str(whole.folder.parent) not in text


def test_the_command_gives_the_bytes_of_the_stage(whole, tmp_path, capsys):
    before = contents(whole.public.path)
    assert main(["interval", str(whole.folder), *ASKED, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert "P5.csv" in printed.out
    assert INSECURE in printed.err
    assert contents(tmp_path / "out") == contents(intervals_layout(whole.public).path)
    assert contents(whole.public.path) == before
    assert {path.name for path in tmp_path.iterdir()} == {"out"}, "nothing else is left"
    assert main(["interval", str(whole.folder), *ASKED, "--out", str(tmp_path / "out")]) == FAILED
    assert "not an empty folder" in capsys.readouterr().err


def test_upper_levels_alone_have_the_same_intervals_and_the_pass_down_stops_there(whole, tmp_path, spark, monkeypatch):
    down: list[str] = []
    real = stage.carried_down

    def noted(session, level, given, task, *more):
        down.append(f"{task.plan.family.geolevel}{'.' if task.lowest else ''}")
        return real(session, level, given, task, *more)

    monkeypatch.setattr(stage, "carried_down", noted)
    wanted = open_intervals(whole.folder, "0.9", ("P1", "P5"), ("Tract",))
    assert geounit_intervals(wanted, tmp_path / "out", spark).rows["P5.csv"] == GEOUNITS["Tract"]
    assert down == ["County", "Tract."]
    everything = contents(intervals_layout(whole.public).path)
    about = {f"{table.name}.{format}/{ABOUT}" for table in TABLES for format in FORMATS}
    tracts = {name for name in everything if "level=Tract" in name}
    assert contents(tmp_path / "out") == {name: everything[name] for name in about | tracts}


class Stop(BaseException):
    """Ends a run where a test has seen enough."""


def test_a_folder_of_intervals_is_whole_or_not_there_and_a_second_attempt_clears_what_the_first_left(
    whole, tmp_path, spark, monkeypatch
):
    out, left = tmp_path / "out", tmp_path / ".out.unfinished"
    wanted = open_intervals(whole.folder, "0.9", ("P1", "P5"), ("County",))
    real = TablesWriting.promote

    def dying(writing, written):
        real(writing, written)
        table, _ = written
        assert (left / f"{table.name}.csv").is_dir()
        if table is P5:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(TablesWriting, "promote", dying)
        with pytest.raises(Stop):
            geounit_intervals(wanted, out, spark)
        assert not list(tmp_path.iterdir())
        # A driver that is killed removes nothing.
        patch.setattr("das_spark.store.commit.discard", lambda _: None)
        patch.setattr(of_finished, "discard", lambda _: None)
        with pytest.raises(Stop):
            geounit_intervals(wanted, out, spark)
    assert [path.name for path in tmp_path.iterdir()] == [left.name]
    (left / "P9.csv").mkdir()
    out.mkdir()
    geounit_intervals(wanted, out, spark)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert {path.name for path in out.iterdir()} == {f"{t.name}.{f}" for t in TABLES for f in FORMATS}
    assert all(finished(out / f"{t.name}.{f}" / "level=County") for t in TABLES for f in FORMATS)


def test_two_commands_without_a_file_share_no_folder_and_remove_theirs_when_they_fail(
    whole, tmp_path, spark, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    places: list[Path] = []

    def failing(passes, *_):
        places.append(passes.scratch.path.parent)
        (passes.scratch.path / "upward").mkdir(parents=True)
        raise InputError("on purpose")

    monkeypatch.setattr(stage.LinearPasses, "carry", failing)
    areas = area_file(tmp_path / "areas.csv", {"a": BLOCKS[:1]})
    for _ in range(2):
        with pytest.raises(InputError, match="on purpose"):
            list(area_intervals(open_intervals(whole.folder, "0.9"), areas, spark=spark))
    assert len(set(places)) == 2
    assert {place.parent for place in places} == {tmp_path}
    assert [path.name for path in tmp_path.iterdir()] == ["areas.csv"]


def test_published_measurements_give_the_same_numbers(whole, conf, tmp_path):
    folder, out = tmp_path / "nmf", tmp_path / "out"
    assert main(["measurements", str(whole.folder), "--out", str(folder)]) == 0
    # Sums of other tables are other products of matrices, and may differ in their last digits.
    wanted = open_intervals(folder, "0.9", ("P1", "P5"), ("Tract", "Block"))
    rows = geounit_intervals(wanted, out).rows
    assert rows == {f"{table.name}.{format}": 10 for table in TABLES for format in FORMATS}
    for level in ("Tract", "Block"):
        for format in FORMATS:
            (mine,), (theirs,) = (
                part_files(place / f"P1.{format}" / f"level={level}")
                for place in (out, intervals_layout(whole.public).path)
            )
            assert mine.read_bytes() == theirs.read_bytes()
    assert not (out / "P1.csv" / "level=County").exists()
    tract = area_file(tmp_path / "areas.csv", {"tract": BLOCKS[:4]})
    sources = (open_intervals(place, "0.9", ("P5",)) for place in (folder, whole.folder))
    from_folder, from_run = ([*area_intervals(source, tract, tmp_path / "x")] for source in sources)
    assert from_folder == from_run
    assert sorted(path.name for path in tmp_path.iterdir()) == ["areas.csv", "nmf", "out"]


def test_areas_that_are_geounits_have_their_intervals_and_others_the_sums_of_their_blocks(
    whole, by_geounit, tmp_path, capsys
):
    mixed = [BLOCKS[1], BLOCKS[3], BLOCKS[6]]
    areas = area_file(tmp_path / "county.csv", {"all": BLOCKS})
    # A block that is in no area is in none, and one may be named by the 15 digits of the census.
    parts = {"tract": [*BLOCKS[:3], BLOCKS[3][:11] + BLOCKS[3][12:]], "": [BLOCKS[4]], "block": [BLOCKS[7]]}
    others = area_file(tmp_path / "parts.csv", parts)
    crossing = area_file(tmp_path / "crossing.csv", {"x/y, z": []})
    crossing.write_text("block,name\n" + "".join(f'{code},"x/y, z"\n' for code in mixed))
    found: dict[tuple[str, str], list[float]] = {}
    for path in (areas, others, crossing):
        out = tmp_path / f"{path.stem}-intervals.csv"
        assert main(["interval", str(whole.folder), *ASKED, "--areas", str(path), "--out", str(out)]) == 0
        rows = rows_of(out.read_text())
        found |= {
            (row["area"], row["column"]): [float(row[each]) for each in ("estimate", "standard_error", "low", "high")]
            for row in rows
        }
        assert [(row["table"], row["column"]) for row in rows[: len(P1.names)]] == [("P1", name) for name in P1.names]
        assert f"{len(rows):,} intervals in" in " ".join(capsys.readouterr().out.split())
    columns = [(table, name) for table in TABLES for name in table.names]
    assert set(found) == {(area, name) for area in ("all", "tract", "block", "x/y, z") for _, name in columns}
    for area, code in (("all", COUNTY), ("tract", TRACT), ("block", BLOCKS[7])):
        for table, name in columns:
            wanted = four(by_geounit[code, table.name], name)
            estimate, error, *ends = found[area, name]
            assert estimate == pytest.approx(wanted[0], abs=1e-6), (area, name)
            assert error**2 == pytest.approx(wanted[1] ** 2, abs=1e-6), (
                area,
                name,
            )  # roots of rounding errors are large
            assert ends == wanted[2:], (area, name)
    for table, name in columns:
        own = [four(by_geounit[code, table.name], name) for code in mixed]
        estimate, error, low, high = found["x/y, z", name]
        assert estimate == pytest.approx(sum(each[0] for each in own), abs=1e-6)
        assert error <= sum(each[1] for each in own) + 1e-6  # whatever the correlations
        assert 0 <= low <= high
    assert not list(tmp_path.glob(".*"))


def test_without_a_file_the_first_lines_are_printed(whole, by_geounit, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    areas = area_file(tmp_path / "areas.csv", {"half": BLOCKS[:4]})
    assert main(["interval", str(whole.folder), "--table", "P1", "--areas", str(areas), "--level", "0.5"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Intervals of 0.5 of the truth" in printed
    assert f"half {P1.total.name} Total {by_geounit[TRACT, 'P1'][P1.total.name]:,.1f}" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["areas.csv"]


@pytest.mark.parametrize(
    ("codes", "needle"),
    [
        (
            [BLOCKS[0], "0100100010011777", "0100100010011776"],
            "2 geocodes are of no geounit of the run, 0100100010011776",
        ),
        ([BLOCKS[0], BLOCKS[0]], "stands twice"),
        ([BLOCKS[0], BLOCKS[0][:11] + BLOCKS[0][12:]], "stands twice"),
        ([TRACT], "expected geocodes of 16 digits"),
        (None, "no such file"),
    ],
    ids=["unknown", "twice", "twice in two forms", "not a block", "missing"],
)
def test_a_file_of_areas_that_says_something_else_is_refused(whole, tmp_path, codes, needle, capsys):
    path = tmp_path / "areas.csv"
    if codes is not None:
        area_file(path, {"a": codes})
    out = tmp_path / "out.csv"
    assert main(["interval", str(whole.folder), "--areas", str(path), "--out", str(out)]) == FAILED
    said = " ".join(capsys.readouterr().err.split())
    assert needle in said
    assert "Traceback" not in said
    assert {path.name for path in tmp_path.iterdir()} <= {"areas.csv"}


def test_a_file_in_which_nothing_has_an_area_is_refused(whole, tmp_path, spark):
    areas = area_file(tmp_path / "areas.csv", {"": BLOCKS})
    with pytest.raises(InputError, match="no geocode of it has an area"):
        list(area_intervals(open_intervals(whole.folder, "0.9"), areas, tmp_path / "x", spark))


def lazily(public: PublicLayout) -> None:
    """Say that not every answer was kept."""
    manifest = json.loads(public.manifest.read_text())
    manifest["config"]["measurement"]["rows"] = "support"
    manifest["config"]["output"].pop("intervals")
    public.manifest.write_text(json.dumps(manifest))


def test_a_run_that_kept_some_answers_only_has_intervals_of_its_top_level_alone(copied, tmp_path, spark):
    lazily(copied)
    areas = area_file(tmp_path / "areas.csv", {"a": BLOCKS[:1]})
    for geolevels in ((), ("County",)):
        with pytest.raises(ConfigurationError, match=r"measurement\.rows"):
            list(area_intervals(open_intervals(copied.path, "0.9", (), geolevels), areas, tmp_path / "x", spark))
    with pytest.raises(ConfigurationError, match="Block is measured only where"):
        geounit_intervals(open_intervals(copied.path, "0.9", (), ("Block",)), tmp_path / "out", spark)
    assert not (tmp_path / "out").exists()
    wanted = open_intervals(copied.path, "0.9", ("P1",), ("County",))
    assert geounit_intervals(wanted, tmp_path / "out", spark).rows == dict.fromkeys(("P1.parquet", "P1.csv"), 1)
    (part,) = part_files(tmp_path / "out" / "P1.parquet" / "level=County")
    (row,) = pq.ParquetFile(part).read().to_pylist()
    (given,) = part_files(intervals_layout(copied).level("P1", "parquet", "County"))
    (better,) = pq.ParquetFile(given).read().to_pylist()
    name = P1.names[3]
    assert row[f"{name}_se"] > better[f"{name}_se"] > 0  # what lies below says something, too


def test_a_value_that_was_changed_fails_the_verification(copied, spark):
    (path,) = part_files(intervals_layout(copied).level("P5", "parquet", "Block"))
    table = pq.ParquetFile(path).read()
    place = table.schema.get_field_index(f"{P5.names[4]}_high")
    values = table.column(place).to_pylist()
    values[2] += 2
    pq.write_table(table.set_column(place, table.schema.field(place), pa.array(values, pa.int64())), path)
    failing = {(failure.name, failure.geolevel): failure.failing for failure in verify_run(copied.path, spark).failures}
    assert {failing.pop((name, ""))[0] for name in (REPORT, TIMES)} == {  # which tell of the same
        "verification.json: files are those of the manifest",
        str(path.relative_to(copied.path)),
    }
    assert failing == {
        ("intervals reach as far as their standard errors", "Block"): (BLOCKS[2],),
        ("formats of intervals hold the same numbers", "Block"): (BLOCKS[2],),
        ("files are those of the manifest", ""): (str(path.relative_to(copied.path)),),
    }


def test_intervals_that_are_not_whole_are_not_read(copied):
    (intervals_layout(copied).level("P1", "csv", "Tract") / "_SUCCESS").unlink()
    nothing: Any = object()  # no session: nothing may be asked of it
    assert verify_run(copied.path, spark=nothing).checks[0].failing == ("intervals/P1.csv/level=Tract",)


def test_a_run_that_resumes_leaves_finished_intervals_and_makes_the_others(whole, conf, monkeypatch):
    layout = intervals_layout(whole.public)
    before = contents(layout.path)
    monkeypatch.setattr("das_spark.pipeline.stages.verify.verify_public", lambda *_: pytest.fail("not reached"))
    monkeypatch.setattr("das_spark.pipeline.runner.publish_statement", lambda *_: (_ for _ in ()).throw(Stop))
    again = ["run", str(conf), "--run-id", "whole", "--test-key", "open"]
    with monkeypatch.context() as patch:
        patch.setattr(feature, "write_intervals", lambda *_: pytest.fail("made again"))
        with pytest.raises(Stop):
            main(again)
    (layout.level("P5", "csv", "Tract") / "_SUCCESS").unlink()
    with pytest.raises(Stop):
        main(again)
    assert contents(layout.path) == before
    assert layout.abandoned == ()


def test_a_place_that_cannot_be_written_is_a_clear_error(whole, spark, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        geounit_intervals(open_intervals(whole.folder, "0.9", ("P1",)), tmp_path / "file", spark)
