"""The system without a JVM: the very tasks that Spark maps over families, called one family after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from small_census import Census

from das_spark.constraints import bounds_up_the_spine
from das_spark.estimation import FamilyPlan, FamilyProblem
from das_spark.privacy import Budget, LevelBudget, RunKey, StreamDomain, cumulative_table
from das_spark.products import Product, product
from das_spark.spark.bounds import UNBOUNDED
from das_spark.spark.estimate import EstimationTask
from das_spark.spark.families import BOUND, HISTOGRAM, MEASUREMENT, PARENT, Family, FamilySlice
from das_spark.spark.measure import MeasurementTask

#: Keys of the accuracy test; with the families of the census they make 200 families.
KEYS = tuple(f"accuracy {number}" for number in range(20))
#: Enough privacy loss that a census of a few thousand people shows both noise and constraints.
EPSILON = 8
Integers = NDArray[np.int64]
#: What a geounit holds: cells and counts.
Sparse = tuple[Integers, Integers]


@dataclass(frozen=True)
class Rule:
    """An added constraint: in every leaf the answers of a query are at least `fewest`; above, its sums hold."""

    name: str
    query: str
    fewest: tuple[int, ...]


@dataclass(frozen=True)
class SystemRun:
    """What the system made of a census.

    Attributes:
        estimates: Level -> people by geounit (sorted) and cell.
        tables: Level -> measurements as one Arrow table.
        released: Level -> estimates as one Arrow table.
        diagnostics: One row a family, in order of levels and geocodes.
        families: Each family's problem and plan, in the same order.
    """

    estimates: Mapping[str, Integers]
    tables: Mapping[str, pa.Table]
    released: Mapping[str, pa.Table]
    diagnostics: tuple[Mapping[str, object], ...]
    families: tuple[tuple[FamilyProblem, FamilyPlan], ...]


def run_system(
    census: Census,
    epsilon: int,
    key: str,
    *,
    lazy: bool = True,
    total_at: str = "State",
    rule: Rule | None = None,
    failsafe: bool = False,
) -> SystemRun:
    """Measure and estimate every level of a census of the 1940 product.

    Args:
        census: The population.
        epsilon: Total privacy loss.
        key: Text of a test key.
        lazy: Whether answers that nobody will read are left out.
        total_at: The lowest level of which totals are invariant.
        rule: A constraint besides those of the product.
        failsafe: Whether a family may give up consistency with its parent; needs `lazy` to be False.
    """
    made = product("e2e_1940")
    budget = _budget(made, tuple(census.levels), epsilon)
    limits = _limits(census, made, total_at)
    if rule is not None:
        _add_rule(limits, census, rule)
    parents: dict[str, Sparse] = {}
    estimates, tables, released, diagnostics, families = {}, {}, {}, [], []
    for depth, level in enumerate(census.levels):
        counts = census.summed(census.counts, level)
        truth = {code: _sparse(row) for code, row in zip(census.codes(level), counts, strict=True)}
        measure = _measure_task(made, budget, level, key, lazy=lazy)
        estimate = _estimate_task(made, budget, level, rule, failsafe=failsafe)
        measured, outputs, found = [], [], {}
        for family, children in _families(census, level, depth).items():
            own = {code: truth[code] for code in children}
            slices = {} if not depth else {(PARENT, ""): _histograms({family: parents[family]})}
            batches = measure(Family(family, {**slices, (HISTOGRAM, ""): _histograms(own)}))
            measured += batches
            slices[HISTOGRAM, ""] = _slice(children)
            slices |= {(MEASUREMENT, batch.column("query")[0].as_py()): _measurement(batch) for batch in batches}
            slices |= {(BOUND, name): limits[level][name](children) for name in limits[level]}
            problem = estimate.problem(Family(family, slices))
            result, row = estimate(Family(family, slices))
            outputs.append(result)
            found |= _found(result)
            diagnostics.append(row.column("diagnostics")[0].as_py())
            families.append((problem, estimate.plan))
        parents = found
        estimates[level] = np.array([_dense(found[code], made.schema.size) for code in census.codes(level)])
        if measured:
            tables[level] = pa.Table.from_batches(measured)
        released[level] = pa.Table.from_batches(outputs).select(["geocode", "parent", "cells", "counts"])
    return SystemRun(estimates, tables, released, tuple(diagnostics), tuple(families))


def _budget(made: Product, levels: tuple[str, ...], epsilon: int) -> Budget:
    """The shares of the 1940 strategy for queries, and equal ones for the levels."""
    usual = made.strategies["e2e_1940"].budget
    shares = tuple(LevelBudget(name, Fraction(1, len(levels)), usual.levels[0].queries) for name in levels)
    return Budget(usual.framework, Fraction(epsilon), shares)


def _families(census: Census, level: str, depth: int) -> dict[str, tuple[str, ...]]:
    """Children of each family of a level; a geounit of the top level is a family of its own."""
    codes = census.codes(level)
    if not depth:
        return {code: (code,) for code in codes}
    above = list(census.levels)[depth - 1]
    found: dict[str, list[str]] = {}
    for code in codes:
        found.setdefault(census.at(code, above), []).append(code)
    return {family: tuple(children) for family, children in sorted(found.items())}


def _measure_task(made: Product, budget: Budget, level: str, key: str, *, lazy: bool) -> MeasurementTask:
    queries = {each.query: made.schema.query(each.query) for each in budget.level(level).queries}
    laws = {name: budget.mechanism(level, name) for name in queries}
    run_key = RunKey.insecure(key)
    return MeasurementTask(
        size=made.schema.size,
        queries=queries,
        mechanisms={"": {name: (cumulative_table(law), law.variance()) for name, law in laws.items()}},
        streams={name: run_key.derive(StreamDomain(made.name, "person", level, 0, name)) for name in queries},
        lazy=lazy,
    )


def _estimate_task(made: Product, budget: Budget, level: str, rule: Rule | None, *, failsafe: bool) -> EstimationTask:
    queries = {each.query: made.schema.query(each.query) for each in budget.level(level).queries}
    queries |= {"class": made.schema.query(made.class_query), "total": made.schema.query("total")}
    if rule is not None:
        queries[f"added:{rule.name}"] = made.schema.query(rule.query)
    plan = FamilyPlan(level, failsafe=failsafe, class_query=made.class_query)
    return EstimationTask(made.schema.size, plan, queries)


def _limits(census: Census, made: Product, total_at: str):
    """Level -> name of a bound -> a function from children to their slice."""
    names = list(census.levels)
    exact = names[: names.index(total_at) + 1]
    totals = [census.summed(census.counts, name).sum(axis=1) if name in exact else None for name in names]
    parents = [census.parents(name) for name in names[1:]]
    boxes = dict(zip(names, bounds_up_the_spine(made.unit_bounds, census.units, parents, totals), strict=True))
    known = dict(zip(names, totals, strict=True))
    limits = {}
    for name in names:
        limits[name] = {"class": _bounds(census.codes(name), *boxes[name])}
        if name in exact:
            limits[name]["total"] = _bounds(census.codes(name), known[name][:, None], known[name][:, None])
        if name in exact[:-1]:
            lower, upper = (np.hstack([each, known[total_at][:, None]]) for each in boxes[total_at])
            limits[name]["flow"] = _flows(census, name, total_at, lower, upper)
    return limits


def _add_rule(limits, census: Census, rule: Rule) -> None:
    """Impose a rule on the leaves, and its sums above."""
    for level in census.levels:
        leaves = np.bincount(census.places(level))[:, None]
        lower, upper = leaves * np.array(rule.fewest), np.repeat(leaves * UNBOUNDED, len(rule.fewest), axis=1)
        limits[level][f"added:{rule.name}"] = _bounds(census.codes(level), lower, np.minimum(upper, UNBOUNDED))


def _bounds(codes: Sequence[str], lower: Integers, upper: Integers):
    place = {code: number for number, code in enumerate(codes)}

    def of(children: Sequence[str]) -> FamilySlice:
        chosen = [place[code] for code in children]
        return _slice(children, members=children, longs=list(lower[chosen]), upper=upper[chosen].ravel())

    return of


def _flows(census: Census, level: str, total_at: str, lower: Integers, upper: Integers):
    members = census.codes(total_at)

    def of(children: Sequence[str]) -> FamilySlice:
        below = [(census.at(code, level), number) for number, code in enumerate(members)]
        chosen = sorted((owner, number) for owner, number in below if owner in children)
        rows = [number for _, number in chosen]
        owners = [owner for owner, _ in chosen]
        own = [members[number] for number in rows]
        return _slice(owners, members=own, longs=list(lower[rows]), upper=upper[rows].ravel())

    return of


def _slice(
    geocodes: Sequence[str],
    *,
    members: Sequence[str] | None = None,
    integers: Sequence[Integers] | None = None,
    longs: Sequence[Integers] | None = None,
    upper: Integers | None = None,
    variance: NDArray[np.float64] | None = None,
) -> FamilySlice:
    flat, offsets = _flat(integers, len(geocodes), np.int32)
    values, value_offsets = _flat(longs, len(geocodes), np.int64)
    return FamilySlice(
        geocodes=tuple(geocodes),
        members=tuple(members) if members is not None else ("",) * len(geocodes),
        integers=flat,
        integer_offsets=offsets,
        longs=values,
        long_offsets=value_offsets,
        longs_upper=np.zeros(0, dtype=np.int64) if upper is None else upper.astype(np.int64),
        variance=np.full(len(geocodes), np.nan) if variance is None else variance,
        has_integers=integers is not None,
    )


def _flat(lists: Sequence[Integers] | None, count: int, kind: type) -> tuple[NDArray, Integers]:
    if lists is None:
        return np.zeros(0, dtype=kind), np.zeros(count + 1, dtype=np.int64)
    lengths = [len(each) for each in lists]
    flat = np.concatenate([np.zeros(0, dtype=kind), *lists]).astype(kind)
    return flat, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _histograms(content: Mapping[str, Sparse]) -> FamilySlice:
    codes = sorted(content)
    return _slice(codes, integers=[content[code][0] for code in codes], longs=[content[code][1] for code in codes])


def _measurement(batch: pa.RecordBatch) -> FamilySlice:
    rows, values = batch.column("rows"), batch.column("values")
    return _slice(
        batch.column("geocode").to_pylist(),
        integers=None if rows.null_count else [np.array(row, dtype=np.int64) for row in rows.to_pylist()],
        longs=[np.array(row, dtype=np.int64) for row in values.to_pylist()],
        variance=batch.column("variance").to_numpy(),
    )


def _found(batch: pa.RecordBatch) -> dict[str, Sparse]:
    columns = (batch.column(name).to_pylist() for name in ("geocode", "cells", "counts"))
    return {
        code: (np.array(cells, dtype=np.int64), np.array(counts, dtype=np.int64))
        for code, cells, counts in zip(*columns, strict=True)
    }


def _sparse(row: Integers) -> Sparse:
    cells = np.flatnonzero(row)
    return cells, row[cells]


def _dense(content: Sparse, size: int) -> Integers:
    dense = np.zeros(size, dtype=np.int64)
    dense[content[0]] = content[1]
    return dense
