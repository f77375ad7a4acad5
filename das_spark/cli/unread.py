"""Budget that no estimate will read, as far as that is known before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from das_spark.cli.geounits import unread_levels
from das_spark.config import unread_queries

if TYPE_CHECKING:
    from das_spark.config import RunPlan


@dataclass(frozen=True, slots=True)
class UnreadShare:
    """A share of the budget that is spent for nothing.

    Attributes:
        geolevel: Where.
        query: Which query of it; None for all.
        spent: Epsilon or rho, exact.
        why: Why no estimate reads it.
    """

    geolevel: str
    query: str | None
    spent: Fraction
    why: str

    def sentence(self, total: str) -> str:
        """The warning.

        Args:
            total: What the budget is measured in: epsilon or rho.
        """
        what = self.geolevel if self.query is None else f"query '{self.query}' at {self.geolevel}"
        return f"the budget of {what} ({total} {self.spent}) will be read by no estimate: {self.why}"


def unread_shares(plan: RunPlan, counts: Mapping[str, int]) -> Iterator[UnreadShare]:
    """Find them, root first, and each once, for its first reason.

    Args:
        plan: The run.
        counts: Geolevel -> number of geounits, of the levels that are known.

    Yields:
        Levels of only children; totals where totals are exact; queries that no pass of their level fits.
    """
    alone = unread_levels(plan.spine, counts)
    exact = plan.invariants.total_levels(plan.spine.names)
    # Where parts have a total together, their noisy totals divide it.
    exact = tuple(name for name in exact if plan.spine.total_key_at(name) is None)
    for level in plan.budget.levels:
        name = level.geolevel
        if name in alone:
            why = "every geounit of it is an only child, and takes over its parent's"
            yield UnreadShare(name, None, plan.budget.total * level.share, why)
            continue
        queries = [item.query for item in level.queries]
        skipped = unread_queries(plan.estimation.passes, name, queries)
        for query in queries:
            spent = plan.budget.spent(name, query)
            if name in exact and plan.queries[query].rows == 1:
                yield UnreadShare(name, query, spent, "totals are published exactly there")
            elif query in skipped:
                yield UnreadShare(name, query, spent, "no pass of that geolevel fits it (estimation.passes)")
