"""Long tests have turns: none is left out for good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from turns import TESTS_OF_A_TURN, turns

ROOT = Path(__file__).parents[1]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), unique=True))
def test_every_long_test_has_one_turn_with_tests_of_its_file_alone(numbered):
    tests = [(file, f"{file}::{number}") for file, number in numbered]
    groups = turns(tests)
    assert sorted(name for group in groups for name in group) == sorted(name for _, name in tests)
    assert all(1 <= len(group) <= TESTS_OF_A_TURN for group in groups)
    assert all(len({name.split("::")[0] for name in group}) == 1 for group in groups)


def test_the_tests_of_a_turn_are_collected_beside_the_others():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--turn"]
    # Six tests of interruptions by real processes, and those that need none.
    collected = [
        subprocess.run(
            [*command, turn, "tests/cli/test_interruption.py"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for turn in ("0", "1", "2")
    ]
    names = [{line for line in each.stdout.splitlines() if "::" in line} for each in collected]
    assert names[0] != names[1]
    assert names[0] == names[2]
