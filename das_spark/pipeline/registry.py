"""All stages of a run: those of `das_spark.pipeline.stages`, and what it publishes of its estimates."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from das_spark.config import stages_from_measurements, stages_of
from das_spark.pipeline.features import publications_of
from das_spark.pipeline.stages import STAGES

if TYPE_CHECKING:
    from das_spark.config import RunPlan, Stage
    from das_spark.pipeline.stage import RunStage


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
