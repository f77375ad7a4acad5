"""`check` and `plan`: what can be known of a run before anything is read or spent."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from das_spark.cli.geounits import known_geounits
from das_spark.cli.options import Conf, Json, Overlays, Settings, TestKey
from das_spark.cli.plan_record import joint_record, plan_record
from das_spark.cli.render import console
from das_spark.config import BANNER, CENSUS, JointPlan, RunPlan, load_run, published_from_people, stage_names, stages_of
from das_spark.privacy import Framework
from das_spark.report import number, size, table

if TYPE_CHECKING:
    from rich.console import Console


#: A run that is not there yet: `check` asks what a new one would meet.
_NEW_RUN: Final = "check"

Said = Annotated[
    list[str] | None,
    typer.Option("--geounits", metavar="LEVEL=NUMBER", help="How many geounits a level has, for expected sizes."),
]


def check(
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    without_files: Annotated[bool, typer.Option("--without-files", help="Do not look for the input files.")] = False,
    test_key: TestKey = None,
) -> None:
    """Try all that a run will need: keys, how files begin, layouts, tables, solvers, disks. Starts no Spark.

    Says what `run` would say before it makes a folder. Reads no data: layouts, tables and solvers get invented counts.

    Example: das-spark check conf/e2e_1940.toml --set input.path=EXT1940USCB.dat
    """
    loaded = load_run(conf, overlay or (), settings or (), files=not without_files, named=test_key is None)
    # Wrong keys are said before Spark's packages are imported.
    from das_spark.pipeline.preflight import try_stages  # noqa: PLC0415
    from das_spark.store import RunLayout  # noqa: PLC0415

    for each in _plans(loaded):
        try_stages(each, RunLayout.of(each.output, _NEW_RUN), stages_of(each), files=not without_files)
    typer.echo(f"{conf}: no problem found")
    for each in _plans(loaded):
        spent = f"{each.budget.framework.symbol} {each.budget.total}"
        typer.echo(f"run {each.name}, product {each.product.name}, reader {each.input.reader}, {spent}")
        typer.echo(f"geolevels {', '.join(each.spine.names)}; configuration {each.config_hash}")
        if each.acknowledged:
            published = published_from_people(each.acknowledged, each.spine.leaf.name)
            typer.echo(f"{BANNER}: {'; '.join(published)}")


def _plans(loaded: RunPlan | JointPlan) -> list[RunPlan]:
    return list(loaded.parts.values()) if isinstance(loaded, JointPlan) else [loaded]


def plan(
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    geounits: Said = None,
    as_json: Json = False,
    stages: Annotated[
        bool, typer.Option("--stages", help="List the stages of the run instead, one a line, in order.")
    ] = False,
    test_key: TestKey = None,
) -> None:
    """Show what a run would measure, how exactly, and at what expense of privacy. Spends nothing.

    Example: das-spark plan conf/e2e_1940.toml --set budget.epsilon=1 --geounits State=51 --geounits County=3108
    """
    # The stages of a run do not depend on its key: schedulers ask for them by the run file alone.
    loaded = load_run(conf, overlay or (), settings or (), files=False, named=test_key is None and not stages)
    if stages:
        names = stage_names(loaded)
        typer.echo(json.dumps(names) if as_json else "\n".join(names))
        return
    records = [plan_record(each, known_geounits(each, geounits or ())) for each in _plans(loaded)]
    together = joint_record(loaded) if isinstance(loaded, JointPlan) else None
    if as_json:
        whole = records[0] if together is None else {"run": together["run"], "parts": records, "together": together}
        typer.echo(json.dumps(whole, indent=2))
        return
    out = console()
    for record in records:
        _print(record, out)
        out.print()
    if together is not None:
        _print_together(together, out)


def _print(record: dict[str, Any], out: Console) -> None:
    name = Framework(record["framework"]).symbol
    product = record["product"]
    out.print(f"{record['run']}: {product['title']} ({product['name']}, {product['cells']:,} cells a geounit)")
    if record["from_people"]:
        out.print(f"{BANNER}:", style="bold red")
        for each in record["from_people"]:
            out.print(f"  {each}", style="bold red")
    out.print(f"total {name} = {record['total']} ({record['framework']}), exact; neighbours: one record replaced")
    if record["total_is"]:
        out.print(f"  {record['total_is']}", style="bold red")
    for each in record["conversions"]:
        out.print(f"  epsilon {each['epsilon']:.4f} at delta {each['delta']:g}, {each['conversion']}")
    if record["spine"]["spine"] != CENSUS:
        out.print(
            f"spine {record['spine']['spine']}, made of areas ({record['spine']['reader']}): a geounit with one child"
            " takes over its share, is measured better than shown here, and its child not at all"
        )
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
    out.print(table(f"\nNoise: {product['counts']}, a geounit", columns, rows, left=2))
    _print_passes(record, out)
    _print_sizes(record, out)
    losses = [(each["about"], each["name"], each["spent"], number(each["epsilon"])) for each in record["losses"]]
    out.print(table("\nPartial losses", ("about", "name", f"{name} spent", "as epsilon"), losses, left=2))
    out.print("\nPublished exactly:")
    for sentence in record["invariants"]:
        out.print(f"  {sentence}")
    for warning in record["warnings"]:
        out.print(f"warning: {warning}", style="bold yellow")


def _print_together(together: dict[str, Any], out: Console) -> None:
    spent = ", ".join(f"{name} = {together[name]}" for name in ("epsilon", "rho") if together[name] != "0")
    out.print(f"{together['run']}, all parts together: {spent}")
    if together["total_is"]:
        out.print(f"  {together['total_is']}", style="bold red")
    out.print(f"  epsilon {together['joint_epsilon']:.4f} at delta {together['delta']:g}, for one record of each part")


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
            each["geolevel"],
            _known(each["geounits"]),
            _known(each["largest_family"]),
            f"{each['answers_per_geounit']:,}",
            _known_size(each["measurement_bytes_at_most"]),
            _known_size(each["family_bytes_at_most"]),
            "-" if each["cpu_seconds_at_most"] is None else f"{each['cpu_seconds_at_most']:,.0f}",
        )
        for each in record["geolevels"]
    ]
    out.print(
        table(
            "\nSizes and estimation, at most (- where no public table says how many geounits there are)", columns, rows
        )
    )


def _known(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _known_size(count: int | None) -> str:
    return "-" if count is None else size(count)
