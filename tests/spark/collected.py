"""What the tasks of a pass would write, collected; and an executor over files that nobody commits."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.core import InProcess
from das_spark.spark.family_rows import Families, FamilySpan, FamilySpread, StoredLevel
from das_spark.spark.level_pass import (
    EstimationTask,
    MeasurementTask,
    PublicLevel,
    UpwardTask,
    Writing,
    estimates,
    measurements,
    upward,
)
from das_spark.store.tables import TABLES

_FOLDER = tempfile.TemporaryDirectory(prefix="das-spark-tests-")
_NUMBERS = count()


def writing() -> Writing:
    """Reports the rows themselves in the place of files."""

    def kept(rows):  # made here, so that it travels to the workers by value
        for table, file, batch in rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            content = pa.array([sink.getvalue().to_pybytes()], pa.binary())
            yield pa.RecordBatch.from_arrays([pa.array([table]), pa.array([file]), content], ["table", "file", "rows"])

    return Writing(kept, "table string, file string, rows binary", lambda number: f"part-{number}")


def collected(report) -> dict[str, list[dict]]:
    """Table -> its rows, each with the name of its file."""
    found: dict[str, list[dict]] = {}
    for row in report.collect():
        content = pa.ipc.open_stream(bytes(row["rows"])).read_all().to_pylist()
        found.setdefault(row["table"], []).extend({"file": row["file"], **each} for each in content)
    return found


def stored(rows, table, files=1):
    """Rows of a table in files, in turn; they are tuples, or an Arrow table."""
    schema = TABLES[table].schema
    if not isinstance(rows, pa.Table):
        given = [list(each) for each in zip(*rows, strict=True)] or [[] for _ in schema]
        rows = pa.table([pa.array(each, kind) for each, kind in zip(given, schema.types, strict=True)], schema=schema)
    folder = Path(_FOLDER.name) / str(next(_NUMBERS))
    folder.mkdir()
    for number in range(files):
        own = rows.take(np.arange(number, rows.num_rows, files))
        pq.write_table(own, folder / f"part-{number:05d}.parquet", row_group_size=2)
    return StoredLevel.of(folder)


def families(children, *, span=(0, 2), at_top=False):
    """The families of geounits, by their geocodes."""
    own = FamilySpan(*span, at_top=at_top)
    names, counts = np.unique(np.asarray(own.families(pa.array(list(children), pa.string()))), return_counts=True)
    return Families.of(own, pa.array(names.tolist(), pa.string()), counts)


class SparkInMemory:
    """Carries out the steps of a run by Spark, on what the executor of one process was given, in some partitions."""

    def __init__(self, spark, given: InProcess, spine, *, partitions=2) -> None:
        self.spark, self.given, self.names, self.spine = spark, given, tuple(given.levels), spine
        self.partitions = partitions
        self.tables: dict[tuple[str, str], list[dict]] = {}

    def spread(self, geolevel: str, *, grouped=True) -> FamilySpread:
        """The families of a level, over five files."""
        span = FamilySpan.of(self.spine, geolevel, grouped=grouped)
        codes = pa.array([code for code, _, _, _ in self.families(geolevel)], pa.string())
        names, counts = np.unique(np.asarray(span.families(codes)), return_counts=True)
        return FamilySpread(Families.of(span, pa.array(names.tolist(), pa.string()), counts), 5, self.partitions)

    def frame(self, table: str, geolevel: str):
        """A level of a table that was made."""
        names = TABLES[table].schema.names
        return stored([tuple(row[name] for name in names) for row in self.tables.get((table, geolevel), [])], table)

    def above(self, geolevel: str) -> str | None:
        depth = self.names.index(geolevel)
        return self.names[depth - 1] if depth else None

    def families(self, geolevel: str):
        """Geocode, parent and position of every geounit, and its family's input."""
        for family, children in self.given.levels[geolevel].confidential.items():
            for place, code in enumerate(children.geocodes):
                yield code, family if self.above(geolevel) else "", place, children

    def measure(self, geolevel: str) -> None:
        rows = []
        for code, parent, place, children in self.families(geolevel):
            own = slice(*children.offsets[place : place + 2])
            rows.append((code, parent, children.cells[own].tolist(), children.counts[own].tolist()))
        above, plan = self.above(geolevel), self.given.noise[geolevel]
        parents = self.frame("estimates", above) if above and ("estimates", above) in self.tables else None
        given, spread = stored(rows, "histograms", files=2), self.spread(geolevel, grouped=False)
        report = measurements(self.spark, given, parents, MeasurementTask(plan), spread, writing())
        self.tables["measurements", geolevel] = collected(report).get("measurements", [])

    def public(self, geolevel: str, known) -> PublicLevel:
        geounits = [(code, parent, 0) for code, parent, _, _ in self.families(geolevel)]
        bounds = [
            (code, "" if self.above(geolevel) is None else family, bound.name, code, low.tolist(), high.tolist())
            for family, problem in self.given.levels[geolevel].declared.items()
            for bound in problem.bounds
            if bound.rows is None
            for code, low, high in zip(problem.children, bound.lower, bound.upper, strict=True)
        ]
        for family, problem in self.given.levels[geolevel].declared.items():
            flows = problem.flows
            for number in range(0 if flows is None else len(flows.child)):
                code, total = problem.children[flows.child[number]], int(flows.total[number])
                sides = ([*side[number].tolist(), total] for side in (flows.lower, flows.upper))
                parent = "" if self.above(geolevel) is None else family
                bounds.append((code, parent, "flow", f"{code}/{number:06d}", *sides))
        return PublicLevel(
            stored(geounits, "geounits"),
            self.frame("measurements", geolevel),
            stored(bounds, "bounds"),
            known,
            self.published(geolevel),
        )

    def published(self, geolevel: str):
        """What another product has published, made again of the equality of each family; None where there is none."""
        held = self.given.plans[geolevel].held
        if held is None:
            return None
        rows, cell_of = [], held.cells()
        for family, problem in self.given.levels[geolevel].declared.items():
            (bound,) = [bound for bound in problem.bounds if bound.name == held.name]
            for code, counts in zip(problem.children, bound.lower, strict=True):
                pairs = sorted((int(cell_of[row]), int(n)) for row, n in zip(bound.rows, counts, strict=True) if n)
                parent = "" if self.above(geolevel) is None else family
                rows.append((code, parent, [cell for cell, _ in pairs], [n for _, n in pairs]))
        return stored(rows, "published")

    def upward(self, geolevel: str) -> None:
        above, sums = self.above(geolevel), None
        if ("upward_sums", geolevel) in self.tables:
            sums = self.frame("upward_sums", geolevel)
        task = UpwardTask(self.given.plans[geolevel], self.given.plans[geolevel].estimator.upward)
        found = collected(upward(self.spark, self.public(geolevel, sums), task, self.spread(geolevel), writing()))
        self.tables["upward", geolevel] = found["upward"]
        if above is not None:
            self.tables["upward_sums", above] = found["upward_sums"]

    def estimate(self, geolevel: str) -> None:
        above = self.above(geolevel)
        known = self.frame("upward", geolevel) if ("upward", geolevel) in self.tables else None
        arrays = self.frame("estimate_arrays", above) if ("estimate_arrays", above) in self.tables else None
        report = estimates(
            self.spark,
            self.public(geolevel, known),
            None if above is None else self.frame("estimates", above),
            EstimationTask(self.given.plans[geolevel]),
            self.spread(geolevel),
            writing(),
            arrays=arrays,
        )
        for table, rows in collected(report).items():
            self.tables[table, geolevel] = rows
