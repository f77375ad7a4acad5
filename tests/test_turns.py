"""Slow and long tests have turns: none is left out for good."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from turns import LONG_TESTS, PARTS, Divided, in_turn

ROOT = Path(__file__).parents[1]
NUMBERED = st.tuples(st.sampled_from("abcde"), st.integers(0, 20), st.booleans())
TESTS = st.lists(NUMBERED, unique_by=lambda each: each[:2]).map(
    lambda numbered: [Divided(unit, f"{unit}::{number}", long) for unit, number, long in numbered]
)


@given(TESTS)
def test_every_slow_test_has_one_turn_and_so_has_its_unit(tests):
    slow = {test.name for test in tests if not test.long}
    turns = [in_turn(tests, turn) & slow for turn in range(PARTS)]
    assert sorted(name for turn in turns for name in turn) == sorted(slow)
    for unit in "abcde":
        assert sum(any(name.startswith(f"{unit}::") for name in turn) for turn in turns) <= 1


@given(TESTS, TESTS)
def test_other_tests_do_not_shift_the_turn_of_a_slow_one(tests, others):
    more = [*tests, *(replace(other, unit=f"a {other.unit}", name=f"a {other.name}") for other in others)]
    slow = {test.name for test in tests if not test.long}
    assert [in_turn(tests, turn) & slow for turn in range(PARTS)] == [
        in_turn(more, turn) & slow for turn in range(PARTS)
    ]


@given(TESTS)
def test_every_long_test_has_a_turn_with_few_of_its_unit_alone(tests):
    long = {test.name for test in tests if test.long}
    turns = [in_turn(tests, turn) & long for turn in range(len(long))]
    assert set().union(*turns) == long
    assert all(len(turn) <= LONG_TESTS and len({name.split("::")[0] for name in turn}) <= 1 for turn in turns)


def test_the_tests_of_a_turn_are_collected_beside_the_others():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--turn"]
    # Six tests of interruptions by real processes, which are long, and those that need none.
    collected = [
        subprocess.run(
            [*command, turn, "tests/cli/test_interruption.py"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for turn in ("0", "1", "2")
    ]
    names = [{line for line in each.stdout.splitlines() if "::" in line} for each in collected]
    assert names[0] != names[1]
    assert names[0] == names[2]
