"""The restricted accuracy report of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind
from das_spark.io.area_files import look_at_areas
from das_spark.io.input_places import is_there
from das_spark.pipeline.accuracy import evaluate_run
from das_spark.pipeline.rehearsal import rehearse_evaluation
from das_spark.pipeline.stage import Judgement
from das_spark.pipeline.trials import Trial, geography_trials, product_fix
from das_spark.places import place_of

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.trials import Ahead
    from das_spark.store import CompletionRecord


class EvaluateStage(Judgement):
    """Compares estimates with the confidential histograms."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.EVALUATE

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Look at files of areas and of geography, and ask for the queries of the report."""
        plan = ahead.plan
        areas = plan.evaluation.areas
        if ahead.files and areas is not None:
            census = plan.product.census(plan.spine)
            fix = "name a CSV of geocode and area, or leave evaluation.areas out"
            yield Trial("evaluation.areas", partial(look_at_areas, place_of(areas), census), fix, reads=True)
        path = plan.geography.path
        if plan.spine.is_census and path is not None and is_there(path):  # the report does without what is gone
            yield from geography_trials(ahead)
        yield Trial("run.product", partial(rehearse_evaluation, plan), product_fix(plan))

    def judge(self, context: RunContext, done: CompletionRecord) -> CompletionRecord:
        """Write the report, unless that is done."""
        known = replace(done, accuracy=done.accuracy or evaluate_run(context))
        context.restricted_facts.accuracy = dict(known.accuracy)
        return known


STAGE: Final = EvaluateStage
