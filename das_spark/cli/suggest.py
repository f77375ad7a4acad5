"""`budget suggest`: from what shall be exact to the division of a budget."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tomli_w
import typer

from das_spark import config
from das_spark.cli.options import (
    Conf,
    Geounits,
    Json,
    Overlays,
    Settings,
    console,
    print_json,
    refuse_address,
    write_new,
)
from das_spark.config import USUAL_KEPT, USUAL_LEVEL, errors_of_tables, expected_errors, load_plan
from das_spark.planning import known_geounits
from das_spark.privacy import PUBLISHED_DELTA, epsilon_cks, exact
from das_spark.report import number, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from das_spark.config import RunPlan, SuggestedBudget

#: What the run file itself is called beside the strategies of its product.
_OWN = "as the run file has it"


def suggest(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    conf: Conf,
    targets: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="TARGET",
            help='What shall be exact: "QUERY@GEOLEVEL:sd<=NUMBER", or width in the place of sd; may be repeated.',
        ),
    ] = None,
    keep: Annotated[
        str, typer.Option("--keep", metavar="SHARE", help="What part of its share each query keeps in any case.")
    ] = str(USUAL_KEPT),
    level: Annotated[
        str, typer.Option("--level", metavar="SHARE", help="Probability of the intervals whose widths are limited.")
    ] = str(USUAL_LEVEL),
    geounits: Geounits = None,
    meet: Annotated[
        bool, typer.Option("--meet", help="Suggest the total, too: the least that meets all targets.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the budget as a run file, to be laid over CONF.",
            callback=refuse_address,
        ),
    ] = None,
    overlay: Overlays = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Divide a budget so that what shall be exact is.

    The total is divided over levels and queries so that all targets are met, or come as near as they can. A target is
    met when all answers of the query have at most that standard error, or intervals of that width, by the measurements
    alone. Says which total all targets need, by this division and by those of the product.

    Example: das-spark budget suggest conf/england_and_wales_like.toml --target "total@Output_Area:sd<=5"
    --geounits Local_Authority=10 --geounits MSOA=200 --geounits LSOA=1000 --geounits Output_Area=5000
    """
    plan = load_plan(conf, overlay or (), settings or (), files=False)
    counts = known_geounits(plan, geounits or ()).counts
    found = config.suggest_budget(
        conf,
        targets or (),
        counts,
        kept=exact(keep, "--keep"),
        level=exact(level, "--level"),
        overlays=overlay or (),
        settings=settings or (),
    )
    total = found.needed if meet else plan.budget.total
    if out is not None:
        _write(out, conf, found, total)
    tables = _table_errors(plan, found, counts)
    if as_json:
        print_json(_record(plan, found, total, tables))
        return
    _print(plan, found, total, tables, console())
    if out is not None:
        typer.echo(f"\nwritten to {out}. Next: das-spark plan {conf} --overlay {out}")


def _write(out: Path, conf: Path, found: SuggestedBudget, total: Fraction) -> None:
    targets = "".join(f"#   {target}\n" for target in found.targets)
    text = (
        f"# A budget that das-spark suggests, to be laid over {conf.name} (--overlay), for these targets:\n{targets}\n"
    )
    write_new(out, text + tomli_w.dumps({"budget": {**found.tables, "rho": str(total)}}))


def _table_errors(plan: RunPlan, found: SuggestedBudget, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Standard errors of the columns of published tables, before and after, with the total of the run file."""
    tables = plan.product.tables
    before, after = (
        errors_of_tables(expected_errors(each, counts, tables), tables, plan.spine) for each in (plan, found.plan)
    )
    return [
        {
            "table": each.name,
            "geolevel": own.geolevel,
            "total": [float(one.everywhere[0]) for one in (own, new)],
            "mean_of_columns": [float(one.everywhere.mean()) for one in (own, new)],
        }
        for (each, own), (_, new) in zip(before, after, strict=True)
    ]


def _record(plan: RunPlan, found: SuggestedBudget, total: Fraction, tables: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "run": plan.name,
        "rho": str(plan.budget.total),
        "interval_level": str(found.level),
        "targets": [
            {
                "target": str(target),
                "query": target.query,
                "geolevel": target.geolevel,
                "standard_error": target.error(found.level),
                "own": own,
                "suggested": new,
            }
            for target, own, new in zip(found.targets, found.own, found.suggested, strict=True)
        ],
        "needed": {
            "suggested": str(found.needed),
            "at_least": found.bound,
            "own": found.needed_own[""],
            "strategies": {name: value for name, value in found.needed_own.items() if name},
        },
        "budget": {**found.tables, "rho": str(total)},
        "tables": tables,
    }


def _print(plan: RunPlan, found: SuggestedBudget, total: Fraction, tables: list[dict[str, Any]], out: Console) -> None:
    out.print(f"{plan.name}: {plan.product.title} ({plan.product.name}), total rho = {plan.budget.total}")
    reached = []
    for target, own, new in zip(found.targets, found.own, found.suggested, strict=True):
        now, then = (target.of_error(error, found.level) for error in (own, new))
        reached.append((target, number(now), number(then), "yes" if then <= float(target.most) else "no"))
    what = f"\nTargets, with a total of rho {plan.budget.total}: the largest of all answers"
    out.print(table(what, ("target", "as it is", "suggested", "met"), reached))
    needed = [("suggested", float(found.needed)), (_OWN, found.needed_own[""])]
    needed += [(f"strategy {name}", value) for name, value in found.needed_own.items() if name]
    costs = [(name, number(rho), f"{epsilon_cks(Fraction(rho), PUBLISHED_DELTA):.2f}") for name, rho in needed]
    heads: tuple[str, ...] = ("division", "rho", f"epsilon at delta {float(PUBLISHED_DELTA):g}")
    out.print(table("\nTotal that meets all targets", heads, costs))
    out.print(f"No division that keeps as much needs less than rho {number(found.bound)}.")
    shares = [
        (level.geolevel, level.share, ", ".join(f"{item.query} {item.share}" for item in level.queries))
        for level in found.plan.budget.levels
    ]
    heads = ("geolevel", "share", "queries and their shares of it")
    out.print(table(f"\nSuggested division of rho {total}", heads, shares, left=3))
    if tables:
        both = ("total", "mean_of_columns")
        rows = [
            (each["table"], each["geolevel"], *(f"{value:,.2f}" for key in both for value in each[key]))
            for each in tables
        ]
        heads = ("table", "geolevel", "total, as it is", "suggested", "mean of columns, as it is", "suggested")
        heading = f"\nStandard errors of tables, with a total of rho {plan.budget.total}"
        out.print(table(heading, heads, rows, left=2))
        out.print("of a geounit where people of all classes can be, on a spine of families of equal size")
