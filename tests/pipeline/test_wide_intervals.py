"""Wide intervals of a whole run: counted as its own files of intervals have them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from eight_blocks import GEOUNITS, LEVELS, PRODUCT, write_run_file

from das_spark.cli.main import main
from das_spark.evaluation import MEASUREMENTS, REPLICATES_OF_RUN
from das_spark.features.intervals.finished import open_intervals, wide_intervals
from das_spark.features.intervals.tables import intervals_layout as layout_of_intervals
from das_spark.features.intervals.wide_cells import WidthLimit
from das_spark.features.replicates.tables import intervals_layout
from das_spark.store import RunLayout, TablesLayout, part_files

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

P1, _, _, _, P5 = PRODUCT.tables
TABLES = (P1, P5)
ASKED = ["--table", "P1", "--table", "P5"]
FAILED = 1
WANTED = """
[output.intervals]
level = "0.9"
tables = ["P1", "P5"]
[output.replicates]
runs = 2
level = "0.8"
tables = ["P5"]
[measurement]
rows = "all"
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory, spark) -> RunLayout:
    """A whole run with intervals of both kinds, which nobody may change."""
    conf = write_run_file(tmp_path_factory.mktemp("wide"), "4", WANTED)
    assert main(["run", str(conf), "--run-id", "whole", "--test-key", "wide"]) == 0
    return RunLayout.at(conf.parent / "runs", "whole")


def counted(layout: TablesLayout[Path], table: Any, level: str, *, most: float, share: bool) -> dict[str, int]:
    """Wider intervals by column, counted row by row in the files of the run."""
    found = dict.fromkeys(table.names, 0)
    for part in part_files(layout.level(table.name, "parquet", level)):
        for row in pq.ParquetFile(part).read().to_pylist():
            for name in table.names:
                limit = most * max(row[name], 0) if share else most
                found[name] += row[f"{name}_high"] - row[f"{name}_low"] > limit
    return found


@pytest.mark.parametrize(("text", "most", "share"), [("30", 30, False), ("150%", 1.5, True)])
def test_cells_are_counted_as_the_files_of_the_run_have_them(whole, spark, tmp_path, monkeypatch, text, most, share):
    monkeypatch.chdir(tmp_path)
    found = wide_intervals(open_intervals(whole.folder, "0.9", ("P1", "P5")), WidthLimit.of(text), spark)
    wider = 0
    for of, level, layout, tables in (
        (MEASUREMENTS, 0.9, layout_of_intervals(whole.public), TABLES),
        (REPLICATES_OF_RUN, 0.8, intervals_layout(whole.public), (P5,)),
    ):
        own = [each for each in found if each.of == of]
        assert {each.level for each in own} == {level}
        assert [(each.table, each.geolevel) for each in own] == [
            (table.name, name) for table in tables for name in LEVELS for _ in table.names
        ]
        for table in tables:
            for name in LEVELS:
                rows = [each for each in own if (each.table, each.geolevel) == (table.name, name)]
                assert {row.column: row.wider for row in rows} == counted(layout, table, name, most=most, share=share)
                assert {row.cells for row in rows} == {GEOUNITS[name]}
                assert [row.label for row in rows] == [table.path(place) for place in range(len(rows))]
                wider += sum(row.wider for row in rows)
    assert 0 < wider < sum(each.cells for each in found)
    assert not list(tmp_path.iterdir())


def test_the_command_prints_shares_and_writes_columns(whole, spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["interval", str(whole.folder), *ASKED, "--geolevel", "Block", "--wider-than", "10"]
    out = tmp_path / "wide.csv"
    assert main([*words, "--out", str(out)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Cells whose 90 % interval is wider than 10 people; of the truth, by the measurements alone" in text
    assert "Cells whose 80 % interval is wider than 10 people; of published counts, by replicates" in text
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = counted(layout_of_intervals(whole.public), P5, "Block", most=10, share=False)
    assert {
        row["column"]: int(row["wider"]) for row in rows if (row["of"], row["table"]) == (MEASUREMENTS, "P5")
    } == expected
    assert f"P5 Block {GEOUNITS['Block'] * len(P5.names)} {sum(expected.values())}" in text
    assert main([*words, "--out", str(out)]) == FAILED
    assert "is there already" in capsys.readouterr().err
    assert main([*words, "--level", "0.5", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["wider_than"] == "10"
    narrower = {cell["column"]: cell["wider"] for cell in record["cells"] if cell["level"] == 0.5}
    assert all(count <= expected[name] for name, count in narrower.items() if name in expected)
    assert sum(narrower[name] for name in expected) < sum(expected.values())
