"""A whole level of a finished run estimated again: all families at once, by other solvers, and what nothing costs.

    python tests/benchmarks/benchmark_levels.py RUN --level Block_Group --level Block

Prints a Markdown table: seconds of the job of a level on all cores, and their ratio to the solvers of the run. The
floors are of the same rows: "nothing" brings the families together, decodes them and makes nothing of them; "copied" is
the time in which one core copies the bytes that the tasks are given.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402 - after the number of threads is set

from das_spark.config import RunPlan, plan_from_config  # noqa: E402
from das_spark.pipeline import levels as stages  # noqa: E402
from das_spark.pipeline.levels import LevelJobs  # noqa: E402
from das_spark.spark.session import session  # noqa: E402
from das_spark.store import PublicLayout, PublicManifest, open_public  # noqa: E402
from das_spark.store.parquet import read_rows  # noqa: E402
from das_spark.store.tables import TABLES  # noqa: E402

#: What a task is given of a level, and of the level above.
GIVEN = ("geounits", "measurements", "bounds")
CHAINS = ("batched", "piqp", "clarabel", "osqp")


def nothing(_: Sequence[object]) -> Iterator[tuple[str, object]]:
    """A task that makes nothing of its families."""
    return iter(())


class Level:
    """The jobs of one level of a run."""

    def __init__(self, public: PublicLayout, plan: RunPlan, level: str) -> None:
        self.public, self.plan, self.level = public, plan, level
        self.spark = session("benchmark")
        names = list(plan.spine.names)
        self.above = names[names.index(level) - 1]
        self.geounits, self.families = (self.rows("geounits", name) for name in (level, self.above))

    def rows(self, table: str, level: str) -> int:
        """Rows of a table."""
        return read_rows(self.public.level(table, level), TABLES[table].schema).num_rows

    def seconds(self, solvers: Sequence[str] = ()) -> float:
        """One estimate of the level."""
        plan = self.plan
        if solvers:
            plan = replace(plan, estimation=replace(plan.estimation, solvers=tuple(solvers)))
        jobs = LevelJobs(plan, plan.spine, self.spark, self.public.level)
        with tempfile.TemporaryDirectory() as folder:
            folders = {name: Path(folder) / name for name in ("diagnostics", "estimates", "seconds")}
            start = time.monotonic()
            jobs.estimate(self.level, folders)
            return time.monotonic() - start

    def nothing(self) -> float:
        """The same rows brought to the same tasks."""
        with patch.object(stages, "estimation_task", lambda *_: nothing):
            return self.seconds()

    def copied(self) -> tuple[float, int]:
        """Seconds in which numpy copies what tasks are given, and how many bytes these are."""
        places = [*((name, self.level) for name in GIVEN), ("estimates", self.above)]
        size = sum(read_rows(self.public.level(*place), TABLES[place[0]].schema).nbytes for place in places)
        source, target = np.ones(size, dtype=np.uint8), np.zeros(size, dtype=np.uint8)
        start = time.perf_counter()
        np.copyto(target, source)
        return time.perf_counter() - start, size


def table(level: Level, chains: Sequence[str]) -> None:
    """Lines of the table of one level."""
    level.seconds()  # what is compiled on first use, and files that are in memory then
    own = min(level.seconds() for _ in range(3))
    took, size = level.copied()
    lines = [
        ("solvers of the run", own),
        ("nothing", min(level.nothing() for _ in range(3))),
        (f"copied ({size / 1e6:,.0f} MB)", took),
        *((f"{chain} alone", level.seconds([chain])) for chain in chains),
    ]
    for name, seconds in lines:
        figures = f"{seconds:,.2f} | {1e3 * seconds / level.families:,.3f} | {seconds / own:,.2f}"
        print(f"| {level.level} | {level.families:,} | {name} | {figures} |", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="A whole level of a run, by other solvers and by none")
    parser.add_argument("run", type=Path)
    parser.add_argument("--level", action="append", required=True)
    parser.add_argument("--solvers", default=",".join(CHAINS), help="names with commas between")
    asked = parser.parse_args()
    public = open_public(asked.run)
    plan = plan_from_config(PublicManifest.load(public.manifest).config, source=str(asked.run))
    print("| level | families | by | seconds of the job | milliseconds a family | ratio |\n|---|---|---|---|---|---|")
    for name in asked.level:
        table(Level(public, plan, name), asked.solvers.split(","))


if __name__ == "__main__":
    main()
