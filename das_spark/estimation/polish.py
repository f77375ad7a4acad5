"""The last digits of a family of `structured.py`: Newton steps on the cells and sums that are not at a bound.

Alternating directions find soon who has people and which sums are held, and then creep. Given that, the optimum is one
linear system (README, 15): each child's matrix on its own occupied cells, tied by one sum for each cell. Where the
solution is negative, or a multiplier has the wrong sign, the sets are changed and the system solved again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from das_spark.estimation.problem import Booleans, Floats, Integers
    from das_spark.estimation.structured import StructuredFamily

RIDGE: Final = 1e-12
"""Share of its mean diagonal that is added to the matrix of the prices: where all totals are held one is too many."""
MOST_NUMBERS: Final = 40_000_000
"""Numbers in the inverses of all children together; more need gigabytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Polished:
    """A solution for some sets of free cells and held sums.

    Attributes:
        x: People in the cells of the parent, shape ``(K, n)``; negative where a cell should not be free.
        price: Multiplier of each cell's sum, shape ``(n,)``.
        held: Multipliers of bounded sums, shape ``(K, L)``; positive at a lower bound.
        gradient: What is left of the gradient in each cell, shape ``(K, n)``: 0 in free ones.
    """

    x: Floats
    price: Floats
    held: Floats
    gradient: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Polish:
    """The family on the cells that its parent occupies."""

    family: StructuredFamily
    values: Floats  # matrices of all children over means, shape (K, E, p, p)
    site: Integers  # of each cell, shape (n,)
    live: Booleans  # shape (K, n)
    linear: Floats  # shape (K, n)
    needed: Floats  # shape (n,)
    rows: Booleans  # cells of each bounded sum, shape (L, n)

    @classmethod
    def of(cls, family: StructuredFamily) -> Polish:
        """Take it out of the sites."""
        place, averages = family.place, family.frame.averages
        site = averages.site[place]
        return cls(
            family,
            averages.of(family.blocks),
            site,
            family.live[:, place],
            family.linear[:, place],
            family.needed[place],
            family.rows[:, site],
        )

    def _matrix(self, child: int, cells: Integers) -> Floats:
        """The matrix of a child on some cells, from means."""
        averages, site = self.family.frame.averages, self.site[cells]
        own = self.family.place[cells]
        found = np.zeros((len(cells), len(cells)))
        for number, values in enumerate(self.values[child]):
            same = averages.place[number, own][:, None] == averages.place[number, own][None, :]
            found += np.where(same, values[site[:, None], site] * averages.shares[number][site], 0.0)
        return found

    def solve(self, free: Booleans, target: Floats) -> Polished | None:
        """The optimum with these cells free and these sums held.

        Args:
            free: Whether a cell is free, shape ``(K, n)``.
            target: What each held sum must be, shape ``(K, L)``; not a number where it is not held.

        Returns:
            None where the system has no solution, or is too large.
        """
        if (free.sum(axis=1, dtype=np.int64) ** 2).sum() > MOST_NUMBERS:
            return None
        children, count = free.shape
        together, right = np.zeros((count, count)), self.needed.copy()
        parts = []
        try:
            for child in range(children):
                (cells,) = np.nonzero(free[child])
                inverse = np.linalg.inv(self._matrix(child, cells)) if len(cells) else np.zeros((0, 0))
                (held,) = np.nonzero(np.isfinite(target[child]) & self.rows[:, cells].any(axis=1))
                rows = self.rows[np.ix_(held, cells)].astype(np.float64)
                seen = rows @ inverse
                lifted = np.linalg.solve(seen @ rows.T, seen) if len(held) else np.zeros((0, len(cells)))
                projected = inverse - seen.T @ lifted
                base = projected @ self.linear[child, cells] + lifted.T @ target[child, held]
                together[np.ix_(cells, cells)] += projected
                right[cells] -= base
                parts.append((cells, held, projected, base, rows @ inverse, rows))
            empty = ~free.any(axis=0)
            together[empty, empty] = 1.0
            cells = np.arange(count)
            together[cells, cells] += RIDGE * float(np.trace(together)) / count
            price: Floats = np.asarray(np.linalg.solve(together, np.where(empty, 0.0, right)), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None
        x, multipliers = np.zeros(free.shape), np.zeros(target.shape)
        for child, (cells, held, projected, base, seen, rows) in enumerate(parts):
            x[child, cells] = base + projected @ price[cells]
            if len(held):
                missing = target[child, held] - seen @ (self.linear[child, cells] + price[cells])
                multipliers[child, held] = np.linalg.solve(seen @ rows.T, missing)
        return Polished(x, price, multipliers, self._gradient(x, price, multipliers))

    def _gradient(self, x: Floats, price: Floats, held: Floats) -> Floats:
        family = self.family
        whole = np.zeros((len(x), len(family.needed)))
        whole[:, family.place] = x
        pulled = family.frame.apply(family.blocks, whole)[:, family.place]
        return np.where(self.live, pulled - self.linear - price - held @ self.rows, 0.0)
