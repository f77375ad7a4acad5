"""Rounding of families of a demographic schema, as flows and as linear programs: `benchmark_rounding.py [SHAPE ...]`.

Shapes are those of `SHAPES`. Each is a made-up population: cells of a schema with relationship, age and race, drawn
from skewed shares, divided among children; its estimate is the truth with multiplicative noise, raked to the parent's
cells and to the classes that every child is held to. CPU seconds of one thread; the linear program is the one of the
whole family, in the same run, where it takes less than minutes.
"""

from __future__ import annotations

import itertools
import os
import resource
import sys
import time
from dataclasses import dataclass

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402 - after the number of threads is set

from das_spark.estimation import FamilyBounds, FamilyPlan, FamilyProblem  # noqa: E402
from das_spark.estimation import rounding as rounder  # noqa: E402
from das_spark.estimation.presolve import Presolved, presolve  # noqa: E402
from das_spark.estimation.problem import Floats  # noqa: E402
from das_spark.estimation.support import restrict  # noqa: E402
from das_spark.histogram import Attribute, Histogram, Recode, Schema  # noqa: E402


def _grouped(name: str, *edges: int) -> Recode:
    return Recode(name, tuple((f"g{low}", tuple(range(low, high))) for low, high in itertools.pairwise(edges)))


def _levels(count: int) -> tuple[str, ...]:
    return tuple(f"l{level}" for level in range(count))


SCHEMA = Schema(
    "persons",
    (
        Attribute(
            "relgq",
            _levels(42),
            (
                _grouped("kind8", 0, 18, 24, 27, 28, 33, 34, 36, 42),
                _grouped("kind25", *range(18), 18, 24, 27, 28, 33, 34, 36, 42),
            ),
        ),
        Attribute("sex", _levels(2)),
        Attribute("age", _levels(40), (_grouped("adult", 0, 18, 40), _grouped("age3", 0, 18, 29, 40))),
        Attribute("hispanic", _levels(2)),
        Attribute("race", _levels(63)),
    ),
)
CLASS = SCHEMA.query("kind8 * adult * hispanic * race")
PASS = [
    [
        SCHEMA.query("kind8 * sex * adult * hispanic * race"),
        SCHEMA.query("kind8 * sex * age3 * hispanic * race"),
        SCHEMA.query("kind25 * sex * age * hispanic * race"),
        SCHEMA.query("relgq * sex * age * hispanic * race"),
    ]
]


@dataclass(frozen=True)
class Shape:
    """Children, people of all of them, and whether the linear program of the whole family is for comparison."""

    children: int
    people: int
    compared: bool = True


SHAPES = {
    "block group -> 10 blocks": Shape(10, 1_500),
    "tract -> 3 block groups": Shape(3, 4_300),
    "small state -> 3 counties": Shape(3, 990_000),
    "county -> 40 tracts": Shape(40, 200_000),
    "state -> 102 counties": Shape(102, 1_500_000, compared=False),
    "state -> 254 counties": Shape(254, 2_500_000, compared=False),
}


def population(shape: Shape, seed: int = 0) -> tuple[Presolved, Floats]:
    """A family held to its classes, and a real-valued estimate that keeps them."""
    generator = np.random.default_rng(seed)
    shares = [
        np.append(np.full(18, 1.0) * generator.dirichlet(np.ones(18)) * 0.97, 0.03 * generator.dirichlet(np.ones(24))),
        np.array([0.49, 0.51]),
        generator.dirichlet(np.full(40, 5.0)),
        np.array([0.8, 0.2]),
        np.sort(generator.dirichlet(np.full(63, 0.06)))[::-1],
    ]
    sizes = generator.lognormal(0.0, 1.3 if shape.people > 10**6 else 0.5, shape.children)
    sizes *= shape.people / sizes.sum()
    probability = shares[0]
    for share in shares[1:]:
        probability = np.multiply.outer(probability, share).ravel()
    cells, counts = [], []
    for size in sizes:
        found = generator.poisson(size * probability)
        (own,) = np.nonzero(found)
        cells.append(own)
        counts.append(found[own])
    occupied = np.unique(np.concatenate(cells))
    truth = np.zeros((shape.children, len(occupied)), dtype=np.int64)
    for child, (own, people) in enumerate(zip(cells, counts, strict=True)):
        truth[child, np.searchsorted(occupied, own)] = people
    touched = CLASS.restrict(occupied)
    margin = np.stack([np.bincount(touched.index, row, minlength=len(touched.rows)) for row in truth]).astype(np.int64)
    bounds = (FamilyBounds("pl94", CLASS, margin, margin, touched.rows),)
    parent = Histogram.from_pairs(SCHEMA.size, occupied.astype(np.int32), truth.sum(axis=0))
    children = tuple(f"1{child:05d}" for child in range(shape.children))
    presolved = presolve(restrict(FamilyProblem("1", parent, children, SCHEMA.size, (), bounds), FamilyPlan("persons")))
    x = np.where(truth > 0, truth * generator.lognormal(0.0, 0.4, truth.shape), 0.0)
    x[(margin[:, touched.index] > 0) & (generator.random(truth.shape) < 0.03)] += 0.3
    whole = truth.sum(axis=0)
    for _ in range(300):
        for child in range(shape.children):
            own = np.bincount(touched.index, x[child], minlength=len(touched.rows))
            factor = np.divide(margin[child], own, out=np.zeros(len(own)), where=own > 0)
            x[child] *= factor[touched.index]
        total = x.sum(axis=0)
        x *= np.divide(whole, total, out=np.zeros(len(total)), where=total > 0)
        if np.abs(total - whole).max() < 1e-6 * max(1.0, float(whole.max())):
            break
    return presolved, x


def timed(presolved: Presolved, x: Floats) -> tuple[float, rounder.Rounded | None]:
    """CPU seconds, and what was found."""
    start = time.process_time()
    found = rounder.round_in_passes(presolved, x, PASS, "nearest")
    return time.process_time() - start, found


def main(names: list[str]) -> None:
    """Print a table."""
    print("| family | variables | fractional | flows, s | linear program, s | ratio | gap | same objective | peak GB |")
    print("|---|---|---|---|---|---|---|---|---|")
    timed(*population(Shape(2, 500)))  # compile
    for name in names or list(SHAPES):
        shape = SHAPES[name]
        presolved, x = population(shape)
        fractional = int((rounder.floors(presolved, x)[1] > 0).sum())
        spent, found = timed(presolved, x)
        assert found is not None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        row = [name, f"{presolved.variables:,}", f"{fractional:,}", f"{spent:.4f}"]
        if shape.compared:
            limit, rounder.LARGE = rounder.LARGE, sys.maxsize
            before, other = timed(presolved, x)
            rounder.LARGE = limit
            assert other is not None
            same = abs(distance(presolved, x, found) - distance(presolved, x, other)) < 1e-4
            row += [f"{before:.4f}", f"{before / spent:.1f}", f"{found.gap:g}", str(same)]
        else:
            row += ["", "", f"{found.gap:g} ({found.method})", ""]
        print("|", " | ".join([*row, f"{peak:.2f}"]), "|", flush=True)


def distance(presolved: Presolved, x: Floats, found: rounder.Rounded) -> float:
    """What the pass minimises (E-51), summed over its queries."""
    total = 0.0
    for query in PASS[0]:
        place = query.restrict(presolved.support.cells)
        for child in range(presolved.support.children):
            reached, wanted = (
                np.bincount(place.index, values[child], minlength=len(place.rows)) for values in (found.counts, x)
            )
            total += float(np.abs(reached - wanted).sum())
    return total


if __name__ == "__main__":
    main(sys.argv[1:])
