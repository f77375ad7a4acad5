"""Shares of a budget that no estimate reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from das_spark.config import needs_of, unused_queries

if TYPE_CHECKING:
    from fractions import Fraction

    from das_spark.config import RunPlan
    from das_spark.geography import Spine


@dataclass(frozen=True, slots=True)
class UnusedShare:
    """A share of the budget (epsilon or rho, exact) of a query, or of all of a geolevel, that no estimate reads."""

    geolevel: str
    query: str | None
    spent: Fraction
    why: str

    def sentence(self, total: str) -> str:
        """The warning."""
        what = self.geolevel if self.query is None else f"query '{self.query}' at {self.geolevel}"
        return f"the budget of {what} ({total} {self.spent}) will be read by no estimate: {self.why}"


def unused_shares(plan: RunPlan, counts: Mapping[str, int]) -> Iterator[UnusedShare]:
    """Find the unused shares, root first, and each once, for its first reason."""
    alone = unused_levels(plan.spine, counts)
    exact = plan.invariants.total_levels(plan.spine.names)
    # Where parts have a total together, their noisy totals divide it.
    exact = tuple(name for name in exact if plan.spine.total_key_at(name) is None)
    needs = needs_of(plan)
    complete = needs.upward_levels(plan.spine.names) if needs.reads_everything else ()
    for level in plan.budget.levels:
        name = level.geolevel
        if name in alone and name not in complete:
            why = "every geounit of it is a single child, and has the estimate of its parent"
            yield UnusedShare(name, None, plan.budget.total * level.share, why)
            continue
        queries = [item.query for item in level.queries]
        skipped = () if name in complete else unused_queries(plan.estimation.passes, name, queries)
        for query in queries:
            spent = plan.budget.spent(name, query)
            if name in exact and plan.queries[query].rows == 1:
                yield UnusedShare(name, query, spent, "totals are published exactly there")
            elif query in skipped:
                yield UnusedShare(name, query, spent, "no pass of that geolevel fits it (estimation.passes)")


def unused_levels(spine: Spine, counts: Mapping[str, int]) -> list[str]:
    """List levels in which every geounit is known to be a single child, which has its parent's estimate unmeasured."""
    return [
        below.name
        for above, below in pairwise(spine.levels)
        if above.name in counts and counts[above.name] == counts.get(below.name)
    ]
