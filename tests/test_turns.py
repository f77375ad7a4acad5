"""Slow and long tests have turns: none is left out for good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from turns import LONG_TESTS, PARTS, Divided, divided, in_turn

ROOT = Path(__file__).parents[1]
FILES = ("tests/a.py", "tests/b.py", "tests/c.py", "tests/d.py", "tests/documents/e.py")
TESTS = st.lists(
    st.tuples(st.sampled_from(FILES), st.integers(0, 20), st.sampled_from(("slow", "long"))),
    unique_by=lambda each: each[:2],
)


def made(given_tests) -> list[Divided]:
    tests = [divided(file, f"{file}::{number}", [mark]) for file, number, mark in given_tests]
    return [test for test in tests if test is not None]


@given(TESTS)
def test_every_slow_test_has_its_turn_with_every_third_commit_and_so_has_its_file(given_tests):
    tests = made(given_tests)
    slow = {test.name for test in tests if not test.long}
    turns = [in_turn(tests, turn) & slow for turn in range(PARTS)]
    assert sorted(name for turn in turns for name in turn) == sorted(slow)
    for file in FILES[:-1]:
        assert sum(any(name.startswith(f"{file}::") for name in turn) for turn in turns) <= 1


@given(TESTS)
def test_every_long_test_has_a_turn_with_few_of_its_file_alone(given_tests):
    tests = made(given_tests)
    long = {test.name for test in tests if test.long}
    turns = [in_turn(tests, turn) & long for turn in range(len(long))]
    assert set().union(*turns) == long
    assert all(len(turn) <= LONG_TESTS and len({name.split("::")[0] for name in turn}) <= 1 for turn in turns)


def test_commands_of_documents_are_carried_out_with_every_commit():
    assert divided("tests/documents/e.py", "any", ["slow", "spark"]) is None
    assert divided("tests/a.py", "any", ["spark"]) is None
    assert divided("tests/documents/e.py", "any", ["slow", "long"]) == Divided(
        "tests/documents/e.py", "any", long=False
    )


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
