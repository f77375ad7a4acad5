"""What `show` adds where the restricted root may be read: times, Spark's figures, drivers; and the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.errors import OutputError

if TYPE_CHECKING:
    from rich.console import Console


def write(run: Path, page: Path, out: Console) -> None:
    """Write the page of a run, and say where it is and who may see it.

    Args:
        run: Folder of the run, or its public folder.
        page: The file.
        out: Standard output.
    """
    from das_spark.pipeline.run_record import page_of  # noqa: PLC0415 - `das-spark --help` needs no Spark

    record = page_of(run, page)
    out.print(f"{page}: run {record.run_id}, {record.state}{' (RESTRICTED)' if record.restricted else ''}")


def show(run: Path, out: Console) -> None:
    """Print what the restricted root tells of a run, finished or not.

    Args:
        run: Folder of the run.
        out: Standard output.

    Raises:
        OutputError: The restricted root is not there, or closed.
    """
    from das_spark.evaluation import present_run  # noqa: PLC0415
    from das_spark.pipeline.run_record import known_run  # noqa: PLC0415
    from das_spark.report import print_report  # noqa: PLC0415

    record = known_run(run)
    if not record.restricted:
        raise OutputError(
            f"{run}: its restricted root cannot be read",
            hint="name the run's restricted root, or leave --restricted out",
        )
    print_report(present_run(record), out)
