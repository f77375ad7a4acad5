"""Findings become checks, and the checks that need no tables."""

import json
from fractions import Fraction

import pytest
from pyspark.sql import functions as F

from das_spark.privacy import Budget, Framework, LevelBudget, QueryShare
from das_spark.spark.checks import (
    NOTHING,
    RELAXED,
    Check,
    Finding,
    Rule,
    VerificationReport,
    budget_shares,
    findings,
    judge,
    ledger_equals_config,
    row_counts,
)


@pytest.mark.spark
def test_rules_are_judged_by_level_and_several_at_once(spark):
    rows = [("A", "1", 5), ("A", "2", -1), ("B", "3", 0), ("B", None, None)]
    frame = spark.createDataFrame(rows, "level string, geocode string, value long")
    both = findings(frame, Finding("positive", F.col("value") <= 0, 2), Finding("any", F.lit(False), 1, "noted"))
    expected = (("positive", "A", ""), ("positive", "B", ""), ("positive", "C", ""), ("any", "A", "noted"))
    checks = judge([Rule(both, expected, {("positive", "A", ""): ("0",)})])
    assert checks == [
        Check("positive", "A", False, 4, ("0", "2")),
        Check("positive", "B", False, 4, ("3", "?")),
        Check("positive", "C", False, 0, (), NOTHING),
        Check("any", "A", True, 2, (), "noted"),
        Check("any", "B", True, 2, (), "noted"),
    ]
    assert judge([]) == []


def test_nothing_compared_is_no_success_unless_the_families_are_exempt():
    assert Check.of(("rule", "Block", ""), 0, ()) == Check("rule", "Block", False, 0, (), NOTHING)
    assert not Check.of(("rule", "Block", "text files"), 0, ()).passed
    assert Check.of(("rule", "Block", RELAXED), 0, ()).passed


def test_a_row_count_that_differs_from_the_manifest_is_caught():
    found = {"estimates/Block": 3, "estimates/Tract": 2}
    assert all(check.passed for check in row_counts({"estimates/Block": 3, "estimates/Tract": 2}, found))
    wrong = row_counts({"estimates/Block": 4, "estimates/County": 1}, found)
    assert [(check.failing, check.passed) for check in wrong] == [
        (("estimates/Block",), False),
        (("estimates/County",), False),
        (("estimates/Tract",), False),
    ]


def budget(share: str) -> Budget:
    queries = (QueryShare("hhgq", Fraction(share)), QueryShare("detailed", 1 - Fraction(share)))
    return Budget(Framework.PURE_DP, Fraction(1, 4), (LevelBudget("County", Fraction(1), queries),))


def test_a_ledger_that_differs_in_one_share_is_caught_by_name():
    told = budget_shares(budget("9/40"))
    assert told["County / hhgq"] == "9/40"
    assert ledger_equals_config(told, budget_shares(budget("9/40"))).passed
    wrong = ledger_equals_config(told, budget_shares(budget("1/40")))
    assert wrong.failing == ("County / detailed", "County / hhgq")
    assert ledger_equals_config(told, {**told, "Block": "1"}).failing == ("Block",)
    assert not ledger_equals_config({}, {}).passed


def test_the_report_says_what_failed_and_is_json():
    report = VerificationReport((Check("a", "Block", True, 3), Check("b", "Block", False, 3, ("1", "2"))), ("Block/1",))
    assert not report.passed
    assert "b Block (1, 2)" in report.summary()
    content = json.loads(report.to_json())
    assert (content["passed"], content["relaxed"]) == (False, ["Block/1"])
    assert VerificationReport(report.checks[:1]).summary() == "1 checks passed"
