"""The exact budget of a run: a strategy of the product, with whatever the run file spells out instead of it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from das_spark.config.problems import Problems, nearest
from das_spark.errors import QueryError
from das_spark.privacy.budget import Budget, Framework, LevelBudget, QueryShare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.config.model import Budget as BudgetSection
    from das_spark.histogram import Query
    from das_spark.products import Product

Shares = Mapping[str, Fraction]


def resolve_budget(
    section: BudgetSection, product: Product, levels: Sequence[str], problems: Problems
) -> tuple[Budget, dict[str, Query]] | None:
    """Make the budget of a run.

    Args:
        section: `[budget]`.
        product: Gives the strategies, and the schema that queries are asked of.
        levels: Geolevels of the run, root first; empty where they are wrong themselves.
        problems: Where to note what is wrong.

    Returns:
        The budget and its queries by name, or None where something is wrong.
    """
    before = problems.met
    strategy = _strategy(section, product, problems)
    framework, total = _total(section, strategy, problems)
    geolevels = _geolevels(section, strategy)
    if levels and geolevels is not None:
        _check_levels(geolevels, levels, problems)
    queries: dict[str, Query] = {}
    level_budgets = []
    for level in levels:
        found = _queries(section, strategy, level)
        if found is None or geolevels is None:
            problems.add("budget", f"nothing says the shares of '{level}'; {_ways(product)}")
            break
        key, shares = found
        level_budgets.append((level, geolevels.get(level), _named_shares(key, shares, product, queries, problems)))
    if problems.met > before or framework is None or total is None:
        return None
    with problems.at("budget"):
        return Budget(framework, total, tuple(_level_budget(*each) for each in level_budgets)), queries
    return None


def _ways(product: Product) -> str:
    names = ", ".join(product.strategies)
    return f"name a strategy of the product ({names}) or spell out [budget.geolevels] and [budget.queries]"


def _strategy(section: BudgetSection, product: Product, problems: Problems) -> Budget | None:
    if section.strategy is None:
        return None
    found = product.strategies.get(section.strategy)
    if found is None:
        problems.add(
            "budget.strategy", f"unknown strategy '{section.strategy}'; {nearest(section.strategy, product.strategies)}"
        )
        return None
    return found.budget


def _total(
    section: BudgetSection, strategy: Budget | None, problems: Problems
) -> tuple[Framework | None, Fraction | None]:
    """Framework and total: what the section says, else the strategy's."""
    if section.epsilon is not None and section.rho is not None:
        problems.add("budget", "epsilon and rho are both given; a run has one of them")
        return None, None
    if section.framework is not None:
        framework = Framework(section.framework)
    elif strategy is not None:
        framework = strategy.framework
    else:
        framework = Framework.ZCDP if section.rho is not None else Framework.PURE_DP
    key = framework.symbol
    other = "rho" if key == "epsilon" else "epsilon"
    if getattr(section, other) is not None:
        problems.add(f"budget.{other}", f"the framework is {framework}, whose total is called {key}")
        return None, None
    total: Fraction | None = getattr(section, key)
    if total is None and strategy is not None and strategy.framework is framework:
        total = strategy.total
    if total is None:
        problems.add(f"budget.{key}", "is missing")
    elif total <= 0:
        problems.add(f"budget.{key}", f"must be greater than 0, is {total}")
    return framework, total


def _geolevels(section: BudgetSection, strategy: Budget | None) -> Shares | None:
    if section.geolevels is not None:
        return section.geolevels
    return None if strategy is None else {level.geolevel: level.share for level in strategy.levels}


def _check_levels(shares: Shares, levels: Sequence[str], problems: Problems) -> None:
    key = "budget.geolevels"
    for level in levels:
        if level not in shares:
            problems.add(key, f"geolevel '{level}' has no budget; give it a share or take it out of geography.levels")
    for name in shares:
        if name not in levels:
            problems.add(f"{key}.{name}", f"there is no such geolevel in the run; {nearest(name, levels)}")
    _check_shares(key, shares, problems)


def _check_shares(key: str, shares: Shares, problems: Problems) -> None:
    for name, share in shares.items():
        if share <= 0:
            problems.add(f"{key}.{name}", f"a share must be greater than 0, is {share}")
    total = sum(shares.values(), Fraction(0))
    if total != 1:
        problems.add(key, f"shares sum to {total}, not 1")


def _queries(section: BudgetSection, strategy: Budget | None, level: str) -> tuple[str, Shares] | None:
    """Key path and query shares of a level: its own, those of all levels, or the strategy's."""
    if level in section.level_queries:
        return f"budget.level_queries.{level}", section.level_queries[level]
    if section.queries is not None:
        return "budget.queries", section.queries
    for found in strategy.levels if strategy is not None else ():
        if found.geolevel == level:
            return "budget.strategy", {item.query: item.share for item in found.queries}
    return None


def _named_shares(
    key: str, shares: Shares, product: Product, queries: dict[str, Query], problems: Problems
) -> dict[str, Fraction]:
    """Shares under the canonical names of their queries; every query goes into `queries`."""
    _check_shares(key, shares, problems)
    named: dict[str, Fraction] = {}
    for text, share in shares.items():
        try:
            query = product.schema.query(text)
        except QueryError as error:
            problems.add(f"{key}.{text}", f"{error.message}; {error.hint}")
            continue
        twin = next((name for name in named if queries[name] == query), None)
        if twin is not None:
            problems.add(f"{key}.{text}", f"is the query '{twin}', which has a share already")
        elif not query.is_partition:
            problems.add(
                f"{key}.{text}", "leaves out some cells; a measured query counts every cell in exactly one answer"
            )
        else:
            queries[query.name] = query
            named[query.name] = share
    return named


def _level_budget(level: str, share: Fraction | None, queries: Shares) -> LevelBudget:
    return LevelBudget(level, share or Fraction(0), tuple(QueryShare(name, part) for name, part in queries.items()))
