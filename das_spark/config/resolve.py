"""From a run file to a run plan: names are looked up, shares made exact, all cross-checks done. No Spark, no data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from das_spark.config.acknowledgements import given_up, resolve_acknowledgements
from das_spark.config.geography import resolve_geography, resolve_spine
from das_spark.config.inputs import check_dataset, resolve_input
from das_spark.config.ledger import resolve_ledger
from das_spark.config.load import read_tables, run_file_of
from das_spark.config.model import RunFile
from das_spark.config.passes import as_json, measured_queries, resolve_passes
from das_spark.config.places import absolute_places, places_of, without_places
from das_spark.config.plan import (
    EstimationSettings,
    EvaluationSettings,
    GeographySettings,
    OutputSettings,
    RunPlan,
    TableFormat,
)
from das_spark.config.problems import Problems, nearest
from das_spark.config.shares import resolve_budget
from das_spark.constraints import AddedConstraint, Invariants, Sense
from das_spark.errors import ConfigurationError
from das_spark.estimation import FAMILY_SOLVERS
from das_spark.geography import Spine
from das_spark.privacy.budget import Budget
from das_spark.products import PRODUCTS, Product

#: Key of `[run]` that makes a file that of a joint run.
PARTS = "parts"
#: What `invariants.total_at` says where no total is exact.
NO_TOTAL = "none"
#: Formats of the tables of a product that has some, where the run file names none.
TABLE_FORMATS: tuple[TableFormat, ...] = ("parquet", "csv")
DEFAULT_SOLVERS = ("batched", "piqp", "clarabel", "osqp")


def load_plan(
    path: str | Path,
    overlays: Sequence[str | Path] = (),
    settings: Sequence[str] = (),
    *,
    files: bool = True,
    named: bool = False,
) -> RunPlan:
    """Read a run file and resolve it.

    Args:
        path: The TOML file.
        overlays: Further TOML files, each laid over what came before.
        settings: Texts `key.path=value`, applied last.
        files: Whether the input files must be there; a plan can be looked at without them.
        named: Whether files must have the name of a dataset: a real key is used on them.

    Returns:
        The plan of the run.

    Raises:
        ConfigurationError: With all problems together, each with its key path.
    """
    return plan_of(read_tables(path, overlays, settings), str(path), files=files, named=named)


def plan_of(data: dict[str, Any], source: str, *, files: bool = True, named: bool = False) -> RunPlan:
    """Resolve the tables of a run file.

    Args:
        data: The tables.
        source: The file, for messages.
        files: Whether the input files must be there.
        named: As for `load_plan`.

    Raises:
        ConfigurationError: With all problems together, each with its key path.
    """
    refuse_parts(data, source)
    run_file, problems = run_file_of(data, source)
    plan = resolve(run_file, problems, files=files, named=named) if run_file is not None else None
    problems.raise_if_any()
    if plan is None:
        raise ConfigurationError(f"{source}: is not a run file")
    return plan


def names_parts(data: Mapping[str, Any]) -> bool:
    """Whether the tables of a run file are those of a joint run.

    Args:
        data: The tables, right or wrong.
    """
    run = data.get("run")
    return isinstance(run, Mapping) and PARTS in run


def refuse_parts(data: Mapping[str, Any], source: str) -> None:
    """Refuse a run file of several runs where one is asked for.

    Args:
        data: The tables.
        source: The file, for the message.

    Raises:
        ConfigurationError: It names parts.
    """
    if names_parts(data):
        raise ConfigurationError(
            f"{source}: names several runs (run.{PARTS}), and one is asked for", hint="name the run file of one part"
        )


def resolve(run_file: RunFile, problems: Problems, *, files: bool = True, named: bool = False) -> RunPlan | None:
    """Look everything up and check it together.

    Args:
        run_file: What the user wrote, valid key by key.
        problems: Where to note what is wrong.
        files: Whether the input files must be there.
        named: As for `load_plan`.

    Returns:
        The plan, or None where something is wrong.
    """
    run_file = absolute_places(run_file, problems)
    product = PRODUCTS.get(run_file.run.product)
    spine = resolve_spine(run_file, product, problems) if product else None
    levels = spine.names if spine else ()
    invariants = _invariants(run_file, product, levels, problems)
    units_invariant = invariants is not None and invariants.units
    settings = resolve_input(run_file.input, product, units_invariant=units_invariant, files=files, problems=problems)
    estimation = _estimation(run_file, problems)
    if named:
        check_dataset(run_file.input.reader, run_file.input.dataset, problems)
    ledger = resolve_ledger(run_file.ledger, problems)
    if product is None:
        problems.add(
            "run.product", f"unknown product '{run_file.run.product}'; {nearest(run_file.run.product, PRODUCTS)}"
        )
        return None
    _check_total_level(invariants, levels, problems)
    _check_level_names(run_file, levels, problems)
    _check_tables(run_file, product, problems)
    for flavour in run_file.output.microdata:
        with problems.at("output.microdata"):
            product.layout(flavour)
    if run_file.output.microdata_files != "parts" and set(run_file.output.microdata) == {"parquet"}:
        sentence = 'Parquet is always in parts; add "text" or "ppmf" to output.microdata, or leave the key out'
        problems.add("output.microdata_files", sentence)
    geography = resolve_geography(run_file, product, spine, problems, files=files) if spine else None
    budget = resolve_budget(run_file.budget, product, levels, problems)
    measured = measured_queries(*budget) if budget else None
    strategy = product.strategies.get(run_file.budget.strategy or "")
    passes = resolve_passes(run_file.estimation.passes, strategy, product.schema, levels, measured, problems)
    estimation = replace(estimation, passes=passes)
    added = _added(run_file, product, levels, problems)
    needed = given_up(run_file.input, product, units_invariant=units_invariant)
    leaf = levels[-1] if levels else "geounit of the lowest geolevel"
    acknowledged = resolve_acknowledgements(run_file.privacy.acknowledge, needed, leaf, problems)
    if problems.found or spine is None or geography is None or budget is None or invariants is None:
        return None
    resolved = _resolved(run_file, product, spine, geography, budget[0], invariants, estimation)
    resolved["privacy"] = {"acknowledge": list(acknowledged)}
    return RunPlan(
        name=resolved["run"]["name"],
        product=product,
        spine=spine,
        geography=geography,
        budget=budget[0],
        invariants=invariants,
        queries=MappingProxyType(budget[1]),
        added=added,
        input=settings,
        output=OutputSettings(run_file.output.root, run_file.output.public, run_file.output.restricted),
        estimation=estimation,
        measurement_rows=run_file.measurement.rows,
        microdata_formats=run_file.output.microdata,
        microdata_files=run_file.output.microdata_files,
        table_formats=tuple(resolved["output"]["tables"]),
        evaluation=EvaluationSettings(run_file.evaluation.enabled, run_file.evaluation.areas),
        config_hash=config_hash(resolved),
        resolved=resolved,
        acknowledged=acknowledged,
        ledger=ledger,
        places=MappingProxyType(places_of(run_file)),
    )


def _invariants(
    run_file: RunFile, product: Product | None, levels: Sequence[str], problems: Problems
) -> Invariants | None:
    section = run_file.invariants
    total_at = section.total_at or (_usual_total_at(product, levels) if product else None)
    vacant = product is None or not product.vacant_counted
    with problems.at("invariants"):
        return Invariants(None if total_at == NO_TOTAL else total_at, units=section.units, vacant=vacant)
    return None


def _usual_total_at(product: Product, levels: Sequence[str]) -> str:
    """The product's level of exact totals, or the lowest of a run that ends above it: sums of exact ones are exact."""
    below = [level.name for level in product.geolevels]
    if levels and product.total_at in below[below.index(levels[-1]) :]:
        return levels[-1]
    return product.total_at


def _check_total_level(invariants: Invariants | None, levels: Sequence[str], problems: Problems) -> None:
    level = invariants.total_at if invariants else None
    if levels and level is not None and level not in levels:
        sentence = f"'{level}' is no geolevel of the run; {nearest(level, levels)}; \"{NO_TOTAL}\" for no exact total"
        problems.add("invariants.total_at", sentence)


def _check_level_names(run_file: RunFile, levels: Sequence[str], problems: Problems) -> None:
    for level in run_file.budget.level_queries:
        if levels and level not in levels:
            key = f"budget.level_queries.{level}"
            problems.add(key, f"there is no such geolevel in the run; {nearest(level, levels)}")


def _check_tables(run_file: RunFile, product: Product, problems: Problems) -> None:
    if run_file.output.tables and not product.tables:
        problems.add("output.tables", f"product '{product.name}' has no tables; leave the key out")


def _added(
    run_file: RunFile, product: Product, levels: Sequence[str], problems: Problems
) -> tuple[AddedConstraint, ...]:
    added = []
    names: set[str] = set()
    for place, section in enumerate(run_file.constraints):
        key = f"constraints.{place}"
        if levels and section.geolevel not in levels:
            sentence = f"there is no such geolevel in the run; {nearest(section.geolevel, levels)}"
            problems.add(f"{key}.geolevel", f"'{section.geolevel}': {sentence}")
        if section.name in names:
            problems.add(f"{key}.name", f"another constraint is called '{section.name}'")
        names.add(section.name)
        with problems.at(key):
            constraint = AddedConstraint(
                section.name, section.geolevel, section.query, Sense(section.sense), section.right
            )
            constraint.resolve(product.schema)
            added.append(constraint)
    return tuple(added)


def _estimation(run_file: RunFile, problems: Problems) -> EstimationSettings:
    section = run_file.estimation
    solvers = section.solvers or DEFAULT_SOLVERS
    for name in solvers:
        if name not in FAMILY_SOLVERS:
            sentence = f"'{name}' is no solver of least squares; {nearest(name, FAMILY_SOLVERS)}"
            problems.add("estimation.solvers", sentence)
    if len(set(solvers)) != len(solvers):
        problems.add("estimation.solvers", "a solver stands twice in the chain")
    if section.failsafe and run_file.measurement.rows != "all":
        problems.add("estimation.failsafe", 'needs every noisy answer: set measurement.rows = "all"')
    return EstimationSettings(
        solvers=solvers,
        gap_tolerance=section.gap_tolerance,
        rounding=section.rounding,
        failsafe=section.failsafe,
        partitions_per_core=section.partitions_per_core,
    )


def _resolved(
    run_file: RunFile,
    product: Product,
    spine: Spine,
    geography: GeographySettings,
    budget: Budget,
    invariants: Invariants,
    estimation: EstimationSettings,
) -> dict[str, Any]:
    """The whole configuration as JSON values, with every default and every share spelled out, without its places."""
    # Where the ledger lies and what its cap is changes nothing that is published, and may change between two calls.
    resolved = run_file.model_dump(mode="json", exclude={"ledger"})
    resolved["run"]["name"] = run_file.run.name or product.name
    resolved["geography"] = _geography(spine, geography)
    if run_file.output.tables is None:
        resolved["output"]["tables"] = list(TABLE_FORMATS) if product.tables else []
    resolved["budget"] = {
        "framework": str(budget.framework),
        "total": str(budget.total),
        "strategy": run_file.budget.strategy,
        "levels": [
            {
                "geolevel": level.geolevel,
                "share": str(level.share),
                "queries": {item.query: str(item.share) for item in level.queries},
            }
            for level in budget.levels
        ],
    }
    resolved["invariants"] = {"total_at": invariants.total_at, "units": invariants.units}
    resolved["estimation"]["solvers"] = list(estimation.solvers)
    resolved["estimation"]["passes"] = as_json(estimation.passes)
    return without_places(resolved)


def _geography(spine: Spine, geography: GeographySettings) -> dict[str, Any]:
    found: dict[str, Any] = {"levels": list(spine.names), "spine": spine.kind}
    if geography.reader is not None:
        found |= {"reader": geography.reader, "path": geography.path}
    if not spine.is_census:
        found["crosswalk"] = geography.crosswalk
        found["shape"] = {key: value for key, value in asdict(geography.spine).items() if key != "kind"}
    return found


def config_hash(resolved: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a resolved configuration.

    Args:
        resolved: The configuration as JSON values.
    """
    canonical = json.dumps(resolved, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
