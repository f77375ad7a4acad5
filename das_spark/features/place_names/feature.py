"""What the rest of a run knows of tables with the names of geounits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from das_spark.features.place_names.names import read_names
from das_spark.features.place_names.rules import compared_counts, rules_of
from das_spark.features.place_names.settings import PlaceNameSettings
from das_spark.features.place_names.tables import NAME, PLACE_NAMES, named_columns
from das_spark.io.dictionary import tables_dictionary
from das_spark.io.table_files import CSV, GEOCODE
from das_spark.pipeline.features import Feature, FeatureRoom, Judged, OutputTable, tables_by_level
from das_spark.pipeline.space import of_census, table_bytes
from das_spark.pipeline.table_writing import TablesWriting, publish_beside, run_fact
from das_spark.pipeline.trials import Trial
from das_spark.places import place_of
from das_spark.spark.own_codes import own_code
from das_spark.spark.tables import at_levels, read_levels
from das_spark.spark.tabulate import tabulated

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.space import KnownSizes
    from das_spark.pipeline.trials import Ahead
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_run import Verified
    from das_spark.spark.verify_tables import PublishedTable
    from das_spark.tabulation import Table

_SENTENCE: Final = "The counts of the tables of the run; names of geounits are those that the run was given."


class PlaceNames(Feature[PlaceNameSettings]):
    """Tables as CSV, with the names of geounits."""

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Read the names."""
        if ahead.files:
            fix = "name a CSV of geolevel, geocode and name, or leave output.place_names out"
            yield Trial("output.place_names.path", self._names, fix, reads=True)

    def room(self, known: KnownSizes) -> FeatureRoom:
        """Estimate the tables in CSV."""
        geounits = of_census(self.plan, known, self.settings.named_geolevels)
        return FeatureRoom(sum(table_bytes(table) * geounits[level] for table, of in self._written for level in of))

    def publish(self, context: RunContext) -> None:
        """Count again what the tables count, with names; what is finished is left."""
        names = cache(lambda: context.spark.createDataFrame(self._names()))
        estimates = read_levels(context.spark, context.layout.public, context.published, context.census.names)

        def rows(table: Table) -> DataFrame:
            counts = tabulated(at_levels(estimates, self.levels(table)), [table], "level")
            return self._with_names(counts, names(), table)

        levels, facts = self.settings.named_geolevels, self.facts_of(context)
        writing = TablesWriting.of_run(context, PLACE_NAMES, (CSV,), facts, levels, named_columns)
        publish_beside(context, self.tables, writing, rows)

    def outputs(self) -> tuple[OutputTable, ...]:
        """Declare the tables with names."""
        return tables_by_level(PLACE_NAMES, [(table, CSV) for table in self.tables], named_columns, self.levels)

    def facts(self, run_id: str, created: str, notices: Sequence[str]) -> tuple[str, ...]:
        """Say of which run the counts are."""
        return (*notices, run_fact(run_id, self.plan.product.name, created), _SENTENCE)

    def rules(self, run: Verified, by_spine: RunTables, by_census: RunTables) -> Judged:
        """Judge whether a geounit has one name."""
        del by_spine, by_census
        return rules_of(run, self._written)

    def compared(self, run: Verified) -> Sequence[PublishedTable]:
        """Return the counts beside the names."""
        return compared_counts(run, self._written)

    def described(self) -> tuple[dict[str, Any], ...]:
        """Describe the tables with names."""
        name = {
            "name": NAME,
            "type": "string",
            "unit": "",
            "meaning": "of the geounit, as somebody gave it; may be empty",
        }
        return tuple(
            {**entry, "columns": [entry["columns"][0], name, *entry["columns"][1:]]}
            for entry in tables_dictionary(self.tables, f"{PLACE_NAMES}/")
        )

    @property
    def _written(self) -> list[tuple[Table, Sequence[str]]]:
        """The tables with names, and the geolevels of each."""
        return [(table, self.levels(table)) for table in self.tables]

    def _names(self) -> pa.Table:
        return read_names(place_of(self.settings.path), self.settings.named_geolevels)

    def _with_names(self, counts: DataFrame, names: DataFrame, table: Table) -> DataFrame:
        code = counts.select("*", own_code(self.census).alias("code"))
        known = names.select(F.col("geolevel").alias("level"), F.col(GEOCODE).alias("code"), NAME)
        joined = code.join(known, ["level", "code"], "left")
        return joined.select("level", GEOCODE, F.coalesce(NAME, F.lit("")).alias(NAME), *table.names)


FEATURE: Final = PlaceNames
