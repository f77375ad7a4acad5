"""Sweeps: one run file carried out with a grid of budgets, several times each.

A sweep differs from its run file in the total of the budget alone, so that everything else that is measured, estimated
and compared is the same in all of its runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from das_spark.config.load import read_tables, run_file_of
from das_spark.config.plan import RunPlan
from das_spark.config.resolve import resolve
from das_spark.config.run_files import plan_of, refuse_parts
from das_spark.errors import BudgetError, ConfigurationError, Problems
from das_spark.evaluation import SHARES
from das_spark.privacy import Framework, exact

#: Runs at each budget, as in the published runs on the census of 1940.
USUAL_RUNS: Final = 4

_Numbers = Sequence[str | int | Fraction]


@dataclass(frozen=True, slots=True)
class GridRun:
    """One run of a sweep.

    Attributes:
        total: Its budget, epsilon or rho.
        number: Which of the runs at this budget, from 1.
        run_id: Name of its folder: the same whenever the sweep is called.
        plan: What it does.
    """

    total: Fraction
    number: int
    run_id: str
    plan: RunPlan


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A grid of runs, ready to be carried out.

    Attributes:
        plans: One a budget, in the order in which they were asked for; they differ in the total alone.
        runs: How many runs at each budget.
        shares: Shares of the simple random samples to compare with; none where no comparison is wanted.
    """

    plans: tuple[RunPlan, ...]
    runs: int
    shares: tuple[Fraction, ...]

    @property
    def base(self) -> RunPlan:
        """The plan of the first budget: all that the others have in common."""
        return self.plans[0]

    @property
    def total_key(self) -> str:
        """What the budgets are called: epsilon or rho."""
        return self.base.budget.framework.symbol

    @property
    def totals(self) -> tuple[Fraction, ...]:
        """The budgets."""
        return tuple(plan.budget.total for plan in self.plans)

    @property
    def cost(self) -> Fraction:
        """What all runs of the grid cost together: the sum of their budgets, exactly."""
        return self.runs * sum(self.totals, Fraction(0))

    def __iter__(self) -> Iterator[GridRun]:
        """The runs: all at the first budget, then all at the next one."""
        for plan in self.plans:
            total = plan.budget.total
            spelled = f"{self.total_key}-{str(total).replace('/', '_')}"
            for number in range(1, self.runs + 1):
                yield GridRun(total, number, f"{plan.name}-{spelled}-run-{number}", plan)


def load_sweep(
    path: str | Path,
    *,
    epsilon: _Numbers = (),
    rho: _Numbers = (),
    runs: int = USUAL_RUNS,
    samples: _Numbers | None = None,
    overlays: Sequence[str | Path] = (),
    settings: Sequence[str] = (),
    files: bool = True,
) -> SweepPlan:
    """Read a run file and lay a grid of budgets over it; its own total, if it has one, is not used.

    Args:
        path: The TOML file.
        epsilon: The budgets, exact numbers such as "0.25", where the run is one of pure differential privacy.
        rho: The same, where the run is one of zero-concentrated differential privacy.
        runs: Runs at each budget.
        samples: Shares of simple random samples to compare with, exact numbers between 0 and 1; those of the study of
            the 1940 runs (5 % to 95 %) where None.
        overlays: Further TOML files, each laid over what came before.
        settings: Texts `key.path=value`, applied last.
        files: Whether the input files must be there.

    Raises:
        ConfigurationError: With all problems of grid and run file together.
    """
    data = read_tables(path, overlays, settings)
    refuse_parts(data, str(path))
    asked = Problems(str(path))
    key, totals = _totals(epsilon, rho, settings, asked)
    if runs < 1:
        asked.add("--runs", f"a sweep has 1 run or more at each budget, not {runs}")
    shares = _shares(samples, asked)
    # Where no budget can be read, any one shows what else is wrong with the run file.
    _examine(_with_total(data, key, totals[0] if totals else Fraction(1)), asked, files=files)
    plans = tuple(plan_of(_with_total(data, key, total), str(path), files=files) for total in totals)
    return SweepPlan(plans, runs, shares)


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


def _totals(
    epsilon: _Numbers, rho: _Numbers, settings: Sequence[str], problems: Problems
) -> tuple[str, tuple[Fraction, ...]]:
    """What the budgets are called, and the budgets."""
    for setting in settings:
        name = setting.partition("=")[0].strip()
        if name in {f"budget.{each.symbol}" for each in Framework}:
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
    found: list[Fraction] = []
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
            found.append(number)
    return tuple(found)


def _examine(data: dict[str, Any], asked: Problems, *, files: bool) -> None:
    """Find everything that is wrong with the run file, and say it together with what is wrong with the grid."""
    run_file, problems = run_file_of(data, asked.source)
    if run_file is not None:
        resolve(run_file, problems, files=files)
        # Found after all runs are paid for, otherwise.
        for name in ("public", "restricted"):
            if getattr(run_file.output, name) is not None:
                problems.add(f"output.{name}", "a sweep compares both sides of its runs: they lie in one folder a run")
    for key, sentence in problems.found:
        asked.add(key, sentence)
    asked.raise_if_any()


def _with_total(data: dict[str, Any], key: str, total: Fraction) -> dict[str, Any]:
    """The tables of the run file with another total, and none of another kind."""
    tables = deepcopy(data)
    budget = tables.setdefault("budget", {})
    if not isinstance(budget, dict):
        raise ConfigurationError("budget: is not a table", hint="write [budget] with its keys below")
    for framework in Framework:
        budget.pop(framework.symbol, None)
    budget[key] = str(total)
    return tables
