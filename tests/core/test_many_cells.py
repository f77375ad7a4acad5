"""Histograms of very many cells: what a run of families keeps grows with cells, not with cells times anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("many_cells.py")
#: Bytes a cell that a run may add: 1.6 million cells stay under 3 GiB with a third of it to spare for Spark's workers.
MOST = 1024


def run(kinds: int, root_cells: int) -> dict:
    """What a process says of itself."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(kinds), str(root_cells)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["broken"] == []
    assert found["status"] == ["optimal", "optimal"]
    return found


@pytest.mark.slow
def test_memory_grows_with_the_cells_alone():
    few, many = run(1, 10_000), run(7, 10_000)  # from so many cells on, roots are large for this test
    assert many["cells"] > 200_000
    assert (many["solver"], many["rounding"]) == ("batched", "minimum-cost flow")
    # The difference leaves out what the process itself takes, and the compiler of the batched solver.
    assert (many["peak"] - few["peak"]) / (many["cells"] - few["cells"]) < MOST


@pytest.mark.long
def test_a_state_of_twenty_blocks_in_one_million_and_six_hundred_thousand_cells_takes_less_than_three_gib():
    found = run(55, 500_000)
    assert found["cells"] > 1_600_000
    assert found["peak"] < 3 * 2**30
