"""What the tasks of a pass would write, collected; and an executor over DataFrames in memory."""

from __future__ import annotations

import pyarrow as pa

from das_spark.core import InProcess
from das_spark.spark import tables
from das_spark.spark.family_rows import FamilySpread, StoredRows
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

SPREAD = FamilySpread(5, 2)


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


def stored(frame):
    """The rows of a frame as those of a small level, which a task reads itself."""
    rows = frame.toArrow()
    return StoredRows(lambda *columns: rows.select(list(columns or rows.column_names)))


class SparkInMemory:
    """Carries out the steps of a run by Spark, on what the executor of one process was given.

    Each level is planned by Spark, or, where `small`, is one task.
    """

    def __init__(self, spark, given: InProcess, spine, *, small=False) -> None:
        self.spark, self.given, self.names, self.small = spark, given, tuple(given.levels), small
        self.total_key = {name: spine.total_key_at(name) for name in self.names}
        self.tables: dict[tuple[str, str], list[dict]] = {}

    def frame(self, table: str, geolevel: str):
        """A level of a table that was made."""
        schema = getattr(tables, table.upper())
        rows = self.tables.get((table, geolevel), [])
        return self.rows([tuple(row[name] for name in schema.names) for row in rows], schema)

    def rows(self, rows, schema):
        """Rows of a table, for Spark or for a task."""
        frame = self.spark.createDataFrame(rows, schema)
        return stored(frame) if self.small else frame

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
        report = measurements(
            self.rows(rows, tables.HISTOGRAMS),
            parents,
            MeasurementTask(plan),
            SPREAD,
            writing(),
            top=above is None,
        )
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
            self.rows(geounits, tables.GEOUNITS),
            self.frame("measurements", geolevel),
            self.rows(bounds, tables.BOUNDS),
            known,
            self.total_key[geolevel],
            self.published(geolevel),
        )

    def published(self, geolevel: str):
        """What another product has published, made again of the equality of each family; None where there is none."""
        held = self.given.plans[geolevel].held
        if held is None:
            return None
        rows, cell_of = [], held.cells()
        for family, problem in self.given.levels[geolevel].declared.items():
            (bound,) = [each for each in problem.bounds if each.name == held.name]
            for code, counts in zip(problem.children, bound.lower, strict=True):
                pairs = sorted((int(cell_of[row]), int(n)) for row, n in zip(bound.rows, counts, strict=True) if n)
                parent = "" if self.above(geolevel) is None else family
                rows.append((code, parent, [cell for cell, _ in pairs], [n for _, n in pairs]))
        return self.rows(rows, tables.PUBLISHED)

    def upward(self, geolevel: str) -> None:
        above, sums = self.above(geolevel), None
        if ("upward_sums", geolevel) in self.tables:
            parent = {code: name for code, name, _, _ in self.families(geolevel)}
            rows = [{**row, "parent": parent[row["geocode"]]} for row in self.tables["upward_sums", geolevel]]
            self.tables["upward_sums", geolevel] = rows
            sums = self.frame("upward_sums", geolevel)
        task = UpwardTask(self.given.plans[geolevel], self.given.plans[geolevel].estimator.upward)
        found = collected(upward(self.public(geolevel, sums), task, SPREAD, writing(), top=above is None))
        self.tables["upward", geolevel] = found["upward"]
        if above is not None:
            self.tables["upward_sums", above] = found["upward_sums"]

    def estimate(self, geolevel: str) -> None:
        above = self.above(geolevel)
        known = self.frame("upward", geolevel) if ("upward", geolevel) in self.tables else None
        arrays = self.frame("estimate_arrays", above) if ("estimate_arrays", above) in self.tables else None
        report = estimates(
            self.public(geolevel, known),
            None if above is None else self.frame("estimates", above),
            EstimationTask(self.given.plans[geolevel]),
            SPREAD,
            writing(),
            arrays=arrays,
        )
        for table, rows in collected(report).items():
            self.tables[table, geolevel] = rows
