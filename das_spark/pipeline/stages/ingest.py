"""Ingestion: the input as histograms, invariants and bounds of all levels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind
from das_spark.pipeline.delivery import input_files
from das_spark.pipeline.delivery_note import require_named
from das_spark.pipeline.ingest import ingest
from das_spark.pipeline.stage import Preparation
from das_spark.pipeline.trials import Trial, bounds_trial
from das_spark.spark.readers import look
from das_spark.store import finished

if TYPE_CHECKING:
    from das_spark.config import InputSettings
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.trials import Ahead


class IngestStage(Preparation):
    """Reads the input, and writes what is made of it before noise."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.INGEST

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Look at the beginning of the input, unless it was read: it may be withdrawn by then; try bounds of units."""
        plan = ahead.plan
        if ahead.files and not finished(ahead.layout.restricted.table("leaves")):
            yield Trial("", partial(look, plan.input, plan.product, plan.spine), reads=True)
            if plan.input.expected is not None:
                yield Trial("input.expected", partial(_require_named, plan.input, plan.input.expected), reads=True)
        yield bounds_trial(plan)

    @property
    def recorded(self) -> tuple[str, ...]:
        """The public tables that it writes."""
        return ("geounits", "invariants", "bounds")

    def prepare(self, context: RunContext) -> None:
        """Read the input."""
        ingest(context, context.required_ledger().identity)


def _require_named(settings: InputSettings, note: str) -> None:
    require_named(note, list(map(str, input_files(settings))))


STAGE: Final = IngestStage
