"""What is known of a run: all of it is on its page, what is not known is said, and the cost of stages adds up."""

from __future__ import annotations

import io
import json
import re
from dataclasses import asdict, fields, replace
from html import unescape
from html.parser import HTMLParser

import pytest
from rich.console import Console

from das_spark.evaluation import (
    DriverAttempt,
    EstimatedLevel,
    FamilyRow,
    LogEntry,
    RunRecord,
    ShareRow,
    SpendingRow,
    StageMetrics,
    StageRow,
    present_run,
)
from das_spark.evaluation.run_record import PUBLIC_RECORD, RESTRICTED_RECORD
from das_spark.report import page, print_report

LARGE = FamilyRow("County", "01", 3, 500, 1, 10, 1, "optimal", "piqp", 1e-9)
SMALL = FamilyRow("County", "02", 9, 40, 2, 0, 2, "relaxed", "osqp", 1e-8)
RECORD = RunRecord(
    run_id="r<1>",
    state="finished and verified",
    restricted=True,
    facts={"product": "e2e_1940", "budget": "epsilon = 1/4"},
    notices=("INSECURE: a test key",),
    stages=(
        StageRow("ingest", 61.0, 2, 0, 1, StageMetrics(jobs=3, tasks=1234, failed_tasks=2, lost_stages=1)),
        StageRow("measure County", 3.0, 1),
        StageRow("estimate County", 9.0, 1, 1),
    ),
    levels=(EstimatedLevel("County", {"optimal (piqp)": 51, "relaxed (osqp)": 1}, 1e-8, 1e-12, (SMALL, LARGE)),),
    shares=(ShareRow("County", "1/3", {"hhgq": "1/2", "detailed": "1/2"}, released=True),),
    spending=(SpendingRow("r#1", "2030", "e2e_1940", "person", "pure_dp", "1/4", "1/12", insecure=True),),
    drivers=(DriverAttempt(1, "T1", "T2", "app-1", "failed: DAS500"), DriverAttempt(2, "T3", "T4", "", "finished")),
    warnings=(LogEntry("T2", "run.failed", "message: <full>"),),
    torn=1,
)


def page_of(record):
    return page(present_run(record))


class Rows(HTMLParser):
    """Cells of every table by its id, and the levels of headings."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.headings, self.table, self.cell = {}, [], None, None
        self.feed(text)

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
    tables = Rows(page_of(RECORD)).tables
    assert tables["facts"][1] == ["state", "finished and verified"]
    assert tables["stages"][1] == ["ingest", "1 min 01 s", "2", "0", "1"]
    assert len(tables["stages"]) == 1 + 3
    assert tables["cost"][1][:4] == ["ingest", "3", "1,234", "2"]
    assert len(tables["cost"]) == 1 + 1, "only stages whose cost is known"
    assert tables["levels"][1] == ["County", "52", "optimal (piqp): 51; relaxed (osqp): 1", "1.0e-08", "1.0e-12"]
    assert [row[0] for row in tables["families"][1:]] == ["01", "02"], "most work first"
    assert tables["shares"][1] == ["County", "1/3", "hhgq: 1/2; detailed: 1/2", "yes"]
    assert tables["spending"][1][-3:] == ["1/4", "1/12", "test (insecure)"]
    assert [row[-1] for row in tables["drivers"][1:]] == ["failed: DAS500", "finished"]
    assert tables["warnings"][1] == ["T2", "run.failed", "message: <full>"]


def test_families_are_in_the_order_of_their_times_where_these_are_known():
    timed = (replace(SMALL, seconds=0.25), replace(LARGE, seconds=0.125))
    text = page_of(replace(RECORD, levels=(replace(RECORD.levels[0], slowest=timed),)))
    tables = Rows(text).tables
    assert [(row[0], row[2]) for row in tables["families"][1:]] == [("02", "0.250"), ("01", "0.125")]
    assert "Slowest families" in text
    assert "Largest families" in page_of(RECORD)
    assert "seconds" not in Rows(page_of(RECORD)).tables["families"][0]


def test_what_matters_is_said_on_top():
    text = unescape(page_of(RECORD))
    assert text.index(RESTRICTED_RECORD) < text.index("INSECURE: a test key") < text.index("<h1>")
    assert "1 torn line " in text
    assert "forgotten 1 of its stages" in text
    assert "r&lt;1&gt;" in page_of(RECORD)
    assert "<full>" not in page_of(RECORD)


def test_headings_are_in_order_and_figures_are_inside():
    text = page_of(RECORD)
    headings = Rows(text).headings
    assert headings[0] == "h1"
    assert set(headings[1:]) == {"h2"}
    assert text.count('class="broad"><svg') == 2
    assert not re.findall(r"(?:src|href)=\"(?!#)", text)
    assert "<script" not in text


@pytest.mark.parametrize("restricted", [True, False])
def test_a_run_that_has_just_begun_has_a_page(restricted):
    text = unescape(page_of(RunRecord("r", "unfinished", restricted)))
    assert (RESTRICTED_RECORD in text) == restricted
    assert (PUBLIC_RECORD in text) != restricted
    assert "No level is estimated yet" in text
    assert "Nothing is charged yet" in text
    assert ("The run has no log" in text) == restricted
    assert "<svg" not in text


def test_the_terminal_shows_what_matters():
    out = Console(file=io.StringIO(), width=200)
    print_report(present_run(RECORD), out)
    text = out.file.getvalue()
    assert text.startswith(RESTRICTED_RECORD)
    row = next(line for line in text.splitlines() if line.startswith("ingest") and "1,234" in line)
    assert row.split()[:4] == ["ingest", "3", "1,234", "2"]
    assert "message: <full>" in text
    assert "1 torn line in the log" in text


ONE = StageMetrics(**{field.name: number for number, field in enumerate(fields(StageMetrics), start=1)})
TWO = StageMetrics(**{field.name: 100 - number for number, field in enumerate(fields(StageMetrics), start=1)})
PEAKS = {"execution_memory_bytes", "heap_bytes", "python_bytes", "slowest_task_seconds"}


def test_sums_are_added_and_peaks_are_not():
    together = asdict(ONE.plus(TWO))
    assert {name for name, value in together.items() if value == 100} == set(together) - PEAKS
    assert all(together[name] == max(asdict(ONE)[name], asdict(TWO)[name]) for name in PEAKS)
    assert ONE.plus(TWO) == TWO.plus(ONE)
    assert ONE.plus(StageMetrics()) == ONE


def test_they_come_back_from_json_without_what_is_unknown():
    record = {**json.loads(json.dumps(asdict(ONE))), "of_the_future": 1}
    assert StageMetrics.from_json(record) == ONE
    assert StageMetrics.from_json({}) == StageMetrics()
