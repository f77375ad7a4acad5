"""`interval`: which options go together, and what is said before Spark is asked for."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from das_spark.cli.main import main
from das_spark.errors import InputError
from das_spark.features import intervals
from das_spark.features.intervals import finished
from das_spark.features.intervals.commands import interval as door
from das_spark.features.intervals.finished import AreaInterval
from das_spark.spark import session as session_module

CONF = Path(__file__).parents[3] / "conf"
FAILED, WRONG = 1, 2
FOUND = [
    AreaInterval("a, b", "P1", "P0010001", "Total", 0, -3.25, 4.5, 0, 4),
    AreaInterval("a, b", "P1", "P0010011", "Deep", 3, 1e-17, 0.1, 0, 0),
]


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    monkeypatch.setattr(session_module, "session", lambda *_, **__: pytest.fail("Spark was asked for"))


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        ([], "name --areas FILE for intervals of areas, or --out DIR"),
        (["--table", "P1"], "name --areas FILE for intervals of areas, or --out DIR"),
        (["--areas", "a.csv", "--geolevel", "Tract"], "--geolevel is of geounits, and goes without --areas"),
        (["--out", "x", "--set", "output.root=x"], "--overlay and --set go with --conf"),
        (["--out", "x", "--overlay", "x.toml"], "--overlay and --set go with --conf"),
        (["--out"], "requires an argument"),
        (["--areas", "a.csv", "--wider-than", "3"], "--wider-than counts cells of geounits, and goes without --areas"),
        (["--wider-than", "wide"], "--wider-than wide: is no width"),
        (["--districts", "x"], "No such option"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path, capsys, arguments, needle):
    assert main(["interval", str(tmp_path), *arguments]) == WRONG
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert needle in said
    assert "Traceback" not in said


def test_a_folder_that_is_neither_a_run_nor_measurements_is_an_error(tmp_path, capsys):
    assert main(["interval", str(tmp_path), "--out", str(tmp_path / "out")]) == FAILED
    assert "runs/latest" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_it_has_help_with_an_example(capsys):
    assert main(["interval", "--help"]) == 0
    assert "Example: das-spark interval" in " ".join(capsys.readouterr().out.split())


class Opened(NamedTuple):
    """What the command asks for, in the place of measurements that were found."""

    path: Path
    level: str
    tables: Sequence[str] = ()
    geolevels: Sequence[str] = ()
    external: Any = None

    @property
    def notices(self) -> tuple[str, ...]:
        return ("INSECURE: nothing protects this",)


@pytest.fixture
def asked(monkeypatch) -> list[tuple[Any, ...]]:
    """What the command hands on, in the place of work; two intervals are found of every file of areas."""
    given: list[tuple[Any, ...]] = []

    def of_areas(*arguments, spark=None):
        assert spark is None
        given.append(arguments)
        yield from FOUND

    def of_geounits(*arguments):
        given.append(arguments)
        return SimpleNamespace(folder=arguments[1], rows={"P1.csv": 1234})

    monkeypatch.setattr(finished, "area_intervals", of_areas)
    monkeypatch.setattr(finished, "geounit_intervals", of_geounits)
    monkeypatch.setattr(finished, "open_intervals", Opened)
    return given


def test_what_is_asked_for_is_handed_on_and_notices_are_loud(asked, tmp_path, capsys):
    more = ["--table", "P1", "--table", "P3", "--geolevel", "Tract", "--level", "2/3", "--out", str(tmp_path / "x")]
    assert main(["interval", "runs/some", *more]) == 0
    assert asked == [(Opened(Path("runs/some"), "2/3", ["P1", "P3"], ["Tract"]), tmp_path / "x")]
    printed = capsys.readouterr()
    assert "1,234" in printed.out
    assert "INSECURE: nothing protects this" in printed.err


def test_the_functions_of_the_package_do_the_same(asked, tmp_path):
    spark: Any = object()
    level = Fraction(2, 3)
    summary = intervals.geounit_intervals(
        "some", tmp_path, level=level, tables=["P1"], geolevels=["Tract"], spark=spark
    )
    assert summary.rows == {"P1.csv": 1234}
    assert asked.pop() == (Opened(Path("some"), "2/3", ["P1"], ["Tract"]), tmp_path, spark)
    assert intervals.area_intervals("some", "a.csv", tables=["P1"]) == FOUND
    assert asked == [(Opened(Path("some"), "0.9", ["P1"]), Path("a.csv"))]
    assert {"area_intervals", "geounit_intervals"} <= {*intervals.__all__}


def test_a_run_file_says_what_measurements_of_others_are(asked, tmp_path):
    conf = ["--conf", str(CONF / "pl94_2020_to_county.toml"), "--set", "input.dataset=people"]
    assert main(["interval", "folder", "--out", str(tmp_path / "x"), *conf]) == 0
    external = asked[0][0].external
    assert (external.product.name, external.input.dataset) == ("pl94_2020_person", "people")


def test_areas_are_written_as_text_that_gives_every_number_back(asked, tmp_path, capsys):
    out = tmp_path / "out.csv"
    assert main(["interval", "runs/some", "--areas", "a.csv", "--out", str(out)]) == 0
    assert asked == [(Opened(Path("runs/some"), "0.9"), Path("a.csv"), out)]
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(AreaInterval.__slots__)
    kinds = (str, str, str, str, int, float, float, int, int)
    assert [
        AreaInterval(*(kind(value) for kind, value in zip(kinds, row.values(), strict=True))) for row in rows
    ] == FOUND
    assert "2 intervals in" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_file_is_written_whole_or_not_at_all(asked, tmp_path, monkeypatch, capsys):
    def broken(*_):
        yield FOUND[0]
        raise InputError("the disk is on fire")

    monkeypatch.setattr(finished, "area_intervals", broken)
    (tmp_path / "out.csv").write_text("what was there")
    assert main(["interval", "runs/some", "--areas", "a.csv", "--out", str(tmp_path / "out.csv")]) == FAILED
    assert "on fire" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out.csv": "what was there"}


def test_measurements_are_found_and_verified_once(tmp_path, monkeypatch, capsys):
    opened: list[Path | None] = []

    def refuse(run, *_):
        opened.append(run)
        raise InputError("a checksum is wrong")

    monkeypatch.setattr(finished, "open_source", refuse)
    assert main(["interval", str(tmp_path), "--out", str(tmp_path / "out")]) == FAILED
    assert opened == [tmp_path]
    assert "a checksum is wrong" in capsys.readouterr().err


def test_what_is_printed_are_the_first_columns_of_a_table_and_where_the_others_are(asked, capsys):
    assert main(["interval", "runs/some", "--areas", "a.csv"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "a, b P0010001 Total -3.2 4.50 0 4" in printed
    assert "P0010011" not in printed
    assert "go to a file only: --out FILE" in printed
    assert FOUND[1].depth > door._PRINTED_DEPTH
