"""Partial losses: what a run spends on one attribute of a person, or on where in a geounit the person lives.

A neighbor that differs in one attribute only cannot be told apart by a query that does not look at
it; a person who moves within a geounit of some level changes nothing that is measured at that level or above. Only
the remaining queries or levels are spent on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from das_spark.errors import BudgetError
from das_spark.privacy.accounting import PUBLISHED_DELTA, Framework, epsilon_cks
from das_spark.privacy.exact_accounting import Bounds, ExactComposition, compositions_of, worst_epsilon, worst_odds

if TYPE_CHECKING:
    from das_spark.histogram import Query, Schema
    from das_spark.privacy.budget import Budget


@dataclass(frozen=True, slots=True)
class Loss:
    """A partial privacy loss.

    Args:
        name: The attribute, or the geolevel within which a person may move.
        spent: Epsilon or rho that is spent on it, exact; 0 where nothing measured depends on it.
        epsilon: The same as an epsilon: itself in pure differential privacy, else converted by (P-8) at delta.
        delta: The delta of that epsilon; 0 in pure differential privacy.
        exact: Bounds on the epsilon of the exact composition (lemma 13), at the delta that was asked for also in pure
            differential privacy; None where it is not known.
        odds: By what factor the odds of a claim about it go up at most, for each of `POWERS`.
        compositions: Those of which the worst tells of it; none where that is not known.
    """

    name: str
    spent: Fraction
    epsilon: float
    delta: Fraction
    exact: Bounds | None = None
    odds: tuple[float, ...] = ()
    compositions: tuple[ExactComposition, ...] = ()


SharePath = Sequence[Fraction]
"""Shares of the geounits on a way through the spine, one a geolevel of the budget, root first."""


def attribute_losses(
    budget: Budget,
    queries: Mapping[str, Query],
    schema: Schema,
    delta: Fraction = PUBLISHED_DELTA,
    paths: Sequence[SharePath] = (),
) -> tuple[Loss, ...]:
    """The loss about each attribute, were all others of the person known and unchanged.

    A query counts where its factor for the attribute has at least two distinct groups.

    Args:
        budget: Budget of the run.
        queries: Every query of the budget, by name.
        schema: The attributes, in the order of the queries' factors.
        delta: For the conversion of rho.
        paths: All that occur in the spine, where geounits have shares of their own; the loss is that of the worst.

    Raises:
        BudgetError: If the budget names a query that is not given.
    """
    involved = [[Fraction(0)] * len(budget.levels) for _ in schema.attributes]
    asking: list[set[str]] = [set() for _ in schema.attributes]
    for depth, level in enumerate(budget.levels):
        for item in level.queries:
            if item.query not in queries:
                raise BudgetError(f"the budget names query '{item.query}', which is not among the queries of the run")
            for axis in range(len(schema.attributes)):
                if queries[item.query].involves(axis):
                    involved[axis][depth] += item.share
                    asking[axis].add(item.query)
    return tuple(
        _loss(
            attribute.name,
            _worst(budget, parts, paths),
            budget,
            delta,
            compositions_of(budget, paths, queries=asked),
        )
        for attribute, parts, asked in zip(schema.attributes, involved, asking, strict=True)
    )


def _worst(budget: Budget, parts: Sequence[Fraction], paths: Sequence[SharePath]) -> Fraction:
    """What is spent on some part of every geolevel, on the path where that is most."""
    usual = tuple(level.share for level in budget.levels)
    every = [
        sum((share * part for share, part in zip(path, parts, strict=True)), Fraction(0)) for path in paths or [usual]
    ]
    return budget.total * max(every)


def within_geolevel_losses(
    budget: Budget,
    delta: Fraction = PUBLISHED_DELTA,
    paths: Sequence[SharePath] = (),
    held_within: str | None = None,
) -> tuple[Loss, ...]:
    """The loss about where in a geounit of each level a person lives: what is spent strictly below that level.

    Args:
        budget: Budget of the run, geolevels root first.
        delta: For the conversion of rho.
        paths: All that occur in the spine, where geounits have shares of their own; the loss is that of the worst.
        held_within: The geolevel whose geounits a record does not leave between neighbours, since their totals are
            exact; levels above have no loss of their own.

    Returns:
        A loss for every geolevel from `held_within` (or the root) to the last but one; none where nothing can move.
    """
    depths = range(len(budget.levels))
    names = [level.geolevel for level in budget.levels]
    first = 0 if held_within is None else names.index(held_within)
    losses = []
    for depth in depths[first:-1]:
        below = [Fraction(int(each > depth)) for each in depths]
        composed = compositions_of(budget, paths, levels=names[depth + 1 :])
        losses.append(_loss(names[depth], _worst(budget, below, paths), budget, delta, composed))
    return tuple(losses)


def _loss(
    name: str, spent: Fraction, budget: Budget, delta: Fraction, compositions: tuple[ExactComposition, ...]
) -> Loss:
    exact, odds = worst_epsilon(compositions, delta), worst_odds(compositions, budget.framework, spent)
    if budget.framework is Framework.PURE_DP or spent == 0:
        return Loss(name, spent, float(spent), Fraction(0), exact, odds, compositions)
    return Loss(name, spent, epsilon_cks(spent, delta), delta, exact, odds, compositions)
