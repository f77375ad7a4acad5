"""CPU that a family takes, by shape and solver: `python tests/benchmarks/benchmark_families.py [seeds] [part]`.

Prints Markdown tables; `part` is one of `small`, `fits`, `roundings`, `whole`, else all are printed, in a quarter of an
hour. One thread; each family is a fresh draw. A failure is a family that was not certified, rounded and checked; a
fallback one that needed more than the first solver. In the table of fits every solver works in a process of its own,
which is stopped after so many seconds, or when it asks for too much memory.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402 - after the number of threads is set
from families import SHAPES, Shape, family, nation  # noqa: E402
from families_2020 import BLOCKS, SHAPES_2020, TRACTS_250, Shape2020, at_once, family_2020  # noqa: E402

from das_spark.estimation import FamilyPlan, FamilyProblem, estimate_family  # noqa: E402
from das_spark.estimation.certify import certify  # noqa: E402
from das_spark.estimation.chain import FAMILY_SOLVERS, PosedFamily, solve_chain  # noqa: E402
from das_spark.estimation.presolve import presolve  # noqa: E402
from das_spark.estimation.rounding import round_in_passes  # noqa: E402
from das_spark.estimation.support import restrict  # noqa: E402

DEFAULT = ("batched", "piqp", "clarabel", "osqp")
ALONE = ("piqp", "clarabel", "osqp")
PATIENCE = 6.0
"""Seconds of CPU after which a solver gets no further family of a shape."""
LIMIT = 45
"""Seconds after which a solver is stopped in the table of fits."""
MEMORY = 8 * 2**30
LARGE = 60_000
"""Children times cells from which one family a solver is enough."""
MOST_RELEASED = 200_000
"""Children times cells up to which the released rounder, whose ties take minutes, is timed."""

Family = tuple[FamilyProblem, FamilyPlan]


def timed(problem: FamilyProblem, plan: FamilyPlan) -> tuple[float, bool, bool, str]:
    """Milliseconds of CPU, whether the family failed, whether it fell back, and how it was rounded."""
    start = time.process_time()
    result = estimate_family(problem, plan)
    spent = 1e3 * (time.process_time() - start)
    found = result.diagnostics
    return spent, not found.status.is_usable, found.attempts > found.passes, found.rounding


def figures(spent: list[float]) -> str:
    """Median, 99th percentile and worst."""
    return f"{np.median(spent):,.1f} | {np.percentile(spent, 99):,.1f} | {max(spent):,.1f}"


def row(name: str, problems: list[Family], solvers: tuple[str, ...]) -> str:
    """One line of a table of whole estimates."""
    runs = []
    for problem, plan in problems:
        runs.append(timed(problem, replace(plan, solvers=solvers)))
        if sum(run[0] for run in runs) > 1e3 * PATIENCE:
            break
    programs = sum("program" in run[3] for run in runs)
    counts = f"{sum(run[2] for run in runs)} | {sum(run[1] for run in runs)} | {programs}"
    return f"| {name} | {' > '.join(solvers)} | {len(runs)} | {figures([run[0] for run in runs])} | {counts} |"


def size(shape: Shape | Shape2020, problem: FamilyProblem) -> str:
    """Name, children and cells of a family."""
    cells = problem.size if problem.parent is None else len(problem.parent.cells)
    return f"{shape.name}: {len(problem.children):,} x {cells}"


def small(seeds: int) -> None:
    """Families of 1940 and 2018: whole estimates, by chain of solvers."""
    print("\n| family | solvers | n | median ms | p99 ms | worst ms | fallbacks | failures | rounded by a program |")
    print("|---|---|---|---|---|---|---|---|---|")
    estimate_family(*family(SHAPES[0], 10**6))  # libraries load on first use
    for shape in SHAPES:
        problems = [family(shape, seed) for seed in range(seeds)]
        for solvers in (DEFAULT, *((alone,) for alone in ALONE)):
            print(row(size(shape, problems[0][0]), problems, solvers), flush=True)
    nations = [nation(seed) for seed in range(seeds)]
    for solvers in (DEFAULT, *((alone,) for alone in ALONE)):
        print(row("nation over 51 states with known totals", nations, solvers), flush=True)


def families_of(shape: Shape2020, seeds: int) -> list[Family]:
    """Fresh draws of a shape, one where it is large."""
    count = 1 if shape.children * shape.cells > LARGE and shape is not TRACTS_250 else seeds
    return [family_2020(shape, seed) for seed in range(min(count, 3 if shape is TRACTS_250 else seeds))]


def fit(name: str, problem: FamilyProblem, plan: FamilyPlan) -> tuple[float, bool, float, int]:
    """Milliseconds of CPU of one solver, from presolved family to certificate; whether certified; gap; iterations."""
    presolved = presolve(restrict(problem, plan))
    proof = lru_cache(maxsize=1)(partial(certify, problem, plan, presolved.support.cells))
    start = time.process_time()
    proposal = FAMILY_SOLVERS[name].propose(PosedFamily.of(presolved), proof)
    if proposal is None:
        return 0.0, False, np.inf, 0
    proved = proof(proposal.candidate)
    return 1e3 * (time.process_time() - start), proved.certified, proved.gap, proposal.iterations


def in_a_process(work: Callable[[], object], seconds: float) -> object | None:
    """What the work returns; None where it takes too long or too much memory."""

    def limited(channel: multiprocessing.connection.Connection) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        channel.send(work())

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    worker = context.Process(target=limited, args=(theirs,))
    worker.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(seconds) else None
    except EOFError:
        return None
    finally:
        worker.kill()
        worker.join()


def fits(seeds: int) -> None:
    """Families of 2020: one fit of all that is measured, solver by solver."""
    print("\n| family | solver | n | median ms | p99 ms | worst ms | certified | worst gap | iterations |")
    print("|---|---|---|---|---|---|---|---|---|")
    for shape in SHAPES_2020:
        problems = families_of(shape, seeds)
        fit("batched", *(problems[0][0], at_once(problems[0][1])))  # compiled on first use
        for name in DEFAULT:
            started, runs = time.monotonic(), []
            for problem, plan in problems:
                runs.append(in_a_process(partial(fit, name, problem, at_once(plan)), LIMIT))
                if runs[-1] is None or time.monotonic() - started > PATIENCE:
                    break
            done = [run for run in runs if run is not None]
            cells = f"| {size(shape, problems[0][0])} | {name} | {len(runs)} |"
            if len(done) < len(runs):
                print(f"{cells} more than {LIMIT} s | | | | | |", flush=True)
                continue
            proved = f"{sum(run[1] for run in done)} of {len(done)} | {max(run[2] for run in done):.0e}"
            print(
                f"{cells} {figures([run[0] for run in done])} | {proved} | {max(run[3] for run in done)} |", flush=True
            )


def roundings(seeds: int) -> None:
    """The rounding of the nested production queries alone."""
    print("\n| family | rounding | n | median ms | p99 ms | worst ms | found by | worst gap |")
    print("|---|---|---|---|---|---|---|---|")
    for shape in SHAPES_2020:
        for rounding in ("nearest", "released") if shape.children * shape.cells <= MOST_RELEASED else ("nearest",):
            spent, methods, gaps = [], set(), []
            for problem, plan in families_of(shape, min(seeds, 5)):
                presolved = presolve(restrict(problem, at_once(plan)))
                x = solve_chain(PosedFamily.of(presolved), at_once(plan)).candidate.x
                passes = [[plan.queries[name] for name in names] for names in plan.passes[-1].rounding]
                start = time.process_time()
                rounded = round_in_passes(presolved, x, passes, rounding)
                spent.append(1e3 * (time.process_time() - start))
                methods.add(rounded.method if rounded is not None else "nothing")
                gaps.append(rounded.gap if rounded is not None else np.inf)
            line = f"{figures(spent)} | {', '.join(sorted(methods))} | {max(gaps):.0e}"
            print(f"| {size(shape, problem)} | {rounding} | {len(spent)} | {line} |", flush=True)


def whole(seeds: int) -> None:
    """Families of 2020: whole estimates with the passes of their level."""
    print("\n| family | solvers | n | median ms | p99 ms | worst ms | fallbacks | failures | rounded by a program |")
    print("|---|---|---|---|---|---|---|---|---|")
    estimate_family(*family_2020(BLOCKS, 10**6))
    for shape in SHAPES_2020:
        problems = families_of(shape, seeds)
        print(row(size(shape, problems[0][0]), problems, DEFAULT), flush=True)


def main() -> None:
    """Print the tables."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    parts = {each.__name__: each for each in (small, fits, roundings, whole)}
    for part in sys.argv[2:] or parts:
        parts[part](seeds)


if __name__ == "__main__":
    main()
