"""Counts that another run has published, to which estimates are held."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind, held_counts
from das_spark.pipeline.published import open_published_run, take_published
from das_spark.pipeline.stage import Preparation
from das_spark.pipeline.trials import Trial, product_fix
from das_spark.store import finished

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.trials import Ahead


class PublishedStage(Preparation):
    """Takes the counts over."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.PUBLISHED

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Ask for a finished run of that product by the same geounits, unless its counts were taken."""
        plan = ahead.plan
        named, taken = plan.input.published, finished(ahead.layout.public.level("published", plan.spine.leaf.name))
        if ahead.files and named is not None and not taken:
            yield Trial("", partial(open_published_run, plan, named), reads=True)
        yield Trial("run.product", partial(held_counts, plan.product, units=plan.invariants.units), product_fix(plan))

    @property
    def recorded(self) -> tuple[str, ...]:
        """The counts."""
        return ("published",)

    def prepare(self, context: RunContext) -> None:
        """Take the counts over."""
        take_published(context)


STAGE: Final = PublishedStage
