"""CPU of every family of a finished run: `python tests/benchmarks/benchmark_run_families.py RUN...`.

Prints a Markdown table: by geolevel the median, 99th percentile and worst milliseconds of CPU of `estimate_family`, how
many families needed more than their first solver, and by whom they were solved. Families are assembled from the public
tables of the run, and estimated again on one thread: one after the other, then some at a time, as tasks do
(`estimate_families`; the last column); by the solvers of the run, or by others (`--solvers piqp --level Tract_Group`).
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402 - after the number of threads is set
import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402

from das_spark.config import RunPlan, level_plan, plan_from_config  # noqa: E402
from das_spark.core import DeclaredBounds, LevelPlan, NoisyAnswers, PublishedFamily  # noqa: E402
from das_spark.estimation import FamilyDiagnostics, FamilyProblem, estimate_families, estimate_family  # noqa: E402
from das_spark.histogram import Histogram  # noqa: E402
from das_spark.store import PublicLayout, PublicManifest, open_public  # noqa: E402
from das_spark.store.parquet import read_rows  # noqa: E402
from das_spark.store.tables import TABLES  # noqa: E402

#: Families that are estimated at a time, about as many as in a task.
TOGETHER = 60


def read(public: PublicLayout, table: str, geolevel: str) -> pa.Table:
    """One level of a public table, by geocode."""
    return read_rows(public.level(table, geolevel), TABLES[table].schema).sort_by("geocode")


def parts_of(table: pa.Table, column: str) -> dict[str, pa.Table]:
    """The rows of a table by what stands in a column."""
    ordered = table.sort_by(column)
    counts = pc.value_counts(ordered[column]).to_pylist()
    starts = np.cumsum([0, *(count["counts"] for count in counts)]).tolist()
    return {
        count["values"]: ordered.slice(start, count["counts"]) for count, start in zip(counts, starts, strict=False)
    }


def array(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_pylist(), dtype=np.int64)


def histograms(size: int, rows: pa.Table) -> dict[str, Histogram]:
    """Sparse rows by geocode."""
    return {row["geocode"]: Histogram.from_pairs(size, row["cells"], row["counts"]) for row in rows.to_pylist()}


def families(public: PublicLayout, level: LevelPlan, levels: list[str], depth: int) -> Iterator[FamilyProblem]:
    """The problem of every family of a level."""
    family, name = "parent" if depth else "geocode", levels[depth]
    geounits, answers, bounds = (
        parts_of(read(public, table, name), family) for table in ("geounits", "measurements", "bounds")
    )
    parents = parts_of(read(public, "estimates", levels[depth - 1]), "geocode") if depth else {}
    published = parts_of(read(public, "published", name), family) if level.held else {}
    held_size = level.held.of.size if level.held else 0
    for parent, rows in geounits.items():
        limits = {
            bound: DeclaredBounds(
                tuple(part["geocode"].to_pylist()),
                tuple(part["member"].to_pylist()),
                array(part["lower"]),
                array(part["upper"]),
            )
            for bound, part in (parts_of(bounds[parent], "name") if parent in bounds else {}).items()
        }
        noisy = [
            NoisyAnswers(
                tuple(part["geocode"].to_pylist()),
                query,
                None if part["rows"].null_count else array(part["rows"].slice(0, 1))[0],
                array(part["values"]),
                part["variance"].to_numpy(),
            )
            for query, part in (parts_of(answers[parent], "query") if parent in answers else {}).items()
        ]
        told = PublishedFamily.of(histograms(held_size, published[parent])) if level.held else None
        declared = level.declared(parent if depth else "", tuple(rows["geocode"].to_pylist()), limits, told)
        known = histograms(level.size, parents[parent])[parent] if depth else None
        yield level.measured(declared, known, noisy)


def timed(public: PublicLayout, plan: RunPlan, depth: int, solvers: tuple[str, ...]) -> str:
    """One line of the table; `solvers` in place of those of the run, if there are any."""
    levels = list(plan.spine.names)
    level, spent, found = level_plan(plan, levels[depth]), [], []
    if solvers:
        level = replace(level, family=replace(level.family, solvers=solvers))
    problems = list(families(public, level, levels, depth))
    estimate_families(problems[:1], level.family)  # compiled on first use
    for problem in problems:
        start = time.process_time()
        result = estimate_family(problem, level.family)
        spent.append(1e3 * (time.process_time() - start))
        found.append(result.diagnostics)
    start = time.process_time()
    for begin in range(0, len(problems), TOGETHER):
        estimate_families(problems[begin : begin + TOGETHER], level.family)
    together = time.process_time() - start
    solved_by = ", ".join(f"{name} {count:,}" for name, count in Counter(each.solver for each in found).most_common())
    figures = f"{np.median(spent):,.1f} | {np.percentile(spent, 99):,.1f} | {max(spent):,.1f} | {sum(spent) / 1e3:,.1f}"
    counts = f"{sum(map(fell_back, found)):,} | {solved_by} | {together:,.2f}"
    return f"| {levels[depth]} | {len(spent):,} | {figures} | {counts} |"


def fell_back(found: FamilyDiagnostics) -> bool:
    """Whether a pass needed more than one solver."""
    return found.attempts > found.passes


def main() -> None:
    """Print a table a run."""
    parser = argparse.ArgumentParser(description="CPU of every family of finished runs")
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--level", action="append", default=[], help="this geolevel; all of them if not given")
    parser.add_argument("--solvers", default="", help="names with commas between, in place of those of the run")
    asked = parser.parse_args()
    for run in asked.runs:
        public = open_public(run)
        manifest = PublicManifest.load(public.manifest)
        plan = plan_from_config(manifest.config, source=str(run))
        print(f"\n{manifest.run_id}: {plan.product.name}\n")
        print("| level | families | median ms | p99 ms | worst ms | all, s | fallbacks | solved by | together, s |")
        print("|---|---|---|---|---|---|---|---|---|")
        for depth, name in enumerate(plan.spine.names):
            if not asked.level or name in asked.level:
                print(timed(public, plan, depth, tuple(filter(None, asked.solvers.split(",")))), flush=True)


if __name__ == "__main__":
    main()
