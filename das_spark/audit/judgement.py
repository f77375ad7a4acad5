"""From statistics of many runs to a verdict: events are chosen by half of the runs and judged by the others.

Each part of an audit (a pair of inputs in a stage) sends a few events to judgement, by two standards: how much privacy
loss they prove, and how far they are beyond what the declared noise allows. With J events in all, each limit of a
frequency is wrong with probability (1 - level) / (2 J), so that all of them hold together with probability `level`
(Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from das_spark.audit.claim import Claim, lower_limit, upper_limit
from das_spark.audit.events import Statistic, StatisticEvent, choose
from das_spark.audit.noise import DeclaredNoise
from das_spark.errors import InputError
from das_spark.limits import require_level

#: Events of a part that are judged, for each of the two standards.
JUDGED: Final = 4
_FEWEST_RUNS: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One pair of inputs in one stage."""

    stage: str  # what was run, "measurement" or "pipeline"
    pair: str  # name of the pair of inputs
    statistics: tuple[Statistic, ...]  # of all runs, the same number under both inputs
    noise: DeclaredNoise  # what the declared noise allows for this pair

    def __post_init__(self) -> None:
        """Check that there are two halves."""
        if not self.statistics or self.runs < _FEWEST_RUNS:
            raise InputError(
                f"audit of {self.stage}: {self.runs} runs of each input cannot choose and judge",
                hint="give --runs a number of 4 or more; some hundreds say something",
            )

    @property
    def runs(self) -> int:
        """Runs of each input."""
        return len(self.statistics[0].first) if self.statistics else 0

    @property
    def judging(self) -> int:
        """Runs of each input that judge."""
        return self.runs // 2

    def of_exact_leak(self, claim: Claim, alpha: float) -> tuple[float, bool, bool]:
        """What the most telling event of all would show: always seen under one input, and never under the other.

        Its bound on the total, whether it refutes the claim, and whether it is beyond the declared noise. Where it
        shows too little, the runs are too few for any event, and an audit of them proves nothing.
        """
        low = lower_limit(self.judging, self.judging, alpha / 2)
        high = upper_limit(0, self.judging, alpha / 2)
        bound = float(claim.bound(low, high))
        refutes = bound > claim.total or float(claim.epsilon_bound(low, high)) > claim.epsilon
        return bound, refutes, bool(low > self.noise.allowed(high))


@dataclass(frozen=True, slots=True)
class JudgedEvent:
    """An event that was judged."""

    stage: str
    pair: str
    event: StatisticEvent
    # How often it was seen under the input where it is claimed to be more frequent, and under the other one.
    seen: tuple[int, int]
    runs: int  # runs that judged, of each input
    low: float  # lower limit of the first probability
    high: float  # upper limit of the second one
    bound: float  # lower bound on the total, in the currency of the claim
    epsilon: float  # lower bound on epsilon at the delta of the claim
    allowed: float  # greatest first probability that the declared noise allows where the second is `high`


@dataclass(frozen=True, slots=True)
class Judgement:
    """All findings of an audit."""

    level: float  # confidence with which all of them hold together
    alpha: float  # probability of being wrong, of one finding
    findings: tuple[JudgedEvent, ...]  # part by part, the most telling first


def judge(parts: Sequence[Part], claim: Claim, level: float, most: int = JUDGED) -> Judgement:
    """Choose events by the even runs of every part, and judge them by the odd ones."""
    require_level(level, "level")
    usual = (1 - level) / (2 * most * len(parts))
    chosen = [(part, event) for part in parts for event in _chosen(part, claim, usual, most)]
    alpha = (1 - level) / max(1, len(chosen))
    return Judgement(level, alpha, tuple(_judged(part, event, claim, alpha) for part, event in chosen))


def _chosen(part: Part, claim: Claim, alpha: float, most: int) -> list[StatisticEvent]:
    """Events by both standards, none twice."""
    halves = [statistic.half(0) for statistic in part.statistics]
    by_claim = choose(halves, claim.bound, alpha, most)
    by_noise = choose(halves, part.noise.excess, alpha, most)
    return list(dict.fromkeys([*by_claim, *by_noise]))


def _judged(part: Part, event: StatisticEvent, claim: Claim, alpha: float) -> JudgedEvent:
    statistic = next(statistic for statistic in part.statistics if statistic.name == event.statistic).half(1)
    seen = event.counts(statistic)
    low = lower_limit(seen[0], part.judging, alpha / 2)
    high = upper_limit(seen[1], part.judging, alpha / 2)
    return JudgedEvent(
        stage=part.stage,
        pair=part.pair,
        event=event,
        seen=seen,
        runs=part.judging,
        low=float(low),
        high=float(high),
        bound=float(claim.bound(low, high)),
        epsilon=float(claim.epsilon_bound(low, high)),
        allowed=float(part.noise.allowed(np.asarray(high))),
    )
