"""`plan width`: columns that will have wide intervals, before anything is spent."""

from __future__ import annotations

import json
from fractions import Fraction
from math import sqrt
from pathlib import Path

import pytest

from das_spark.cli.main import main
from das_spark.config import errors_of_tables, expected_errors, load_plan

CONF = Path(__file__).parents[2] / "conf"
OURS = str(CONF / "england_and_wales_like.toml")
COUNTS = {"Local_Authority": 4, "MSOA": 12, "LSOA": 48, "Output_Area": 240}
GEOUNITS = [word for level, number in COUNTS.items() for word in ("--geounits", f"{level}={number}")]
WIDTH = ("plan", "width", "--set", "input.dataset=people")
WRONG = 2
NORMAL_95 = 1.6448536269514722  # 0.95 quantile of the normal distribution


def width(error: float) -> float:
    """Of a 90 % interval of whole numbers, where the error is no small one."""
    return 2 * NORMAL_95 * sqrt(error**2 + 1 / 12) + 1


def test_columns_are_those_whose_errors_reach_too_far(capsys):
    assert main([*WIDTH, OURS, *GEOUNITS, "--wider-than", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["wider_than"], Fraction(found["level"])) == ("20", Fraction(9, 10))
    plan = load_plan(OURS, files=False)
    tables = plan.product.tables
    expected = {
        (table.name, errors.geolevel): {
            name
            for name, error in zip(table.names, errors.everywhere, strict=True)
            if 2 * NORMAL_95 * sqrt(error**2 + 1 / 12) + 1 > 20
        }
        for table, errors in errors_of_tables(
            expected_errors(plan, {"Nation": 1, **COUNTS}, tables), tables, plan.spine
        )
    }
    assert {(table["table"], table["geolevel"]): {*table["widths_of_wider"]} for table in found["tables"]} == expected
    assert 0 < sum(table["wider"] for table in found["tables"]) < sum(table["columns"] for table in found["tables"])


def test_people_read_which(capsys):
    assert main([*WIDTH, OURS, *GEOUNITS, "--wider-than", "20"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "columns whose 90 % interval will be wider than 20" in text
    assert "cut off" in text


def test_parts_of_a_joint_run_stand_behind_each_other(capsys):
    words = [
        word
        for level in ("State=1", "County=3", "Tract=9", "Block_Group=20", "Block=200")
        for word in ("--geounits", level)
    ]
    assert main([*WIDTH, str(CONF / "pl94_2020.toml"), *words, "--wider-than", "10", "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert [part["counts"] for part in parts] == ["people", "housing units"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([OURS, "--wider-than", "20"], "it is not known how many geounits there are in Local_Authority"),
        ([OURS, *GEOUNITS, "--wider-than", "20%"], "before a run nothing is known of the estimates"),
        ([OURS, *GEOUNITS, "--wider-than", "wide"], "is not a number"),
        ([OURS, *GEOUNITS, "--wider-than", "-1"], "a width is 0 or more"),
        ([str(CONF / "e2e_1940.toml"), "--wider-than", "1"], "has no tables"),
        ([str(CONF / "dhc_2020_person.toml"), "--wider-than", "1"], "too many cells"),
        ([OURS, *GEOUNITS], "Missing option '--wider-than'"),
    ],
)
def test_what_cannot_be_expected_is_refused(capsys, words, said):
    assert main([*WIDTH, *words]) == WRONG
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())
