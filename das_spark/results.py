"""A finished run in the hands of an analyst: what it published, as Arrow, pandas or Spark, read when it is asked for.

    run = das_spark.open_run("runs/latest")
    run.table("P1", "Tract").pandas()
    run.estimates("County").spark(session).groupBy("hispanic").sum("count")

Everything is of the public folder alone, but for `OpenedRun.accuracy`, which is restricted. Nothing is read before it
is asked for, nothing needs Spark but `Rows.spark`, and a large level is read a piece at a time by `Rows.batches`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from das_spark.config import plan_from_config
from das_spark.errors import ConfigurationError, OutputError, did_you_mean
from das_spark.places import Place
from das_spark.store import PublicManifest, TablesLayout, find_run, finished, open_public, part_files, strict_json
from das_spark.store.parquet import own_codes, read_batches, read_metadata
from das_spark.store.tables import published_estimates

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.histogram import Query, Schema
    from das_spark.store import PublicLayout

#: How the manifest counts the rows of what is written by table and format.
_IN_PARQUET: Final = ".parquet"
_OF_EVERY_RUN: Final = ("tables", "microdata")
#: Rows that a representation shows.
_SHOWN: Final = 10

_Change = Callable[[pa.RecordBatch], pa.RecordBatch]
_InSpark = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table of a run that are read when they are asked for.

    Libraries that know the stream interface of Arrow take it as it is, such as `polars.DataFrame(rows)`.

    Attributes:
        title: What a row is.
        labels: Column -> what it holds, for those whose names do not say it.
    """

    title: str
    labels: Mapping[str, str]
    _folders: Mapping[str, Place]  # geolevel -> folder of Parquet files; "" where there are no levels
    _change: _Change | None = None  # of batches as they stand in the files
    _in_spark: Callable[[DataFrame], DataFrame] | None = None  # the same for Spark

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, a piece at a time."""
        for level, folder in self._folders.items():
            for batch in read_batches(folder):
                made = batch if self._change is None else self._change(batch)
                yield _with_level(made, level) if len(self._folders) > 1 else made

    def arrow(self) -> pa.Table:
        """All rows as a table of Arrow."""
        return pa.Table.from_batches(self.batches(), self.schema)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        level, folder = next(iter(self._folders.items()))
        empty = pa.RecordBatch.from_pylist([], _schema_of(folder))
        made = empty if self._change is None else self._change(empty)
        return (_with_level(made, level) if len(self._folders) > 1 else made).schema

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    def pandas(self) -> pd.DataFrame:
        """All rows as a DataFrame of pandas."""
        found: pd.DataFrame = self.arrow().to_pandas()
        return found

    def head(self, rows: int = _SHOWN) -> pd.DataFrame:
        """The first rows as a DataFrame of pandas."""
        first, left = list[pa.RecordBatch](), rows
        for batch in self.batches():
            first.append(batch.slice(0, left))
            left -= first[-1].num_rows
            if left <= 0:
                break
        found: pd.DataFrame = pa.Table.from_batches(first, self.schema).to_pandas()
        return found

    def spark(self, session: SparkSession) -> DataFrame:
        """The rows as a DataFrame of Spark, whose tasks read the files.

        Args:
            session: Whose executors can read the folder of the run.
        """
        from pyspark.sql import functions as F  # noqa: PLC0415 - only this needs pyspark

        frames: list[DataFrame] = []
        for level, folder in self._folders.items():
            frame = _frame(session, folder)
            frame = frame if self._in_spark is None else self._in_spark(frame)
            if len(self._folders) > 1:
                frame = frame.select(F.lit(level).alias(_LEVEL), "*")
            frames.append(frame)
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionByName(frame)
        return whole

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream by which other libraries take the rows over (Arrow PyCapsule interface)."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches()).__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """The title, and the first rows."""
        return f"{self.title}\n{self.head().to_string()}\n..."

    def _repr_html_(self) -> str:
        names = "".join(f"<li><code>{escape(name)}</code>: {escape(text)}</li>" for name, text in self.labels.items())
        return f"<p>{escape(self.title)}</p>{self.head().to_html()}" + (f"<ul>{names}</ul>" if names else "")


_LEVEL: Final = "geolevel"


def _schema_of(folder: Place) -> pa.Schema:
    return read_metadata(part_files(folder)[0]).schema.to_arrow_schema().remove_metadata()


def _frame(session: SparkSession, folder: Place) -> DataFrame:
    """The rows of a folder, by Spark's own reader where it is on a disk."""
    if isinstance(folder, Path):
        return session.read.parquet(str(folder))
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - only this needs pyspark

    from das_spark.spark.engine import scan  # noqa: PLC0415 - as above

    plain = [
        pa.field(each.name, each.type.value_type if pa.types.is_dictionary(each.type) else each.type)
        for each in _schema_of(folder)
    ]
    return scan(session, from_arrow_schema(pa.schema(plain)), [folder])


def _with_level(batch: pa.RecordBatch, level: str) -> pa.RecordBatch:
    column = pa.array([level] * batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([column, *batch.columns], [_LEVEL, *batch.schema.names])


@dataclass(frozen=True)
class OpenedRun:
    """A finished run.

    Attributes:
        folder: As it was named.
        manifest: Its public manifest.
        plan: What it did.
    """

    folder: Place
    manifest: PublicManifest
    plan: RunPlan
    _public: PublicLayout = field(repr=False)

    @classmethod
    def at(cls, folder: Place) -> OpenedRun:
        """Open a run by its folder, or by its public folder; on a disk or where it is read through Hadoop.

        Raises:
            OutputError: It is not the folder of a finished run.
        """
        public = open_public(folder)
        manifest = PublicManifest.load(public.manifest)
        return cls(folder, manifest, plan_from_config(manifest.config, source=str(public.manifest)), public)

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.manifest.run_id

    @property
    def geolevels(self) -> tuple[str, ...]:
        """Geolevels of the census, root first: those of estimates and tables."""
        return self.plan.product.census(self.plan.spine).names

    @property
    def attributes(self) -> dict[str, tuple[str, ...]]:
        """What is counted: attributes, and the labels of their levels."""
        return {attribute.name: attribute.levels for attribute in self.plan.product.schema.attributes}

    @property
    def tables(self) -> dict[str, str]:
        """Names of the published tables of the run, and what they show."""
        units = self.plan.invariants.units
        known = {table.name: table.title for table in self.plan.product.every_table_on(self.plan.spine, units=units)}
        return {name: title for name, title in known.items() if self._table_folders(name)}

    @property
    def outputs(self) -> dict[str, tuple[str, ...]]:
        """What the run has made beside its tables, such as intervals -> names of the tables that it goes with."""
        made: dict[str, tuple[str, ...]] = {}
        for counted in self.manifest.rows:
            output, _, file = counted.partition("/")
            if file.endswith(_IN_PARQUET) and output not in _OF_EVERY_RUN:
                made[output] = (*made.get(output, ()), file.removesuffix(_IN_PARQUET))
        return made

    @property
    def queries(self) -> dict[str, tuple[str, ...]]:
        """Geolevel of the spine -> what was measured there."""
        return {level.geolevel: tuple(query.query for query in level.queries) for level in self.plan.budget.levels}

    @property
    def verified(self) -> bool | None:
        """Whether all checks of the run passed; None where it has not been verified."""
        place = self._public.verification
        return bool(strict_json(place.read_text())["passed"]) if place.is_file() else None

    @property
    def statement(self) -> str:
        """The privacy statement, Markdown."""
        text: str = self._public.privacy_statement.read_text()
        return text

    def estimates(self, geolevel: str, *, labels: bool = True) -> Rows:
        """Protected counts: a row for every occupied cell of a geounit.

        Args:
            geolevel: One of `geolevels`.
            labels: Attributes by the labels of their levels; by the numbers of the levels where false.

        Returns:
            Columns geocode, the attributes, and count.

        Raises:
            ConfigurationError: There is no such geolevel.
            OutputError: The run has no estimates of it.
        """
        self._known("geolevel", geolevel, self.geolevels)
        schema = self.plan.product.schema
        return Rows(
            f"estimates of {self.name} at {geolevel}: an occupied cell of a geounit",
            {"count": f"protected number of {self.plan.product.counted}"},
            {"": self._level(published_estimates(self.plan.spine), geolevel)},
            *self._by_codes(geolevel, _Cells(schema, labels), _CellsInSpark(schema, labels)),
        )

    def measurements(self, geolevel: str, query: str) -> Rows:
        """Noisy answers: a row for each answer that was kept.

        Args:
            geolevel: One of `queries`.
            query: One of `queries[geolevel]`.

        Returns:
            Columns geocode, row (number of the answer), answer (what it counts), value, and variance of its noise.

        Raises:
            ConfigurationError: There is no such geolevel, or it has no such query.
            OutputError: The run has no measurements of it.
        """
        self._known("geolevel of measurements", geolevel, self.queries)
        self._known(f"query of {geolevel}", query, self.queries[geolevel])
        asked = self.plan.queries[query]
        return Rows(
            f"measurements of {self.name} at {geolevel}, {query}: a noisy answer of a geounit",
            {"value": f"noisy number of {self.plan.product.counted}; it may be negative", "variance": "of its noise"},
            {"": self._level("measurements", geolevel)},
            *self._by_codes(
                geolevel,
                _Answers(asked, _answers(asked, self.plan.product.schema)),
                _AnswersInSpark(asked, _answers(asked, self.plan.product.schema)),
            ),
        )

    def _by_codes(self, geolevel: str, change: _Change, in_spark: _InSpark) -> tuple[_Change, _InSpark]:
        """The same under the codes that geounits have by themselves, where these are no geocodes."""
        span = self.plan.spine.own_codes.get(geolevel)
        if span is None:
            return change, in_spark

        def by_spark(frame: DataFrame) -> DataFrame:
            from das_spark.spark.own_codes import own_part  # noqa: PLC0415 - Spark alone needs it

            return in_spark(frame).withColumn("geocode", own_part(span))

        return lambda batch: own_codes(change(batch), span), by_spark

    def table(self, name: str, geolevel: str | None = None) -> Rows:
        """A published table.

        Args:
            name: One of `tables`.
            geolevel: One of those that it is published for; all of them, told apart in a first column, where None.

        Returns:
            A row a geounit: geocode and the columns of the table, whose labels are in `labels`.

        Raises:
            ConfigurationError: There is no such table, or not for this geolevel.
        """
        self._known("table", name, self.tables)
        shell = next(each for each in self.plan.product.every_table if each.name == name)
        labels = {column.name: column.label for column in shell.columns}
        folders = self._chosen(f"table {name}", self._table_folders(name), geolevel)
        return Rows(f"{name}. {shell.title}. Universe: {shell.universe}", labels, folders)

    def beside(self, output: str, name: str, geolevel: str | None = None) -> Rows:
        """A table that goes with a published one, where the run has made it: `run.beside("intervals", "P1")`.

        Args:
            output: One of `outputs`, such as `intervals` or `replicate_intervals`.
            name: One of `outputs[output]`.
            geolevel: One of those that it is made for; all of them, told apart in a first column, where None.

        Returns:
            A row a geounit: geocode, and what the data dictionary of the run says.

        Raises:
            ConfigurationError: The run has made no such output, or not for this table or geolevel.
        """
        self._known("output beside its tables", output, self.outputs)
        self._known(f"table of {output}", name, self.outputs[output])
        layout = TablesLayout(self._public.table(output))
        folders = self._folders(layout.level, name)
        return Rows(f"{output} of {name}", {}, self._chosen(f"{output} of {name}", folders, geolevel))

    def microdata(self, kind: str | None = None) -> Rows:
        """Records of the microdata file, where the run has written Parquet.

        Args:
            kind: Such as `person` or `unit`; what the product counts where None.

        Raises:
            ConfigurationError: The run has no such file.
        """
        product = self.plan.product
        every = product.files(units=self.plan.invariants.units)
        kinds = [each for each in every if finished(self._public.microdata(each, "parquet"))]
        chosen = product.kind if kind is None else kind
        self._known("microdata file in Parquet", chosen, kinds)
        columns = product.microdata.columns(chosen)
        labels = {column.name: column.source for column in columns}
        return Rows(f"microdata of {self.name}: {chosen}", labels, {"": self._public.microdata(chosen, "parquet")})

    def accuracy(self) -> dict[str, Any]:
        """The report of accuracy. RESTRICTED: it compares with confidential counts.

        Raises:
            OutputError: The restricted folder of the run is not at hand, or the run was not evaluated.
        """
        place = find_run(self.folder).restricted.accuracy_json
        if not place.is_file():
            raise OutputError(f"{place}: is not there", hint="das-spark evaluate RUN makes a report of accuracy")
        found: dict[str, Any] = json.loads(place.read_text())
        return found

    def __repr__(self) -> str:
        """What the run is, and what can be asked of it."""
        return "\n".join(f"{name}: {text}" for name, text in self._facts().items())

    def _repr_html_(self) -> str:
        facts = {escape(name): escape(text) for name, text in self._facts().items()}
        return f"<table>{''.join(f'<tr><th>{name}</th><td>{text}</td></tr>' for name, text in facts.items())}</table>"

    def _facts(self) -> dict[str, str]:
        product, budget = self.plan.product, self.plan.budget
        state = {None: "not verified", True: "all checks passed", False: "CHECKS FAILED"}[self.verified]
        facts = {
            f"run {self.name}": f"{product.title} ({product.name}), {self.manifest.created}",
            "privacy loss": f"{budget.framework.symbol} = {budget.total}",
            "verification": state,
            "geolevels": ", ".join(self.geolevels),
            "cells": " x ".join(f"{name} ({len(levels)})" for name, levels in self.attributes.items()),
            "tables": ", ".join(self.tables) or "none",
        }
        return facts | {f"notice {place}": notice for place, notice in enumerate(self.manifest.notices, start=1)}

    def _chosen(self, what: str, folders: Mapping[str, Place], geolevel: str | None) -> Mapping[str, Place]:
        """All geolevels, or one of them."""
        if geolevel is None:
            return folders
        self._known(f"geolevel of {what}", geolevel, folders)
        return {geolevel: folders[geolevel]}

    def _known(self, what: str, name: str, known: Sequence[str] | Mapping[str, object]) -> None:
        if name not in known:
            hint = f"{did_you_mean(name, known)} there are {', '.join(known) or 'none'}".strip()
            raise ConfigurationError(f"run {self.name} has no {what} {name!r}", hint=hint)

    def _level(self, table: str, geolevel: str) -> Place:
        folder = self._public.level(table, geolevel)
        if not finished(folder):
            raise OutputError(f"{folder}: there are no {table} of {geolevel}", hint="finish the run first")
        return folder

    def _table_folders(self, name: str) -> dict[str, Place]:
        return self._folders(self._public.tables.level, name)

    def _folders(self, place: Callable[[str, str, str], Place], name: str) -> dict[str, Place]:
        """Geolevels of a table, root first, and their folders."""
        return {level: folder for level in self.geolevels if finished(folder := place(name, "parquet", level))}


@dataclass(frozen=True)
class _Cells:
    """From sparse histograms to a row an occupied cell."""

    schema: Schema
    labels: bool

    @cached_property
    def _names(self) -> list[pa.Array]:
        return [pa.array(attribute.levels, pa.string()) for attribute in self.schema.attributes]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        cells, counts = batch.column("cells"), batch.column("counts")
        at = np.repeat(np.arange(batch.num_rows), cells.value_lengths().to_numpy(zero_copy_only=False))
        codes = np.unravel_index(cells.flatten().to_numpy(), self.schema.shape)
        levels = [pa.array(code.astype(np.int32)) for code in codes]
        if self.labels:
            levels = [pa.DictionaryArray.from_arrays(*each) for each in zip(levels, self._names, strict=True)]
        names = [attribute.name for attribute in self.schema.attributes]
        columns = [batch.column("geocode").take(pa.array(at)), *levels, counts.flatten()]
        return pa.RecordBatch.from_arrays(columns, ["geocode", *names, "count"])


@dataclass(frozen=True)
class _CellsInSpark:
    """The same by Spark."""

    schema: Schema
    labels: bool

    def __call__(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: PLC0415 - Spark alone needs it

        from das_spark.spark.cells import level_of  # noqa: PLC0415

        pairs = frame.select("geocode", F.explode(F.arrays_zip("cells", "counts")).alias("pair"))
        columns = []
        for axis, attribute in enumerate(self.schema.attributes):
            level = level_of(F.col("pair.cells"), self.schema.shape, axis).cast("int")
            if self.labels:
                level = F.get(F.array(*map(F.lit, attribute.levels)), level)
            columns.append(level.alias(attribute.name))
        return pairs.select("geocode", *columns, F.col("pair.counts").alias("count"))


def _answers(query: Query, schema: Schema) -> list[str]:
    """What each answer of a query counts, by the labels of levels and groups."""
    found = [""] * query.rows
    for row, groups in enumerate(np.ndindex(*(int(factor.max()) + 1 for factor in query.factors))):
        said = []
        for attribute, factor, group in zip(schema.attributes, query.factors, groups, strict=True):
            levels = np.flatnonzero(factor == group)
            if len(levels) < attribute.size:
                recoded = (
                    label for recode in attribute.recodes for label, own in recode.groups if set(own) == set(levels)
                )
                several = " or ".join(attribute.levels[level] for level in levels)
                label = attribute.levels[levels[0]] if len(levels) == 1 else next(recoded, several)
                said.append(f"{attribute.name}={label}")
        found[row] = ", ".join(said) or "total"
    return found


@dataclass(frozen=True)
class _Answers:
    """From lists of noisy answers to a row an answer of one query."""

    query: Query
    names: Sequence[str]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        chosen = np.array([name == self.query.name for name in batch.column("query").to_pylist()], dtype=bool)
        batch = batch.filter(pa.array(chosen, pa.bool_()))
        values, kept = batch.column("values"), batch.column("rows").to_pylist()
        at = np.repeat(np.arange(batch.num_rows), values.value_lengths().to_numpy(zero_copy_only=False))
        every = np.arange(self.query.rows)
        rows = [every if each is None else np.array(each, dtype=np.int64) for each in kept]
        row = np.concatenate(rows).astype(np.int32) if rows else np.zeros(0, dtype=np.int32)
        answer = pa.DictionaryArray.from_arrays(pa.array(row), pa.array(self.names, pa.string()))
        taken = [batch.column(name).take(pa.array(at)) for name in ("geocode", "variance")]
        columns = [taken[0], pa.array(row), answer, values.flatten(), taken[1]]
        return pa.RecordBatch.from_arrays(columns, ["geocode", "row", "answer", "value", "variance"])


@dataclass(frozen=True)
class _AnswersInSpark:
    """The same by Spark."""

    query: Query
    names: Sequence[str]

    def __call__(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: PLC0415 - Spark alone needs it

        every = F.sequence(F.lit(0), F.lit(self.query.rows - 1))
        pair = F.explode(F.arrays_zip(F.coalesce("rows", every).alias("row"), F.col("values").alias("value")))
        pairs = frame.where(F.col("query") == self.query.name).select("geocode", "variance", pair.alias("pair"))
        answer = F.get(F.array(*map(F.lit, self.names)), F.col("pair.row")).alias("answer")
        return pairs.select("geocode", F.col("pair.row").alias("row"), answer, F.col("pair.value"), "variance")
