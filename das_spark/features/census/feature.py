"""What the rest of a run knows of estimates by geounits of the census."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind
from das_spark.pipeline.features import FeatureRoom, Judged, OutputTable, Publication
from das_spark.pipeline.trials import Trial, product_fix
from das_spark.spark.census import census_histograms
from das_spark.store import level_folder
from das_spark.store.parquet import count_rows
from das_spark.store.tables import CENSUS_ESTIMATES

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.space import KnownSizes
    from das_spark.pipeline.trials import Ahead
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_run import Verified
    from das_spark.store import PublicLayout

_TABLE: Final = CENSUS_ESTIMATES.name


class CensusEstimates(Publication):
    """Estimates by geounits of the census, where the spine has others."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.CENSUS

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Ask for the geolevels of the census."""
        plan = ahead.plan
        yield Trial("geography.levels", lambda: plan.product.census(plan.spine), product_fix(plan))

    def room(self, known: KnownSizes) -> FeatureRoom:
        """Take the room of estimates of the spine for what these need besides."""
        del known
        return FeatureRoom()

    def publish(self, context: RunContext) -> None:
        """Sum the estimates of leaves to the geolevels of the census."""
        levels = context.census.names
        if not context.tables.is_finished(context.published, levels):
            leaf = context.tables.read("estimates", context.spine.leaf.name)
            context.tables.write_all(context.published, census_histograms(leaf, context.census), levels=levels)

    def outputs(self) -> tuple[OutputTable, ...]:
        """Declare the estimates."""
        parts = tuple(map(level_folder, self.census.names))
        return (OutputTable(_TABLE, CENSUS_ESTIMATES.schema, parts, order=("geocode",)),)

    @property
    def counted(self) -> tuple[str, ...]:
        """One name for each geolevel."""
        return tuple(f"{_TABLE}/{level}" for level in self.census.names)

    def rows(self, public: PublicLayout) -> dict[str, int]:
        """Count the rows of each geolevel."""
        return {f"{_TABLE}/{level}": count_rows(public.level(_TABLE, level)) for level in self.census.names}

    def rules(self, run: Verified, by_spine: RunTables, by_census: RunTables) -> Judged:
        """Leave them to the rules on spines, which hold them to the estimates that they are sums of."""
        del run, by_spine, by_census
        return Judged()


FEATURE: Final = CensusEstimates
