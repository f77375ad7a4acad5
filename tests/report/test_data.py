"""The numbers of a report as files: what the page shows, CSV and Parquet hold too."""

from __future__ import annotations

import io
import subprocess
import sys
from fractions import Fraction

import pyarrow.parquet as pq
from pyarrow import csv

from das_spark.report import (
    JSON,
    Axis,
    Bars,
    Curve,
    Figure,
    Guide,
    Panel,
    Report,
    ReportColumn,
    ReportSection,
    ReportTable,
    Span,
    Whiskers,
)
from das_spark.report.data import data_files

TABLE = ReportTable(
    "errors",
    "Errors",
    (
        ReportColumn("place"),
        ReportColumn("mean"),
        ReportColumn("interval", fields=("from", "to")),
        ReportColumn("share"),
        ReportColumn("value"),
        ReportColumn("hidden", media=JSON),
    ),
    (
        ("State", Span(0.5, 1.5, value=1.0), Span(1.0, 2.0), Fraction(1, 8), 3, 1),
        ("County", 2.0, None, None, "undefined", 2),
    ),
)
FIGURE = Figure(
    "What. How.",
    (
        Panel((Curve((1, 2), (3, 4), "up", texts=("a",)), Guide()), Axis("x"), title="left"),
        Panel((Bars((0, 1), (5, 6), "bars"), Whiskers((1,), (1,), (3,), values=(2,))), rows=("one", "two")),
    ),
    title="A & b",
)
REPORT = Report("R", (ReportSection("S", (TABLE, FIGURE, FIGURE)),), picture=FIGURE)


def read(files, name):
    table = pq.read_table(io.BytesIO(files[f"{name}.parquet"]))
    assert csv.read_csv(io.BytesIO(files[f"{name}.csv"])).num_rows == table.num_rows
    return table.to_pylist()


def test_a_table_has_its_raw_values_and_the_ends_of_its_spans():
    one, two = read(data_files(REPORT), "errors")
    assert one == {
        **{"place": "State", "mean": 1.0, "low_mean": 0.5, "high_mean": 1.5, "from": 1.0, "to": 2.0},
        **{"share": "1/8", "value": "3"},
    }
    assert (two["mean"], two["low_mean"], two["from"], two["share"], two["value"]) == (
        2.0,
        None,
        None,
        None,
        "undefined",
    )


def test_a_figure_has_a_row_a_mark_and_names_of_its_own():
    files = data_files(REPORT)
    assert {name.removesuffix(".csv") for name in files if name.endswith(".csv")} == {
        *("errors", "figure_a_b", "figure_a_b_2", "figure_a_b_3"),
    }
    rows = read(files, "figure_a_b")
    assert [(row["panel"], row["series"], row["x"], row["y"], row["text"]) for row in rows[:2]] == [
        ("left", "up", 1.0, 3.0, "a"),
        ("left", "up", 2.0, 4.0, None),
    ]
    assert [(row["row"], row["x"]) for row in rows[2:4]] == [("one", 5.0), ("two", 6.0)]
    assert (rows[4]["row"], rows[4]["low"], rows[4]["x"], rows[4]["high"]) == ("two", 1.0, 2.0, 3.0)


def test_restricted_files_say_so_in_their_names_and_in_every_row():
    files = data_files(Report("R", REPORT.sections, restricted="RESTRICTED: tells of people"))
    assert all(".restricted." in name for name in files)
    assert {row["classification"] for row in read(files, "errors.restricted")} == {"RESTRICTED"}


def test_reports_alone_need_no_arrow():
    code = "import sys, das_spark.report; assert 'pyarrow' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
