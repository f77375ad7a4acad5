"""The stages of a run: which there are, in which order, under which names. Known from the plan alone.

This is the one place that says so: the runner carries out what stands here, `das-spark plan stages` prints it,
`das-spark run --until STAGE` stops after one of them, and the manifest lists those that are done.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from das_spark.config.levels import steps_of
from das_spark.config.plan import JointPlan, RunPlan
from das_spark.errors import ConfigurationError, did_you_mean
from das_spark.features import STANDING


class StageKind(StrEnum):
    """What a stage does that any run may have. The value is the name that users see."""

    SPINE = "spine"
    INGEST = "ingest"
    PUBLISHED = "published counts"
    CHECK = "check"
    IMPORT = "import"
    MEASURE = "measure"
    UPWARD = "upward"
    ESTIMATE = "estimate"
    CENSUS = "census geounits"
    MICRODATA = "microdata"
    TABULATE = "tabulate"
    VERIFY = "verify"
    EVALUATE = "evaluate"


#: Stages that read the input; nothing is charged or drawn in them.
PREPARING: Final = (StageKind.SPINE, StageKind.INGEST, StageKind.PUBLISHED)
#: Stages that are carried out for a geolevel, in the order that the estimator needs (`das_spark.core.level_steps`).
OF_A_LEVEL: Final = (StageKind.MEASURE, StageKind.UPWARD, StageKind.ESTIMATE)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a run.

    Attributes:
        kind: What it does, one of `StageKind`, or the name of a feature that it makes.
        geolevel: The level, for a stage of one level; empty otherwise.
    """

    kind: str
    geolevel: str = ""

    @property
    def name(self) -> str:
        """Such as "measure County" or "microdata"."""
        return f"{self.kind} {self.geolevel}".strip()


def stages_of(plan: RunPlan) -> tuple[Stage, ...]:
    """The stages of a run, in order."""
    wanted: dict[str, bool] = {
        StageKind.SPINE: not plan.spine.is_census,
        StageKind.PUBLISHED: plan.product.published is not None,
        StageKind.CENSUS: not plan.spine.is_census,
        StageKind.TABULATE: bool(plan.output.tables),
        StageKind.EVALUATE: plan.evaluation.enabled,
    }
    publishing = (*STANDING, *(feature.name for feature in plan.output.features))
    stages = (
        *(Stage(kind) for kind in PREPARING),
        *(Stage(StageKind(step.work), step.geolevel) for step in steps_of(plan)),
        *(Stage(kind) for kind in (*publishing, StageKind.VERIFY, StageKind.EVALUATE)),
    )
    return tuple(stage for stage in stages if wanted.get(stage.kind, True))


def is_preparing(plan: RunPlan, stage: str) -> bool:
    """Whether a stage comes before anything is charged, in a joint run before any part draws.

    Counts that an earlier part of the joint run publishes are there only when that part is done.

    Args:
        plan: A run, or a part of a joint run.
        stage: Name of the stage.
    """
    return stage in PREPARING and not (stage == StageKind.PUBLISHED and bool(plan.published_part))


def stages_from_measurements(plan: RunPlan) -> tuple[Stage, ...]:
    """The stages of a run that estimates from measurements that exist, in order."""
    drawing = (*PREPARING, StageKind.MEASURE)
    later = (stage for stage in stages_of(plan) if stage.kind not in drawing)
    return (Stage(StageKind.CHECK), Stage(StageKind.IMPORT), *later)


def stages_until(plan: RunPlan, until: str | None) -> tuple[Stage, ...]:
    """The stages of a run up to one of them, that one included.

    Args:
        plan: The run.
        until: Name of the stage; None for all.

    Raises:
        ConfigurationError: The run has no such stage; all that it has are listed.
    """
    return stages_of(plan)[: len(names_until(plan, until))]


def stage_names(plan: RunPlan | JointPlan) -> tuple[str, ...]:
    """Names of all stages in the order in which they are carried out, as `--until` takes them.

    In a joint run every part reads its input before any part draws; names begin with what the part counts.

    Args:
        plan: A run or a joint run.
    """
    if isinstance(plan, RunPlan):
        return tuple(stage.name for stage in stages_of(plan))
    named = [
        (not is_preparing(part, stage.name), name_in_part(record, stage.name))
        for record, part in plan.parts.items()
        for stage in stages_of(part)
    ]
    return tuple(name for _, name in sorted(named, key=lambda each: each[0]))  # sorting keeps what is equal in order


def name_in_part(record: str, stage: str) -> str:
    """Name of a stage of one part of a joint run."""
    return f"{record}: {stage}"


def part_of(until: str) -> tuple[str, str]:
    """What the part counts, and the name of the stage in it: the reverse of `name_in_part`.

    Args:
        until: One of `stage_names` of a joint run.
    """
    record, _, stage = until.partition(": ")
    return record, stage


def names_until(plan: RunPlan | JointPlan, until: str | None) -> tuple[str, ...]:
    """Names of the stages up to one of them, that one included.

    Args:
        plan: A run or a joint run.
        until: Name of the stage; None for all.

    Raises:
        ConfigurationError: The run has no such stage; all that it has are listed.
    """
    names = stage_names(plan)
    if until is None:
        return names
    if until not in names:
        stages = f"its stages are: {'; '.join(names)}"
        raise ConfigurationError(
            f"the run has no stage {until!r}", hint=f"{did_you_mean(until, names)} {stages}".strip()
        )
    return names[: names.index(until) + 1]
