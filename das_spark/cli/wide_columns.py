"""`plan --wider-than`: which columns of published tables will have wide intervals, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from das_spark.cli.options import console, print_json
from das_spark.cli.plans import known_geounits, require_geounits
from das_spark.config import USUAL_LEVEL, Method, errors_of_tables, expected_errors, method_of, widths_of_intervals
from das_spark.errors import ConfigurationError
from das_spark.privacy import exact
from das_spark.report import table

if TYPE_CHECKING:
    from rich.console import Console

    from das_spark.config import RunPlan


def wide_columns_record(plan: RunPlan, most: Fraction, counts: Mapping[str, int]) -> dict[str, Any]:
    """Which columns have intervals by the measurements alone that are wider than a number, as JSON values.

    Args:
        plan: The run; intervals have the probability that it names, or 90 %.
        most: The number, in what is counted.
        counts: Geounits by geolevel.

    Raises:
        ConfigurationError: It is not known how many geounits there are, or the product has no tables or too many cells.
    """
    method = method_of(plan, counts)
    if not plan.product.tables:
        raise ConfigurationError(f"--wider-than: product {plan.product.name} has no tables")
    if method is Method.QUERY:
        raise ConfigurationError(f"--wider-than: product {plan.product.name} has too many cells for expected intervals")
    require_geounits(plan, counts, "--wider-than")
    level = plan.output.interval_level or USUAL_LEVEL
    return {
        "run": plan.name,
        "wider_than": str(most),
        "level": str(level),
        "counts": plan.product.counted,
        "tables": list(_tables(plan, most, level, counts)),
    }


def _tables(plan: RunPlan, most: Fraction, level: Fraction, counts: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    tables = plan.product.tables
    for of, errors in errors_of_tables(expected_errors(plan, counts, tables), tables, plan.spine):
        widths = widths_of_intervals(errors.everywhere, plan, level)
        alone = widths_of_intervals(errors.first_class, plan, level)
        wider = {name: float(width) for name, width in zip(of.names, widths, strict=True) if width > most}
        yield {
            "table": of.name,
            "geolevel": errors.geolevel,
            "columns": len(of.names),
            "wider": len(wider),
            "wider_first_class": int((alone > float(most)).sum()),
            "widest": float(widths.max()),
            "widths_of_wider": wider,
        }


def show_wide_columns(plans: Sequence[RunPlan], most: str, geounits: Sequence[str], *, as_json: bool) -> None:
    """Print it of a run, or of all parts of a joint run that have tables."""
    if most.endswith("%"):
        raise ConfigurationError(
            f"--wider-than {most}: before a run nothing is known of the estimates",
            hint="write a number of people; das-spark interval RUN --wider-than takes percentages",
        )
    limit = exact(most, "--wider-than")
    if limit < 0:
        raise ConfigurationError(f"--wider-than {most}: a width is 0 or more")
    chosen = [plan for plan in plans if plan.product.tables] or plans
    found = [wide_columns_record(each, limit, known_geounits(each, geounits).counts) for each in chosen]
    if as_json:
        print_json(found[0] if len(plans) == 1 else {"parts": found})
        return
    for each in found:
        _print(each, console())


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
