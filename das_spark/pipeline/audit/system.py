"""The system in one process, without a JVM: the very tasks that Spark maps over families, called one after another.

What a family's task is given, and what it gives back, are the Arrow rows of `tables.FAMILY_ROWS` and of the tables of a
run, as on a cluster; only who brings the rows of a family together is another one. A test compares bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.errors import ConfigurationError, EstimationError
from das_spark.estimation import FamilyStatus
from das_spark.pipeline.audit.population import BoundRow, SmallPopulation, declared_bounds, families_of
from das_spark.pipeline.estimate import planned_estimation
from das_spark.pipeline.measure import planned_measurement, planned_streams
from das_spark.spark import tables
from das_spark.spark.families import BOUND, HISTOGRAM, MEASUREMENT, PARENT, Family, as_family, batch_of, flat_lists

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.privacy import RunKey
    from das_spark.spark.measure import MeasurementTask

_ROWS = to_arrow_schema(tables.FAMILY_ROWS)
_ATTEMPT = 1
#: Measurements of a level and query, one batch a family that was measured.
Batches = Mapping[tuple[str, str], Sequence[pa.RecordBatch]]
#: Cells, ascending, and counts of one geounit.
Cells = tuple[NDArray[np.int32], NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """What a run makes public, but for what follows from it: microdata are the leaf estimates, record by record.

    Attributes:
        measurements: Level and query -> rows of `tables.MEASUREMENTS`, one batch a family.
        estimates: Level -> geocode -> estimated records by cell; levels below a failure are missing.
        failed: Families that could not be estimated, as `<level>/<family>`; a run ends at the first level with one.
    """

    measurements: Batches
    estimates: Mapping[str, Mapping[str, Cells]]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Ingested:
    """What ingestion makes of a population.

    Attributes:
        families: Level by level: family -> its children.
        histograms: Level by level: family -> rows of its children's confidential histograms.
        bounds: Level by level: family -> rows of bounds of its children, sorted.
    """

    families: tuple[Mapping[str, tuple[str, ...]], ...]
    histograms: tuple[Mapping[str, pa.RecordBatch], ...]
    bounds: tuple[Mapping[str, tuple[pa.RecordBatch, ...]], ...]


class LocalSystem:
    """A configured system that runs on small populations.

    Subclasses may break it: audits must find out.

    Args:
        plan: The run; its input and output are not read.

    Raises:
        ConfigurationError: The spine is made of areas, which a small population does not have.
    """

    def __init__(self, plan: RunPlan) -> None:  # noqa: D107 - Args stand with the class.
        if not plan.spine.is_census:
            raise ConfigurationError(
                f"geography.spine: an audit invents geounits of the census, none of areas as for '{plan.spine.kind}'",
                hint="audit the same budget with --set geography.spine=census",
            )
        self.plan = plan
        self._estimation = {name: planned_estimation(plan, name) for name in plan.spine.names}
        self._measurement: dict[str, MeasurementTask] = {}

    def ingest(self, population: SmallPopulation) -> Ingested:
        """Histograms, invariants and bounds of a population.

        Args:
            population: Records and units by leaf geounit of the spine of the plan.

        Returns:
            Rows as a task is given them, family by family, level by level from the top.
        """
        spine = self.plan.spine
        families, histograms, bounds = [], [], []
        declared = declared_bounds(self.plan, population)
        for depth in range(len(spine.levels)):
            counts = population.summed(population.counts, spine, depth)
            truth = dict(zip(population.codes(spine, depth), counts, strict=True))
            found = families_of(population, spine, depth)
            families.append(found)
            histograms.append({family: _histogram_rows(family, truth, own) for family, own in found.items()})
            bounds.append({family: _bound_rows(family, declared[depth], own) for family, own in found.items()})
        return Ingested(tuple(families), tuple(histograms), tuple(bounds))

    def measurement_task(self, geolevel: str, key: RunKey) -> MeasurementTask:
        """What the tasks of a level are given under a key.

        Args:
            geolevel: The level.
            key: Of this run alone.
        """
        if geolevel not in self._measurement:
            share = {"": self.plan.budget.level(geolevel).share}
            self._measurement[geolevel] = planned_measurement(self.plan, geolevel, share, key, _ATTEMPT)
        return replace(self._measurement[geolevel], streams=planned_streams(self.plan, geolevel, key, _ATTEMPT))

    def measure(self, task: MeasurementTask, geolevel: str, family: Family) -> list[pa.RecordBatch]:
        """Measure a family: rows of `tables.MEASUREMENTS`, a batch a query.

        Args:
            task: Of the level and run.
            geolevel: The level.
            family: Its parent's estimate and its children's confidential histograms.
        """
        return task(family)

    def estimate(self, geolevel: str, family: Family) -> list[pa.RecordBatch]:
        """Estimate a family: rows of `tables.ESTIMATION_OUTPUT`, estimates in the first batch, diagnostics last.

        Args:
            geolevel: The level.
            family: What is public of it.
        """
        return self._estimation[geolevel](family)

    def run(self, ingested: Ingested, key: RunKey) -> Release:
        """Measure and estimate every level, root first.

        Args:
            ingested: Result of `ingest`.
            key: Of this run alone.
        """
        measurements: dict[tuple[str, str], list[pa.RecordBatch]] = {}
        estimates: dict[str, Mapping[str, Cells]] = {}
        above: dict[str, pa.RecordBatch] = {}
        for depth, geolevel in enumerate(self.plan.spine.names):
            task = self.measurement_task(geolevel, key)
            outputs, failed = [], []
            for family, children in ingested.families[depth].items():
                parent = [above[family]] if depth else []
                given = as_family(pa.Table.from_batches([*parent, ingested.histograms[depth][family]]))
                measured = self.measure(task, geolevel, given)
                for batch in measured:
                    measurements.setdefault((geolevel, batch.column("query")[0].as_py()), []).append(batch)
                public = [*parent, _geounit_rows(family, children), *map(_measurement_rows(family), measured)]
                public += ingested.bounds[depth][family]
                output = self._estimated(geolevel, as_family(pa.Table.from_batches(public)))
                outputs += [] if output is None else [output]
                failed += [f"{geolevel}/{family}"] if output is None else []
            if failed:
                return Release(measurements, estimates, tuple(failed))
            above = {code: row for output in outputs for code, row in _parent_rows(output)}
            estimates[geolevel] = {code: cells for output in outputs for code, cells in _cells(output)}
        return Release(measurements, estimates, ())

    def _estimated(self, geolevel: str, family: Family) -> pa.RecordBatch | None:
        """Estimates of a family, or None where it could not be estimated: a run would end here."""
        try:
            estimated, found = self.estimate(geolevel, family)
        except EstimationError:
            return None
        status = FamilyStatus(found.column("diagnostics")[0].as_py()["status"])
        return estimated if status.is_usable else None


def family_batch(family: str, kind: int, geocodes: Sequence[str], **columns: object) -> pa.RecordBatch:
    """Rows of `tables.FAMILY_ROWS`.

    Args:
        family: Their family.
        kind: PARENT, HISTOGRAM, MEASUREMENT or BOUND.
        geocodes: Of the rows, sorted.
        columns: Other columns by name, as Arrow arrays or lists; what is missing is null, and empty text for names.
    """
    count = len(geocodes)
    usual: dict[str, object] = {
        "file": [0] * count,
        "rank": [0] * count,
        "family": [family] * count,
        "kind": [kind] * count,
        "name": [""] * count,
        "geocode": list(geocodes),
        "member": [""] * count,
    }
    return batch_of(_ROWS, usual | columns, count)


def _geounit_rows(family: str, children: Sequence[str]) -> pa.RecordBatch:
    return family_batch(family, HISTOGRAM, children)


def _histogram_rows(family: str, truth: Mapping[str, NDArray[np.int64]], children: Sequence[str]) -> pa.RecordBatch:
    cells = [np.flatnonzero(truth[code]) for code in children]
    counts = [truth[code][own].tolist() for code, own in zip(children, cells, strict=True)]
    return family_batch(family, HISTOGRAM, children, integers=[own.tolist() for own in cells], longs=counts)


def _bound_rows(family: str, rows: Sequence[BoundRow], children: Sequence[str]) -> tuple[pa.RecordBatch, ...]:
    """Rows of a family's bounds, a batch a name, in the order of names."""
    own = set(children)
    grouped = groupby((row for row in rows if row.geocode in own), key=lambda row: row.name)
    batches = []
    for name, group in grouped:
        chosen = list(group)
        batches.append(
            family_batch(
                family,
                BOUND,
                [row.geocode for row in chosen],
                name=[name] * len(chosen),
                member=[row.member for row in chosen],
                longs=[list(row.lower) for row in chosen],
                longs_upper=[list(row.upper) for row in chosen],
            )
        )
    return tuple(batches)


def _measurement_rows(family: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def rows(measured: pa.RecordBatch) -> pa.RecordBatch:
        return family_batch(
            family,
            MEASUREMENT,
            measured.column("geocode").to_pylist(),
            name=measured.column("query"),
            integers=measured.column("rows"),
            longs=measured.column("values"),
            variance=measured.column("variance"),
        )

    return rows


def _parent_rows(estimated: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Each estimated geounit as the parent of its family."""
    for place, code in enumerate(estimated.column("geocode").to_pylist()):
        cells, counts = (estimated.column(name).slice(place, 1) for name in ("cells", "counts"))
        yield code, family_batch(code, PARENT, [code], integers=cells, longs=counts)


def _cells(estimated: pa.RecordBatch) -> Iterator[tuple[str, Cells]]:
    cells, offsets = flat_lists(estimated.column("cells"), np.int32)
    counts, _ = flat_lists(estimated.column("counts"), np.int64)
    for code, (start, stop) in zip(estimated.column("geocode").to_pylist(), pairwise(offsets), strict=True):
        yield code, (cells[start:stop], counts[start:stop])
