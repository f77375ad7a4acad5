"""A spine that is made of areas: where the run's own spine is not that of the census."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind
from das_spark.io.parents_file import read_parents
from das_spark.pipeline.ingest import run_leaves
from das_spark.pipeline.stage import Preparation
from das_spark.pipeline.trials import Trial, geography_trials
from das_spark.spark.readers import look_at_crosswalk
from das_spark.store import finished

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.trials import Ahead


class SpineStage(Preparation):
    """Reads the input and builds the spine of it."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.SPINE

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Look at areas and crosswalk, unless the spine was made of them: they may be withdrawn by then."""
        if finished(ahead.layout.public.spine) or not ahead.files:
            return
        plan = ahead.plan
        if (parents := plan.geography.parents) is not None:
            work = partial(read_parents, parents, plan.product.geolevels, plan.spine.leaf)
            yield Trial("geography.parents", work, reads=True)
        yield from geography_trials(ahead)
        crosswalk = plan.geography.crosswalk
        if crosswalk is not None:
            yield Trial("geography.crosswalk", partial(look_at_crosswalk, crosswalk), reads=True)

    @property
    def recorded(self) -> tuple[str, ...]:
        """The spine, and the shares of the budget that its geounits have."""
        return () if self.plan.spine.is_census else ("spine", "shares")

    def prepare(self, context: RunContext) -> None:
        """Read the input and build the spine."""
        run_leaves(context, context.required_ledger().identity)


STAGE: Final = SpineStage
