"""From the resolved configuration of a run that measured to the plan of one that estimates from its measurements.

What was measured is fixed: product, levels, budget, invariants, constraints and the rows that are kept stay as they
were. Estimation and output may be other ones. There is nothing confidential to compare with, so nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from das_spark.config.acknowledgements import given_up
from das_spark.config.load import ROOTS, Problems, apply_setting, validated
from das_spark.config.model import GeographySection, InputSection, PrivacySection, RunFile
from das_spark.config.plan import EvaluationSettings, RunPlan
from das_spark.config.resolve import NO_TOTAL, config_hash, resolve
from das_spark.errors import ConfigurationError
from das_spark.privacy import Framework
from das_spark.products import PRODUCTS

#: Key of the resolved configuration under which a run says where its measurements come from.
ORIGIN: Final = "origin"
#: Sections, and keys, that a run on given measurements may set.
OPEN: Final = ("estimation", "output", "run.name")
#: Settings of estimation that cannot change any estimate.
_WITHOUT_EFFECT = ("partitions_per_core",)


def reopen(resolved: Mapping[str, Any], settings: Sequence[str], origin: Mapping[str, Any], *, source: str) -> RunPlan:
    """Make the plan of a run that estimates from the measurements of another one.

    Args:
        resolved: The resolved configuration of the run that measured.
        settings: Texts `key.path=value`, of `OPEN` only.
        origin: Where the measurements come from, as JSON values; part of the resolved configuration and of its hash.
        source: Names the measurements, for messages.

    Raises:
        ConfigurationError: A setting is about what the measurements fix, or the configuration is not one that this
            software understands.
    """
    problems = Problems(source)
    try:
        data = _as_run_file(resolved)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{source}: its configuration cannot be read ({type(error).__name__})") from error
    for setting in settings:
        _check_open(setting)
        apply_setting(data, setting)
    run_file = validated(data, problems)
    if run_file is not None and "privacy" not in resolved:
        run_file = _acknowledging(run_file)
    plan = None if run_file is None else resolve(run_file, problems, files=False)
    problems.raise_if_any()
    if plan is None:
        raise ConfigurationError(f"{source}: its configuration cannot be read")
    return with_origin(plan, origin)


def with_origin(plan: RunPlan, origin: Mapping[str, Any]) -> RunPlan:
    """The plan of a run on given measurements: they belong to the configuration, and nothing is evaluated.

    Args:
        plan: As resolved.
        origin: Where the measurements come from, as JSON values.
    """
    evaluation = {**plan.resolved["evaluation"], "enabled": False}
    resolved = {**plan.resolved, "evaluation": evaluation, ORIGIN: dict(origin)}
    return replace(
        plan,
        evaluation=EvaluationSettings(enabled=False),
        resolved=resolved,
        config_hash=config_hash(resolved),
        # It reads nothing that the configuration names.
        places={".".join(key): path for key in ROOTS if (path := plan.places.get(".".join(key))) is not None},
    )


def same_estimation(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two resolved configurations estimate in the same way, so that the same measurements give the same.

    Args:
        one: A resolved configuration.
        other: Another one.
    """
    kept = [
        {key: value for key, value in each["estimation"].items() if key not in _WITHOUT_EFFECT} for each in (one, other)
    ]
    return kept[0] == kept[1]


def _as_run_file(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a run file that resolves to the same again: `_resolved` of `das_spark.config.resolve`, inverted."""
    data = deepcopy(dict(resolved))
    data.pop(ORIGIN, None)
    budget = data["budget"]
    data["budget"] = {
        "framework": budget["framework"],
        Framework(budget["framework"]).symbol: budget["total"],
        "geolevels": {level["geolevel"]: level["share"] for level in budget["levels"]},
        "level_queries": {level["geolevel"]: level["queries"] for level in budget["levels"]},
    }
    if budget["strategy"] is not None:
        data["budget"]["strategy"] = budget["strategy"]
    if data["invariants"]["total_at"] is None:
        data["invariants"]["total_at"] = NO_TOTAL
    shape = data["geography"].pop("shape", {})
    data["geography"] |= {key: value for key, value in shape.items() if key in GeographySection.model_fields}
    passes = data["estimation"]["passes"]
    data["estimation"]["passes"] = [{**each, "geolevels": [each["geolevel"]]} for each in passes]
    for each in data["estimation"]["passes"]:
        del each["geolevel"]
    for section, key in ROOTS:  # of a run by an earlier version, whose configuration still named them
        data[section].pop(key, None)
    # A reader refuses keys that it does not use, so what was not said is left out.
    defaults = {name: field.default for name, field in InputSection.model_fields.items()}
    data["input"] = {key: value for key, value in data["input"].items() if value != defaults[key]}
    return data


def _acknowledging(run_file: RunFile) -> RunFile:
    """A run of a version that asked for no acknowledgement: what it gave up is public, and is said all the same."""
    product = PRODUCTS.get(run_file.run.product)
    if product is None:
        return run_file
    names = given_up(run_file.input, product, units_invariant=run_file.invariants.units)
    return run_file.model_copy(update={"privacy": PrivacySection(acknowledge=names)})


def _check_open(setting: str) -> None:
    key = setting.partition("=")[0].strip()
    if not any(key == name or key.startswith(f"{name}.") for name in OPEN):
        raise ConfigurationError(
            f"--set {setting}: measurements fix everything but estimation and output",
            hint=f"keys that can be set begin with {', '.join(OPEN)}; anything else needs a run that measures anew",
        )
