"""What the rest of a run knows of intervals by the measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from das_spark.core.linear import Statistics
from das_spark.evaluation import MEASUREMENTS
from das_spark.features.intervals.passes import LinearPasses, measured_levels, write_intervals
from das_spark.features.intervals.room import room_of_intervals
from das_spark.features.intervals.rules import rules_of
from das_spark.features.intervals.settings import IntervalSettings
from das_spark.features.intervals.tables import INTERVALS, interval_columns, read_intervals
from das_spark.features.intervals.trials import rehearse_intervals
from das_spark.io.dictionary import HIGHEST, LOWEST, described_ends
from das_spark.pipeline.features import (
    Feature,
    Judged,
    OutputTable,
    PublishedUncertainty,
    tables_by_level,
)
from das_spark.pipeline.table_writing import TablesWriting, run_fact
from das_spark.pipeline.trials import Trial, product_fix
from das_spark.store import PublicLayout, discard

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.features import FeatureRoom
    from das_spark.pipeline.space import KnownSizes
    from das_spark.pipeline.trials import Ahead
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_run import Verified

#: Ending of a column of a table -> its type, and what it is of the column of the published table.
_ENDS: Final = {
    "": ("double", "unbiased estimate by the measurements of all levels, maybe negative"),
    "_se": ("double", "standard error of that estimate"),
    "_low": LOWEST,
    "_high": HIGHEST,
}


class Intervals(Feature[IntervalSettings]):
    """Estimates, standard errors and intervals of the truth, from the noisy measurements alone."""

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Try the passes through a synthetic family."""
        work = partial(rehearse_intervals, self.plan, self.settings)
        yield Trial("output.intervals", work, f"{product_fix(ahead.plan)}, or leave output.intervals out")

    def room(self, known: KnownSizes) -> FeatureRoom:
        """Estimate intervals of all geounits that are wanted, and what the passes make."""
        return room_of_intervals(self.plan, self.settings, known)

    def publish(self, context: RunContext) -> None:
        """Go up and down, and write the intervals, unless all of them are finished."""
        plan, spine = self.plan, context.spine
        levels, formats = self.settings.named_geolevels, plan.output.interval_formats
        writing = TablesWriting.of_run(context, INTERVALS, formats, self.facts_of(context), levels, interval_columns)
        staging = writing.staging.folder
        if not all(writing.is_finished(table) for table in self.tables):
            discard(staging)
            measured, statistics = measured_levels(plan, spine.names), Statistics.of(self.tables)
            folders = (context.layout.public, PublicLayout(staging / "passes"))
            passes = LinearPasses(context.spark, plan, spine, *folders, measured, statistics)
            write_intervals(passes, self.tables, writing, float(self.settings.level))
            discard(staging)

    def outputs(self) -> tuple[OutputTable, ...]:
        """Declare the tables of intervals."""
        return tables_by_level(INTERVALS, self.written, interval_columns, self.levels)

    def facts(self, run_id: str, created: str, notices: Sequence[str]) -> tuple[str, ...]:
        """Say of which run the intervals are, and what they are."""
        return (*notices, run_fact(run_id, self.plan.product.name, created), *_sentences(float(self.settings.level)))

    def rules(self, run: Verified, by_spine: RunTables, by_census: RunTables) -> Judged:
        """Judge whether intervals hang together, at every geounit."""
        geounits = (by_spine if run.census.own_codes else by_census).geounits
        return Judged(rules_of(run, geounits, self.written, self.settings))

    def described(self) -> tuple[dict[str, Any], ...]:
        """Describe the tables of intervals."""
        tables = [table for table in self.plan.product.tables if table.name in self.settings.named_tables]
        return described_ends(tables, INTERVALS, "of which the truth is estimated", _ENDS)

    def uncertainty(self) -> PublishedUncertainty:
        """Intervals of the truth, at the geolevels that are wanted."""
        settings = self.settings
        level, geolevels = float(settings.level), settings.named_geolevels
        return PublishedUncertainty(MEASUREMENTS, "_se", level, geolevels, self.tables, read_intervals)


def _sentences(level: float) -> tuple[str, ...]:
    """What a reader of intervals must know."""
    return (
        f"Intervals of {100 * level:g} %, from the noisy measurements of all levels alone: post-processing of what is "
        "public.",
        "A column without ending is the estimate by generalised least squares (unbiased, not rounded, maybe negative), "
        "_se its standard error; the truth lies from _low to _high with the stated probability.",
        "The tables of the run hold other estimates, whole and nonnegative; these intervals are of the truth, not of "
        "how far those estimates are from it.",
    )


FEATURE: Final = Intervals
