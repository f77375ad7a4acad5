"""Stages that every run may have besides what it publishes of its estimates, a module each.

A module says what its stage needs beforehand, what it writes and, where the order of the levels does not decide when it
is done, does it (`das_spark.pipeline.stage.RunStage`). Which of them a run has, and in which order, follows from its
plan alone (`das_spark.config.stages`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from das_spark.config import stages_from_measurements, stages_of
from das_spark.pipeline.features import publications_of

if TYPE_CHECKING:
    from das_spark.config import RunPlan, Stage
    from das_spark.pipeline.stage import RunStage

#: Stage -> module, which has its class as `STAGE`.
STAGES: Final = {
    "spine": "spine",
    "ingest": "ingest",
    "published counts": "published",
    "check": "check",
    "import": "import_tables",
    "measure": "measure",
    "upward": "upward",
    "estimate": "estimate",
    "verify": "verify",
    "evaluate": "evaluate",
}


def stages_by_kind(plan: RunPlan) -> dict[str, RunStage]:
    """Return all kinds of stages that a run may have, by their names.

    Their modules are imported by name: verification, which is one of them, judges what the manifest says of all.
    """
    standing = (import_module(f"das_spark.pipeline.stages.{module}").STAGE(plan) for module in STAGES.values())
    return {each.name: each for each in (*standing, *publications_of(plan))}


def stages_at_work(plan: RunPlan) -> tuple[tuple[Stage, RunStage], ...]:
    """Return the stages of a run in order, each with what is known of its kind."""
    kinds = stages_by_kind(plan)
    stages = stages_of(plan) if plan.origin is None else stages_from_measurements(plan)
    return tuple((stage, kinds[stage.kind]) for stage in stages)
