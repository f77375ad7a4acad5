"""Families of very many cells with known sums of classes: CPU seconds of one thread, by shape.

`OMP_NUM_THREADS=1 python benchmark_dhc.py [SHAPE ...]` estimates one family of each shape of `families_dhc`, whole:
both passes, fits and roundings. The first one is made twice, as loops are compiled on first use.
"""

from __future__ import annotations

import os
import resource
import sys
import time

import families_dhc
from families_dhc import Shape, family

from das_spark.estimation import FamilyStatus, OuterPass, estimate_family
from das_spark.estimation.passes import _supported
from das_spark.estimation.presolve import presolve
from das_spark.estimation.support import restrict

DEFAULT = ("GROUPS", "BLOCKS", "TRACTS", "HOUSES_BLOCKS", "ROOT", "COUNTIES", "COUNTIES_100", "HOUSES_COUNTIES")


def measured(shape: Shape, seed: int) -> str:
    """A row of the table."""
    problem, plan = family(shape, seed)
    outer: OuterPass = plan.passes[0]
    whole = restrict(problem, plan)
    first = presolve(_supported(problem, plan, outer, 0, ()))
    start = time.process_time()
    found = estimate_family(problem, plan)
    seconds, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    assert found.diagnostics.status is FamilyStatus.OPTIMAL, found.diagnostics
    tries = ", ".join(f"{each.solver} {each.iterations}" for each in found.diagnostics.tried)
    return (
        f"| {shape.name} | {len(whole.cells):,} | {len(first.support.cells):,} | {first.variables:,} | {tries} | "
        f"{found.diagnostics.gap:.0e} | {seconds:.3g} | {peak:.1f} |"
    )


def main(names: list[str]) -> None:
    """Print the table."""
    shapes = [getattr(families_dhc, name) for name in names or DEFAULT]
    measured(shapes[0], 1)
    print(f"load {os.getloadavg()[0]:.0f}")
    print("| family | cells | coarse cells | unknowns of the first pass | iterations | gap | CPU s | GB so far |")
    print("|---|---|---|---|---|---|---|---|")
    for shape in shapes:
        print(measured(shape, 2), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
