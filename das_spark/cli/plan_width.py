"""`plan width`: which columns of published tables will have wide intervals, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from das_spark.cli.options import Conf, Geounits, Json, Overlays, Settings, console, print_json
from das_spark.config import load_run, plans_in
from das_spark.errors import ConfigurationError
from das_spark.planning import known_geounits, wide_columns_record
from das_spark.privacy import exact
from das_spark.report import table

if TYPE_CHECKING:
    from rich.console import Console


def width(
    conf: Conf,
    wider_than: Annotated[
        str, typer.Option("--wider-than", metavar="NUMBER", help="Width in people (or units) that is too wide.")
    ],
    overlay: Overlays = None,
    settings: Settings = None,
    geounits: Geounits = None,
    as_json: Json = False,
) -> None:
    """Show which columns of published tables will have wide intervals.

    Example: das-spark plan width conf/quickstart.toml --wider-than 20
    """
    if wider_than.endswith("%"):
        raise ConfigurationError(
            f"--wider-than {wider_than}: before a run nothing is known of the estimates",
            hint="write a number of people; das-spark interval RUN --wider-than takes percentages",
        )
    limit = exact(wider_than, "--wider-than")
    if limit < 0:
        raise ConfigurationError(f"--wider-than {wider_than}: a width is 0 or more")
    plans = plans_in(load_run(conf, overlay or (), settings or (), files=False))
    chosen = [plan for plan in plans if plan.product.tables] or plans
    found = [wide_columns_record(plan, limit, known_geounits(plan, geounits or ()).counts) for plan in chosen]
    if as_json:
        print_json(found[0] if len(plans) == 1 else {"parts": found})
        return
    for record in found:
        _print(record, console())


def _print(found: Mapping[str, Any], out: Console) -> None:
    rows = [
        (
            each["table"],
            each["geolevel"],
            f"{each['columns']:,}",
            f"{each['wider']:,}",
            f"{each['wider_first_class']:,}",
            f"{each['widest']:,.1f}",
            ", ".join(each["widths_of_wider"]) if each["wider"] < each["columns"] else "all",
        )
        for each in found["tables"]
    ]
    title = (
        f"{found['run']}: columns whose {100 * float(Fraction(found['level'])):g} % interval will be wider than"
        f" {found['wider_than']} {found['counts']}"
    )
    heads = ("table", "geolevel", "columns", "wider", "wider where first class alone", "widest", "which")
    out.print(table(title, heads, rows, left=2))
    out.print("by measurements alone, of a geounit where people of all classes can be, on families of equal size; ends")
    out.print("that fall below 0 are cut off in published intervals, which are narrower there")
