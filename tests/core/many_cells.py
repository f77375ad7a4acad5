"""A state of twenty blocks counted in very many cells: measured, estimated and checked in one process.

`python many_cells.py KINDS ROOT_CELLS` prints as JSON the cells of the schema (29,232 a kind), the most memory that the
process had before and after, in bytes, and how the root was estimated. It runs in a process of its own because the peak
of a process counts all that it ever did.
"""

from __future__ import annotations

import json
import resource
import sys
from fractions import Fraction

import numpy as np

from das_spark.core import (
    ConfidentialFamily,
    InProcess,
    LevelInput,
    LevelPlan,
    MeasurementPlan,
    Needs,
    TopDown,
    level_steps,
    run_levels,
)
from das_spark.estimation import FamilyBounds, FamilyPlan, FamilyProblem, OuterPass, batched, check, rounding
from das_spark.histogram import Attribute, Histogram, Query, Schema
from das_spark.privacy import DiscreteGaussian, RunKey, StreamDomain, cumulative_table

BLOCKS = 20
NOISE = DiscreteGaussian(Fraction(25))
MEASURED = ("total", "kind", "kind * sex", "sex * age", "hispanic * race", "detailed")
LEVELS = ("State", "Block")
#: Below the top: first how many of each kind, which then holds exactly, then in which cells; as in productions.
PASSES = (OuterPass((("kind",),), (("kind",),)), OuterPass((("detailed", "kind * sex"),), (("detailed",),)))


def schema_of(kinds: int) -> Schema:
    """As a schema of persons by relationship, sex, age, ethnicity and race."""
    sizes = {"kind": kinds, "sex": 2, "age": 116, "hispanic": 2, "race": 63}
    return Schema(
        "many", tuple(Attribute(name, tuple(f"{name}{i}" for i in range(size))) for name, size in sizes.items())
    )


def people(schema: Schema) -> dict[str, Histogram]:
    """20 to 200 people a block; none of the first kind is younger than 15."""
    generator = np.random.default_rng(5)
    found = {}
    for block in range(BLOCKS):
        count = int(generator.integers(20, 200))
        codes = np.column_stack([generator.integers(0, size, count) for size in schema.shape])
        codes[codes[:, 0] == 0, 2] = np.maximum(codes[codes[:, 0] == 0, 2], 15)
        cells = schema.ravel(codes)
        found[f"1{block:02d}"] = Histogram.from_pairs(schema.size, cells, np.ones(count, dtype=np.int64))
    return found


def declared(name: str, histograms: dict[str, Histogram], kind: Query, total: Query) -> FamilyProblem:
    """Bounds on the people of each kind; the total of the state is exact."""
    codes = tuple(sorted(histograms))
    counts = np.stack([kind.answer(histograms[code].cells, histograms[code].counts) for code in codes])
    bounds = [FamilyBounds("class", kind, np.minimum(counts, 1), np.where(counts > 0, 3 * counts + 5, 0))]
    if not name:
        exact = counts.sum(axis=1, keepdims=True)
        bounds.append(FamilyBounds("total", total, exact, exact))
    return FamilyProblem(name, None, codes, kind.size, (), tuple(bounds))


def executor(schema: Schema) -> InProcess:
    """The two levels, ready to be run."""
    blocks = people(schema)
    everybody = sum(list(blocks.values())[1:], start=next(iter(blocks.values())))
    queries = {name: schema.query(name) for name in MEASURED}
    zeros = np.flatnonzero(schema.select(kind=[0], age=range(15))).astype(np.int32)
    histograms = {"State": {"1": everybody}, "Block": blocks}
    names = {"State": "", "Block": "1"}
    key, table = RunKey.insecure("many"), cumulative_table(NOISE)
    noise, plans, levels = {}, {}, {}
    for level in LEVELS:
        noise[level] = MeasurementPlan(
            queries=queries,
            mechanisms={"": {name: (table, NOISE.variance()) for name in MEASURED}},
            streams={name: key.derive(StreamDomain("many", "person", level, 0, name)) for name in MEASURED},
            lazy=True,
        )
        passes = PASSES if level == "Block" else ()
        family = FamilyPlan(level, zero_cells=zeros, classes=queries["kind"], passes=passes, queries=queries)
        plans[level] = LevelPlan(schema.size, {**queries, "class": queries["kind"]}, family, TopDown())
        own = histograms[level]
        levels[level] = LevelInput(
            {names[level]: ConfidentialFamily.of(own)},
            {names[level]: declared(names[level], own, queries["kind"], queries["total"])},
        )
    return InProcess(levels, plans, noise)


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(kinds: int, root_cells: int) -> None:
    """Run, check, print."""
    batched.ROOT_CELLS = rounding.MANY = root_cells
    before, schema = peak(), schema_of(kinds)
    system = executor(schema)
    run_levels(level_steps(LEVELS, Needs()), system)
    broken = []
    for level in LEVELS:
        for family, problem in system.problems[level].items():
            cells = np.unique(np.concatenate([system.estimates[level][code].cells for code in problem.children]))
            counts = np.zeros((len(problem.children), len(cells)), dtype=np.int64)
            for position, code in enumerate(problem.children):
                estimate = system.estimates[level][code]
                counts[position, np.searchsorted(cells, estimate.cells)] = estimate.counts
            broken += [
                f"{level}/{family}: {rule}"
                for rule in check.broken_rules(problem, system.plans[level].family, cells, counts)
            ]
    root = system.diagnostics["State"][""]
    found = {
        "cells": schema.size,
        "before": before,
        "peak": peak(),
        "broken": broken,
        "solver": root.solver,
        "rounding": root.rounding,
        "status": [str(each.status) for level in LEVELS for each in system.diagnostics[level].values()],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
