"""The page of a run: everything that is known is on it, and what is not known is said."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

from das_spark.evaluation.run_page import PUBLIC, RESTRICTED, duration, run_page, size
from das_spark.evaluation.run_record import (
    EstimatedLevel,
    FamilyLine,
    Incident,
    Opening,
    RunRecord,
    ShareLine,
    SpendingLine,
    StageLine,
)
from das_spark.evaluation.stage_metrics import StageMetrics

LARGE = FamilyLine("County", "01", 3, 500, 1, 10, 1, "optimal", "piqp", 1e-9)
SMALL = FamilyLine("County", "02", 9, 40, 2, 0, 2, "relaxed", "osqp", 1e-8)
RECORD = RunRecord(
    run_id="r<1>",
    state="finished and verified",
    restricted=True,
    facts={"product": "e2e_1940", "budget": "epsilon = 1/4"},
    notices=("INSECURE: a test key",),
    stages=(
        StageLine("ingest", 61.0, 2, 0, 1, StageMetrics(jobs=3, tasks=1234, failed_tasks=2, lost_stages=1)),
        StageLine("measure County", 3.0, 1),
        StageLine("estimate County", 9.0, 1, 1),
    ),
    levels=(EstimatedLevel("County", {"optimal (piqp)": 51, "relaxed (osqp)": 1}, 1e-8, 1e-12, (SMALL, LARGE)),),
    shares=(ShareLine("County", "1/3", {"hhgq": "1/2", "detailed": "1/2"}, released=True),),
    spending=(SpendingLine("r#1", "2030", "e2e_1940", "person", "pure_dp", "1/4", "1/12", insecure=True),),
    openings=(Opening(1, "T1", "T2", "app-1", "failed: DAS500"), Opening(2, "T3", "T4", "", "finished")),
    incidents=(Incident("T2", "run.failed", "message: <full>"),),
    torn=1,
)


class Rows(HTMLParser):
    """Cells of every table by its id, and the levels of headings."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.headings, self.table, self.cell = {}, [], None, None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.table = self.tables.setdefault(dict(attributes)["id"], [])
        elif tag == "tr":
            self.table.append([])
        elif tag in ("td", "th"):
            self.table[-1].append("")
            self.cell = self.table[-1]
        elif re.fullmatch("h[1-6]", tag):
            self.headings.append(tag)

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell[-1] += data


def test_every_fact_has_its_row():
    tables = Rows(run_page(RECORD)).tables
    assert tables["facts"][0] == ["state", "finished and verified"]
    assert tables["stages"][1] == ["ingest", "1 min 01 s", "2", "0", "1"]
    assert len(tables["stages"]) == 1 + 3
    assert tables["cost"][1][:4] == ["ingest", "3", "1,234", "2"]
    assert len(tables["cost"]) == 1 + 1, "only stages whose cost is known"
    assert tables["levels"][1] == ["County", "52", "optimal (piqp): 51; relaxed (osqp): 1", "1.0e-08", "1.0e-12"]
    assert [row[0] for row in tables["families"][1:]] == ["01", "02"], "most work first"
    assert tables["shares"][1] == ["County", "1/3", "hhgq: 1/2; detailed: 1/2", "yes"]
    assert tables["spending"][1][-3:] == ["1/4", "1/12", "test (insecure)"]
    assert [row[-1] for row in tables["drivers"][1:]] == ["failed: DAS500", "finished"]
    assert tables["incidents"][1] == ["T2", "run.failed", "message: <full>"]


def test_families_are_in_the_order_of_their_times_where_these_are_known():
    timed = (replace(SMALL, seconds=0.25), replace(LARGE, seconds=0.125))
    page = run_page(replace(RECORD, levels=(replace(RECORD.levels[0], slowest=timed),)))
    tables = Rows(page).tables
    assert [(row[0], row[2]) for row in tables["families"][1:]] == [("02", "0.250"), ("01", "0.125")]
    assert "Slowest families" in page
    assert "Largest families" in run_page(RECORD)
    assert "seconds" not in Rows(run_page(RECORD)).tables["families"][0]


def test_what_matters_is_said_on_top():
    page = unescape(run_page(RECORD))
    assert page.index(RESTRICTED) < page.index("INSECURE: a test key") < page.index("<h1>")
    assert "1 torn line " in page
    assert "forgotten 1 of its stages" in page
    assert "r&lt;1&gt;" in run_page(RECORD)
    assert "<full>" not in run_page(RECORD)


def test_headings_are_in_order_and_figures_are_inside():
    page = run_page(RECORD)
    headings = Rows(page).headings
    assert headings[0] == "h1"
    assert set(headings[1:]) == {"h2"}
    assert page.count("<svg") == 2
    assert not re.findall(r"(?:src|href)=\"(?!#)", page)
    assert "<script" not in page


@pytest.mark.parametrize("restricted", [True, False])
def test_a_run_that_has_just_begun_has_a_page(restricted):
    page = unescape(run_page(RunRecord("r", "unfinished", restricted)))
    assert (RESTRICTED in page) == restricted
    assert (PUBLIC in page) != restricted
    assert "No level is estimated yet" in page
    assert "Nothing is charged yet" in page
    assert ("The run has no log" in page) == restricted
    assert "<svg" not in page


def test_times_and_sizes_are_said_as_people_say_them():
    assert [duration(seconds) for seconds in (0.04, 59.9, 61, 3600, 7325)] == [
        "0.0 s",
        "59.9 s",
        "1 min 01 s",
        "1 h 00 min",
        "2 h 02 min",
    ]
    assert [size(count) for count in (0, 999, 1000, 2.5e9, 3e12)] == ["0 B", "999 B", "1 kB", "2.5 GB", "3 TB"]
