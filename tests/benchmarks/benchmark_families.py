"""Milliseconds of CPU a family takes, by shape and solver: `python tests/benchmarks/benchmark_families.py [seeds]`.

Prints a Markdown table. One thread; each family is a fresh draw. A failure is a family that was not certified, rounded
and checked; a fallback one that needed more than the first solver.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402 - after the number of threads is set
from families import SHAPES, Shape, family, nation  # noqa: E402

from das_spark.estimation import FamilyPlan, FamilyProblem, estimate_family  # noqa: E402

DEFAULT = ("piqp", "clarabel", "osqp")
ALONE = ("piqp", "clarabel", "osqp")
PATIENCE = 6.0
"""Seconds of CPU after which a solver gets no further family of a shape."""


def timed(problem: FamilyProblem, plan: FamilyPlan) -> tuple[float, bool, bool, str]:
    """Milliseconds of CPU, whether the family failed, whether it fell back, and how it was rounded."""
    start = time.process_time()
    result = estimate_family(problem, plan)
    spent = 1e3 * (time.process_time() - start)
    found = result.diagnostics
    return spent, not found.status.is_usable, found.attempts > 1, found.rounding


def row(name: str, problems: list[tuple[FamilyProblem, FamilyPlan]], solvers: tuple[str, ...]) -> str:
    """One line of the table."""
    runs = []
    for problem, plan in problems:
        runs.append(timed(problem, replace(plan, solvers=solvers)))
        if sum(run[0] for run in runs) > 1e3 * PATIENCE:
            break
    spent = np.array([run[0] for run in runs])
    programs = sum("program" in run[3] for run in runs)
    chain = " > ".join(solvers)
    figures = f"{np.median(spent):.1f} | {np.percentile(spent, 99):.1f} | {spent.max():.1f}"
    counts = f"{sum(run[2] for run in runs)} | {sum(run[1] for run in runs)} | {programs}"
    return f"| {name} | {chain} | {len(runs)} | {figures} | {counts} |"


def size(shape: Shape, problem: FamilyProblem) -> str:
    """Name, children and cells of a family."""
    cells = problem.size if problem.parent is None else len(problem.parent.cells)
    return f"{shape.name}: {len(problem.children)} x {cells}"


def main() -> None:
    """Print the table."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print("| family | solvers | n | median ms | p99 ms | worst ms | fallbacks | failures | rounded by a program |")
    print("|---|---|---|---|---|---|---|---|---|")
    estimate_family(*family(SHAPES[0], 10**6))  # libraries load on first use
    for shape in SHAPES:
        problems = [family(shape, seed) for seed in range(seeds)]
        name = size(shape, problems[0][0])
        for solvers in (DEFAULT, *((alone,) for alone in ALONE)):
            print(row(name, problems, solvers), flush=True)
    nations = [nation(seed) for seed in range(seeds)]
    for solvers in (DEFAULT, *((alone,) for alone in ALONE)):
        print(row("nation over 51 states with known totals", nations, solvers), flush=True)


if __name__ == "__main__":
    main()
