"""Columns of published tables that will have wide intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from das_spark.config import USUAL_LEVEL, Method, errors_of_tables, expected_errors, method_of, widths_of_intervals
from das_spark.errors import ConfigurationError
from das_spark.planning.geounits import require_geounits

if TYPE_CHECKING:
    from das_spark.config import RunPlan


def wide_columns_record(plan: RunPlan, most: Fraction, counts: Mapping[str, int]) -> dict[str, Any]:
    """List the columns that have intervals by the measurements alone that are wider than a number, as JSON values.

    Args:
        plan: The run; intervals have the probability that it names, or 90 %.
        most: The number, in what is counted.
        counts: Geounits by geolevel.

    Raises:
        ConfigurationError: It is not known how many geounits there are, or the product has no tables or too many cells.
    """
    method = method_of(plan, counts)
    if not plan.product.tables:
        raise ConfigurationError(f"product {plan.product.name} has no tables")
    if method is Method.QUERY:
        raise ConfigurationError(f"product {plan.product.name} has too many cells for expected intervals")
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
