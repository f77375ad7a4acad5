"""`budget`: which total, and which division of it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from das_spark.cli.options import Conf, Json, Overlays, Settings, console, group, print_json
from das_spark.cli.suggest import suggest
from das_spark.config import load_run
from das_spark.planning import gain_record
from das_spark.privacy import Framework, exact
from das_spark.report import number, table

if TYPE_CHECKING:
    from rich.console import Console

app = group("budget", "Find a total, and a division of it that makes exact what shall be.")
app.command("suggest")(suggest)


@app.command("total")
def total(
    conf: Conf,
    epsilon: Annotated[str, typer.Option("--epsilon", metavar="NUMBER", help="The epsilon that the total shall have.")],
    delta: Annotated[str, typer.Option("--delta", metavar="NUMBER", help="The delta at which it is meant.")] = "1e-10",
    overlay: Overlays = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Show which total has an epsilon by exact composition, and by how much its noise is less.

    Example: das-spark budget total conf/pl94_2020_person.toml --epsilon 17.14 --delta 1e-10
    """
    loaded = load_run(conf, overlay or (), settings or (), files=False)
    found = gain_record(loaded, exact(epsilon, "--epsilon"), exact(delta, "--delta"))
    print_json(found) if as_json else _print(found, console())


def _print(found: dict[str, Any], out: Console) -> None:
    epsilon, delta = (float(Fraction(found[name])) for name in ("epsilon", "delta"))
    out.print(f"{found['run']}: epsilon {epsilon:g} at delta {delta:g}, exact composition of {found['holds_for']}")
    for part in found["parts"]:
        symbol = Framework(part["framework"]).symbol
        ratio = float(Fraction(part["total_at_epsilon"]) / Fraction(part["total"])) - 1
        out.print(
            f"{part['run']}: {symbol} = {part['total_at_epsilon']} in the place of {part['total']} ({ratio:+.2%}):"
            f" --set budget.{symbol}={part['total_at_epsilon']}"
        )
        rows = [
            (
                measurement["geolevel"],
                measurement["query"],
                number(measurement["standard_deviation"]),
                number(measurement["standard_deviation_at_epsilon"]),
                f"{measurement['change']:+.2%}",
            )
            for measurement in part["measurements"]
        ]
        heads = ("geolevel", "query", "sd", f"sd at epsilon {epsilon:g}", "change")
        out.print(table("\nNoise, a geounit", heads, rows, left=2))
