"""Exact keyed noise, millions of samples a second on one core, beside OpenDP in the same run: prints a Markdown table.

python tests/benchmarks/benchmark_sampler.py
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import opendp.prelude as dp

from das_spark.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    GeounitAddresses,
    RunKey,
    StreamDomain,
    cumulative_table,
    sample,
)

MECHANISMS = (
    DiscreteGaussian(Fraction(1)),
    DiscreteGaussian(Fraction(8000)),
    DiscreteLaplace(Fraction(2)),
    DiscreteLaplace(Fraction(1280, 27)),
    DiscreteLaplace(Fraction(320)),
)
GEOUNITS, ROWS, REPEATS = 2000, 1000, 3
OPENDP_DRAWS = 20_000


def best(function, draws):
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return draws / min(times) / 1e6


def opendp_sampler(mechanism):
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int))
    if isinstance(mechanism, DiscreteLaplace):
        return dp.m.make_laplace(space, dp.l1_distance(T=int), scale=float(mechanism.scale))
    return dp.m.make_gaussian(space, dp.l2_distance(T=float), scale=float(mechanism.sigma_squared) ** 0.5)


def main():
    stream = RunKey.from_system().derive(StreamDomain("benchmark", "person", "Block", 0, "detailed"))
    units = GeounitAddresses.of(f"{place:016d}" for place in range(GEOUNITS))
    print("| distribution | all answers, M/s | one in ten, M/s | OpenDP, M/s | ratio to OpenDP | table, ms |")
    print("|---|---|---|---|---|---|")
    for mechanism in MECHANISMS:
        print(row(mechanism, stream, units))


def row(mechanism, stream, units):
    start = time.process_time()
    table = cumulative_table(mechanism)
    built = 1e3 * (time.process_time() - start)
    grid = best(lambda: sample(table, stream, units, np.arange(ROWS)), GEOUNITS * ROWS)
    many = best(lambda: sample(table, stream, units, np.arange(0, ROWS, 10)), GEOUNITS * ROWS // 10)
    measurement, zeros = opendp_sampler(mechanism), [0] * OPENDP_DRAWS
    other = best(lambda: measurement(zeros), OPENDP_DRAWS)
    return f"| {mechanism.describe()} | {grid:.0f} | {many:.0f} | {other:.3f} | {grid / other:,.0f} | {built:.0f} |"


if __name__ == "__main__":
    main()
