"""A budget suggested from what shall be exact: the division over levels and queries that needs the least total.

Nothing is read but a run file, and nothing is spent: variances follow from the budget. They are those of estimates by
the measurements alone, on a tree in which all geounits of a level have equally many children and can have people of all
classes; published counts differ from these by what makes them whole and nonnegative.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from das_spark.config.expected import typical_sizes
from das_spark.config.load import read_tables
from das_spark.config.named_statistics import find_statistic, is_single_child, sentence_of_error, tree_variances
from das_spark.config.run_files import plan_of, refuse_parts
from das_spark.core.linear import interval_reach, largest_error
from das_spark.errors import ConfigurationError, DasError, Problems
from das_spark.estimation import Allotment, Wanted, best_allocation
from das_spark.limits import require_level
from das_spark.privacy import Budget, DiscreteGaussian, Framework, LevelBudget, QueryShare, exact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.config.plan import RunPlan
    from das_spark.estimation import TreeVariances
    from das_spark.histogram import Query

    Floats = NDArray[np.float64]

#: Every query of every level has a whole number of such parts of the total.
PARTS: Final = 10_000
#: What of its own share each query keeps where nothing else is said.
USUAL_KEPT: Final = Fraction(1, 10)
#: Probability that an interval covers the truth where a target names none.
USUAL_LEVEL: Final = Fraction(9, 10)
#: A total that is needed is a whole number of such parts, rounded up.
_TOTAL_PARTS: Final = 1000
_TARGET: Final = re.compile(r"(?P<query>.+)@(?P<level>[^@:]+):(?P<what>sd|width)<=(?P<most>.+)")
_FORM: Final = (
    'write QUERY@GEOLEVEL:sd<=NUMBER or :width<=NUMBER, such as "total@County:sd<=5" or "age * sex@Tract:width<=40"'
)


@dataclass(frozen=True, slots=True)
class Target:
    """What shall be exact enough.

    Attributes:
        query: Canonical name of the query.
        geolevel: Of whose geounits the answers are.
        is_width: Whether the width of intervals is limited, and not the standard error.
        most: Its largest value, in what is counted.
    """

    query: str
    geolevel: str
    is_width: bool
    most: Fraction

    def error(self, level: Fraction) -> float:
        """The largest standard error, where intervals have this probability."""
        most = float(self.most)
        return largest_error(most / 2, float(level), Framework.ZCDP) if self.is_width else most

    def of_error(self, error: float, level: Fraction) -> float:
        """What is limited, of answers with a standard error."""
        return 2 * float(interval_reach(np.array(error), float(level), Framework.ZCDP)) if self.is_width else error

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.query}@{self.geolevel}:{'width' if self.is_width else 'sd'}<={self.most}"


@dataclass(frozen=True, slots=True, eq=False)
class SuggestedBudget:
    """A division of a total that meets targets best, beside that of the run file.

    Attributes:
        plan: The run with the suggested budget, of the total of the run file.
        targets: What was asked for.
        level: Probability of the intervals of targets of widths.
        own: Largest standard error of the answers of each target, as the run file divides the total.
        suggested: The same as suggested.
        needed: The total by which the suggested division meets all targets, rounded up.
        needed_own: The total that the division of the run file needs, and those that the strategies of its product do
            which have its levels, by name; "" stands for the run file.
        bound: No division that keeps what was to be kept meets them all with less.
        tables: The table `[budget]` of a run file with the suggested division.
    """

    plan: RunPlan
    targets: tuple[Target, ...]
    level: Fraction
    own: tuple[float, ...]
    suggested: tuple[float, ...]
    needed: Fraction
    needed_own: Mapping[str, float]
    bound: float
    tables: Mapping[str, Any]


def read_targets(texts: Sequence[str], plan: RunPlan) -> tuple[Target, ...]:
    """Targets as they are written on the command line: `QUERY@GEOLEVEL:sd<=NUMBER`, or `width` in the place of `sd`.

    Args:
        texts: The targets; names of geolevels may be written in small letters.
        plan: The run.

    Raises:
        ConfigurationError: With all that is wrong with them.
    """
    problems, found = Problems("--target"), []
    if not texts:
        problems.add("", f"name one target or more; {_FORM}")
    for text in texts:
        match = _TARGET.fullmatch(text.strip())
        if match is None:
            problems.add(text, _FORM)
            continue
        of = find_statistic(match["query"], match["level"], text, plan, problems)
        try:
            most = exact(match["most"].strip(), text)
        except DasError as error:
            problems.add(text, sentence_of_error(error))
            continue
        if most <= 0:
            problems.add(text, "the limit is greater than 0")
        elif of is not None:
            found.append(Target(of.query, of.geolevel, match["what"] == "width", most))
    problems.raise_if_any()
    return tuple(found)


def suggest_budget(
    path: str | Path,
    targets: Sequence[str],
    counts: Mapping[str, int],
    *,
    kept: Fraction = USUAL_KEPT,
    level: Fraction = USUAL_LEVEL,
    overlays: Sequence[str | Path] = (),
    settings: Sequence[str] = (),
) -> SuggestedBudget:
    """Divide the total of a run over its levels and queries so that targets are met best.

    Every query of the run keeps a part of its share, so that what no target names is measured, too; queries that a
    target names are measured at its level whether or not they were.

    Args:
        path: The run file.
        targets: See `read_targets`.
        counts: Geounits of all levels of the run.
        kept: What part of its share each query keeps, from 0 to below 1.
        level: Probability of the intervals whose widths targets name.
        overlays: Further TOML files, each laid over what came before.
        settings: Texts `key.path=value`, applied last.

    Raises:
        ConfigurationError: A target or number cannot be, it is not known how many geounits a level has, or the run is
            one of pure differential privacy, where variances are no convex functions of shares.
    """
    data = read_tables(path, overlays, settings)
    refuse_parts(data, str(path))
    plan = plan_of(data, str(path), files=False)
    wanted = read_targets(targets, plan)
    _check(plan, counts, kept, level)
    model = _Model.of(plan, wanted, counts, kept, level)
    found = best_allocation(model.variances, model.allotments, model.wanted, model.start)
    budget = _rounded(plan, model, found.weights)
    tables = deepcopy(data)
    tables["budget"] = {**tables.get("budget", {}), **_written(budget)}
    suggested = plan_of(tables, str(path), files=False)
    total = float(plan.budget.total)
    needed_own = {"": total * model.ratio(plan.budget) ** 2}
    for name, strategy in plan.product.strategies.items():
        if strategy.geolevels == plan.spine.names and strategy.budget.framework is Framework.ZCDP:
            of_strategy = _Model.of(plan, wanted, counts, kept, level, strategy.budget)
            needed_own[name] = total * of_strategy.ratio(strategy.budget) ** 2
    return SuggestedBudget(
        plan=suggested,
        targets=wanted,
        level=level,
        own=model.errors(plan.budget),
        suggested=model.errors(suggested.budget),
        needed=Fraction(math.ceil(total * model.ratio(suggested.budget) ** 2 * _TOTAL_PARTS), _TOTAL_PARTS),
        needed_own=needed_own,
        bound=total * found.bound**2,
        tables=_written(budget),
    )


def _check(plan: RunPlan, counts: Mapping[str, int], kept: Fraction, level: Fraction) -> None:
    if plan.budget.framework is not Framework.ZCDP:
        raise ConfigurationError(
            f"{plan.name}: its budget is an epsilon, and divisions are suggested for budgets in rho alone",
            hint="choose a strategy of the framework zcdp, or set budget.framework and budget.rho",
        )
    if not 0 <= kept < 1:
        raise ConfigurationError(f"--keep {kept}: a share from 0 to below 1")
    require_level(level, "--level")
    missing = [name for name in plan.spine.names if name not in counts]
    if missing:
        raise ConfigurationError(
            f"it is not known how many geounits there are in {', '.join(missing)}",
            hint=f"say so: {' '.join(f'--geounits {name}=NUMBER' for name in missing)}",
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """Targets as functions of the weights of all queries of all levels."""

    plan: RunPlan
    allotments: tuple[Allotment, ...]
    wanted: tuple[Wanted, ...]
    start: Floats  # the weights of the run file, and a little for queries that it has not
    variances: TreeVariances

    @classmethod
    def of(
        cls,
        plan: RunPlan,
        targets: Sequence[Target],
        counts: Mapping[str, int],
        kept: Fraction,
        level: Fraction,
        budget: Budget | None = None,
    ) -> _Model:
        """The model of a run, or of another budget with its levels."""
        budget = budget or plan.budget
        names, schema = plan.spine.names, plan.product.schema
        sizes = typical_sizes(names, counts)
        unit = _precision(plan.budget)
        allotments = []

        def add(geolevel: str, query: Query, share: Fraction) -> None:
            depth = names.index(geolevel)
            precision = 0.0 if is_single_child(depth, sizes) else unit
            allotments.append(Allotment(depth, query, precision, float(kept * share)))

        for each in budget.levels:
            for item in each.queries:
                add(each.geolevel, schema.query(item.query), each.share * item.share)
        own = [float(each.share * item.share) for each in budget.levels for item in each.queries]
        measured = {(allotment.level, allotment.query.name) for allotment in allotments}
        for target in targets:
            if (names.index(target.geolevel), target.query) not in measured:
                measured.add((names.index(target.geolevel), target.query))
                add(target.geolevel, schema.query(target.query), Fraction(0))
        shares = np.r_[own, np.zeros(len(allotments) - len(own))]
        mixed = shares + (shares == 0) / len(allotments)
        wanted = tuple(
            Wanted(names.index(target.geolevel), schema.query(target.query), target.error(level)) for target in targets
        )
        variances = tree_variances(plan, names, sizes, allotments, wanted)
        return cls(plan, tuple(allotments), wanted, mixed / mixed.sum(), variances)

    def errors(self, budget: Budget) -> tuple[float, ...]:
        """Largest standard error of each target, with a budget of the same queries."""
        names = self.plan.spine.names
        shares = {
            (level.geolevel, item.query): float(level.share * item.share)
            for level in budget.levels
            for item in level.queries
        }
        weights = [shares.get((names[allotment.level], allotment.query.name), 0.0) for allotment in self.allotments]
        return self.variances.largest_errors(np.array(weights))

    def ratio(self, budget: Budget) -> float:
        """Largest standard error beside what is wanted of it."""
        return max(error / each.error for error, each in zip(self.errors(budget), self.wanted, strict=True))


def _precision(budget: Budget) -> float:
    """1 / sigma^2 of the noise of a query on which the whole total is spent."""
    first = budget.levels[0]
    mechanism = budget.mechanism(first.geolevel, first.queries[0].query)
    if not isinstance(mechanism, DiscreteGaussian):
        raise TypeError(f"{mechanism} is not the noise of a budget in rho")
    return float(1 / (mechanism.sigma_squared * first.share * first.queries[0].share))


def _rounded(plan: RunPlan, model: _Model, weights: Floats) -> Budget:
    """Exact shares nearest to weights: whole parts, at least one for each query, the largest remainders rounded up."""
    free = PARTS - len(weights)
    if free < 0:
        raise ConfigurationError(f"{len(weights)} queries of levels are too many for {PARTS} parts of a total")
    scaled = weights / weights.sum() * PARTS
    parts = np.maximum(np.floor(scaled).astype(np.int64), 1)
    order = np.argsort(parts - scaled, kind="stable")
    missing = PARTS - int(parts.sum())
    if missing >= 0:
        parts[order[:missing]] += 1
    else:  # what small queries were given is taken from the largest
        parts[int(np.argmax(parts))] += missing
    given, levels = list(zip(model.allotments, parts.tolist(), strict=True)), []
    for depth, name in enumerate(plan.spine.names):
        own = [(each.query.name, part) for each, part in given if each.level == depth]
        whole = sum(part for _, part in own)
        shares = tuple(QueryShare(query, Fraction(part, whole)) for query, part in own)
        levels.append(LevelBudget(name, Fraction(whole, PARTS), shares))
    return Budget(plan.budget.framework, plan.budget.total, tuple(levels))


def _written(budget: Budget) -> dict[str, Any]:
    """A budget as `[budget]` of a run file, whose strategy it replaces."""
    return {
        "framework": str(budget.framework),
        budget.framework.symbol: str(budget.total),
        "geolevels": {level.geolevel: str(level.share) for level in budget.levels},
        "level_queries": {
            level.geolevel: {item.query: str(item.share) for item in level.queries} for level in budget.levels
        },
    }
