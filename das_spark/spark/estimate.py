"""Estimate one geolevel: Arrow in, `estimate_family`, Arrow out. It is never given a confidential count or a key."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.estimation import (
    LEAST_VARIANCE,
    FamilyBounds,
    FamilyFlows,
    FamilyGroups,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyResult,
    estimate_family,
)
from das_spark.histogram import Histogram, Query
from das_spark.spark import families, tables
from das_spark.spark.families import BOUND, HISTOGRAM, MEASUREMENT, PARENT, Family, Spread, Writing
from das_spark.spark.group_totals import GROUP_TOTAL, TotalKey
from das_spark.spark.measure import family_costs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


ESTIMATE = "estimate"
#: The tables that one job of estimation writes. The time that a family took is never published.
WRITTEN = {"estimates": tables.ESTIMATES, "diagnostics": tables.DIAGNOSTICS, "seconds": tables.SECONDS}
_MEASURED = {"name": "query", "integers": "rows", "longs": "values", "variance": "variance"}
_OUTPUT = to_arrow_schema(tables.ESTIMATION_OUTPUT)
_BOUNDED = {"name": "name", "member": "member", "longs": "lower", "longs_upper": "upper"}


@dataclass(frozen=True, slots=True)
class EstimationTask:
    """What an estimate task needs, and all that it is given.

    Attributes:
        size: Cells of the histogram.
        plan: How families of this level are solved and rounded.
        queries: Every query that a measurement or a bound of this level names: measured queries by their name, bounds
            by the bound's name (`class`, `total`, `added:...`).
    """

    size: int
    plan: FamilyPlan
    queries: Mapping[str, Query]

    def __call__(self, family: Family) -> list[pa.RecordBatch]:
        """Estimate one family: its children's rows and one row of diagnostics."""
        start = time.perf_counter()
        problem = self.problem(family)
        result = estimate_family(problem, self.plan)
        spent = time.perf_counter() - start
        return [_estimate_batch(problem, result), self._diagnostics_batch(problem, result, spent)]

    def problem(self, family: Family) -> FamilyProblem:
        """Assemble the pure problem from the rows of a family.

        Args:
            family: Its children's rows; the parent's, measurements and bounds, as far as there are any.

        Raises:
            ValueError: It has no geounits.
        """
        children = family.get(HISTOGRAM)
        if children is None:
            msg = f"family {family.geocode} has no geounits"
            raise ValueError(msg)
        parent = family.get(PARENT)
        groups = self._groups(family, children.geocodes)
        apart = {"flow", GROUP_TOTAL} | ({"total"} if groups is not None else set())
        return FamilyProblem(
            parent_geocode=family.geocode if parent is not None else "",
            parent=None if parent is None else Histogram(self.size, parent.integers, parent.longs),
            children=children.geocodes,
            size=self.size,
            measurements=tuple(self._measurement(family, name) for name in family.names(MEASUREMENT)),
            bounds=tuple(self._bounds(family, name) for name in family.names(BOUND) if name not in apart),
            flows=self._flows(family, children.geocodes),
            groups=groups,
        )

    def _measurement(self, family: Family, name: str) -> FamilyMeasurement:
        part = family.slices[MEASUREMENT, name]
        query = self.queries[name]
        count = len(part.geocodes)
        rows = part.integers[: part.integer_offsets[1]].astype(np.int64) if part.has_integers else np.arange(query.rows)
        return FamilyMeasurement(
            query=query,
            rows=rows,
            values=part.longs.reshape(count, len(rows)),
            variance=np.maximum(part.variance, LEAST_VARIANCE),
        )

    def _bounds(self, family: Family, name: str) -> FamilyBounds:
        part = family.slices[BOUND, name]
        shape = (len(part.geocodes), -1)
        return FamilyBounds(
            name=name, query=self.queries[name], lower=part.longs.reshape(shape), upper=part.longs_upper.reshape(shape)
        )

    def _flows(self, family: Family, children: tuple[str, ...]) -> FamilyFlows | None:
        part = family.get(BOUND, "flow")
        if part is None:
            return None
        lower = part.longs.reshape(len(part.geocodes), -1)
        upper = part.longs_upper.reshape(len(part.geocodes), -1)
        position = {code: index for index, code in enumerate(children)}
        return FamilyFlows(
            query=self.queries["class"],
            child=np.array([position[code] for code in part.geocodes], dtype=np.int64),
            lower=lower[:, :-1],
            upper=upper[:, :-1],
            total=lower[:, -1],
        )

    def _groups(self, family: Family, children: tuple[str, ...]) -> FamilyGroups | None:
        """Groups of children with their totals, where there are groups: a child that shares no total is its own."""
        grouped = family.get(BOUND, GROUP_TOTAL)
        if grouped is None:
            return None
        alone = family.get(BOUND, "total")
        parts = (grouped,) if alone is None else (grouped, alone)
        labels, totals = {code: code for code in children}, dict.fromkeys(children, -1)
        for part in parts:
            labels |= dict(zip(part.geocodes, part.members, strict=True))
            totals |= dict(zip(part.geocodes, part.longs.tolist(), strict=True))
        return FamilyGroups(
            labels=tuple(labels[code] for code in children),
            totals=np.array([totals[code] for code in children], dtype=np.int64),
        )

    def _diagnostics_batch(self, problem: FamilyProblem, result: FamilyResult, seconds: float) -> pa.RecordBatch:
        found = result.diagnostics
        failed = not found.status.is_usable
        row = {
            "geolevel": self.plan.geolevel,
            "family": problem.parent_geocode or problem.children[0],
            "children": len(problem.children),
            "variables": found.variables,
            "status": str(found.status),
            "solver": found.solver,
            "passes": found.passes,
            "primal_residual": found.primal_residual,
            "gap": found.gap,
            "iterations": found.iterations,
            "attempts": found.attempts,
            "rounding": found.rounding,
            "rounding_gap": found.rounding_gap,
            "relaxed": result.relaxed,
            "message": found.message,
            "problem": saved_problem(problem) if failed else None,
        }
        columns = {"record": ["diagnostics"], "geocode": [row["family"]], "parent": [""], "diagnostics": [row]}
        columns["seconds"] = [seconds]
        return families.batch_of(_OUTPUT, columns, 1)


def estimates(
    geounits: DataFrame,
    measurements: DataFrame,
    bounds: DataFrame,
    parents: DataFrame | None,
    task: EstimationTask,
    spread: Spread,
    total_key: TotalKey | None = None,
    writing: Writing | None = None,
) -> DataFrame:
    """Estimate one geolevel from public tables alone.

    Args:
        geounits: `tables.GEOUNITS` of the level.
        measurements: `tables.MEASUREMENTS` of the level.
        bounds: `tables.BOUNDS` of the level.
        parents: `tables.ESTIMATES` of the level above, or None at the top.
        task: How to estimate.
        spread: Files and partitions to spread the families over.
        total_key: First digit (from 1) and number of the digits that geounits share when only their sum has a total;
            at the top, where no parent does, they bring these geounits together in one family.
        writing: Writes estimates, diagnostics and seconds (`WRITTEN`) in the tasks; None gives the rows.

    Returns:
        `tables.ESTIMATION_OUTPUT`, or, where something writes it, the report of what was written; lazy.
    """
    family = "geocode" if parents is None else "parent"
    if parents is None and total_key is not None:
        family, key = "key", F.substring("geocode", *total_key)
        geounits, measurements, bounds = (frame.withColumn(family, key) for frame in (geounits, measurements, bounds))
    rows = families.family_rows(geounits, family=family, kind=HISTOGRAM)
    rows = rows.unionByName(
        families.family_rows(measurements, family=family, kind=MEASUREMENT, sources=_MEASURED)
    ).unionByName(families.family_rows(bounds, family=family, kind=BOUND, sources=_BOUNDED))
    if parents is None:
        costs = geounits.select(F.col(family).alias("family"), F.lit(1).cast("long").alias("cost"))
        costs = costs if family == "geocode" else costs.distinct()
    else:
        costs = family_costs(geounits, parents)
        rows = rows.unionByName(families.family_rows(parents, family="geocode", kind=PARENT, sources=families.CELLS))
    places = families.placed(costs, spread.files)
    if writing is None:
        return families.map_families(rows, places, spread.partitions, task, tables.ESTIMATION_OUTPUT)
    return families.map_families(rows, places, spread.partitions, task, writing.report, writing.of(_sorted_out))


def _sorted_out(file: int, batch: pa.RecordBatch) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """The tables that a batch of `tables.ESTIMATION_OUTPUT` belongs to."""
    if batch.column("record")[0].as_py() == ESTIMATE:
        yield "estimates", file, batch.select(tables.ESTIMATES.names)
        return
    found = pa.RecordBatch.from_struct_array(batch.column("diagnostics"))
    yield "diagnostics", file, found
    seconds = pa.RecordBatch.from_arrays([found.column("family"), batch.column("seconds")], ["family", "seconds"])
    yield "seconds", file, seconds


def saved_problem(problem: FamilyProblem) -> bytes:
    """A family problem as compressed numpy arrays (public content only), for a failed family to be studied.

    Args:
        problem: The family.

    Returns:
        The bytes of an .npz file.
    """
    arrays: dict[str, object] = {"children": np.array(problem.children), "family": np.array(problem.parent_geocode)}
    if problem.parent is not None:
        arrays |= {"parent_cells": problem.parent.cells, "parent_counts": problem.parent.counts}
    for each in problem.measurements:
        arrays |= {
            f"rows {each.query.name}": each.rows,
            f"values {each.query.name}": each.values,
            f"variance {each.query.name}": each.variance,
        }
    for bound in problem.bounds:
        arrays |= {f"lower {bound.name}": bound.lower, f"upper {bound.name}": bound.upper}
    if problem.flows is not None:
        arrays |= {name: getattr(problem.flows, name) for name in ("child", "total")}
        arrays |= {"flow lower": problem.flows.lower, "flow upper": problem.flows.upper}
    if problem.groups is not None:
        arrays |= {"group": np.array(problem.groups.labels), "group total": problem.groups.totals}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _estimate_batch(problem: FamilyProblem, result: FamilyResult) -> pa.RecordBatch:
    count = len(problem.children)
    child, position = np.nonzero(result.counts)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(child, minlength=count))]).astype(np.int64)
    columns: dict[str, object] = {
        "record": [ESTIMATE] * count,
        "geocode": list(problem.children),
        "parent": [problem.parent_geocode] * count,
        "cells": families.list_array(result.cells[position].astype(np.int32), offsets, pa.int32()),
        "counts": families.list_array(result.counts[child, position], offsets, pa.int64()),
    }
    return families.batch_of(_OUTPUT, columns, count)
