"""What the rest of a run knows of published tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from das_spark.config import StageKind
from das_spark.features.tables.rules import compared_tables, rules_of
from das_spark.features.tables.trials import rehearse_table, tabulated_geounits
from das_spark.features.tables.work import facts_of_run, publish_tables
from das_spark.io.dictionary import tables_dictionary
from das_spark.pipeline.features import FeatureRoom, Judged, OutputTable, Publication, tables_by_level
from das_spark.pipeline.space import of_census, table_bytes
from das_spark.pipeline.table_writing import TABLES
from das_spark.pipeline.trials import Trial, product_fix
from das_spark.spark.tabulate import arrow_schema

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.space import KnownSizes
    from das_spark.pipeline.trials import Ahead
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_run import Verified
    from das_spark.spark.verify_tables import PublishedTable
    from das_spark.tabulation import TableShell


class Tables(Publication):
    """Tables of every geolevel, of sums, of occupied and vacant units, and of medians."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.TABULATE

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Try every table of the product in every format of the run."""
        plan = ahead.plan
        setting = f"output.tables = {list(plan.output.tables)}, product {plan.product.name!r}"
        geounits = cache(partial(tabulated_geounits, plan))
        for table in self._tables:
            folder = ahead.scratch / f"table.{table.name}"
            fix = f"{product_fix(plan)}, or set output.tables to []"
            yield Trial(f"{setting}, table {table.name}", partial(rehearse_table, plan, table, folder, geounits), fix)

    def room(self, known: KnownSizes) -> FeatureRoom:
        """Estimate all tables, each down to its lowest geolevel."""
        plan, census = self.plan, self.census
        geounits = of_census(plan, known, census.names)
        tables = plan.product.tables_with(units=plan.invariants.units)
        sizes = (table_bytes(table) * sum(geounits[level] for level in table.levels(census)) for table in tables)
        return FeatureRoom(len(plan.output.tables) * sum(sizes))

    def publish(self, context: RunContext) -> None:
        """Write the tables; those that are finished are left as they are."""
        publish_tables(context, self.facts_of(context))

    def outputs(self) -> tuple[OutputTable, ...]:
        """Declare the tables in every format."""
        written = [(table, format) for table in self._tables for format in self.plan.output.tables]
        return tables_by_level(TABLES, written, arrow_schema, lambda table: table.levels(self.census))

    def facts(self, run_id: str, created: str, notices: Sequence[str]) -> tuple[str, ...]:
        """Say of which run the tables are."""
        return facts_of_run(run_id, self.plan.product.name, created, notices)

    def rules(self, run: Verified, by_spine: RunTables, by_census: RunTables) -> Judged:
        """Hold tables of occupied and vacant units to estimates and invariants."""
        del by_spine
        return rules_of(run, by_census)

    def compared(self, run: Verified) -> Sequence[PublishedTable]:
        """Return the tables of sums and of medians."""
        return compared_tables(run)

    def described(self) -> tuple[dict[str, Any], ...]:
        """Describe the tables."""
        product = self.plan.product
        return tables_dictionary(product.tables_with(units=self.plan.invariants.units), of_cells=product.tables)

    @property
    def _tables(self) -> tuple[TableShell, ...]:
        return self.plan.product.every_table_on(self.plan.spine, units=self.plan.invariants.units)


FEATURE: Final = Tables
