r"""What an attacker looks at: statistics of outputs, events made of them, and how one half of the runs chooses them.

An event says that a statistic is at least, or at most, a threshold. Thresholds and directions are chosen by one half
of the runs, the other half judges them; so the choice costs nothing but these runs, and confidence limits hold.

One statistic is learned: the linear combination of others that tells the two inputs apart best. With means m and common
covariance S over the runs that choose, the weights are those of Fisher (1936),

    w = (S + r I)^{-1} (m_first - m_second),                                                                 (V-7)

of statistics that have been divided by their standard deviations; r is small, or the square of statistics a run, and
keeps w finite where statistics do not vary, repeat each other, or are more than the runs. It needs no idea of what may
be wrong: noise that two answers share, or an exact count that shows through, reduces the covariance in some direction,
and w points there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.audit.claim import lower_limit, upper_limit

Floats = NDArray[np.float64]
Side = Literal["first", "second"]
#: Lower limit under one input and upper limit under the other -> how telling that is; greater is more.
Score = Callable[[Floats, Floats], Floats]

#: What a statistic is made of -> in words.
KINDS: Final[Mapping[str, str]] = {
    "answer": "one noisy answer",
    "sum": "log-likelihood ratios and standardised differences over several noisy answers",
    "kept": "how many noisy answers were released, and whether one was; whether all families could be estimated",
    "estimate": "one estimated count: of a cell, of a query, or the total of a geounit",
    "learned": "a linear combination of the others, learned from the runs that choose",
}
_MOST_THRESHOLDS: Final = 200
#: More than any score of an event that shows a difference can lie below 0: those are differences of probabilities.
_SHOWS_NOTHING: Final = 2.0
_RIDGE: Final = 1e-3
#: Statistics that do not vary under either input are divided by this, so that a difference weighs much.
_LEAST_DEVIATION: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """A number that every run gives."""

    name: str  # what it is
    kind: str  # what it is made of, a key of `KINDS`
    first: Floats  # under the first input, one a run, (runs,); not a number where the run does not release it
    second: Floats  # under the second one, (runs,)

    def half(self, which: int) -> Statistic:
        """Every other run: 0 for those that choose, 1 for those that judge."""
        return Statistic(self.name, self.kind, self.first[which::2], self.second[which::2])


@dataclass(frozen=True, slots=True)
class StatisticEvent:
    """A statistic at least, or at most, a threshold."""

    statistic: str  # name of the statistic
    kind: str  # what that is made of
    upward: bool  # whether the event is "at least"
    threshold: float
    telling: Side  # the input under which the event is claimed to be more frequent

    @property
    def text(self) -> str:
        """The event in words."""
        return f"{self.statistic} {'>=' if self.upward else '<='} {self.threshold:.6g}"

    def counts(self, statistic: Statistic) -> tuple[int, int]:
        """How often it happens under the input where it is claimed to be more frequent, and under the other one."""
        sides = (statistic.first, statistic.second)
        seen = [int(((side >= self.threshold) if self.upward else (side <= self.threshold)).sum()) for side in sides]
        return (seen[0], seen[1]) if self.telling == "first" else (seen[1], seen[0])


def choose(statistics: Iterable[Statistic], score: Score, alpha: float, most: int) -> list[StatisticEvent]:
    """The most telling events, one a statistic."""
    found = []
    for place, statistic in enumerate(statistics):
        best = _best(statistic, score, alpha / 2)
        if best is not None:
            found.append((-best[0], place, best[1]))
    return [event for _, _, event in sorted(found, key=lambda each: each[:2])[:most]]


@lru_cache(maxsize=4)
def _limits(runs: int, alpha: float) -> tuple[Floats, Floats]:
    """Lower and upper limits for every number of times that an event can be seen, (runs + 1,) each."""
    seen = np.arange(runs + 1)
    return lower_limit(seen, runs, alpha), upper_limit(seen, runs, alpha)


def _best(statistic: Statistic, score: Score, alpha: float) -> tuple[float, StatisticEvent] | None:
    """The most telling event of a statistic with its score."""
    sides = [np.sort(side[~np.isnan(side)]) for side in (statistic.first, statistic.second)]
    thresholds = _thresholds(np.concatenate(sides))
    if not len(thresholds):
        return None
    found = []
    for upward in (True, False):
        if upward:
            seen = [len(side) - np.searchsorted(side, thresholds, side="left") for side in sides]
        else:
            seen = [np.searchsorted(side, thresholds, side="right") for side in sides]
        runs = len(statistic.first), len(statistic.second)
        for own, other, telling in ((0, 1, "first"), (1, 0, "second")):
            low, high = _limits(runs[own], alpha)[0][seen[own]], _limits(runs[other], alpha)[1][seen[other]]
            # What shows no difference comes last, the nearest to showing one first.
            scores = np.where(low > high, score(low, high), low - high - _SHOWS_NOTHING)
            place = int(np.argmax(scores))
            side: Side = "first" if telling == "first" else "second"
            event = StatisticEvent(statistic.name, statistic.kind, upward, float(thresholds[place]), side)
            found.append((float(scores[place]), event))
    return max(found, key=lambda each: each[0])


def _thresholds(values: Floats) -> Floats:
    """Values that occur: all, or evenly many of each rank."""
    different = np.unique(values)
    if len(different) <= _MOST_THRESHOLDS:
        return different
    ranks = np.linspace(0, len(values) - 1, _MOST_THRESHOLDS).astype(np.int64)
    return np.unique(np.sort(values)[ranks])


def learned(name: str, statistics: Sequence[Statistic]) -> Statistic:
    """Learn from the even runs, and give the learned combination for all of them.

    Where a statistic is missing in a run its mean over the even runs stands for it; whether it is missing is a
    statistic of its own where an even run misses it.
    """
    sides = [np.stack([getattr(statistic, side) for statistic in statistics], axis=1) for side in ("first", "second")]
    choosing = np.concatenate([side[::2] for side in sides])
    there = ~np.isnan(choosing)
    # Of the choosing runs alone: were the others asked, what they miss would add a column and change all weights.
    sometimes = ~there.all(axis=0)
    centre = np.where(there, choosing, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    whole = [np.hstack([np.where(np.isnan(side), centre, side), ~np.isnan(side[:, sometimes])]) for side in sides]
    weights = _weights(whole[0][::2], whole[1][::2])
    return Statistic(name, "learned", whole[0] @ weights, whole[1] @ weights)


def _weights(first: Floats, second: Floats) -> Floats:
    """(V-7), for statistics in their own units, (m,)."""
    centred = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    deviation = np.maximum(centred.std(axis=0), _LEAST_DEVIATION)
    scaled = centred / deviation
    ridge = max(_RIDGE, (scaled.shape[1] / len(first)) ** 2)
    covariance = scaled.T @ scaled / len(scaled) + ridge * np.eye(scaled.shape[1])
    difference = (first.mean(axis=0) - second.mean(axis=0)) / deviation
    weights: Floats = np.linalg.solve(covariance, difference) / deviation
    return weights
