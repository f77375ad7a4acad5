"""From the configuration that a manifest holds to the plan of the run, and to that of a run on its measurements.

What was measured is fixed: product, levels, budget, invariants, constraints and the rows that are kept stay as they
were. Estimation and output may be other ones. There is nothing confidential to compare with, so nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import Strict

from das_spark.config.acknowledgements import given_up
from das_spark.config.features import wanted_features, with_features
from das_spark.config.geography import known_levels, spine_of
from das_spark.config.load import absolute_places, apply_setting, validated
from das_spark.config.model import (
    ConfigVersion,
    ConstraintSection,
    EstimationSection,
    EvaluationSettings,
    InputSettings,
    InvariantsSection,
    MeasurementSection,
    Name,
    OutputSection,
    PrivacySection,
    Section,
)
from das_spark.config.plan import (
    GeographySettings,
    MeasurementOrigin,
    OutputSettings,
    RunPlan,
    config_hash,
    difference,
    plan_to_config,
    public_plan,
)
from das_spark.config.product_files import product_from_config
from das_spark.config.resolve import (
    added_constraint,
    check_estimation,
    check_sites,
    check_upward,
    estimation_settings,
    measured_queries,
    resolve_output,
    resolve_passes,
    usual_solvers,
    with_outputs,
)
from das_spark.constraints import Invariants
from das_spark.core import ESTIMATORS
from das_spark.errors import ConfigurationError, DasError, Problems
from das_spark.estimation import FAMILY_SOLVERS, OuterPass
from das_spark.geography import Spine, SpineSettings
from das_spark.histogram import Query
from das_spark.privacy import Budget, Framework, LevelBudget, QueryShare, exact
from das_spark.products import Product

#: Sections, and keys, that a run on given measurements may set.
_OPEN: Final = ("estimation", "output", "run.name")


class _RunName(Section):
    name: Name


class _OpenTables(Section):
    """The tables of a run on given measurements, as those of a run file."""

    run: _RunName
    output: OutputSection
    estimation: EstimationSection


def plan_from_config(config: Mapping[str, Any], *, source: str) -> RunPlan:
    """The plan of a run, from the configuration that its manifest holds: the reverse of `plan_to_config`.

    It is the `public_plan` of the run: files by their names, no roots. `source` names the manifest in messages.

    Raises:
        ConfigurationError: It is not what this software writes.
    """
    try:
        plan = _read(config)
        same = config_hash(config) == plan.config_hash
    except DasError as error:
        raise ConfigurationError(f"{source}: its configuration cannot be read: {error.message}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{source}: its configuration cannot be read ({type(error).__name__})") from error
    if not same:
        found = difference(config, plan_to_config(plan)) or "a key is missing"
        raise ConfigurationError(f"{source}: its configuration cannot be read: {found}")
    return plan


def estimation_plan(plan: RunPlan, origin: MeasurementOrigin, settings: Sequence[str] = (), *, source: str) -> RunPlan:
    """The plan of a run that estimates from measurements that exist.

    Args:
        plan: The run that measured, or what a run file says of external measurements.
        origin: Where the measurements come from.
        settings: Texts `key.path=value`, of estimation, output and name only.
        source: Names the measurements, for messages.

    Raises:
        ConfigurationError: A setting is about what the measurements fix, or wrong.
    """
    public = public_plan(plan)
    return replace(
        _with_settings(plan, settings, source),
        # It reads nothing that the configuration names.
        input=public.input,
        geography=public.geography,
        evaluation=EvaluationSettings(enabled=False, areas=public.evaluation.areas),
        origin=origin,
    )


def _with_settings(plan: RunPlan, settings: Sequence[str], source: str) -> RunPlan:
    config = plan_to_config(plan)
    passes = [{**each, "geolevels": [each["geolevel"]]} for each in config["estimation"]["passes"]]
    for each in passes:
        del each["geolevel"]
    roots = {"root": plan.output.root, "public": plan.output.public, "restricted": plan.output.restricted}
    data: dict[str, Any] = {
        "run": {"name": plan.name},
        "output": {**roots, **config["output"]},
        "estimation": {**config["estimation"], "passes": passes},
    }
    if plan.estimation.solvers == usual_solvers(plan.estimation.estimator, plan.product):
        del data["estimation"]["solvers"]  # nobody chose them: another estimator has its own
    for setting in settings:
        key = setting.partition("=")[0].strip()
        if not any(key == name or key.startswith(f"{name}.") for name in _OPEN):
            raise ConfigurationError(
                f"--set {setting}: measurements fix everything but estimation and output",
                hint=f"keys that can be set begin with {', '.join(_OPEN)}; "
                "anything else needs a run that measures anew",
            )
        apply_setting(data, setting)
    problems = Problems(source)
    tables = validated(data, with_features(_OpenTables), problems)
    changed = plan if tables is None else _resolved(plan, absolute_places(tables, problems), problems)
    problems.raise_if_any()
    return changed


def _resolved(plan: RunPlan, tables: _OpenTables, problems: Problems) -> RunPlan:
    section, of = tables.estimation, plan.product
    check_estimation(section, plan.measurement_rows, problems)
    check_sites(section.estimator, of, plan.queries.values(), problems)
    strategy, measured = of.strategies.get(plan.strategy or ""), measured_queries(plan.budget, plan.queries)
    passes = resolve_passes(section.passes, strategy, of.schema, plan.spine.names, measured, problems)
    changed = replace(
        plan,
        name=tables.run.name,
        output=resolve_output(tables.output, of, problems),
        estimation=estimation_settings(section, of, passes),
    )
    check_upward(changed, problems)
    return replace(changed, output=with_outputs(tables.output, changed, problems))


class _ReadTables(Section):
    """The tables of a configuration that are written as in a run file, of the same types."""

    config_version: ConfigVersion
    input: InputSettings
    output: OutputSection
    privacy: PrivacySection
    invariants: InvariantsSection
    constraints: Annotated[tuple[ConstraintSection, ...], Strict(False)]
    measurement: MeasurementSection
    estimation: EstimationSection
    evaluation: EvaluationSettings


def _read(config: Mapping[str, Any]) -> RunPlan:
    run, place, passes = (config[key] for key in ("run", "geography", "estimation"))
    of = product_from_config(config)
    known = Spine(known_levels(of, place["spine"]))
    budget, queries = _budget(config["budget"], of)
    data = {key: config[key] for key in _ReadTables.model_fields}
    tables = with_features(_ReadTables).model_validate({**data, "estimation": {**passes, "passes": ()}})
    declared = tables.invariants
    plan = RunPlan(
        name=run["name"],
        product=of,
        spine=spine_of([known.level(name) for name in place["levels"]], place["spine"]),
        geography=_geography(place),
        strategy=config["budget"]["strategy"],
        budget=budget,
        invariants=Invariants(declared.total_at, units=declared.units, vacant=not of.vacant_counted),
        queries=MappingProxyType(queries),
        added=tuple(map(added_constraint, tables.constraints)),
        input=tables.input,
        output=OutputSettings(
            microdata=tables.output.microdata,
            microdata_files=tables.output.microdata_files,
            tables=tables.output.tables or (),
            features=wanted_features(tables.output),
        ),
        estimation=estimation_settings(tables.estimation, of, _passes(passes["passes"])),
        measurement_rows=tables.measurement.rows,
        evaluation=tables.evaluation,
        acknowledged=tables.privacy.acknowledge,
        origin=None if "origin" not in config else MeasurementOrigin.of(config["origin"]),
        published_part=config.get("published", {}).get("part", ""),
    )
    _check(plan)
    return plan


def _geography(place: Mapping[str, Any]) -> GeographySettings:
    shape = dict(place.get("shape", {}))
    if shape:
        shape["aian_categories"] = tuple(shape["aian_categories"])
    settings = SpineSettings(place["spine"], **shape)
    places = (place.get(key) for key in ("reader", "path", "crosswalk", "parents"))
    return GeographySettings(settings, *places)


def _budget(record: Mapping[str, Any], of: Product) -> tuple[Budget, dict[str, Query]]:
    levels = [
        LevelBudget(
            level["geolevel"],
            exact(level["share"], "share"),
            tuple(QueryShare(name, exact(share, "share")) for name, share in level["queries"].items()),
        )
        for level in record["levels"]
    ]
    queries = {item.query: of.schema.query(item.query) for level in levels for item in level.queries}
    framework, total = Framework(record["framework"]), exact(record["total"], "total")
    return Budget(framework, total, tuple(levels), of.records.at_most), queries


def _passes(records: Sequence[Mapping[str, Any]]) -> dict[str, tuple[OuterPass, ...]]:
    passes: dict[str, tuple[OuterPass, ...]] = {}
    for record in records:
        fitted, rounded = (tuple(tuple(inner) for inner in record[key]) for key in ("least_squares", "rounding"))
        passes[record["geolevel"]] = (*passes.get(record["geolevel"], ()), OuterPass(fitted, rounded))
    return passes


def _check(plan: RunPlan) -> None:
    """What `resolve` has seen to, for a configuration that was changed afterwards."""
    names = plan.spine.names
    if tuple(level.geolevel for level in plan.budget.levels) != names:
        raise ConfigurationError("the geolevels of the budget are not those of the run")
    plan.invariants.total_levels(names)
    for name, query in plan.queries.items():
        if query.name != name or not query.is_partition:
            raise ConfigurationError(f"'{name}' is no query that can be measured")
    for rule in plan.added:
        rule.resolve(plan.product.schema)
    unknown = [
        *(name for name in (plan.estimation.estimator,) if name not in ESTIMATORS),
        *(name for name in plan.estimation.solvers if name not in FAMILY_SOLVERS),
        *(name for name in plan.estimation.passes if name not in names),
    ]
    if unknown:
        raise ConfigurationError(f"'{unknown[0]}' is unknown")
    made_of_people = given_up(plan.input, plan.product, units_invariant=plan.invariants.units)
    for name in made_of_people:
        if name not in plan.acknowledged:
            raise ConfigurationError(f"'{name}' is not acknowledged")
