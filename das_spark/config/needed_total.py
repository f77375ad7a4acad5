"""Totals that a strategy does not measure, since they must be exact: in a run, and on a spine that is made for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from das_spark.config.geography import CENSUS, known_levels, spine_of
from das_spark.errors import ConfigurationError
from das_spark.products.base import NO_TOTAL

if TYPE_CHECKING:
    from das_spark.config.model import BudgetSection
    from das_spark.config.plan import RunPlan
    from das_spark.constraints import Invariants
    from das_spark.errors import Problems
    from das_spark.geography import Spine
    from das_spark.products import Product, Strategy


def check_needed_total(
    section: BudgetSection,
    strategy: Strategy,
    product: Product,
    spine: Spine,
    invariants: Invariants,
    problems: Problems,
) -> None:
    """Totals that the strategy of a run does not measure are exact in the run."""
    level, total_at = strategy.needs_total_at, invariants.total_at
    own_queries = section.queries is not None or level in section.level_queries
    if level not in spine.names or own_queries or (total_at is not None and total_at not in spine.names):
        return
    others = _others(strategy, product)
    another = f", or take another budget.strategy ({others})" if others else ""
    if level not in invariants.total_levels(spine.names):
        sentence = f'is "{total_at or NO_TOTAL}", and {_measures(strategy)}; set it to "{level}"{another}'
        problems.add("invariants.total_at", sentence)
    elif _divides(spine, strategy, total_at):
        problems.add("geography.spine", f'{_divided(spine.kind, strategy)}; set it to "{CENSUS}"{another}')


def require_undivided(kind: str, strategy: Strategy, product: Product, total_at: str | None) -> None:
    """Refuse to make a spine for a strategy that it divides the geounits of whose totals must be exact.

    Args:
        kind: Kind of the spine.
        strategy: Whose shares the spine is made for.
        product: Whose strategy it is.
        total_at: The level whose totals are exact.

    Raises:
        ConfigurationError: No run on the spine could have the exact totals.
    """
    if not _divides(spine_of(known_levels(product, kind), kind), strategy, total_at):
        return
    others = _others(strategy, product)
    another = f", or shares of another strategy ({others})" if others else ""
    raise ConfigurationError(
        f"--spine {_divided(kind, strategy)}",
        hint=f"give --spine {CENSUS}{another}; where totals are exact in all blocks, --shares with that run file",
    )


def strategy_of(plan: RunPlan) -> Strategy | None:
    """The strategy whose queries a run has at the level whose totals it needs; None where they are its own."""
    strategy = plan.product.strategies.get(plan.strategy or "")
    if strategy is None or strategy.needs_total_at not in plan.spine.names:
        return None
    own, given = (budget.level(strategy.needs_total_at).queries for budget in (plan.budget, strategy.budget))
    return strategy if own == given else None


def _divides(spine: Spine, strategy: Strategy, total_at: str | None) -> bool:
    """Whether the parts of a geounit whose total must be exact have no exact totals themselves."""
    level = strategy.needs_total_at
    return bool(level) and level == total_at and spine.total_key_at(level) is not None


def _divided(kind: str, strategy: Strategy) -> str:
    level = strategy.needs_total_at
    return f"'{kind}' divides geounits of {level}, whose parts have no exact totals, and {_measures(strategy)}"


def _measures(strategy: Strategy) -> str:
    return f"strategy '{strategy.name}' does not measure the totals of {strategy.needs_total_at}, which must be exact"


def _others(strategy: Strategy, product: Product) -> str:
    """Strategies that can take the place of one."""
    levels = strategy.geolevels
    named = (each for each in product.strategies.values() if each.geolevels == levels and not each.needs_total_at)
    return ", ".join(each.name for each in named)
