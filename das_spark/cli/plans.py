"""`check` and `plan`: what can be known of a run before anything is read or spent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer

from das_spark.cli import completion
from das_spark.cli.gain import gain_record, holds_for, print_gain
from das_spark.cli.options import Conf, Json, Overlays, Settings, TestKey, console, print_json, refuse_address
from das_spark.cli.plan_page import FILES, write_plan
from das_spark.config import (
    ANSWERS_ALONE,
    BANNER,
    CENSUS,
    READER_NEEDS,
    USUAL_LEVEL,
    JointPlan,
    RunPlan,
    errors_of_tables,
    expected_errors,
    extent_of_loss,
    geounit_sentences,
    held_sentence,
    holding_losses,
    levels_together,
    load_run,
    needs_of,
    plan_to_config,
    plans_in,
    published_from_people,
    rules_from_people,
    stage_names,
    stages_of,
    unused_queries,
    widths_of_intervals,
)
from das_spark.errors import ConfigurationError, InputError
from das_spark.geography import CENSUS_BLOCK, block_geocode
from das_spark.places import place_of
from das_spark.privacy import (
    POWERS,
    PUBLISHED_DELTA,
    TYPE_ONE,
    DiscreteLaplace,
    Framework,
    compose_exactly,
    compositions_of,
    epsilon_bun_steinke,
    epsilon_cks,
    exact,
    joint_costs,
    rounded_up,
    worst_odds,
)
from das_spark.report import number, size, table

if TYPE_CHECKING:
    from rich.console import Console

    from das_spark.geography import Spine
    from das_spark.privacy import Mechanism


@dataclass(frozen=True, slots=True)
class GeounitCounts:
    """Number of geounits of the levels that are known, and of children of their largest families, by geolevel."""

    counts: Mapping[str, int]
    largest: Mapping[str, int]


def known_geounits(plan: RunPlan, said: Sequence[str] = ()) -> GeounitCounts:
    """Count geounits in the public table of the run, if it is there; what the user says comes first.

    Only the column of geocodes is read. Which geounits exist is public knowledge.
    """
    # Only when it is built is it known how many geounits a spine that is made of areas has.
    geocodes = _geocodes(plan) if plan.spine.is_census else []
    counted = _counted(geocodes, plan.spine) if geocodes else GeounitCounts({}, {})
    counts = {level.name: 1 for level in plan.spine.levels if level.length == 0}
    counts.update(counted.counts)
    for text in said:
        level, _, value = text.partition("=")
        if level not in plan.spine.names or not value.isdigit() or int(value) < 1:
            hint = f"write LEVEL=NUMBER with a level of the run: {', '.join(plan.spine.names)}"
            raise ConfigurationError(f"--geounits {text}: not a level and a number", hint=hint)
        counts[level] = int(value)
    return GeounitCounts(counts, counted.largest)


def require_geounits(plan: RunPlan, counts: Mapping[str, int], option: str) -> None:
    """Refuse an option that needs the number of geounits of every level, where one is not known.

    Raises:
        ConfigurationError: Which are missing, and how they are said.
    """
    if missing := [name for name in plan.spine.names if name not in counts]:
        raise ConfigurationError(
            f"{option}: it is not known how many geounits there are in {', '.join(missing)}",
            hint=f"say so: {' '.join(f'--geounits {name}=NUMBER' for name in missing)}",
        )


def unused_levels(spine: Spine, counts: Mapping[str, int]) -> list[str]:
    """Levels in which every geounit is known to be a single child, which has its parent's estimate unmeasured."""
    return [
        below.name
        for above, below in pairwise(spine.levels)
        if above.name in counts and counts[above.name] == counts.get(below.name)
    ]


def _geocodes(plan: RunPlan) -> list[str]:
    """Leaf geocodes of the table that says which geounits exist; empty where there is none to read."""
    if plan.input.is_simulated:
        return _simulated(plan)
    needs = READER_NEEDS.get(plan.input.reader)
    if plan.spine.own_codes or needs is None or "columns" not in needs.optional:  # no table, or none of geocodes
        return []
    # Only plans of runs with such a table need them.
    from das_spark.io.input_files import CsvForm, companion, is_catalog_table  # noqa: PLC0415
    from das_spark.io.input_places import is_there  # noqa: PLC0415
    from das_spark.io.input_tables import InputTable  # noqa: PLC0415

    given, folder = plan.input, plan.input.path
    places = {"geography": given.geography, "units": given.units}
    if not any(places.values()) and folder:
        places = {name: companion(folder, name) for name in places}
    key, place = next(((name, place) for name, place in places.items() if place), ("", ""))
    if not place or is_catalog_table(place) or not is_there(place):
        return []
    table, named = InputTable.open(place, CsvForm.of(given)), given.columns_of(key)
    geocode, block = (named.get(field, field) for field in ("geocode", "block"))
    column = geocode if geocode in table.columns else block
    if column not in table.columns:
        return []
    codes = [code for code in table.texts([column]).column(0).unique().to_pylist() if code is not None]
    length = max(plan.spine.leaf.length, 1) if column == geocode else CENSUS_BLOCK  # the root's geocode is "0"
    if wrong := sum(len(code) != length for code in codes):
        raise InputError(
            f"{place}, {column}: expected geocodes of {length} characters; not so of {wrong:,} of {len(codes):,}",
            hint="codes are text with their leading zeros, of the lowest geolevel of the run",
        )
    return codes if column == geocode else list(map(block_geocode, codes))


def _simulated(plan: RunPlan) -> list[str]:
    """Geocodes of a population that is quick to make; that of 1940 takes minutes."""
    if plan.input.population.like != "quickstart":
        return []
    from das_spark.simulation import LIKES, parts_of  # noqa: PLC0415 - see above

    made = plan.input.population
    parts = parts_of(made.like, made.share)
    return [code for part in parts for code in LIKES[made.like].make(part, made.seed, made.share).geocodes.tolist()]


def _counted(geocodes: Sequence[str], spine: Spine) -> GeounitCounts:
    counts, largest = {}, {}
    for level, above in zip(reversed(spine.levels), (*reversed(spine.levels[:-1]), None), strict=True):
        units = {geocode[: level.length] for geocode in geocodes}
        counts[level.name] = len(units)
        if above is not None and units:
            families = Counter(geocode[: above.length] for geocode in units)
            largest[level.name] = max(families.values())
    return GeounitCounts(counts, largest)


@dataclass(frozen=True, slots=True)
class UnusedShare:
    """A share of the budget (epsilon or rho, exact) of a query, or of all of a geolevel, that no estimate reads."""

    geolevel: str
    query: str | None
    spent: Fraction
    why: str

    def sentence(self, total: str) -> str:
        """The warning."""
        what = self.geolevel if self.query is None else f"query '{self.query}' at {self.geolevel}"
        return f"the budget of {what} ({total} {self.spent}) will be read by no estimate: {self.why}"


def unused_shares(plan: RunPlan, counts: Mapping[str, int]) -> Iterator[UnusedShare]:
    """Find them, root first, and each once, for its first reason."""
    alone = unused_levels(plan.spine, counts)
    exact = plan.invariants.total_levels(plan.spine.names)
    # Where parts have a total together, their noisy totals divide it.
    exact = tuple(name for name in exact if plan.spine.total_key_at(name) is None)
    needs = needs_of(plan)
    complete = needs.upward_levels(plan.spine.names) if needs.reads_everything else ()
    for level in plan.budget.levels:
        name = level.geolevel
        if name in alone and name not in complete:
            why = "every geounit of it is a single child, and has the estimate of its parent"
            yield UnusedShare(name, None, plan.budget.total * level.share, why)
            continue
        queries = [item.query for item in level.queries]
        skipped = () if name in complete else unused_queries(plan.estimation.passes, name, queries)
        for query in queries:
            spent = plan.budget.spent(name, query)
            if name in exact and plan.queries[query].rows == 1:
                yield UnusedShare(name, query, spent, "totals are published exactly there")
            elif query in skipped:
                yield UnusedShare(name, query, spent, "no pass of that geolevel fits it (estimation.passes)")


_ANSWER_BYTES = 8
#: Of estimation, a cell: the dearest measured family of interior points takes 9 microseconds (tests/benchmarks).
_CELL_SECONDS = 1e-5


def plan_record(plan: RunPlan, geounits: GeounitCounts) -> dict[str, Any]:
    """The plan as JSON values."""
    budget, config = plan.budget, plan_to_config(plan)
    return {
        "run": plan.name,
        "product": {
            "name": plan.product.name,
            "title": plan.product.title,
            "counts": plan.product.counted,
            "cells": plan.product.schema.size,
        },
        "spine": config["geography"],
        "config_hash": plan.config_hash,
        "framework": str(budget.framework),
        "total": str(budget.total),
        "total_is": extent_of_loss(plan),
        "replaced": _replaced(plan),
        "measurements": [
            _measurement(plan, level.geolevel, item.query) for level in budget.levels for item in level.queries
        ],
        "geolevels": [_geolevel(plan, level.name, geounits) for level in plan.spine.levels],
        "conversions": _conversions(plan),
        "exact": _exact(plan),
        "losses": _losses(plan),
        "passes": config["estimation"]["passes"],
        "estimation": levels_together(plan),
        "invariants": [
            *plan.invariants.describe(
                leaf=plan.spine.leaf.name,
                counted=plan.product.counted_in_totals,
                in_parts=plan.spine.total_key_at(plan.invariants.total_at) is not None,
            ),
            *rules_from_people(plan.acknowledged),
            *geounit_sentences(plan.input),
        ],
        "from_people": published_from_people(plan.acknowledged, plan.spine.leaf.name),
        "held_to": _held_to(plan),
        "intervals": _intervals(plan, geounits.counts),
        "warnings": [each.sentence(plan.budget.framework.symbol) for each in unused_shares(plan, geounits.counts)],
    }


def _replaced(plan: RunPlan) -> str:
    """In what neighbours differ."""
    records = plan.product.records
    if records.at_most == 1:
        return "one record replaced"
    return f"all records of one {records.contributed_by} replaced, {records.at_most} at most"


def joint_record(plan: JointPlan) -> dict[str, Any]:
    """What the parts of a joint run cost together, as JSON values."""
    total_is = ANSWERS_ALONE if any(each.acknowledged for each in plan.parts.values()) else ""
    return {"run": plan.name, **joint_costs([each.budget for each in plan.parts.values()]), "total_is": total_is}


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


def _geolevel(plan: RunPlan, geolevel: str, geounits: GeounitCounts) -> dict[str, Any]:
    answers = sum(plan.queries[item.query].rows for item in plan.budget.level(geolevel).queries)
    count = geounits.counts.get(geolevel)
    largest = geounits.largest.get(geolevel)
    return {
        "geolevel": geolevel,
        "geounits": count,
        "largest_family": largest,
        "answers_per_geounit": answers,
        "measurement_bytes_at_most": None if count is None else count * answers * _ANSWER_BYTES,
        # Most families work on fewer cells: those that their parent occupies.
        "cpu_seconds_at_most": None if count is None else count * plan.product.schema.size * _CELL_SECONDS,
        # A family is held once as measurements and a few times as variables of its problem.
        "family_bytes_at_most": None
        if largest is None
        else largest * (answers + 4 * plan.product.schema.size) * _ANSWER_BYTES,
    }


def _held_to(plan: RunPlan) -> str:
    """Which published counts the estimates are held to, and from where they are taken; empty without any."""
    sentence = held_sentence(plan.product)
    if not sentence:
        return ""
    if plan.published_part:
        return f"{sentence} They are taken from part {plan.published_part!r} of this joint run, when it is done."
    return f"{sentence} They are taken from {plan.input.published}."


def _conversions(plan: RunPlan) -> list[dict[str, Any]]:
    """Epsilon at the published delta by both conversions; none for pure differential privacy."""
    if plan.budget.framework is Framework.PURE_DP:
        return []
    rho, delta = plan.budget.total, PUBLISHED_DELTA
    return [
        {"conversion": "Canonne, Kamath, Steinke (2020)", "delta": float(delta), "epsilon": epsilon_cks(rho, delta)},
        {"conversion": "Bun, Steinke (2016)", "delta": float(delta), "epsilon": epsilon_bun_steinke(rho, delta)},
    ]


def _exact(plan: RunPlan) -> dict[str, Any] | None:
    """What all measured answers cost by their exact composition, in certified bounds; None where it is not known."""
    composed = compose_exactly([plan.budget])
    if composed is None:
        return None
    found = composed.epsilon(PUBLISHED_DELTA)
    low, high = composed.trade_off(np.array(TYPE_ONE))
    return {
        "delta": float(PUBLISHED_DELTA),
        "epsilon_at_least": found.low,
        "epsilon_at_most": found.high,
        "trade_off": [
            {"type_one_error": each, "type_two_at_least": least, "type_two_at_most": most}
            for each, least, most in zip(TYPE_ONE, low.tolist(), high.tolist(), strict=True)
        ],
        "odds_at_most": {str(power): odds for power, odds in zip(POWERS, _odds(plan), strict=True)},
        # Where a spine is made of areas, the statement of the run has the worst pair of its paths.
        "holds_for": holds_for([plan]),
    }


def _odds(plan: RunPlan) -> tuple[float, ...]:
    return worst_odds(compositions_of(plan.budget), plan.budget.framework, plan.budget.total)


def _intervals(plan: RunPlan, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Expected widths of intervals by table and geolevel; none where it is not known how many geounits there are."""
    level = plan.output.interval_level or USUAL_LEVEL
    tables, found = plan.product.tables, []
    for of, errors in errors_of_tables(expected_errors(plan, counts, tables), tables, plan.spine):
        widths = widths_of_intervals(errors.everywhere, plan, level)
        alone = widths_of_intervals(errors.first_class, plan, level)
        found.append(
            {
                "table": of.name,
                "geolevel": errors.geolevel,
                "level": str(level),
                "total": float(widths[0]),
                "mean_of_columns": float(widths.mean()),
                "total_first_class": float(alone[0]),
                "mean_of_columns_first_class": float(alone.mean()),
            }
        )
    return found


def _losses(plan: RunPlan) -> list[dict[str, Any]]:
    attributes, within = holding_losses(plan)
    about = [("one attribute", loss) for loss in attributes] + [("place within", loss) for loss in within]
    return [
        {
            "about": what,
            "name": loss.name,
            "spent": str(loss.spent),
            "epsilon": loss.epsilon,
            "delta": float(loss.delta),
            "exact_delta": float(PUBLISHED_DELTA),
            "exact_epsilon_at_most": None if loss.exact is None else loss.exact.high,
            "odds_at_most": {str(power): odds for power, odds in zip(POWERS, loss.odds, strict=True)},
        }
        for what, loss in about
    ]


#: A run that is not there yet: `check` asks what a new one would meet.
_NEW_RUN: Final = "check"

Said = Annotated[
    list[str] | None,
    typer.Option(
        "--geounits",
        metavar="LEVEL=NUMBER",
        help="How many geounits a level has, for expected sizes.",
        autocompletion=completion.sized_levels,
    ),
]


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
        runs = [_checked(each) for each in plans_in(loaded)]
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
    """What `check` says of a run, as JSON values."""
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


def plan(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    conf: Conf,
    overlay: Overlays = None,
    settings: Settings = None,
    geounits: Said = None,
    as_json: Json = False,
    stages: Annotated[
        bool, typer.Option("--stages", help="List the stages of the run instead, one a line, in order.")
    ] = False,
    at_epsilon: Annotated[
        str | None,
        typer.Option(
            "--at-epsilon",
            metavar="NUMBER",
            help="Show instead which total has this epsilon by exact composition, and by how much noise is less.",
        ),
    ] = None,
    delta: Annotated[
        str, typer.Option("--delta", metavar="NUMBER", help="With --at-epsilon: the delta at which it is meant.")
    ] = "1e-10",
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Write plan.json and a page with figures, plan.html, there."),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="FILE",
            help="Show instead the budget of this run file (A), as it is, beside that of CONF (B); --overlay and --set"
            " change B alone.",
            callback=refuse_address,
            autocompletion=completion.run_files,
        ),
    ] = None,
    statistics: Annotated[
        list[str] | None,
        typer.Option(
            "--statistic",
            metavar="QUERY@GEOLEVEL",
            help="With --compare: answers whose standard errors are shown; may be repeated. All that is measured"
            " otherwise.",
        ),
    ] = None,
    wider_than: Annotated[
        str | None,
        typer.Option(
            "--wider-than",
            metavar="NUMBER",
            help="Show instead which columns of published tables will have wider intervals, in people (or units).",
        ),
    ] = None,
    resources: Annotated[
        list[str] | None,
        typer.Option(
            "--resources",
            metavar="[PART=]RECORDS",
            help="Show instead what a run on so many records needs: cores, memory, disk, hours; of a joint run, once"
            " for each part, such as person=331000000.",
        ),
    ] = None,
    test_key: Annotated[
        str | None,
        typer.Option(
            "--test-key", metavar="TEXT", help="Taken as by run, whose arguments serve here; changes nothing."
        ),
    ] = None,
) -> None:
    """Show what a run would measure, how exactly, and at what expense of privacy. Spends nothing.

    Example: das-spark plan conf/e2e_1940.toml --set budget.epsilon=1 --geounits State=51 --geounits County=3108
    """
    _refuse_contradictions(
        {
            "--compare": compare,
            "--wider-than": wider_than,
            "--at-epsilon": at_epsilon,
            "--stages": stages or None,
            "--out": out,
            "--resources": resources or None,
        },
        statistics,
    )
    if compare is not None:
        from das_spark.cli.compare_plans import show_comparison  # noqa: PLC0415 - it takes from here

        files = (compare, conf)
        show_comparison(files, overlay or (), settings or (), statistics or (), geounits or (), as_json=as_json)
        return
    # What is planned depends neither on a key nor on whose people are counted: the run file alone says it.
    del test_key
    loaded = load_run(conf, overlay or (), settings or (), files=False)
    if stages:
        names = stage_names(loaded)
        print_json(names) if as_json else typer.echo("\n".join(names))
        return
    if at_epsilon is not None:
        found = gain_record(loaded, exact(at_epsilon, "--at-epsilon"), exact(delta, "--delta"))
        print_json(found) if as_json else print_gain(found, console())
        return
    if _by_sizes(loaded, wider_than, resources, geounits or (), as_json=as_json):
        return
    records = [plan_record(each, known_geounits(each, geounits or ())) for each in plans_in(loaded)]
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


def _by_sizes(
    loaded: RunPlan | JointPlan,
    wider_than: str | None,
    resources: Sequence[str] | None,
    geounits: Sequence[str],
    *,
    as_json: bool,
) -> bool:
    """Show what depends on how many geounits there are, if it is asked for; return whether it was."""
    if resources:
        from das_spark.cli.resources import show_resources  # noqa: PLC0415 - it takes from here

        show_resources(loaded, resources, geounits, as_json=as_json)
    elif wider_than is not None:
        from das_spark.cli.wide_columns import show_wide_columns  # noqa: PLC0415 - as above

        show_wide_columns(plans_in(loaded), wider_than, geounits, as_json=as_json)
    return bool(resources) or wider_than is not None


def _refuse_contradictions(instead: Mapping[str, object], statistics: Sequence[str] | None) -> None:
    """Refuse options that each show something else, and those that go with one which is not there."""
    said = [option for option, value in instead.items() if value is not None]
    if len(said) > 1:
        raise typer.BadParameter(f"{' and '.join(said)} show different things: name one of them")
    if statistics and "--compare" not in said:
        raise typer.BadParameter("--statistic goes with --compare FILE")


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
    if record["estimation"]:
        out.print(f"\n{record['estimation']}")
    _print_sizes(record, out)
    _print_intervals(record, out)
    losses = [
        (each["about"], each["name"], each["spent"], number(each["epsilon"]), _said(each["exact_epsilon_at_most"]))
        for each in record["losses"]
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
    said = f"  epsilon {_said(exact['epsilon_at_most'])} at most at delta {exact['delta']:g}, exact composition"
    out.print(f"{said} of {exact['holds_for']}")


def _said(bound: float | None) -> str:
    """An upper bound."""
    return "-" if bound is None else rounded_up(bound)


def _print_together(together: dict[str, Any], out: Console) -> None:
    spent = ", ".join(f"{name} = {together[name]}" for name in ("epsilon", "rho") if together[name] != "0")
    out.print(f"{together['run']}, all parts together: {spent}")
    if together["total_is"]:
        out.print(f"  {together['total_is']}", style="bold red")
    out.print(f"  epsilon {together['joint_epsilon']:.4f} at delta {together['delta']:g}, for one record of each part")
    if together["exact_epsilon_at_most"] is not None:
        said = _said(together["exact_epsilon_at_most"])
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
            each["geolevel"],
            _known(each["geounits"]),
            _known(each["largest_family"]),
            _known(each["answers_per_geounit"]),
            _known(each["measurement_bytes_at_most"], size),
            _known(each["family_bytes_at_most"], size),
            _known(each["cpu_seconds_at_most"]),
        )
        for each in record["geolevels"]
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
    levels = list(dict.fromkeys(each["geolevel"] for each in record["intervals"]))
    widths = {(each["table"], each["geolevel"]): each for each in record["intervals"]}
    for title, key in (("total", "total"), ("mean of all columns", "mean_of_columns")):
        rows = [
            (name, *(f"{widths[name, level][key]:,.1f}" if (name, level) in widths else "-" for level in levels))
            for name in dict.fromkeys(each["table"] for each in record["intervals"])
        ]
        level = float(Fraction(record["intervals"][0]["level"]))
        heading = f"\nExpected width of {100 * level:g} % intervals by measurements alone, {title}"
        out.print(table(heading, ("table", *levels), rows))
    out.print("of a geounit where people of all classes can be, on a spine of families of equal size")


def _known(count: float | None, spell: Callable[[Any], str] = "{:,.0f}".format) -> str:
    return "-" if count is None else spell(count)
