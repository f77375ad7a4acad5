"""Sweeps: one run file carried out with a grid of budgets and of other settings, several times each.

Runs of a sweep differ in the total of the budget and in the settings that vary, and in nothing else. What is counted,
in which input, and how estimates are compared with it is the same in all of them, so that their errors can be.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final

from das_spark.config.acknowledgements import KEY as ACKNOWLEDGE
from das_spark.config.load import apply_setting, read_tables, run_file_of, split_setting
from das_spark.config.model import ROOTS
from das_spark.config.plan import RunPlan
from das_spark.config.resolve import resolve
from das_spark.config.run_files import acknowledging, plan_of, refuse_parts, shared_acknowledgement
from das_spark.errors import BudgetError, ConfigurationError, Problems
from das_spark.evaluation import SHARES, GridPoint
from das_spark.limits import MOST_POINTS, MOST_RUNS
from das_spark.privacy import Framework, exact

#: Runs at each budget, as in the published runs on the census of 1940.
USUAL_RUNS: Final = 4

_Numbers = Sequence[str | int | Fraction]


@dataclass(frozen=True, slots=True)
class Variant:
    """What runs of a sweep have otherwise than its other runs, besides the budget; empty where nothing else varies.

    Attributes:
        label: What varies, for reports: "strategy us, spine census".
        name: The same as a part of the names of run folders.
        settings: The same in full: texts `key.path=value`.
    """

    label: str = ""
    name: str = ""
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GridRun:
    """One run of a sweep.

    Attributes:
        point: Its budget, epsilon or rho, and the label of its variant.
        number: Which of the runs at this point of the grid, from 1.
        run_id: Name of its folder: the same whenever the sweep is called.
        plan: What it does.
    """

    point: GridPoint
    number: int
    run_id: str
    plan: RunPlan

    @property
    def total(self) -> Fraction:
        """Its budget."""
        return self.point.total


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A grid of runs, ready to be carried out.

    Attributes:
        plans: One a point of the grid: variant by variant, each at the budgets in the order in which they were asked
            for. Plans of one variant differ in the total alone.
        runs: How many runs at each point.
        shares: Shares of the simple random samples to compare with; none where no comparison is wanted.
        variants: Of each plan, what varies besides the budget.
    """

    plans: tuple[RunPlan, ...]
    runs: int
    shares: tuple[Fraction, ...]
    variants: tuple[Variant, ...]

    @property
    def base(self) -> RunPlan:
        """The plan of the first point: all that the others do not vary."""
        return self.plans[0]

    @property
    def total_key(self) -> str:
        """What the budgets are called: epsilon or rho."""
        return self.base.budget.framework.symbol

    @property
    def totals(self) -> tuple[Fraction, ...]:
        """The budgets, each once."""
        return tuple(dict.fromkeys(plan.budget.total for plan in self.plans))

    @property
    def varied(self) -> dict[str, tuple[str, ...]]:
        """Label -> settings of each variant; empty where nothing but the budget varies."""
        return {variant.label: variant.settings for variant in self.variants if variant.label}

    @property
    def cost(self) -> Fraction:
        """What all runs of the grid cost together: the sum of their budgets, exactly."""
        return self.runs * sum((plan.budget.total for plan in self.plans), Fraction(0))

    def __iter__(self) -> Iterator[GridRun]:
        """The runs: all at the first point of the grid, then all at the next one."""
        for plan, variant in zip(self.plans, self.variants, strict=True):
            point = GridPoint(plan.budget.total, variant.label)
            spelled = f"{self.total_key}-{str(point.total).replace('/', '_')}"
            names = [plan.name, *filter(None, (variant.name,)), spelled]
            for number in range(1, self.runs + 1):
                yield GridRun(point, number, f"{'-'.join(names)}-run-{number}", plan)


def load_sweep(  # noqa: PLR0913 - keywords
    path: str | Path,
    *,
    epsilon: _Numbers = (),
    rho: _Numbers = (),
    vary: Sequence[str] = (),
    runs: int = USUAL_RUNS,
    samples: _Numbers | None = None,
    overlays: Sequence[str | Path] = (),
    settings: Sequence[str] = (),
    files: bool = True,
) -> SweepPlan:
    """Read a run file and lay a grid of budgets and settings over it.

    Its own total, if it has one, is used only where settings vary and no budgets are named. Of what the run file
    acknowledges, every variant is given what it needs.

    Args:
        path: The TOML file.
        epsilon: The budgets, exact numbers such as "0.25", where the run is one of pure differential privacy.
        rho: The same, where the run is one of zero-concentrated differential privacy.
        vary: Texts `key.path=value,value`: each value with each of the others and with every budget.
        runs: Runs at each point of the grid.
        samples: Shares of simple random samples to compare with, exact numbers between 0 and 1; those of the study of
            the 1940 runs (5 % to 95 %) where None.
        overlays: Further TOML files, each laid over what came before.
        settings: Texts `key.path=value`, applied before those that vary.
        files: Whether the input files must be there.

    Raises:
        ConfigurationError: With all problems of grid and run file together.
    """
    data = read_tables(path, overlays, settings)
    refuse_parts(data, str(path))
    asked = Problems(str(path))
    key, totals = _totals(epsilon, rho, settings, asked, own=bool(vary))
    variants = _variants(vary, settings, asked, MOST_POINTS // max(len(totals), 1))
    if not 1 <= runs <= MOST_RUNS:
        asked.add("--runs", f"a sweep has 1 to {MOST_RUNS:,} runs at each budget, not {runs}")
    shares = _shares(samples, asked)
    tables = _varied(data, variants, asked)
    # Where no budget can be read, any one shows what else is wrong with the run file.
    first = totals[0] if totals else Fraction(1)
    _examine([_with_total(table, key, first) for table in tables], variants, asked, files=files)
    points = [
        (variant, _with_total(table, key, total))
        for variant, table in zip(variants, tables, strict=True)
        for total in totals
    ]
    plans = tuple(plan_of(each, str(path), files=files) for _, each in points)
    found = SweepPlan(plans, runs, shares, tuple(variant for variant, _ in points))
    _require_one_grid(found, asked)
    return found


def sample_shares(samples: _Numbers | None) -> tuple[Fraction, ...]:
    """Shares of simple random samples.

    Args:
        samples: Exact numbers between 0 and 1; those of the study of the 1940 runs (5 % to 95 %) where None.

    Raises:
        ConfigurationError: With all that is wrong with them.
    """
    problems = Problems("samples")
    shares = _shares(samples, problems)
    problems.raise_if_any()
    return shares


#: What all runs of a sweep have in common: whom they count, how they are compared with them, and where they lie.
_COMMON: Final = (
    *("config_version", "run", "input", "ledger", "evaluation", "privacy"),
    *(f"{section}.{key}" for section, key in ROOTS),
)
_TOTALS: Final = frozenset(f"budget.{each.symbol}" for each in Framework)
#: Characters of a value that stands in labels and in names of folders; a longer one is numbered there.
_SPELLED: Final = 24


def _variants(vary: Sequence[str], settings: Sequence[str], problems: Problems, most: int) -> tuple[Variant, ...]:
    """Every value of each key that varies with every value of the others; one without a label where none varies."""
    fixed = {_key_of(setting) for setting in settings}
    options: dict[str, tuple[str, ...]] = {}
    for text in vary:
        option = f"--vary {text}"
        try:
            key, listed = split_setting(text, "--vary")
            keys = apply_setting({}, f"{key}=0")
        except ConfigurationError as error:
            problems.add(option, error.message.removeprefix(f"{option}: "))
            continue
        dotted, values = ".".join(keys), _split_values(listed)
        wrong = _cannot_vary(dotted, values)
        if dotted in options:
            wrong = f"{dotted} varies twice; name all of its values in one --vary"
        elif dotted in fixed:
            wrong = f"--set gives {dotted}, too; leave that out"
        if wrong:
            problems.add(option, wrong)
        else:
            options[dotted] = tuple(f"{key}={value}" for value in values)
    if prod(map(len, options.values())) > most:
        problems.add("--vary", f"the grid has more than {MOST_POINTS:,} points, the most that are possible; vary less")
        problems.raise_if_any()
    names = _short_names(options)
    spelled = {name: _spelled(choices) for name, choices in options.items()}
    found = []
    for places in product(*(range(len(choices)) for choices in options.values())):
        chosen = [
            (names[key], spelled[key][place], options[key][place]) for key, place in zip(options, places, strict=True)
        ]
        label = ", ".join(f"{name} {value}" for name, value, _ in chosen)
        folder = "-".join(f"{_SIGNS.sub('_', name)}-{_SIGNS.sub('_', value)}" for name, value, _ in chosen)
        found.append(Variant(label, folder, tuple(setting for _, _, setting in chosen)))
    return tuple(found)


def _cannot_vary(key: str, values: Sequence[str]) -> str:
    """Why a key cannot vary, or not over these values; empty where it can."""
    if key in _TOTALS:
        return f"the budgets of a sweep are given by --{key.partition('.')[2]}"
    if any(key == each or key.startswith(f"{each}.") for each in _COMMON):
        return f"all runs of a sweep have the same {key}: they are compared with one another"
    if "" in values:
        return "a value is empty; write KEY=VALUE,VALUE"
    if len(values) == 1:
        return "names one value; write KEY=VALUE,VALUE, or --set"
    twice = [value for value, number in Counter(values).items() if number > 1]
    return f"{twice[0]} stands twice" if twice else ""


def _key_of(setting: str) -> str:
    """The key that a setting sets; what is no setting was refused already."""
    return ".".join(apply_setting({}, f"{split_setting(setting)[0]}=0"))


_OPENING: Final = "([{"
_CLOSING: Final = ")]}"


def _split_values(text: str) -> tuple[str, ...]:
    """The values between commas; a comma within quotes, lists or tables does not divide."""
    values, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif sign == "," and not depth:
            values.append("")
            continue
        values[-1] += sign
    return tuple(value.strip() for value in values)


def _short_names(keys: Iterable[str]) -> dict[str, str]:
    """Keys -> their last parts, as many as tell them apart."""
    known = list(keys)
    names = {}
    for key in known:
        parts = key.split(".")
        ends = (".".join(parts[-number:]) for number in range(1, len(parts) + 1))
        names[key] = next(
            end for end in ends if sum(f".{other}".endswith(f".{end}") for other in known) == 1 or end == key
        )
    return names


#: What no name of a folder has here.
_SIGNS: Final = re.compile(r"[^A-Za-z0-9_]+")


def _spelled(settings: Sequence[str]) -> tuple[str, ...]:
    """Values as labels show them: without quotes, or by their numbers where they are long or folders would be alike."""
    values = [split_setting(setting)[1].strip("\"'") for setting in settings]
    folders = {_SIGNS.sub("_", value).casefold() for value in values}
    if len(folders) == len(values) and "" not in folders and all(len(value) <= _SPELLED for value in values):
        return tuple(values)
    return tuple(str(number) for number in range(1, len(values) + 1))


def _varied(data: dict[str, Any], variants: Sequence[Variant], problems: Problems) -> list[dict[str, Any]]:
    """The tables of the run file with the settings of each variant, and what that must acknowledge of its list."""
    shared = shared_acknowledgement(data) if variants[0].settings else None
    found, needed = [], set()
    for variant in variants:
        tables = deepcopy(data)
        for setting in variant.settings:
            apply_setting(tables, setting)
        if shared is not None:
            tables = acknowledging(tables, shared, problems.source)
            needed |= set(tables["privacy"]["acknowledge"])
        found.append(tables)
    for name in shared or ():
        if name not in needed:
            problems.add(
                ACKNOWLEDGE, f"'{name}' is acknowledged, and no run of the sweep gives up anything of that name"
            )
    return found


def _require_one_grid(plan: SweepPlan, asked: Problems) -> None:
    """Refuse budgets that cannot be summed, and runs that would be paid for twice."""
    kinds = {
        each.budget.framework.symbol: variant.label for each, variant in zip(plan.plans, plan.variants, strict=True)
    }
    if len(kinds) > 1:
        said = ", ".join(f"{key} for {label}" for key, label in kinds.items())
        asked.add("--vary", f"the budgets of a sweep are of one kind, and these are of two: {said}")
    met: dict[str, str] = {}
    for each, variant in zip(plan.plans, plan.variants, strict=True):
        other = met.setdefault(each.config_hash, variant.label)
        if other != variant.label:
            asked.add("--vary", f"{other} and {variant.label} are the same run, which would be paid for twice")
    asked.raise_if_any()


def _totals(
    epsilon: _Numbers, rho: _Numbers, settings: Sequence[str], problems: Problems, *, own: bool
) -> tuple[str, tuple[Fraction | None, ...]]:
    """What the budgets are called, and the budgets; None where the run file's own will do and none is named."""
    if own and not epsilon and not rho:
        return "", (None,)
    for setting in settings:
        name = setting.partition("=")[0].strip()
        if name in _TOTALS:
            problems.add(f"--set {name}", "the grid says the budget of each run; leave this setting out")
    if bool(epsilon) == bool(rho):
        found = "both" if epsilon else "none of them"
        problems.add("", f"the grid is given by one of --epsilon and --rho, found {found}; such as --epsilon 0.25,1,4")
    key = "rho" if rho and not epsilon else "epsilon"
    return key, _numbers(f"--{key}", rho if key == "rho" else epsilon, None, problems)


def _shares(samples: _Numbers | None, problems: Problems) -> tuple[Fraction, ...]:
    return SHARES if samples is None else _numbers("--samples", samples, Fraction(1), problems)


def _numbers(option: str, values: _Numbers, below: Fraction | None, problems: Problems) -> tuple[Fraction, ...]:
    """Exact numbers above 0 in the order given, without those that are wrong."""
    found: dict[Fraction, None] = {}
    for value in values:
        try:
            number = exact(value.strip() if isinstance(value, str) else value, option)
        except BudgetError as error:
            problems.add(option, f"{error.message.removeprefix(f'{option}: ')}; write a fraction or a decimal")
            continue
        if number <= 0 or (below is not None and number >= below):
            room = "greater than 0" if below is None else f"greater than 0 and less than {below}"
            problems.add(option, f"{value} is not {room}")
        elif number in found:
            problems.add(option, f"{value} stands twice")
        else:
            found[number] = None
    return tuple(found)


def _examine(tables: Sequence[dict[str, Any]], variants: Sequence[Variant], asked: Problems, *, files: bool) -> None:
    """Find everything that is wrong with the run file, and say it together with what is wrong with the grid."""
    found: dict[tuple[str, str], list[str]] = {}
    for table, variant in zip(tables, variants, strict=True):
        run_file, problems = run_file_of(deepcopy(table), asked.source)
        if run_file is not None:
            resolve(run_file, problems, files=files)
            # Found after all runs are paid for, otherwise.
            for name in ("public", "restricted"):
                if getattr(run_file.output, name) is not None:
                    problems.add(
                        f"output.{name}", "a sweep compares both sides of its runs: they lie in one folder a run"
                    )
        for problem in problems.found:
            found.setdefault(problem, []).append(variant.label)
    for (key, sentence), labels in found.items():
        asked.add(key, sentence if len(labels) == len(variants) else f"{sentence} ({'; '.join(labels)})")
    asked.raise_if_any()


def _with_total(data: dict[str, Any], key: str, total: Fraction | None) -> dict[str, Any]:
    """The tables of the run file with another total, and none of another kind; as they are where it is None."""
    tables = deepcopy(data)
    if total is None:
        return tables
    budget = tables.setdefault("budget", {})
    if not isinstance(budget, dict):
        raise ConfigurationError("budget: is not a table", hint="write [budget] with its keys below")
    for framework in Framework:
        budget.pop(framework.symbol, None)
    budget[key] = str(total)
    return tables
