"""An auditor who sees only outputs, the faults that it must find, and what is claimed of a budget.

Two neighbouring histograms are measured many times, each time as another geounit under a fresh key. The auditor looks
at events: the likelihood ratio under the claimed distributions at or above a threshold, and differences between two
released numbers that take a certain value. One half of the runs chooses the most telling event, the other half bounds
its two probabilities by Clopper and Pearson. For pure differential privacy the claim is p <= exp(epsilon) p', for
rho-zCDP it is p <= exp(epsilon) p' + delta(epsilon). A bound above the claim convicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from delta_search import searched_delta
from numpy.typing import NDArray
from scipy import stats

from das_spark.histogram import Attribute, Schema
from das_spark.privacy import (
    Budget,
    DiscreteLaplace,
    Framework,
    GeounitAddresses,
    KeyedStream,
    LevelBudget,
    Mechanism,
    QueryShare,
    cumulative_table,
    sample,
)

RUNS = 500_000
SCHEMA = Schema("audit", (Attribute("first", ("0", "1")), Attribute("second", ("0", "1"))))
QUERIES = {name: SCHEMA.query(name) for name in ("detailed", "first")}
BEFORE = np.array([3, 0, 5, 1])
AFTER = np.array([2, 0, 5, 2])  # One record replaced: cell (0, 0) became cell (1, 1).
SHARES = (QueryShare("detailed", Fraction(2, 5)), QueryShare("first", Fraction(3, 5)))
EVEN_SHARES = (QueryShare("detailed", Fraction(1, 2)), QueryShare("first", Fraction(1, 2)))
TOTALS = {Framework.PURE_DP: Fraction(2), Framework.ZCDP: Fraction(2)}
ADDRESSES = GeounitAddresses.of(map(str, range(RUNS)))
AUDITED_EPSILON = 3.5  # For zCDP; not 6, see test_power_of_the_audit.py.

Outputs = Mapping[str, NDArray[np.int64]]
Release = Callable[[NDArray[np.int64], Budget, Callable[..., KeyedStream], str], Outputs]


def budget_of(framework: Framework, shares: tuple[QueryShare, ...] = SHARES) -> Budget:
    return Budget(framework, TOTALS[framework], (LevelBudget("level", Fraction(1), shares),))


def noisy(cells: NDArray[np.int64], query: str, distribution: Mechanism, stream: KeyedStream) -> NDArray[np.int64]:
    answers = QUERIES[query].answer_dense(cells)
    return answers + sample(cumulative_table(distribution), stream, ADDRESSES, np.arange(len(answers)))


def honest(cells: NDArray[np.int64], budget: Budget, streams: Callable[..., KeyedStream], world: str) -> Outputs:
    return {
        name: noisy(cells, name, budget.mechanism("level", name), streams(query=name, product=world))
        for name in QUERIES
    }


def half_the_noise(cells: NDArray[np.int64], budget: Budget, streams: Any, world: str) -> Outputs:
    """Every scale is half of what the budget buys."""
    return honest(cells, overspent(budget), streams, world)


def overspent(budget: Budget) -> Budget:
    """The budget that buys half of every scale."""
    return replace(budget, total=budget.total * (2 if budget.framework is Framework.PURE_DP else 4))


def reused_noise(cells: NDArray[np.int64], budget: Budget, streams: Any, world: str) -> Outputs:
    """Two queries draw from one stream."""
    stream = streams(query="shared", product=world)
    return {name: noisy(cells, name, budget.mechanism("level", name), stream) for name in QUERIES}


def measured_twice(cells: NDArray[np.int64], budget: Budget, streams: Any, world: str) -> Outputs:
    """Every query is answered twice, each time with the share of once."""
    again = {
        f"{name} again": noisy(
            cells, name, budget.mechanism("level", name), streams(query=name, product=world, attempt=1)
        )
        for name in QUERIES
    }
    return {**honest(cells, budget, streams, world), **again}


def log_ratio(outputs: Outputs, budget: Budget) -> NDArray[np.float64]:
    """The log-likelihood ratio of BEFORE to AFTER under the claimed distributions, for every run."""
    total = np.zeros(RUNS)
    for name, values in outputs.items():
        query = name.removesuffix(" again")
        distribution = budget.mechanism("level", query)
        before, after = (values - QUERIES[query].answer_dense(cells) for cells in (BEFORE, AFTER))
        if isinstance(distribution, DiscreteLaplace):
            total += (np.abs(after) - np.abs(before)).sum(axis=1) / float(distribution.scale)
        else:
            total += (after**2 - before**2).sum(axis=1) / (2 * float(distribution.sigma_squared))
    return total


@dataclass(frozen=True)
class Event:
    """Something an observer sees or not, in every run under either histogram."""

    name: str
    before: NDArray[np.bool_]
    after: NDArray[np.bool_]


def events(before: Outputs, after: Outputs, budget: Budget) -> Iterator[Event]:
    """What the auditor looks for; knows the claim, not the fault."""
    ratios = log_ratio(before, budget), log_ratio(after, budget)
    for threshold in np.unique(np.quantile(ratios[0], np.linspace(0.05, 1.0, 40))) - 1e-9:
        yield Event(f"ratio >= {threshold:.3f}", ratios[0] >= threshold, ratios[1] >= threshold)
    columns = [(name, place) for name, values in before.items() for place in range(values.shape[1])]
    for place, (one, first) in enumerate(columns):
        for other, second in columns[place + 1 :]:
            gaps = [outputs[one][:, first] - outputs[other][:, second] for outputs in (before, after)]
            low = int(gaps[0].min())
            usual = low + int(np.bincount(gaps[0] - low).argmax())
            yield Event(f"{one}[{first}] - {other}[{second}] = {usual}", gaps[0] == usual, gaps[1] == usual)


def excess(before: NDArray[np.bool_], after: NDArray[np.bool_], epsilon: float, level: float) -> float:
    """A lower confidence bound of p - exp(epsilon) p' by Clopper and Pearson, each side at half the level."""
    bound = level / 2
    seen, other = int(before.sum()), int(after.sum())
    low = float(stats.beta.ppf(bound, seen, len(before) - seen + 1)) if seen else 0.0
    high = float(stats.beta.isf(bound, other + 1, len(after) - other)) if other < len(after) else 1.0
    return low - math.exp(epsilon) * high


@dataclass(frozen=True)
class Verdict:
    """The most telling event and what it proves."""

    event: str
    excess: float
    allowed: float

    @property
    def convicted(self) -> bool:
        return self.excess > self.allowed


@dataclass(frozen=True)
class Claim:
    """What is said of a release: p <= exp(epsilon) p' + delta."""

    epsilon: float
    delta: float


def claim_of(budget: Budget) -> Claim:
    """What a budget claims."""
    if budget.framework is Framework.PURE_DP:
        return Claim(float(budget.total), 0.0)
    return Claim(AUDITED_EPSILON, searched_delta(budget.total, AUDITED_EPSILON))


def false_claim_of(budget: Budget) -> Claim:
    """Somewhat less than what honest noise of this budget spends: a tenth of epsilon less, or half of rho."""
    if budget.framework is Framework.PURE_DP:
        return Claim(0.9 * float(budget.total), 0.0)
    return Claim(0.8 * AUDITED_EPSILON, searched_delta(budget.total / 2, 0.8 * AUDITED_EPSILON))


def audit(
    release: Release, budget: Budget, streams: Callable[..., KeyedStream], level: float, claim: Claim | None = None
) -> Verdict:
    """Measure both histograms, choose an event on the even runs, bound it on the odd ones."""
    claim = claim or claim_of(budget)
    epsilon = claim.epsilon
    seen = list(events(release(BEFORE, budget, streams, "x"), release(AFTER, budget, streams, "y"), budget))
    best = max(seen, key=lambda each: excess(each.before[::2], each.after[::2], epsilon, level))
    return Verdict(best.name, excess(best.before[1::2], best.after[1::2], epsilon, level), claim.delta)
