"""What several runs on one input cost together, in words and numbers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from das_spark.privacy import (
    Budget,
    Framework,
    JointPart,
    Ledger,
    LedgerEntry,
    LevelBudget,
    QueryShare,
    epsilon_cks,
    joint_costs,
    joint_statement,
    rounded_up,
)


def entry(
    run_id: str, total: str, framework: Framework = Framework.ZCDP, insecure: bool = False, record: str = "person"
) -> LedgerEntry:
    level = LevelBudget("State", Fraction(1), (QueryShare("total", Fraction(1)),))
    budget = Budget(framework, Fraction(total), (level,))
    return LedgerEntry(run_id, "2026-11-20T00:00:00+00:00", f"product of {run_id}", record, budget, insecure)


def parts(*totals: str) -> list[JointPart]:
    records = ("person", "unit", "household")
    return [
        JointPart(
            record,
            f"run-{record}",
            entry(f"run-{record}", total, record=record),
            (f"{record}s are exact.", "Both say this."),
        )
        for record, total in zip(records, totals, strict=False)
    ]


def test_the_production_of_2020_costs_epsilon_17_44_together():
    both = parts("293764/114921", "11417641/152349649")
    costs = joint_costs([part.entry for part in both])
    rho = Fraction("293764/114921") + Fraction("11417641/152349649")
    assert (costs["rho"], costs["epsilon"]) == (str(rho), "0")
    assert costs["joint_epsilon"] == epsilon_cks(rho, 1e-10) == pytest.approx(17.4351, abs=5e-5)
    statement = joint_statement("whole", both)
    assert f"**rho = {rho}**" in statement
    assert f"epsilon {costs['joint_epsilon']:.5f} at delta 1e-10" in statement
    assert costs["exact_epsilon_at_most"] < costs["joint_epsilon"]
    assert f"epsilon {rounded_up(costs['exact_epsilon_at_most'], 5)} at most" in statement
    assert "differ in one person and one unit at the same time" in statement
    alone = epsilon_cks(Fraction("293764/114921"), 1e-10)
    assert round(alone, 2) == 17.14
    row = f"| person | run-person | product of run-person | rho = 293764/114921 | {alone:.5f} at delta 1e-10 |"
    assert row in statement


def test_what_one_part_publishes_of_people_voids_the_claim_about_both():
    both = parts("1", "2")
    said = "in which blocks people live in group quarters"
    statement = joint_statement("whole", [both[0], replace(both[1], from_people=(said,))])
    assert statement.index("PUBLISHED NEARLY EXACTLY") < statement.index(said) < statement.index("## The claim")
    assert "**No claim is made for what the parts publish as a whole.**" in statement
    assert "for any two populations that differ in one person and one unit at the same time" in statement
    assert "It holds for populations" not in statement
    assert statement.count("**rho = 3**") == 1
    assert "NEARLY EXACTLY" not in joint_statement("whole", both)


def test_a_household_that_moves_is_more_than_one_record_of_each():
    assert "A household that moves changes the records of all its people and those of two units" in joint_statement(
        "whole", parts("1", "2")
    )
    assert "household that moves" not in joint_statement("whole", parts("1"))


def test_all_runs_on_the_dataset_are_said_where_the_ledger_is_given():
    both = parts("1", "2")
    ledger = Ledger((both[0].entry, both[1].entry, entry("earlier", "3")))
    statement = joint_statement("whole", both, ledger=ledger)
    assert "## All runs on this input" in statement
    assert "rhos sum to 6" in statement
    assert "This ledger was begun with this run" in statement
    assert "All runs on this input" not in joint_statement("whole", both)


def test_every_exact_sentence_stands_once():
    statement = joint_statement("whole", parts("1", "2"))
    assert [statement.count(each) for each in ("persons are exact.", "units are exact.", "Both say this.")] == [1, 1, 1]


def test_pure_and_mixed_parts_are_composed_as_what_they_are():
    pure = [
        JointPart("person", "a", entry("a", "1/4", Framework.PURE_DP), ()),
        JointPart("unit", "b", entry("b", "1/2", Framework.PURE_DP), ()),
    ]
    assert "**epsilon = 3/4** (pure differential privacy)" in joint_statement("whole", pure)
    mixed = [pure[0], JointPart("unit", "b", entry("b", "1/2"), ())]
    text = joint_statement("whole", mixed)
    assert "**epsilon = 1/4 and rho = 1/2** in different parts" in text
    assert "Nothing: there are no invariants." in text


def test_an_insecure_part_is_said_above_the_claim():
    part = JointPart("person", "a", entry("a", "1", insecure=True), (), ("INSECURE: made under a test key",))
    statement = joint_statement("whole", [part, *parts("1", "1")[1:]])
    assert statement.index("INSECURE") < statement.index("## The claim")
