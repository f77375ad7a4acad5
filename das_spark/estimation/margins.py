"""Margins: measured or bounded sums of two or more variables of a child; equal ones are joined (README, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das_spark.estimation.folding import Folding, SharedRows
from das_spark.estimation.support import Floats, Integers

Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """Sums of two or more variables of one child that are measured or bounded; M of them.

    Attributes:
        child: Child of each, shape ``(M,)``.
        weight: Inverse variance, 0 where not measured.
        target: Noisy answer less what is fixed.
        lower: Lower bound less what is fixed, ``-inf`` where none can bind.
        upper: Upper bound less what is fixed, ``inf`` where none can bind.
        entry_margin: Margin of each incidence, shape ``(E,)``.
        entry_variable: Variable of each incidence, shape ``(E,)``.
        of_row: For each partition the margin of each row of each child, -1 where there is none, shape ``(K, r)``.
        lower_from: Partition that each lower bound comes from, shape ``(M,)``.
        upper_from: Partition that each upper bound comes from, shape ``(M,)``.
    """

    child: Integers
    weight: Floats
    target: Floats
    lower: Floats
    upper: Floats
    entry_margin: Integers
    entry_variable: Integers
    of_row: tuple[Integers, ...]
    lower_from: Integers
    upper_from: Integers

    def sums(self, values: Floats) -> Floats:
        """Sum up each margin.

        Args:
            values: One value a variable, shape ``(N,)``.

        Returns:
            Shape ``(M,)``.
        """
        sums = np.bincount(self.entry_margin, weights=values[self.entry_variable], minlength=len(self.child))
        return sums.astype(np.float64)  # of no entries at all, numpy makes integers

    @property
    def bounded(self) -> Booleans:
        """Whether either bound can bind."""
        return np.isfinite(self.lower) | np.isfinite(self.upper)

    @property
    def equal(self) -> Booleans:
        """Whether the margin is known."""
        return np.asarray(self.lower == self.upper, dtype=np.bool_)


def merged_margins(folding: Folding, rows: list[SharedRows]) -> tuple[Margins, str]:
    """Join rows of different partitions that count the same variables of a child.

    Args:
        folding: What is known of the variables.
        rows: Shared rows of each partition, in order.

    Returns:
        The margins, and what contradicts itself among them (empty when nothing).
    """
    partitions = folding.support.partitions
    owner = _joined([np.full(len(each.flat), each.number) for each in rows], np.int64)
    child = _joined([each.flat // (partitions[each.number].rows + 1) for each in rows], np.int64)
    place, first = _same_variables(folding, rows, child)
    count = len(first)
    weights = [partitions[each.number].weight[each.flat // (partitions[each.number].rows + 1)] for each in rows]
    raw, target = _joined(weights), _joined([each.target for each in rows])
    weight = np.bincount(place, weights=raw, minlength=count).astype(np.float64)
    summed = np.bincount(place, weights=raw * target, minlength=count)
    low, high = _joined([each.lower for each in rows]), _joined([each.upper for each in rows])
    lower, lower_from = _tightest(low, place, owner, count)
    negative, upper_from = _tightest(-high, place, owner, count)
    upper = -negative
    kept = (weight > 0) | np.isfinite(lower) | np.isfinite(upper)
    number = np.where(kept, np.cumsum(kept) - 1, -1)[place]
    of_row, entry_margin, entry_variable = _incidence(folding, rows, number, first)
    trouble = "two bounds on the same cells of a child contradict each other" if (lower > upper).any() else ""
    return (
        Margins(
            child=child[first][kept],
            weight=weight[kept],
            target=np.divide(summed, weight, out=np.zeros(count), where=weight > 0)[kept],
            lower=lower[kept],
            upper=upper[kept],
            entry_margin=entry_margin,
            entry_variable=entry_variable,
            of_row=of_row,
            lower_from=lower_from[kept],
            upper_from=upper_from[kept],
        ),
        trouble,
    )


def _joined(parts: list[NDArray[Any]], kind: type[np.generic] = np.float64) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)


def _tightest(bound: Floats, place: Integers, owner: Integers, count: int) -> tuple[Floats, Integers]:
    """Largest bound of each set of equal rows, and the partition that it comes from."""
    best = np.full(count, -np.inf)
    np.maximum.at(best, place, bound)
    source = np.full(count, -1, dtype=np.int64)
    attained = bound >= best[place]
    source[place[attained]] = owner[attained]
    return best, source


def _incidence(
    folding: Folding, rows: list[SharedRows], number: Integers, first: Integers
) -> tuple[tuple[Integers, ...], Integers, Integers]:
    """Which variables each margin sums: read off one of the rows that make it."""
    chosen = np.zeros(len(number), dtype=np.bool_)
    chosen[first] = True
    of_row, margins, variables, start = [], [_none()], [_none()], 0
    for each in rows:
        width = folding.support.partitions[each.number].rows + 1
        part = slice(start, start + len(each.flat))
        start = part.stop
        table = np.full(folding.support.children * width, -1, dtype=np.int64)
        table[each.flat] = number[part]
        of_row.append(table.reshape(-1, width)[:, :-1])
        if chosen[part].any():
            source = np.full(len(table), -1, dtype=np.int64)
            source[each.flat] = np.where(chosen[part], number[part], -1)
            found = source[each.key]
            (variable,) = np.nonzero(found >= 0)
            margins.append(found[variable])
            variables.append(variable)
    return tuple(of_row), np.concatenate(margins), np.concatenate(variables)


def _none() -> Integers:
    return np.zeros(0, dtype=np.int64)


def _same_variables(folding: Folding, rows: list[SharedRows], child: Integers) -> tuple[Integers, Integers]:
    """Number rows so that equal sets of variables get one number: (number of each row, a first row of each number).

    Sets are told apart by sums of pseudo-random codes of cells. Two different sets with one sum would make the solver
    solve another problem, which the certificate, made from the tables, would then refuse.
    """
    if sum(len(each.flat) > 0 for each in rows) < 2:  # noqa: PLR2004 - two partitions
        return np.arange(len(child)), np.arange(len(child))
    code = _codes(len(folding.support.cells))[folding.cell]
    sums = [
        np.bincount(each.key, weights=code, minlength=1 + int(each.flat.max(initial=0)))[each.flat] for each in rows
    ]
    digest = np.concatenate(sums).astype(np.uint64) * np.uint64(folding.support.children) + child.astype(np.uint64)
    _, first, place = np.unique(digest, return_index=True, return_inverse=True)
    return place, first


def _codes(count: int) -> Floats:
    """Pseudo-random whole numbers, small enough for the sum of all to be exact in a float."""
    with np.errstate(over="ignore"):
        mixed = (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(12 + max(1, count).bit_length())).astype(np.float64)
