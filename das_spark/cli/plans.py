"""`check` and `plan`: what can be known of a run before anything is read or spent."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from das_spark.cli.geounits import Geounits, known_geounits, unread_levels
from das_spark.cli.options import Conf, Json, Overlays, Settings
from das_spark.cli.render import console, number, size, table
from das_spark.config.resolve import load_plan
from das_spark.privacy import (
    PUBLISHED_DELTA,
    DiscreteLaplace,
    Framework,
    attribute_losses,
    epsilon_bun_steinke,
    epsilon_cks,
    within_geolevel_losses,
)

if TYPE_CHECKING:
    from rich.console import Console

    from das_spark.config.plan import RunPlan
    from das_spark.privacy import Mechanism

_ANSWER_BYTES = 8
Said = Annotated[
    list[str] | None,
    typer.Option("--geounits", metavar="LEVEL=NUMBER", help="How many geounits a level has, for expected sizes."),
]


def check(
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    without_files: Annotated[bool, typer.Option("--without-files", help="Do not look for the input files.")] = False,
) -> None:
    """Check a run file against its product, and its input files for existence. Starts no Spark, reads no data.

    Example: das-spark check conf/e2e_1940.toml --set input.path=EXT1940USCB.dat
    """
    plan = load_plan(conf, overlay or (), settings or (), files=not without_files)
    total = _total_name(plan)
    typer.echo(f"{conf}: no problem found")
    typer.echo(f"run {plan.name}, product {plan.product.name}, reader {plan.input.reader}, {total} {plan.budget.total}")
    typer.echo(f"geolevels {', '.join(plan.spine.names)}; configuration {plan.config_hash}")


def plan(
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    geounits: Said = None,
    as_json: Json = False,
) -> None:
    """Show what a run would measure, how exactly, and at what expense of privacy. Spends nothing.

    Example: das-spark plan conf/e2e_1940.toml --set budget.epsilon=1 --geounits State=51 --geounits County=3108
    """
    resolved = load_plan(conf, overlay or (), settings or (), files=False)
    record = plan_record(resolved, known_geounits(resolved, geounits or ()))
    if as_json:
        typer.echo(json.dumps(record, indent=2))
    else:
        _print(record, console())


def plan_record(plan: RunPlan, geounits: Geounits) -> dict[str, Any]:
    """The plan as JSON values.

    Args:
        plan: The run.
        geounits: Sizes of the levels, as far as they are known.
    """
    budget = plan.budget
    return {
        "run": plan.name,
        "product": {"name": plan.product.name, "title": plan.product.title, "cells": plan.product.schema.size},
        "config_hash": plan.config_hash,
        "framework": str(budget.framework),
        "total": str(budget.total),
        "measurements": [
            _measurement(plan, level.geolevel, item.query) for level in budget.levels for item in level.queries
        ],
        "geolevels": [_geolevel(plan, level.name, geounits) for level in plan.spine.levels],
        "conversions": _conversions(plan),
        "losses": _losses(plan),
        "invariants": list(plan.invariants.describe(leaf=plan.spine.leaf.name)),
        "warnings": [
            f"the budget of {name} ({_total_name(plan)} {budget.total * budget.level(name).share}) will be read by no "
            "estimate: every geounit of it is an only child, and takes over its parent's"
            for name in unread_levels(plan.spine, geounits.counts)
        ],
    }


def _measurement(plan: RunPlan, geolevel: str, query: str) -> dict[str, Any]:
    budget = plan.budget
    mechanism = budget.mechanism(geolevel, query)
    name, parameter = _parameter(mechanism)
    return {
        "geolevel": geolevel,
        "query": query,
        "geolevel_share": str(budget.level(geolevel).share),
        "query_share": str(budget.level(geolevel).share_of(query)),
        "spent": str(budget.spent(geolevel, query)),
        "mechanism": type(mechanism).__name__,
        name: str(parameter),
        "parameter": float(parameter),
        "standard_deviation": math.sqrt(mechanism.variance()),
        "answers_per_geounit": plan.queries[query].rows,
    }


def _parameter(mechanism: Mechanism) -> tuple[str, Any]:
    if isinstance(mechanism, DiscreteLaplace):
        return "scale", mechanism.scale
    return "sigma_squared", mechanism.sigma_squared


def _geolevel(plan: RunPlan, geolevel: str, geounits: Geounits) -> dict[str, Any]:
    answers = sum(plan.queries[item.query].rows for item in plan.budget.level(geolevel).queries)
    count = geounits.counts.get(geolevel)
    largest = geounits.largest.get(geolevel)
    return {
        "geolevel": geolevel,
        "geounits": count,
        "largest_family": largest,
        "answers_per_geounit": answers,
        "measurement_bytes_at_most": None if count is None else count * answers * _ANSWER_BYTES,
        # A family is held once as measurements and a few times as variables of its problem.
        "family_bytes_at_most": None
        if largest is None
        else largest * (answers + 4 * plan.product.schema.size) * _ANSWER_BYTES,
    }


def _conversions(plan: RunPlan) -> list[dict[str, Any]]:
    """Epsilon at the published delta by both conversions; none for pure differential privacy, where epsilon is the total."""
    if plan.budget.framework is Framework.PURE_DP:
        return []
    rho, delta = plan.budget.total, PUBLISHED_DELTA
    return [
        {"conversion": "Canonne, Kamath, Steinke (2020)", "delta": float(delta), "epsilon": epsilon_cks(rho, delta)},
        {"conversion": "Bun, Steinke (2016)", "delta": float(delta), "epsilon": epsilon_bun_steinke(rho, delta)},
    ]


def _losses(plan: RunPlan) -> list[dict[str, Any]]:
    about = [("one attribute", loss) for loss in attribute_losses(plan.budget, plan.queries, plan.product.schema)]
    about += [("place within", loss) for loss in within_geolevel_losses(plan.budget)]
    return [
        {
            "about": what,
            "name": loss.name,
            "spent": str(loss.spent),
            "epsilon": loss.epsilon,
            "delta": float(loss.delta),
        }
        for what, loss in about
    ]


def _total_name(plan: RunPlan) -> str:
    return "epsilon" if plan.budget.framework is Framework.PURE_DP else "rho"


def _print(record: dict[str, Any], out: Console) -> None:
    name = "epsilon" if record["framework"] == "pure_dp" else "rho"
    product = record["product"]
    out.print(f"{record['run']}: {product['title']} ({product['name']}, {product['cells']:,} cells a geounit)")
    out.print(f"total {name} = {record['total']} ({record['framework']}), exact; neighbours: one record replaced")
    for each in record["conversions"]:
        out.print(f"  epsilon {each['epsilon']:.4f} at delta {each['delta']:g}, {each['conversion']}")
    parameter = "scale" if name == "epsilon" else "sigma^2"
    columns = ("geolevel", "query", "level share", "query share", f"{name} spent", parameter, "sd", "answers")
    rows = [
        (
            each["geolevel"],
            each["query"],
            each["geolevel_share"],
            each["query_share"],
            each["spent"],
            number(each["parameter"]),
            number(each["standard_deviation"]),
            f"{each['answers_per_geounit']:,}",
        )
        for each in record["measurements"]
    ]
    out.print(table("\nNoise: people, a geounit", columns, rows, left=2))
    _print_sizes(record, out)
    rows = [(each["about"], each["name"], each["spent"], number(each["epsilon"])) for each in record["losses"]]
    out.print(table("\nPartial losses", ("about", "name", f"{name} spent", "as epsilon"), rows, left=2))
    out.print("\nPublished exactly:")
    for sentence in record["invariants"]:
        out.print(f"  {sentence}")
    for warning in record["warnings"]:
        out.print(f"warning: {warning}", style="bold yellow")


def _print_sizes(record: dict[str, Any], out: Console) -> None:
    columns = ("geolevel", "geounits", "largest family", "answers a geounit", "measurements", "largest problem")
    rows = [
        (
            each["geolevel"],
            _known(each["geounits"]),
            _known(each["largest_family"]),
            f"{each['answers_per_geounit']:,}",
            _known_size(each["measurement_bytes_at_most"]),
            _known_size(each["family_bytes_at_most"]),
        )
        for each in record["geolevels"]
    ]
    out.print(table("\nSizes, at most (- where no public table says how many geounits there are)", columns, rows))


def _known(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _known_size(count: int | None) -> str:
    return "-" if count is None else size(count)
