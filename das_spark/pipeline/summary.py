"""What a run says of itself when it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from das_spark.config import Stage, extent_of_loss, published_from_people, stages_of
from das_spark.places import Place
from das_spark.store import RunLayout

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext
    from das_spark.store import PublicManifest


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a finished run says of itself.

    Attributes:
        run_id: Name of the run.
        layout: Where it lies.
        figures: The few numbers that matter, by name.
        paths: What to look at, by name.
        insecure: Whether it was made under a test key.
        restricted: Exact errors, by name: nothing that stands in a log which others keep.
        finished: Whether it is done and verified; it may have been asked to stop before.
    """

    run_id: str
    layout: RunLayout
    figures: Mapping[str, str]
    paths: Mapping[str, Place]
    insecure: bool
    restricted: Mapping[str, str] = field(default_factory=dict)
    finished: bool = True


def stopped(context: RunContext, stages: Sequence[Stage]) -> RunSummary:
    """What a run says of itself that was to stop after a stage."""
    names = [stage.name for stage in stages_of(context.plan)]
    figures = figures_of_stop(names, len(stages))
    return RunSummary(context.layout.run_id, context.layout, figures, {}, context.is_insecure, finished=False)


def figures_of_stop(names: Sequence[str], done: int) -> dict[str, str]:
    """What is done of a run, and what comes next."""
    return {"stages done": ", ".join(names[:done]), "next stage": names[done] if done < len(names) else "none"}


def summary_of(context: RunContext, manifest: PublicManifest, verified: str) -> RunSummary:
    """What a finished run says of itself."""
    plan, layout = context.plan, context.layout.in_the_end()
    from_people = published_from_people(plan.acknowledged, plan.spine.leaf.name)
    figures = {
        "privacy loss": f"{'epsilon' if plan.budget.framework.value == 'pure_dp' else 'rho'} = {plan.budget.total}"
        f"{', spent before: this run spent nothing' if plan.origin is not None else ''}",
        **({"this is the loss": extent} if (extent := extent_of_loss(plan)) else {}),
        **({"published nearly exactly": "; ".join(from_people)} if from_people else {}),
        "geounits": ", ".join(f"{name} {count:,}" for name, count in _in_order(context).items()),
        "microdata": ", ".join(
            f"{rows:,} {name.removeprefix('microdata/')}"
            for name, rows in manifest.rows.items()
            if name.startswith("microdata/")
        ),
        "worst certified gap": f"{max(residual['gap'] for residual in manifest.worst_residuals.values()):.1e}",
        "verification": verified,
        "manifest": f"SHA-256 {manifest.sha256}",
    }
    paths: dict[str, Place] = {
        "microdata": layout.public.microdata_files,
        "privacy statement": layout.public.privacy_statement,
        "privacy ledger": layout.public.privacy_ledger,
        "verification report": layout.public.verification,
        "manifest": layout.public.manifest,
    }
    if plan.output.tables:
        paths |= {"tables": layout.public.tables.path}
    if plan.evaluation.enabled:
        paths |= {"accuracy (restricted)": layout.restricted.accuracy_html}
    return RunSummary(layout.run_id, layout, figures, paths, context.is_insecure, context.restricted_facts.accuracy)


def _in_order(context: RunContext) -> dict[str, int]:
    counts = context.tables.geounit_counts()
    return {name: counts[name] for name in context.spine.names}
