"""`check`: all that a run will need is tried, before anything is read or spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from das_spark.cli.options import Conf, Json, Overlays, Settings, TestKey, print_json
from das_spark.config import BANNER, load_run, plans_in, published_from_people, stages_of

if TYPE_CHECKING:
    from das_spark.config import RunPlan


#: A run that is not there yet: `check` asks what a new one would meet.
_NEW_RUN: Final = "check"


def check(
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    without_files: Annotated[bool, typer.Option("--without-files", help="Do not look for the input files.")] = False,
    test_key: TestKey = None,
    as_json: Json = False,
) -> None:
    """Try all that a run will need: keys, how files begin, layouts, tables, solvers, disks. Starts no Spark.

    Says what `run` would say before it makes a folder. Reads no data: layouts, tables and solvers get made-up counts.

    Example: das-spark check conf/e2e_1940.toml --set input.path=EXT1940USCB.dat
    """
    loaded = load_run(conf, overlay or (), settings or (), files=not without_files, named=test_key is None)
    # Wrong keys are said before Spark's packages are imported.
    from das_spark.pipeline.preflight import try_stages  # noqa: PLC0415
    from das_spark.pipeline.space import roots_in_input  # noqa: PLC0415
    from das_spark.store import RunLayout  # noqa: PLC0415

    warnings: dict[str, None] = {}  # parts of a run share folders
    for each in plans_in(loaded):
        layout = RunLayout.of(each.output, _NEW_RUN)
        try_stages(each, layout, stages_of(each), files=not without_files)
        warnings |= dict.fromkeys(roots_in_input(each, layout))
    if as_json:
        runs = [_checked(plan) for plan in plans_in(loaded)]
        print_json({"run_file": conf, "problems": [], "warnings": list(warnings), "runs": runs})
        return
    typer.echo(f"{conf}: no problem found")
    for warning in warnings:
        typer.echo(f"warning: {warning}")
    for each in plans_in(loaded):
        spent = f"{each.budget.framework.symbol} {each.budget.total}"
        typer.echo(f"run {each.name}, product {each.product.name}, reader {each.input.reader}, {spent}")
        typer.echo(f"geolevels {', '.join(each.spine.names)}; configuration {each.config_hash}")
        if each.acknowledged:
            published = published_from_people(each.acknowledged, each.spine.leaf.name)
            typer.echo(f"{BANNER}: {'; '.join(published)}")


def _checked(plan: RunPlan) -> dict[str, Any]:
    """Return the record of a run that was checked, as JSON values."""
    return {
        "run": plan.name,
        "product": plan.product.name,
        "reader": plan.input.reader,
        "framework": str(plan.budget.framework),
        "total": str(plan.budget.total),
        "geolevels": plan.spine.names,
        "config_hash": plan.config_hash,
        "from_people": published_from_people(plan.acknowledged, plan.spine.leaf.name),
    }
