"""Whether a run that is to be resumed is there: where it is not, a driver would begin it anew, and draw it twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from das_spark.config import JointPlan, names_until, part_of
from das_spark.errors import PrivacyGuardError
from das_spark.store import RunLayout

if TYPE_CHECKING:
    from das_spark.config import RunPlan


def require_begun(plan: RunPlan | JointPlan, run_id: str, until: str | None = None) -> None:
    """Refuse to go on with a run of which nothing is found here.

    Without its folder a run of the same id is another run, and measures under another key. That is what a scheduler
    would do whose worker has lost its disk, or was started in another folder.

    Args:
        plan: What to do.
        run_id: Name of the run.
        until: Its last stage to carry out. Of a joint run, those parts must be there that have an earlier stage.

    Raises:
        PrivacyGuardError: One of both roots of the run, or of a part of it, is not there.
        OutputError: The name would lead out of the folder.
    """
    if isinstance(plan, JointPlan):
        records = dict.fromkeys(part_of(name)[0] for name in names_until(plan, until)[:-1])
        runs = {f"{run_id}-{record}": plan.parts[record] for record in records}
    else:
        runs = {run_id: plan}
    for name, part in runs.items():
        layout = RunLayout.of(part.output, name)
        for side in (layout.restricted, layout.public):
            if not side.marker.is_file():
                raise PrivacyGuardError(
                    f"there is no run {name} to resume: {side.path.resolve()} holds none",
                    hint="roots must be absolute and lie on a disk that every worker mounts; to begin a run, leave "
                    "--resume out",
                )
