"""`plan`: what a run would measure and spend, shown before it does."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperArgument, TyperGroup

from das_spark.cli.options import (
    Conf,
    Geounits,
    Json,
    Overlays,
    Settings,
    UnusedKey,
    console,
    group,
    print_json,
)
from das_spark.cli.plan_compare import compare
from das_spark.cli.plan_resources import resources
from das_spark.cli.plan_width import width
from das_spark.config import BANNER, CENSUS, JointPlan, load_run, plans_in, stage_names
from das_spark.places import place_of
from das_spark.planning import joint_record, known_geounits, plan_record
from das_spark.planning.page import FILES, write_plan
from das_spark.privacy import Framework, rounded_up
from das_spark.report import known, number, size, table

if TYPE_CHECKING:
    from rich.console import Console
    from typer._click.core import Context
    from typer._click.shell_completion import CompletionItem

#: What `plan CONF` is.
_USUAL: Final = "show"
_WHOLE: Final = "{:,.0f}".format


class _Plan(TyperGroup):
    """The commands below; the usual one is carried out where none is named."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Put the usual command where none is."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [_USUAL, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Offer what the usual command takes, too."""
        first = next(argument for argument in self.commands[_USUAL].params if isinstance(argument, TyperArgument))
        return [*first.shell_complete(ctx, incomplete), *super().shell_complete(ctx, incomplete)]


app = group(
    "plan",
    "Show what a run would measure, how exactly, and at what expense of privacy.\n\n"
    f"Where none of these commands is named, {_USUAL} is meant.\n\nExample: das-spark plan quickstart",
    _Plan,
)


@app.command(_USUAL)
def show(
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    geounits: Geounits = None,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Write plan.json and a page with figures, plan.html, there."),
    ] = None,
    test_key: UnusedKey = None,
    as_json: Json = False,
) -> None:
    """Show what a run would measure, how exactly, and at what expense of privacy. Spends nothing.

    Example: das-spark plan conf/e2e_1940.toml --set budget.epsilon=1 --geounits State=51 --geounits County=3108
    """
    del test_key
    loaded = load_run(conf, overlay or (), settings or (), files=False)
    records = [plan_record(plan, known_geounits(plan, geounits or ())) for plan in plans_in(loaded)]
    together = joint_record(loaded) if isinstance(loaded, JointPlan) else None
    whole = records[0] if together is None else {"run": together["run"], "parts": records, "together": together}
    target = place_of(out)
    if target is not None:
        write_plan(loaded, records, whole, target)
    if as_json:
        print_json(whole)
        return
    terminal = console()
    for record in records:
        _print(record, terminal)
        terminal.print()
    if together is not None:
        _print_together(together, terminal)
    if target is not None:
        terminal.print(f"written to {target}: {', '.join(FILES)}")


@app.command("stages")
def stages(
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    test_key: UnusedKey = None,
    as_json: Json = False,
) -> None:
    """List the stages of a run, one a line, in their order.

    Example: das-spark plan stages conf/quickstart.toml
    """
    del test_key
    names = stage_names(load_run(conf, overlay or (), settings or (), files=False))
    print_json(names) if as_json else typer.echo("\n".join(names))


app.command("compare")(compare)
app.command("width")(width)
app.command("resources")(resources)


def _print(record: dict[str, Any], out: Console) -> None:
    name = Framework(record["framework"]).symbol
    product = record["product"]
    out.print(f"{record['run']}: {product['title']} ({product['name']}, {product['cells']:,} cells a geounit)")
    if record["from_people"]:
        out.print(f"{BANNER}:", style="bold red")
        for each in record["from_people"]:
            out.print(f"  {each}", style="bold red")
    out.print(f"total {name} = {record['total']} ({record['framework']}), exact; neighbours: {record['replaced']}")
    if record["total_is"]:
        out.print(f"  {record['total_is']}", style="bold red")
    for each in record["conversions"]:
        out.print(f"  epsilon {each['epsilon']:.4f} at delta {each['delta']:g}, {each['conversion']}")
    _print_exact(record, out)
    if record["spine"]["spine"] != CENSUS:
        out.print(
            f"spine {record['spine']['spine']}, made of areas ({record['spine']['reader']}): a geounit with one child"
            " takes over its share, is measured better than shown here, and its child not at all"
        )
    parameter = "scale" if name == "epsilon" else "sigma^2"
    columns = ("geolevel", "query", "level share", "query share", f"{name} spent", parameter, "sd", "answers")
    rows = [
        (
            measurement["geolevel"],
            measurement["query"],
            measurement["geolevel_share"],
            measurement["query_share"],
            measurement["spent"],
            number(measurement["parameter"]),
            number(measurement["standard_deviation"]),
            f"{measurement['answers_per_geounit']:,}",
        )
        for measurement in record["measurements"]
    ]
    out.print(table(f"\nNoise: {product['counts']}, a geounit", columns, rows, left=2))
    _print_passes(record, out)
    if record["estimation"]:
        out.print(f"\n{record['estimation']}")
    _print_sizes(record, out)
    _print_intervals(record, out)
    losses = [
        (
            loss["about"],
            loss["name"],
            loss["spent"],
            number(loss["epsilon"]),
            known(loss["exact_epsilon_at_most"], rounded_up),
        )
        for loss in record["losses"]
    ]
    heads = ("about", "name", f"{name} spent", "as epsilon", "exact, at most")
    out.print(table("\nPartial losses", heads, losses, left=2))
    out.print("\nPublished exactly:")
    for sentence in record["invariants"]:
        out.print(f"  {sentence}")
    if record["held_to"]:
        out.print(f"\n{record['held_to']}")
    for warning in record["warnings"]:
        out.print(f"warning: {warning}", style="bold yellow")


def _print_exact(record: dict[str, Any], out: Console) -> None:
    """The line of the exact composition, below those of the conversions."""
    exact = record["exact"]
    if exact is None:
        out.print("  no exact composition of Gaussian noise for several records of a contributor is known")
        return
    most = known(exact["epsilon_at_most"], rounded_up)
    said = f"  epsilon {most} at most at delta {exact['delta']:g}, exact composition"
    out.print(f"{said} of {exact['holds_for']}")


def _print_together(together: dict[str, Any], out: Console) -> None:
    spent = ", ".join(f"{name} = {together[name]}" for name in ("epsilon", "rho") if together[name] != "0")
    out.print(f"{together['run']}, all parts together: {spent}")
    if together["total_is"]:
        out.print(f"  {together['total_is']}", style="bold red")
    out.print(f"  epsilon {together['joint_epsilon']:.4f} at delta {together['delta']:g}, for one record of each part")
    if together["exact_epsilon_at_most"] is not None:
        said = known(together["exact_epsilon_at_most"], rounded_up)
        out.print(f"  epsilon {said} at most at delta {together['delta']:g}, exact composition of all measured answers")


def _print_passes(record: dict[str, Any], out: Console) -> None:
    """The order in which queries are estimated, where it is not all at once; passes that are alike stand together."""
    levels: dict[tuple[str, ...], list[str]] = {}
    met: Counter[str] = Counter()
    for each in record["passes"]:
        met[each["geolevel"]] += 1
        spelled = [" > ".join(", ".join(inner) for inner in each[kind]) for kind in ("least_squares", "rounding")]
        levels.setdefault((str(met[each["geolevel"]]), *spelled), []).append(each["geolevel"])
    if levels:
        rows = [(", ".join(names), *spelled) for spelled, names in levels.items()]
        columns = ("geolevels", "pass", "least squares", "rounding")
        out.print(table("\nPasses (inner passes in order, one > next)", columns, rows, left=4))


def _print_sizes(record: dict[str, Any], out: Console) -> None:
    columns = (
        "geolevel",
        "geounits",
        "largest family",
        "answers a geounit",
        "measurements",
        "largest problem",
        "CPU s",
    )
    rows = [
        (
            geolevel["geolevel"],
            known(geolevel["geounits"], _WHOLE),
            known(geolevel["largest_family"], _WHOLE),
            known(geolevel["answers_per_geounit"], _WHOLE),
            known(geolevel["measurement_bytes_at_most"], size),
            known(geolevel["family_bytes_at_most"], size),
            known(geolevel["cpu_seconds_at_most"], _WHOLE),
        )
        for geolevel in record["geolevels"]
    ]
    out.print(
        table(
            "\nSizes and estimation, at most (- where no public table says how many geounits there are)", columns, rows
        )
    )


def _print_intervals(record: dict[str, Any], out: Console) -> None:
    """Expected widths, a row a table, a column a geolevel."""
    if not record["intervals"]:
        return
    levels = list(dict.fromkeys(interval["geolevel"] for interval in record["intervals"]))
    widths = {(interval["table"], interval["geolevel"]): interval for interval in record["intervals"]}
    for title, key in (("total", "total"), ("mean of all columns", "mean_of_columns")):
        rows = [
            (name, *(f"{widths[name, level][key]:,.1f}" if (name, level) in widths else "-" for level in levels))
            for name in dict.fromkeys(interval["table"] for interval in record["intervals"])
        ]
        level = float(Fraction(record["intervals"][0]["level"]))
        heading = f"\nExpected width of {100 * level:g} % intervals by measurements alone, {title}"
        out.print(table(heading, ("table", *levels), rows))
    out.print("of a geounit where people of all classes can be, on a spine of families of equal size")
