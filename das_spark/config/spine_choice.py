"""A spine as options choose it: its shape, and the shares of its levels from a run file, a product, or a small file.

A file of shares alone is TOML:

    [budget]
    framework = "zcdp"
    geolevels = { State = "1/4", County = "1/4", Tract = "1/4", Block_Group = "1/8", Block = "1/8" }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from das_spark.config.load import apply_setting, nearest, read_tables
from das_spark.config.needed_total import require_undivided, strategy_of
from das_spark.config.plan import JointPlan
from das_spark.config.product_files import find_product
from das_spark.config.run_files import load_run
from das_spark.errors import ConfigurationError, did_you_mean
from das_spark.geography import DHC, DHC_SHARES, PRESETS, SPINE_KINDS, LevelShares, SpineSettings
from das_spark.privacy import Framework, exact

if TYPE_CHECKING:
    from das_spark.privacy import Budget
    from das_spark.products import Product, Strategy

    #: A strategy with its product, and the level whose totals are exact.
    _Needed = tuple[Strategy, Product, str | None]

_SPINE, _BUDGET, _LEVELS, _FRAMEWORK = "spine", "budget", "geolevels", "framework"
_WAYS: Final = "give --shares FILE, or --product NAME with --strategy NAME"


@dataclass(frozen=True, slots=True)
class SpineChoice:
    """Everything that decides about a spine but the geography."""

    settings: SpineSettings  # shape
    shares: LevelShares  # shares of the levels
    framework: str  # "pure_dp" or "zcdp"
    facts: Mapping[str, str]  # where the shares come from, for the record of the spine


def choose_spine(
    kind: str | None = None,
    preset: str | None = None,
    *,
    shares: Path | None = None,
    product_name: str | None = None,
    strategy: str | None = None,
    settings: Sequence[str] = (),
) -> SpineChoice:
    """Resolve the options of a spine.

    Args:
        kind: Kind of the spine; that of the preset where it is None.
        preset: Name of settings of 2020; None takes those that fit the kind.
        shares: Run file of a single run, file of shares alone, or a name in `DHC_SHARES`.
        product_name: Product whose strategy gives the shares.
        strategy: Its name; the usual one where it is None.
        settings: Texts `spine.key=value` and `budget.key=value`, laid over the rest.

    Raises:
        ConfigurationError: A name, key or value is wrong, nothing gives shares, or the spine divides geounits whose
            totals the strategy needs exact.
        BudgetError: A share is no exact fraction.
        GeographyError: The shares do not sum to 1, or the settings do not fit together.
    """
    budget, facts, needed = _budget(shares, product_name, strategy)
    data: dict[str, Any] = {_SPINE: {}, _BUDGET: budget}
    for text in settings:
        apply_setting(data, text)
    strange = [key for key in data if key not in (_SPINE, _BUDGET)]
    if strange:
        raise ConfigurationError(f"--set {strange[0]}: a spine has settings 'spine' and 'budget' only")
    chosen = _settings(kind, preset, data[_SPINE])
    if needed is not None:
        require_undivided(chosen.kind, *needed)
    facts = {**facts, **({"preset": preset} if preset else {})}
    return SpineChoice(chosen, _shares(data[_BUDGET]), _framework(data[_BUDGET]), MappingProxyType(facts))


def _settings(kind: str | None, preset: str | None, changes: object) -> SpineSettings:
    if preset is not None and preset not in PRESETS:
        raise ConfigurationError(f"--preset {preset}: {nearest(preset, PRESETS)}; known: {', '.join(PRESETS)}")
    if kind is None and preset is None:
        raise ConfigurationError("no kind of spine is chosen", hint=f"give --spine: {', '.join(SPINE_KINDS)}")
    base = PRESETS[preset] if preset is not None else DHC if kind == "dhc" else SpineSettings(str(kind))
    if not isinstance(changes, Mapping):
        raise ConfigurationError("--set spine: a table of settings is expected, such as spine.fanout_cutoff=12")
    types = {field.name: type(getattr(base, field.name)) for field in fields(base)}
    checked: dict[str, Any] = {} if kind is None else {"kind": kind}
    for name, value in changes.items():
        if name not in types:
            raise ConfigurationError(f"--set spine.{name}: no such setting", hint=did_you_mean(name, types, 0.0))
        given = tuple(value) if isinstance(value, list) else value
        if type(given) is not types[name]:
            expected = "a list of texts" if types[name] is tuple else f"of type {types[name].__name__}"
            raise ConfigurationError(f"--set spine.{name}: the value must be {expected}, is {value!r}")
        checked[name] = given
    return replace(base, **checked)


def _budget(
    shares: Path | None, name: str | None, strategy: str | None
) -> tuple[dict[str, Any], dict[str, str], _Needed | None]:
    """Table of framework and shares, where they come from, and whose totals are exact."""
    if (shares is None) == (name is None):
        problem = "nothing gives" if shares is None else "two things give"
        raise ConfigurationError(f"{problem} the shares of the geolevels", hint=_WAYS)
    if shares is not None:
        if strategy is not None:
            raise ConfigurationError("--strategy is one of a product, and shares come from a file", hint=_WAYS)
        if str(shares) in DHC_SHARES:
            table = {_FRAMEWORK: str(Framework.ZCDP), _LEVELS: dict(DHC_SHARES[str(shares)])}
            return table, {"shares": str(shares)}, None
        table, needed = _of_file(shares)
        return table, {"shares": shares.name}, needed
    found = find_product(str(name))
    if strategy is not None and strategy not in found.strategies:
        raise ConfigurationError(f"--strategy {strategy}: {nearest(strategy, found.strategies)}")
    chosen = found.strategies[strategy] if strategy else next(iter(found.strategies.values()))
    facts = {"product": found.name, "strategy": chosen.name}
    return _of_budget(chosen.budget), facts, (chosen, found, found.total_at)


def _of_file(path: Path) -> tuple[dict[str, Any], _Needed | None]:
    data = read_tables(path)
    if "run" in data:
        plan = load_run(path, files=False)
        if isinstance(plan, JointPlan):
            raise ConfigurationError(f"{path}: is a joint run", hint="name the run file of one of its parts")
        of_run = strategy_of(plan)
        needed = None if of_run is None else (of_run, plan.product, plan.invariants.total_at)
        return _of_budget(plan.budget), needed
    table = data.get(_BUDGET)
    if not isinstance(table, dict) or not isinstance(table.get(_LEVELS), dict):
        raise ConfigurationError(
            f"{path}: has no table budget.geolevels", hint='write geolevels = { State = "1/4", ... } below [budget]'
        )
    return table, None


def _of_budget(budget: Budget) -> dict[str, Any]:
    return {_FRAMEWORK: str(budget.framework), _LEVELS: {level.geolevel: level.share for level in budget.levels}}


def _shares(budget: Mapping[str, Any]) -> LevelShares:
    shares: dict[str, Fraction] = {}
    for level, share in budget[_LEVELS].items():
        shares[level] = exact(share, f"budget.geolevels.{level}")
    return LevelShares.of(shares)


def _framework(budget: Mapping[str, Any]) -> str:
    given = budget.get(_FRAMEWORK)
    if given is None:
        given = next((each for each in (Framework.ZCDP, Framework.PURE_DP) if each.symbol in budget), None)
    if given is None:
        names = ", ".join(Framework)
        raise ConfigurationError("budget.framework is missing", hint=f"it decides what is bypassed; one of {names}")
    if given not in list(Framework):
        raise ConfigurationError(f"budget.framework: unknown {given!r}; {nearest(str(given), list(Framework))}")
    return str(Framework(given))
