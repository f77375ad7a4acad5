"""What the rest of a run knows of replicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from das_spark.evaluation import REPLICATES_OF_RUN
from das_spark.features.replicates.files import read_intervals
from das_spark.features.replicates.rules import compared_counts, rules_of
from das_spark.features.replicates.settings import ReplicateSettings
from das_spark.features.replicates.tables import (
    ERRORS,
    ERRORS_ORDER,
    INTERVALS,
    OFFSETS,
    OFFSETS_ORDER,
    interval_columns,
    part_of,
)
from das_spark.features.replicates.trials import rehearse_replicates
from das_spark.features.replicates.work import publish_replicates
from das_spark.io.dictionary import HIGHEST, LOWEST, described_ends
from das_spark.pipeline.features import (
    Feature,
    FeatureRoom,
    Judged,
    OutputTable,
    PublishedUncertainty,
    tables_by_level,
)
from das_spark.pipeline.space import interval_bytes, of_census, run_bytes
from das_spark.pipeline.table_writing import run_fact
from das_spark.pipeline.trials import Trial, product_fix

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.space import KnownSizes
    from das_spark.pipeline.trials import Ahead
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_run import Verified
    from das_spark.spark.verify_tables import PublishedTable
    from das_spark.store.tables import TableDeclaration

#: Ending of a column of a table -> its type, and what it is of the published count.
_ENDS: Final = {
    "": ("long", "the published count"),
    "_rmse": ("double", "expected root mean square error of such counts"),
    "_low": LOWEST,
    "_high": HIGHEST,
}


class Replicates(Feature[ReplicateSettings]):
    """The run done again on its own output, and intervals of its published counts."""

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Try errors and intervals of the counts of synthetic geounits."""
        work = partial(rehearse_replicates, self.plan, self.settings)
        yield Trial("output.replicates", work, f"{product_fix(ahead.plan)}, or leave output.replicates out")

    def room(self, known: KnownSizes) -> FeatureRoom:
        """Estimate one replicate at a time, which has all levels once more, and intervals of every geounit."""
        geounits = sum(of_census(self.plan, known, self.census.names).values())
        return FeatureRoom(interval_bytes(self.written) * geounits, staged=run_bytes(self.plan, known))

    def publish(self, context: RunContext) -> None:
        """Carry out the replicates that are not finished, and write the intervals that follow."""
        publish_replicates(context, self.settings, self.facts_of(context))

    def outputs(self) -> tuple[OutputTable, ...]:
        """Declare errors, offsets and intervals."""
        parts = tuple(part_of(number + 1) for number in range(self.settings.runs))
        return (
            OutputTable(ERRORS.name, ERRORS.schema, parts, order=ERRORS_ORDER),
            OutputTable(OFFSETS.name, OFFSETS.schema, order=OFFSETS_ORDER),
            *tables_by_level(INTERVALS, self.written, interval_columns, self.levels),
        )

    def facts(self, run_id: str, created: str, notices: Sequence[str]) -> tuple[str, ...]:
        """Say of which run the intervals are, and what they are."""
        return (*notices, run_fact(run_id, self.plan.product.name, created), *_sentences(self.settings))

    def rules(self, run: Verified, by_spine: RunTables, by_census: RunTables) -> Judged:
        """Judge cases, offsets and intervals."""
        del by_spine
        return rules_of(run, by_census, self.written, self.settings)

    def compared(self, run: Verified) -> Sequence[PublishedTable]:
        """Return the counts that have intervals."""
        return compared_counts(run, self.written)

    def declared(self) -> tuple[TableDeclaration, ...]:
        """Describe errors and offsets."""
        return (ERRORS, OFFSETS)

    def described(self) -> tuple[dict[str, Any], ...]:
        """Describe the tables of intervals."""
        tables = [table for table in self.plan.product.tables if table.name in self.settings.named_tables]
        return described_ends(tables, INTERVALS, "with what replicates say of the errors of its counts", _ENDS)

    def uncertainty(self) -> PublishedUncertainty:
        """Intervals of published counts, at all geolevels."""
        level = float(self.settings.level)
        return PublishedUncertainty(REPLICATES_OF_RUN, "_rmse", level, self.census.names, self.tables, read_intervals)


def _sentences(settings: ReplicateSettings) -> tuple[str, ...]:
    """What a reader of intervals of published counts must know."""
    return (
        "A column without ending is the published count, the same as in the tables of the run; the truth lies from "
        f"_low to _high with a probability of about {100 * float(settings.level):g} %, and _rmse is the expected root "
        "mean square error of such counts.",
        f"Both are from {settings.runs} replicates: the run done again on its own output, so that errors are known. "
        "They are pooled over counts of about one size in geounits of about one size: they say how far counts of that "
        "kind are from the truth, and hold on average over them, not for each geounit by itself.",
        "They know the noise better than the bias: where keeping counts nonnegative moves them most, such as totals of "
        "blocks and people in group quarters, they cover the truth less often.",
        "Post-processing of what is public; the confidential counts have no part in it.",
    )


FEATURE: Final = Replicates
