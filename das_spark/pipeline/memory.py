"""Whether this machine has the memory for what is to be done: then Sail may do it, without a JVM (`spark.session`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from das_spark.io.input_files import is_remote

if TYPE_CHECKING:
    from das_spark.config import RunPlan

_MEMORY: Final = Path("/proc/meminfo")
#: Bytes of memory for a byte of the input of a run: 13 MB of counts of a tenth of a nation took 10 GB. Text takes less.
_OF_INPUT: Final = 1_000
#: Cells of the product of that nation; what is measured of one with more grows with them, at most.
_CELLS: Final = 2_016
#: Bytes of memory for a byte of the tables of a run that has ended: those of that tenth have 2 GB.
_OF_TABLES: Final = 8
#: What is read through, and not held.
_STREAMED: Final = "microdata"


def input_fits(plan: RunPlan, files: Iterable[Mapping[str, object]]) -> bool:
    """Whether there is memory for a run with these files of input; of an input whose size is not known it is not said.

    Args:
        plan: The run.
        files: What is known of each file: its path (file) and its size (bytes).
    """
    if plan.input.is_simulated:
        return plan.input.population.like == "quickstart"
    known = [(str(each["file"]), int(str(each.get("bytes", 0)))) for each in files]
    needed = sum(size for _, size in known) * _OF_INPUT * max(1, plan.product.schema.size // _CELLS)
    return (
        needed > 0
        and not plan.input.tables
        and not any(is_remote(file) for file, _ in known)
        and needed <= _available()
    )


def runs_fit(*folders: Path) -> bool:
    """Whether there is memory for the tables of runs that have ended, in these folders."""
    files = (path for folder in folders for path in folder.rglob("*.parquet") if _STREAMED not in path.parts)
    return sum(path.stat().st_size for path in files) * _OF_TABLES <= _available()


def _available() -> int:
    """Bytes of memory that programs can have without swapping; 0 where the system does not tell."""
    with suppress(OSError):
        found = re.search(r"^MemAvailable:\s+(\d+) kB", _MEMORY.read_text(encoding="ascii"), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0
