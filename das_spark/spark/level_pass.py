"""One pass over the families of a level: what belongs to a family is brought to one task, and the core works on it.

The rows of a family travel in one long form (`das_spark.spark.family_rows`), over which `mapInArrow` streams. Beside
`cogroup(...).applyInArrow` this costs 2 microseconds a geounit more (tests/benchmarks), of some 80 that a district
takes; it brings any number of tables together, where cogroup takes two, and lets us say which families stand in which
file.

Tasks are thin: Arrow rows to a family of `das_spark.core`, one function of it, its result to Arrow rows, which the task
writes itself. `measurements` is the only pass that is given confidential counts, and a key; the others are given public
tables alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext

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
from das_spark.errors import OutputError, error_text_withheld
from das_spark.estimation import FamilyPlan, FamilyResult
from das_spark.histogram import Histogram
from das_spark.spark.family_rows import (
    RESTORE,
    FamilySpread,
    FamilyTable,
    StoredLevel,
    brought_together,
    families_by_partition,
)
from das_spark.spark.lists import flat_lists, list_array, list_rows, whole_groups
from das_spark.store import tables as declared
from das_spark.store.parquet import REPORT, file_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Kinds of rows, in the order in which a task meets them: the parent's estimate and what was given with it; children
#: (with their confidential histograms, where they are measured); their noisy answers, bounds, and upward results; what
#: another product has published of them; their shares of the budget.
_PARENT, _PARENT_ARRAYS, _CHILD, _MEASUREMENT, _BOUND, _UPWARD, _PUBLISHED, _SHARE = range(8)
#: As errors name them.
_NAMED: Final = ("estimates", "arrays", "geounits", "measurements", "bounds", "upward", "published", "shares")
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
    spark: SparkSession, tables: Sequence[FamilyTable], task: FamilyTask, spread: FamilySpread, writing: Writing
) -> DataFrame:
    """Bring together what belongs to each family, and let a task work on one after the other."""
    whole, top = _Whole.of(tables, spread), spread.families.span.at_top
    expected = families_by_partition(spread)

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, str, pa.RecordBatch]]:
        context, count = TaskContext.get(), 0
        assert context is not None  # noqa: S101 - this is a task
        for table in _whole_families(batches):
            file, several = writing.names(table.column("file")[0].as_py()), _named(table)
            decoded, large = [_decoded(table, top=top)], table.nbytes > _LARGE
            ranks = table.column("rank").unique().to_pylist()
            count += len(ranks)
            del table  # a large family is not kept twice, and what held its batches goes back to the system
            if large:
                pa.default_memory_pool().release_unused()
            # Of an error of a library its text does not get out, since it may quote counts; of its place the family.
            with error_text_withheld(several):
                whole.require(decoded[0], ranks)
                made_of_them = list(task(decoded.pop()))
            yield from ((kind, file, batch) for kind, batch in made_of_them)
        if lost := expected[context.partitionId()] - count:
            raise OutputError(f"of {lost:,} families of the level there is no row", hint=RESTORE)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from writing.files(made(batches))

    return brought_together(spark, tables, spread, work, writing.report)


@dataclass(frozen=True, slots=True)
class _Whole:
    """What every family must have: rows of it may have been lost with a file."""

    children: NDArray[np.int64]  # how many children each family has, by rank
    of_parent: tuple[int, ...]  # kinds of rows about the parent
    of_children: tuple[tuple[int, frozenset[str]], ...]  # kinds of rows about every child, but for some

    @classmethod
    def of(cls, tables: Sequence[FamilyTable], spread: FamilySpread) -> _Whole:
        whole = [table for table in tables if table.whole]
        return cls(
            spread.families.children,
            tuple(table.kind for table in whole if table.of_parent),
            tuple((table.kind, table.exempt) for table in whole if not table.of_parent),
        )

    def require(self, families: Sequence[_Family], ranks: Sequence[int]) -> None:
        """Refuse families of which something was lost, or is there twice."""
        for family, rank in zip(families, ranks, strict=True):
            child = family.get(_CHILD)
            codes = () if child is None else child.geocodes
            if len(codes) != self.children[rank] or len(set(codes)) != len(codes):
                told = f"{len(codes):,} children, expected {self.children[rank]:,} that differ"
                raise OutputError(f"family {family.name}: {told}", hint=RESTORE)
            wanted = [(kind, {family.name}) for kind in self.of_parent]
            wanted += [(kind, set(codes) - exempt) for kind, exempt in self.of_children]
            for kind, geounits in wanted:
                known = {code for part in family.every(kind).values() for code in part.geocodes}
                if lost := min(geounits - known, default=None):
                    raise OutputError(f"geounit {lost}: no row of {_NAMED[kind]}", hint=RESTORE)


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
        names = [family.parent_geocode for family in families]
        answers = [(name, answer) for name, several in zip(names, found, strict=True) for answer in several]
        return [_measurement_rows(answers)] if answers else []


def _counts(family: _Family) -> tuple[ConfidentialFamily, NDArray[np.int32] | None]:
    """The confidential children of a family, and the cells that their parent's estimate occupies, if there is one."""
    rows, parent, shares = family.slices[_CHILD, ""], family.get(_PARENT), family.get(_SHARE)
    assert rows.integers is not None  # noqa: S101 - cells of a histogram are never null
    own = rows.members if shares is None else shares.members
    if shares is not None and shares.geocodes != rows.geocodes:
        raise OutputError(f"family {family.name}: shares of other geounits than there are", hint=RESTORE)
    children = ConfidentialFamily(rows.geocodes, rows.integers, rows.longs, rows.integer_offsets, own)
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
    columns = {
        "geocode": list(moments.names),
        "estimates": list_rows(moments.estimates),
        "variances": list_rows(moments.variances),
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
        sought = np.array([1 + estimate.result.diagnostics.variables for estimate in estimates], dtype=np.float64)
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
    for estimate in estimates:
        child, position = np.nonzero(estimate.result.counts)
        widths.append(np.bincount(child, minlength=len(estimate.result.counts)))
        cells.append(estimate.result.cells[position])
        counts.append(estimate.result.counts[child, position])
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
    spark: SparkSession,
    histograms: StoredLevel,
    parents: StoredLevel | None,
    task: FamilyTask,
    spread: FamilySpread,
    writing: Writing,
    *,
    shares: StoredLevel | None = None,
) -> DataFrame:
    """Measure one level."""
    tables = [FamilyTable(histograms, _CHILD, _HISTOGRAM), *_estimates_above(parents)]
    if shares is not None:
        tables.append(FamilyTable(shares, _SHARE, {"member": "share"}, whole=True))
    return level_pass(spark, tables, task, spread, writing)


def _estimates_above(parents: StoredLevel | None) -> list[FamilyTable]:
    return [] if parents is None else [FamilyTable(parents, _PARENT, _HISTOGRAM, of_parent=True, whole=True)]


def _arrays_above(arrays: StoredLevel | None) -> list[FamilyTable]:
    return [] if arrays is None else [FamilyTable(arrays, _PARENT_ARRAYS, _ARRAYS, of_parent=True, whole=True)]


@dataclass(frozen=True, slots=True)
class PublicLevel:
    """What is public of a level before its families are carried upwards or estimated."""

    geounits: StoredLevel  # `tables.GEOUNITS`
    measurements: StoredLevel  # `tables.MEASUREMENTS`
    bounds: StoredLevel  # `tables.BOUNDS`
    #: `tables.UPWARD`, or, while the upward pass goes on, `tables.UPWARD_SUMS`; None where there is no upward pass.
    upward: StoredLevel | None = None
    published: StoredLevel | None = None  # `tables.PUBLISHED`; None where estimates are held to no published counts
    #: Geounits of which `upward` may know nothing; None where that may be any, such as those that lie in no union.
    unknown: frozenset[str] | None = frozenset()

    def tables(self) -> list[FamilyTable]:
        """The tables as they belong to families."""
        found = [
            FamilyTable(self.geounits, _CHILD),
            FamilyTable(self.measurements, _MEASUREMENT, _MEASURED),
            FamilyTable(self.bounds, _BOUND, _BOUNDED),
        ]
        if self.upward is not None:
            whole, exempt = self.unknown is not None, self.unknown or frozenset()
            found.append(FamilyTable(self.upward, _UPWARD, _ARRAYS, whole=whole, exempt=exempt))
        if self.published is not None:
            found.append(FamilyTable(self.published, _PUBLISHED, _HISTOGRAM))
        return found


def upward(
    spark: SparkSession, level: PublicLevel, task: FamilyTask, spread: FamilySpread, writing: Writing
) -> DataFrame:
    """Carry the families of one level upwards."""
    return level_pass(spark, level.tables(), task, spread, writing)


def carried_down(
    spark: SparkSession,
    level: PublicLevel,
    above: StoredLevel | None,
    task: FamilyTask,
    spread: FamilySpread,
    writing: Writing,
) -> DataFrame:
    """Carry the families of one level downwards; `above` is what is known of the level above, none at the top."""
    return level_pass(spark, [*level.tables(), *_arrays_above(above)], task, spread, writing)


def estimates(
    spark: SparkSession,
    level: PublicLevel,
    parents: StoredLevel | None,
    task: FamilyTask,
    spread: FamilySpread,
    writing: Writing,
    *,
    arrays: StoredLevel | None = None,
) -> DataFrame:
    """Estimate one level from public tables alone."""
    tables = [*level.tables(), *_estimates_above(parents), *_arrays_above(arrays)]
    return level_pass(spark, tables, task, spread, writing)
