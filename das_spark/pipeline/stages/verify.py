"""Verification of what a run has published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind
from das_spark.pipeline.assess import verify_public
from das_spark.pipeline.rehearsal import rehearse_manifest
from das_spark.pipeline.stage import Judgement
from das_spark.pipeline.trials import Trial, product_fix
from das_spark.store import guarded_staging
from das_spark.telemetry import Event

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.trials import Ahead
    from das_spark.store import CompletionRecord


class VerifyStage(Judgement):
    """Judges the public folder as anybody may."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.VERIFY

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Write the manifest, data dictionary and statement that verification reads."""
        work = partial(rehearse_manifest, ahead.plan, ahead.scratch / "manifest")
        yield Trial("run.product", work, product_fix(ahead.plan))

    def judge(self, context: RunContext, done: CompletionRecord) -> CompletionRecord:
        """Verify the run, unless it has passed."""
        if done.passed:
            return done
        staging = guarded_staging(context.layout, context.layout.public, "verification")
        report = verify_public(context.spark, context.layout.public, staging)
        failed = [f"{check.name} {check.geolevel}".rstrip() for check in report.failures]
        context.progress.log(
            Event.VERIFICATION_FINISHED, passed=report.passed, checks=len(report.checks), failed=failed
        )
        return replace(done, passed=report.passed, verified=report.summary())


STAGE: Final = VerifyStage
