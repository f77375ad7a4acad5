"""Tables of studies hold plain numbers: fractions are written as the nearest floats."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from typing import ClassVar

from das_spark.report import Figure, ReportTable, csv_text, page, table_records
from das_spark.studies.results import StudyResult, study_table

ROWS = (("a, b", Fraction(1, 40), 9261, None), ("c", 1, 2, 0.1))
TABLE = study_table("losses", "Losses", ("name", "epsilon", "areas", "loss"), ROWS)


def test_csv_reads_back() -> None:
    lines = list(csv.reader(io.StringIO(csv_text(TABLE))))
    assert lines == [["name", "epsilon", "areas", "loss"], ["a, b", "0.025", "9261", ""], ["c", "1", "2", "0.1"]]


class Made(StudyResult):
    """A study that has found one table."""

    title = "A study"
    definitions: ClassVar[dict[str, str]] = {"loss": "a word"}

    def lead(self) -> tuple[str]:
        return ("What was done.",)

    def tables(self) -> tuple[ReportTable]:
        return (TABLE,)

    def figures(self) -> tuple[Figure, ...]:
        return ()

    def content(self) -> dict[str, object]:
        return {"experiment": "x", "tables": table_records(self.tables()), "curves": []}


def test_json_holds_plain_numbers_and_facts_before_and_after_the_tables() -> None:
    found = json.loads(Made().to_json())
    assert list(found) == ["experiment", "tables", "curves"]
    assert found["tables"]["losses"][0] == {"name": "a, b", "epsilon": 0.025, "areas": 9261, "loss": None}


def test_the_page_has_the_lead_and_every_table() -> None:
    shown = page(Made().report(drawn=True))
    for words in ("A study", "What was done.", "Losses", "0.025", "a word"):
        assert words in shown
