"""One pass over the families of a level: what belongs to a family is brought to one task, and the core works on it.

The rows of a family travel in one long form (`das_spark.spark.family_rows`), over which `mapInArrow` streams. Beside
`cogroup(...).applyInArrow` this costs 6 microseconds a geounit more (tests/benchmarks), of some 80 that a district
takes; it brings any number of tables together, where cogroup takes two, and leaves the assignment of the slow families
to us.

Tasks are thin: Arrow rows to a family of `das_spark.core`, one function of it, its result to Arrow rows, which the task
writes itself. `measurements` is the only pass that is given confidential counts, and a key; the others are given public
tables alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.core import (
    ConfidentialFamily,
    DeclaredBounds,
    FamilyEstimate,
    GeounitArrays,
    LevelPlan,
    MeasuredFamily,
    MeasurementPlan,
    NoisyAnswers,
    PublishedFamily,
    UpwardResult,
    measure_families,
    saved_family,
)
from das_spark.core.linear import Moments, Statistics, downward
from das_spark.errors import error_text_withheld
from das_spark.estimation import FamilyPlan, FamilyResult, FamilyStatus
from das_spark.evaluation import FAMILY_FIGURES
from das_spark.histogram import Histogram
from das_spark.privacy import geounit_key
from das_spark.spark.engine import in_tasks
from das_spark.spark.family_rows import (
    FamilySpread,
    FamilyTable,
    Rows,
    StoredRows,
    brought_together,
    joined,
    with_key,
    without,
)
from das_spark.spark.lists import flat_lists, list_array, whole_groups
from das_spark.spark.tables import count_and_first, first_rows
from das_spark.store import tables as declared
from das_spark.store.parquet import REPORT, file_name

#: Kinds of rows, in the order in which a task meets them: the parent's estimate and what was given with it; children
#: (with their confidential histograms, where they are measured); their noisy answers, bounds, and upward results; what
#: another product has published of them.
_PARENT, _PARENT_ARRAYS, _CHILD, _MEASUREMENT, _BOUND, _UPWARD, _PUBLISHED = range(7)
_HISTOGRAM: Final = {"integers": "cells", "longs": "counts"}
_ARRAYS: Final = {"name": "name", "doubles": "values"}
_MEASURED: Final = {"name": "query", "integers": "rows", "longs": "values", "variance": "variance"}
_BOUNDED: Final = {"name": "name", "member": "member", "longs": "lower", "longs_upper": "upper"}

#: Bytes of the rows of a large family.
_LARGE: Final = 1 << 26
#: Rows of the small families that a task works on together.
_TOGETHER: Final = 30_000

#: What a task makes of a family: rows by the name of their table.
TableRows = tuple[str, pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Writing:
    """How tasks write the rows that they make."""

    #: Takes the rows of a task (table, file, rows) and reports the files that it wrote.
    files: Callable[[Iterable[tuple[str, str, pa.RecordBatch]]], Iterator[pa.RecordBatch]]
    report: str = REPORT  # schema of the report
    names: Callable[[int], str] = file_name  # name of a file by its number


@dataclass(frozen=True, slots=True)
class _FamilySlice:
    """Rows of a family that share kind and name, sorted by geocode; lists are flat, cut by their offsets."""

    geocodes: tuple[str, ...]
    members: tuple[str, ...]
    integers: NDArray[np.int32] | None
    integer_offsets: NDArray[np.int64]
    longs: NDArray[np.int64]
    longs_upper: NDArray[np.int64]
    doubles: NDArray[np.float64]
    double_offsets: NDArray[np.int64]
    variance: NDArray[np.float64]

    def arrays(self) -> list[NDArray[np.float64]]:
        return [self.doubles[start:stop] for start, stop in pairwise(self.double_offsets)]


@dataclass(frozen=True, slots=True)
class _Family:
    """One family as a task receives it: its name, that of the parent (empty at the top), its slices by (kind, name)."""

    name: str
    parent_geocode: str
    slices: Mapping[tuple[int, str], _FamilySlice]

    def get(self, kind: int) -> _FamilySlice | None:
        return self.slices.get((kind, ""))

    def every(self, kind: int) -> dict[str, _FamilySlice]:
        return {name: part for (each, name), part in sorted(self.slices.items()) if each == kind}

    def children(self) -> tuple[str, ...]:
        return self.slices[_CHILD, ""].geocodes

    def parent(self, size: int) -> Histogram | None:
        found = self.get(_PARENT)
        return None if found is None or found.integers is None else Histogram(size, found.integers, found.longs)

    def published(self) -> PublishedFamily | None:
        found = self.get(_PUBLISHED)
        if found is None or found.integers is None:
            return None
        return PublishedFamily(found.geocodes, found.integers, found.longs, found.integer_offsets)


#: What a task makes of some families, which lie side by side in its file.
FamilyTask = Callable[[Sequence[_Family]], Iterable[TableRows]]


def level_pass(
    tables: Sequence[FamilyTable],
    parents: Rows | None,
    task: FamilyTask,
    spread: FamilySpread,
    writing: Writing,
    *,
    family: str = "parent",
) -> DataFrame:
    """Bring together what belongs to each family, and let a task work on one after the other."""
    above = None if parents is None else FamilyTable(parents, _PARENT, _HISTOGRAM, of_parent=True)

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, str, pa.RecordBatch]]:
        for table in _whole_families(batches):
            file, several = writing.names(table.column("file")[0].as_py()), _named(table)
            families, large = [_decoded(table, top=family != "parent")], table.nbytes > _LARGE
            del table  # a large family is not kept twice, and what held its batches goes back to the system
            if large:
                pa.default_memory_pool().release_unused()
            # Of an error of a library its text does not get out, since it may quote counts; of its place the family.
            with error_text_withheld(several):
                made_of_them = list(task(families.pop()))
            yield from ((kind, file, batch) for kind, batch in made_of_them)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from writing.files(made(batches))

    return brought_together(tables, above, spread, work, writing.report, family=family)


def _whole_families(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Cut a stream of rows, sorted by file and rank, into tables of whole families of one file."""
    for table in whole_groups(batches, ("file", "rank"), _TOGETHER, _LARGE):
        (edges,) = np.nonzero(np.diff(table.column("file").to_numpy()))
        if not len(edges):
            yield table
            continue
        for begin, end in pairwise([0, *(edges + 1).tolist(), table.num_rows]):
            yield table.slice(begin, end - begin)


def _named(table: pa.Table) -> str:
    """Where an error was, by the names of families, which are public."""
    one, two = (table.column("family")[place].as_py() for place in (0, table.num_rows - 1))
    return f"at the family of {one}" if one == two else f"at the families from {one} to {two}"


def _decoded(table: pa.Table, *, top: bool) -> list[_Family]:
    """The rows of some families, each sorted by kind and name, as numpy arrays."""
    table = table.combine_chunks()
    ranks, kinds = (table.column(name).to_numpy() for name in ("rank", "kind"))
    names = table.column("name").combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy()
    geocodes, members = (table.column(name).to_pylist() for name in ("geocode", "member"))
    integers, integer_offsets = flat_lists(table.column("integers"), np.int32)
    longs, long_offsets = flat_lists(table.column("longs"), np.int64)
    uppers, upper_offsets = flat_lists(table.column("longs_upper"), np.int64)
    doubles, double_offsets = flat_lists(table.column("doubles"), np.float64)
    missing = np.concatenate([[0], np.cumsum(pc.is_null(table.column("integers")).to_numpy())])
    variance = table.column("variance").to_numpy()
    known = names.dictionary.to_pylist()
    changes = np.flatnonzero((np.diff(ranks) != 0) | (np.diff(kinds) != 0) | (np.diff(codes) != 0)) + 1
    families, slices, current = list[_Family](), dict[tuple[int, str], _FamilySlice](), -1
    for start, stop in pairwise([0, *changes.tolist(), len(kinds)]):
        if ranks[start] != current:
            name = table.column("family")[start].as_py()
            slices, current = {}, ranks[start]
            families.append(_Family(name, "" if top else name, slices))
        integer_part, double_part = integer_offsets[start : stop + 1], double_offsets[start : stop + 1]
        slices[int(kinds[start]), known[codes[start]]] = _FamilySlice(
            geocodes=tuple(geocodes[start:stop]),
            members=tuple(members[start:stop]),
            integers=None if missing[stop] > missing[start] else integers[integer_part[0] : integer_part[-1]],
            integer_offsets=integer_part - integer_part[0],
            longs=longs[long_offsets[start] : long_offsets[stop]],
            longs_upper=uppers[upper_offsets[start] : upper_offsets[stop]],
            doubles=doubles[double_part[0] : double_part[-1]],
            double_offsets=double_part - double_part[0],
            variance=variance[start:stop],
        )
    return families


def _rows(table: declared.TableDeclaration, columns: Mapping[str, object]) -> TableRows:
    """Rows of a table: Arrow arrays or lists by the name of the column."""
    arrays = [
        value.cast(each.type) if isinstance(value := columns[each.name], pa.Array) else pa.array(value, each.type)
        for each in table.schema
    ]
    return table.name, pa.RecordBatch.from_arrays(arrays, schema=table.schema)


@dataclass(frozen=True, slots=True)
class MeasurementTask:
    """What a measure task is given, and all of it."""

    plan: MeasurementPlan

    def __call__(self, families: Sequence[_Family]) -> list[TableRows]:
        """Measure families."""
        children, supports = zip(*map(_counts, families), strict=True)
        found = measure_families(children, supports, self.plan)
        names = [each.parent_geocode for each in families]
        answers = [(name, answer) for name, several in zip(names, found, strict=True) for answer in several]
        return [_measurement_rows(answers)] if answers else []


def _counts(family: _Family) -> tuple[ConfidentialFamily, NDArray[np.int32] | None]:
    """The confidential children of a family, and the cells that their parent's estimate occupies, if there is one."""
    rows, parent = family.slices[_CHILD, ""], family.get(_PARENT)
    assert rows.integers is not None  # noqa: S101 - cells of a histogram are never null
    children = ConfidentialFamily(rows.geocodes, rows.integers, rows.longs, rows.integer_offsets, rows.members)
    return children, None if parent is None else parent.integers


def _measurement_rows(found: Sequence[tuple[str, NoisyAnswers]]) -> TableRows:
    """Noisy answers with the names of their parents."""
    names = [(parent, each.query, code) for parent, each in found for code in each.geocodes]
    width = np.concatenate([np.full(len(each.geocodes), each.values.shape[1]) for _, each in found])
    kept = [np.tile(each.rows, len(each.geocodes)) for _, each in found if each.rows is not None]
    rows = list_array(np.concatenate(kept).astype(np.int32), _ends(width), pa.int32()) if kept else [None] * len(width)
    columns = {
        "geocode": [code for _, _, code in names],
        "parent": [parent for parent, _, _ in names],
        "query": [query for _, query, _ in names],
        "rows": rows,
        "values": list_array(np.concatenate([each.values.ravel() for _, each in found]), _ends(width), pa.int64()),
        "variance": np.concatenate([each.variance for _, each in found]),
    }
    return _rows(declared.MEASUREMENTS, columns)


def _ends(width: NDArray[np.int64]) -> NDArray[np.int64]:
    """Offsets of lists of known lengths."""
    return np.concatenate([[0], np.cumsum(width)])


@dataclass(frozen=True, slots=True)
class UpwardTask:
    """What a task of the upward pass is given."""

    plan: LevelPlan
    carry: Callable[[MeasuredFamily, FamilyPlan], UpwardResult]  # what the pass makes of a family

    def __call__(self, families: Sequence[_Family]) -> Iterator[TableRows]:
        """Carry families upwards: rows of their children, and of their parents where they have one."""
        for family in families:
            measured = _measured(family, self.plan)
            result = self.carry(measured, self.plan.family)
            name = family.parent_geocode
            yield _array_rows(declared.UPWARD, measured.problem.children, name, result.children)
            if name:
                yield _array_rows(declared.UPWARD_SUMS, [name], "", [result.parent])


@dataclass(frozen=True, slots=True)
class DownwardTask:
    """What a task of the linear pass downwards is given: of public tables alone, too."""

    plan: LevelPlan
    statistics: Statistics
    lowest: bool = False  # whether no level below asks what is known of the children

    def __call__(self, families: Sequence[_Family]) -> Iterator[TableRows]:
        """Carry families downwards: what is known of their children, and the statistics of them and of unions."""
        for family in families:
            measured = _measured(family, self.plan)
            result = downward(measured, self.plan.family, self.statistics)
            if not self.lowest:
                yield _array_rows(declared.LINEAR, measured.problem.children, family.parent_geocode, result.children)
            yield _moment_rows(declared.MOMENTS, result.geounits)
            yield _moment_rows(declared.UNION_MOMENTS, result.unions)


def _moment_rows(table: declared.TableDeclaration, moments: Moments) -> TableRows:
    count, width = moments.estimates.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    columns = {
        "geocode": list(moments.names),
        "estimates": list_array(moments.estimates.ravel(), offsets, pa.float64()),
        "variances": list_array(moments.variances.ravel(), offsets, pa.float64()),
    }
    return _rows(table, columns)


@dataclass(frozen=True, slots=True)
class EstimationTask:
    """What an estimate task is given, and all of it: never a confidential count, nor a key."""

    plan: LevelPlan

    def __call__(self, families: Sequence[_Family]) -> Iterator[TableRows]:
        """Estimate families: rows of their children, one a family of diagnostics, and how long each took."""
        start = time.perf_counter()
        measured = [_measured(family, self.plan) for family in families]
        del families  # but for the answers, which the problems have as they are
        estimates = self.plan.estimator.estimate(measured, self.plan.family)
        # Where several are estimated at once, each by its share of what is sought.
        sought = np.array([1 + each.result.diagnostics.variables for each in estimates], dtype=np.float64)
        seconds = (time.perf_counter() - start) * sought / sought.sum()
        yield _estimate_rows(measured, estimates)
        for each, estimate in zip(measured, estimates, strict=True):
            problem = each.problem
            if estimate.arrays:
                yield _array_rows(declared.ESTIMATE_ARRAYS, problem.children, problem.parent_geocode, estimate.arrays)
        yield _diagnostics_rows(self.plan.family.geolevel, measured, estimates)
        yield _rows(declared.SECONDS, {"family": list(map(_name, measured)), "seconds": seconds})


def _name(measured: MeasuredFamily) -> str:
    """Name of a family in diagnostics."""
    return measured.problem.parent_geocode or measured.problem.children[0]


def _measured(family: _Family, plan: LevelPlan) -> MeasuredFamily:
    """What is public of a family."""
    children = family.children()
    bounds = {
        name: DeclaredBounds(
            part.geocodes,
            part.members,
            part.longs.reshape(len(part.geocodes), -1),
            part.longs_upper.reshape(len(part.geocodes), -1),
        )
        for name, part in family.every(_BOUND).items()
    }
    answers = []
    for name, part in family.every(_MEASUREMENT).items():
        rows = None if part.integers is None else part.integers[: part.integer_offsets[1]].astype(np.int64)
        values = part.longs.reshape(len(part.geocodes), -1)
        answers.append(NoisyAnswers(part.geocodes, name, rows, values, part.variance))
    found: dict[str, dict[str, NDArray[np.float64]]] = {code: {} for code in children}
    for name, part in family.every(_UPWARD).items():
        for code, array in zip(part.geocodes, part.arrays(), strict=True):
            found[code][name] = array
    given = {name: part.arrays()[0] for name, part in family.every(_PARENT_ARRAYS).items()}
    published = family.published()
    declared_problem = plan.declared(family.parent_geocode, children, bounds, published)
    problem = plan.measured(declared_problem, family.parent(plan.size), answers)
    return MeasuredFamily(problem, tuple(found.values()) if any(found.values()) else (), given or None)


def _estimate_rows(measured: Sequence[MeasuredFamily], estimates: Sequence[FamilyEstimate]) -> TableRows:
    """Estimates of all children, their occupied cells alone."""
    widths, cells, counts = [], [], []
    for each in estimates:
        child, position = np.nonzero(each.result.counts)
        widths.append(np.bincount(child, minlength=len(each.result.counts)))
        cells.append(each.result.cells[position])
        counts.append(each.result.counts[child, position])
    offsets = _ends(np.concatenate(widths).astype(np.int64))
    columns = {
        "geocode": [code for each in measured for code in each.problem.children],
        "parent": [each.problem.parent_geocode for each in measured for _ in each.problem.children],
        "cells": list_array(np.concatenate(cells).astype(np.int32), offsets, pa.int32()),
        "counts": list_array(np.concatenate(counts), offsets, pa.int64()),
    }
    return _rows(declared.ESTIMATES, columns)


def _array_rows(
    table: declared.TableDeclaration, geocodes: Sequence[str], parent: str, arrays: Sequence[GeounitArrays]
) -> TableRows:
    rows = [
        (code, name, np.asarray(values, dtype=np.float64))
        for code, given in zip(geocodes, arrays, strict=True)
        for name, values in sorted(given.items())
    ]
    columns = {
        "geocode": [code for code, _, _ in rows],
        "parent": [parent] * len(rows),
        "name": [name for _, name, _ in rows],
        "values": [values for _, _, values in rows],
    }
    return _rows(table, columns)


def _diagnostics_rows(
    geolevel: str, measured: Sequence[MeasuredFamily], estimates: Sequence[FamilyEstimate]
) -> TableRows:
    rows = [
        _diagnosed(estimate.result) | {"family": _name(each), "children": len(each.problem.children)}
        for each, estimate in zip(measured, estimates, strict=True)
    ]
    saved = [
        None if estimate.result.diagnostics.status.is_usable else saved_family(each)
        for each, estimate in zip(measured, estimates, strict=True)
    ]
    columns = {column: [row[column] for row in rows] for column in rows[0]}
    return _rows(declared.DIAGNOSTICS, {**columns, "geolevel": [geolevel] * len(rows), "problem": saved})


def _diagnosed(result: FamilyResult) -> dict[str, object]:
    found = result.diagnostics
    return {
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
    }


def measurements(
    histograms: Rows,
    parents: Rows | None,
    task: FamilyTask,
    spread: FamilySpread,
    writing: Writing,
    *,
    top: bool = False,
    shares: Rows | None = None,
) -> DataFrame:
    """Measure one level."""
    if shares is not None:
        histograms = joined(histograms, shares, "share")
    columns = _HISTOGRAM if shares is None else {**_HISTOGRAM, "member": "share"}
    families = [FamilyTable(histograms, _CHILD, columns)]
    return level_pass(families, parents, task, spread, writing, family="geocode" if top else "parent")


@dataclass(frozen=True, slots=True)
class PublicLevel:
    """What is public of a level before its families are carried upwards or estimated."""

    geounits: Rows  # `tables.GEOUNITS`
    measurements: Rows  # `tables.MEASUREMENTS`
    bounds: Rows  # `tables.BOUNDS`
    #: `tables.UPWARD`, or, while the upward pass goes on, `tables.UPWARD_SUMS`; None where there is no upward pass.
    upward: Rows | None = None
    #: First digit (from 1) and number of the digits that geounits share when only their sum has a total; at the top,
    #: where no parent does, they bring these geounits together in one family.
    total_key: tuple[int, int] | None = None
    published: Rows | None = None  # `tables.PUBLISHED`; None where estimates are held to no published counts

    def families(self, *, top: bool) -> tuple[list[FamilyTable], str]:
        """The tables, and the column that names the family in each of them."""
        found = [
            FamilyTable(self.geounits, _CHILD),
            FamilyTable(self.measurements, _MEASUREMENT, _MEASURED),
            FamilyTable(self.bounds, _BOUND, _BOUNDED),
        ]
        if self.upward is not None:
            found.append(FamilyTable(self.upward, _UPWARD, _ARRAYS))
        if self.published is not None:
            found.append(FamilyTable(self.published, _PUBLISHED, _HISTOGRAM))
        if not top:
            return found, "parent"
        if self.total_key is None:
            return found, "geocode"
        return [replace(each, rows=with_key(each.rows, *self.total_key)) for each in found], "key"


def upward(
    level: PublicLevel, task: FamilyTask, spread: FamilySpread, writing: Writing, *, top: bool = False
) -> DataFrame:
    """Carry the families of one level upwards."""
    if level.upward is not None:  # sums name no parent: those of the geounits do
        level = replace(level, upward=joined(without(level.upward, "parent"), level.geounits, "parent"))
    families, family = level.families(top=top)
    return level_pass(families, None, task, spread, writing, family=family)


def carried_down(
    level: PublicLevel, above: Rows | None, task: FamilyTask, spread: FamilySpread, writing: Writing
) -> DataFrame:
    """Carry the families of one level downwards; `above` is what is known of the level above, none at the top."""
    families, family = level.families(top=above is None)
    if above is not None:
        families.append(FamilyTable(above, _PARENT_ARRAYS, _ARRAYS, of_parent=True))
    return level_pass(families, None, task, spread, writing, family=family)


def estimates(
    level: PublicLevel,
    parents: Rows | None,
    task: FamilyTask,
    spread: FamilySpread,
    writing: Writing,
    *,
    arrays: Rows | None = None,
) -> DataFrame:
    """Estimate one level from public tables alone."""
    families, family = level.families(top=parents is None)
    if arrays is not None:
        families.append(FamilyTable(arrays, _PARENT_ARRAYS, _ARRAYS, of_parent=True))
    return level_pass(families, parents, task, spread, writing, family=family)


def failed_families(diagnostics: Rows, number: int) -> tuple[int, list[Mapping[str, Any]]]:
    """How many families have no usable estimate, and some rows of them."""
    usable = [str(status) for status in FamilyStatus if status.is_usable]
    if isinstance(diagnostics, StoredRows):
        rows = diagnostics.read()
        failed = rows.filter(pc.invert(pc.is_in(rows.column("status"), value_set=pa.array(usable))))
        return failed.num_rows, failed.sort_by("family").slice(0, number).to_pylist()
    found, some = count_and_first(diagnostics.where(~F.col("status").isin(*usable)), number, "family")
    return found, [row.asDict() for row in some]


def slowest_families(diagnostics: Rows, seconds: Rows, number: int) -> list[dict[str, object]]:
    """Figures of the families that took longest, and their seconds."""
    timed, columns = joined(diagnostics, seconds, "seconds", key="family"), [*FAMILY_FIGURES, "seconds"]
    if isinstance(timed, StoredRows):
        longest = timed.read().select(columns).sort_by([("seconds", "descending"), ("family", "ascending")])
        rows = longest.slice(0, number).to_pylist()
    else:
        some = timed.orderBy(F.col("seconds").desc(), "family").limit(number).select(*columns)
        rows = [row.asDict() for row in some.collect()]
    return [row | {"seconds": round(row["seconds"], 6)} for row in rows]


def shared_addresses(geounits: Rows, number: int) -> list[tuple[str, int]]:
    """Some geounits of a level that would draw each other's noise: the first geocode of each address, and how many.

    A task sees one family at a time, so that only this looks at a whole level.
    """
    if isinstance(geounits, StoredRows):
        sharing: dict[bytes, list[str]] = {}
        # Of confidential histograms their geocodes alone: this is the driver.
        for code in geounits.read("geocode").column("geocode").to_pylist():
            sharing.setdefault(geounit_key(code), []).append(code)
        return sorted((min(codes), len(codes)) for codes in sharing.values() if len(codes) > 1)[:number]

    def encoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            codes = batch.column("geocode")
            keys = [geounit_key(geocode) for geocode in codes.to_pylist()]
            yield pa.RecordBatch.from_pydict({"geocode": codes, "address": pa.array(keys, pa.binary())})

    keyed = in_tasks(geounits.select("geocode"), encoded, "geocode string, address binary")
    counted = keyed.groupBy("address").agg(F.min("geocode").alias("geocode"), F.count(F.lit(1)).alias("geounits"))
    some = first_rows(counted.where("geounits > 1"), number, "geocode")
    return [(row["geocode"], row["geounits"]) for row in some]
