"""A product of very many cells through a whole run with verification: no process needs memory for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.verified]

SCRIPT = Path(__file__).with_name("many_cells_run.py")


def run(kinds: int, folder: Path) -> dict:
    """What a run in a process of its own says of itself, with the heap of the tests' JVM."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(kinds), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=SCRIPT.parents[2],
        env={**os.environ, "DAS_SPARK_ENV": "test", "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["checks"] > 20
    assert found["failed"] == []
    return found


@pytest.mark.slow
def test_kinds_that_only_their_units_tell_apart_are_verified(tmp_path):
    assert run(7, tmp_path)["cells"] > 200_000


@pytest.mark.long
def test_a_state_of_twenty_blocks_in_one_million_and_six_hundred_thousand_cells_takes_less_than_three_gib(tmp_path):
    found = run(55, tmp_path)
    assert found["cells"] > 1_600_000
    assert {name: peak for name in ("driver", "worker", "jvm") if (peak := found[name]) >= 3 * 2**30} == {}
