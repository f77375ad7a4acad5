"""Draws of the noise under either of two records, and by them the errors of the best test between the two.

The attacker knows all records but one, and that this one is either of two: the old one is counted, or the new one. By
the lemma of Neyman and Pearson no test is better than one that looks at the log-likelihood ratio of the two, given all
noisy answers in which they differ: the sum over these of

    ln P(noise = value - count under the old record) - ln P(noise = value - count under the new record)          (T-3)

At each measured query of a geolevel these are two answers: the old record's row loses one and the new record's row
gains one. Draws are made by the code that measures a run, under addresses of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.attack.roc import Counted
from das_spark.audit.noise import log_ratio
from das_spark.config import RunPlan, measurement_plan
from das_spark.core import MeasurementPlan
from das_spark.errors import ConfigurationError
from das_spark.privacy import DiscreteLaplace, GeounitAddresses, Mechanism, RunKey, compose_exactly, sample

if TYPE_CHECKING:
    from das_spark.attack.settings import AttackSettings
    from das_spark.privacy import ExactComposition

Floats = NDArray[np.float64]

#: How a geolevel of a run is measured under a key, as `LocalSystem.measurement_plan` has it.
Measuring = Callable[[str, RunKey], MeasurementPlan]

_ATTEMPT: Final = 1
_CHUNK: Final = 1 << 14  # draws at a time
#: Thresholds of a curve: an odd number, so that 0 is one of them.
THRESHOLDS: Final = 129
#: Standard deviations of the log-likelihood ratio between its means and the last thresholds.
_REACH: Final = 4.75


@dataclass(frozen=True, slots=True, order=True)
class Answers:
    """The two answers at one query of one geolevel of one run."""

    run: int  # number of the run, from 0
    geolevel: str
    query: str


@dataclass(frozen=True, slots=True)
class DrawnTarget:
    """What is told apart.

    Args:
        name: In a few words.
        answers: Queries whose answers differ.
        same_geounit: Whether the new record is in the same geounits, in other rows; otherwise in others.
        claim: The composition that is claimed for it.
    """

    name: str
    answers: frozenset[Answers]
    same_geounit: bool
    claim: ExactComposition


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run as its noise is drawn."""

    plan: RunPlan
    measuring: Measuring

    @classmethod
    def of(cls, plan: RunPlan, measuring: Measuring | None = None) -> MeasuredRun:
        """A run.

        Args:
            plan: The run.
            measuring: How its geolevels are measured; as the plan says where None.

        Raises:
            ConfigurationError: Nothing exact is known of its composition.
        """
        if compose_exactly([plan.budget]) is None:
            raise ConfigurationError(
                "inference: no exact composition is known of Gaussian noise for several records of a contributor",
                hint="leave this attack out (--only) where records.at_most is above 1 and the total is rho",
            )

        def usual(geolevel: str, key: RunKey) -> MeasurementPlan:
            return measurement_plan(plan, geolevel, {"": plan.budget.level(geolevel).share}, key, _ATTEMPT)

        return cls(plan, measuring or usual)

    def answers(self, run: int) -> list[Answers]:
        """Every query of every geolevel, root first."""
        return [Answers(run, level.geolevel, item.query) for level in self.plan.budget.levels for item in level.queries]


def count_errors(
    runs: Sequence[MeasuredRun], targets: Sequence[DrawnTarget], settings: AttackSettings, purpose: str
) -> list[Counted]:
    """Draw noise under either record, and count the errors of the likelihood ratio at thresholds fixed before.

    Args:
        runs: Which are measured.
        targets: What is told apart; those of the same answers are counted once, under the first name.
        settings: How many draws, and under which key.
        purpose: Part of the name of a test key.

    Returns:
        For each target that has answers of its own, in their order.
    """
    unique: dict[tuple[frozenset[Answers], bool], DrawnTarget] = {}
    for target in targets:
        unique.setdefault((target.answers, target.same_geounit), target)
    chosen = list(unique.values())
    every = sorted(set[Answers]().union(*(target.answers for target in chosen)))
    mechanisms = {each: runs[each.run].plan.budget.mechanism(each.geolevel, each.query) for each in every}
    thresholds = [_thresholds([mechanisms[answer] for answer in sorted(target.answers)], runs) for target in chosen]
    taken, missed = (np.zeros((len(chosen), THRESHOLDS), dtype=np.int64) for _ in range(2))
    for errors, counted, side in ((taken, "old", 0), (missed, "new", 1)):
        for losses in _losses(runs, mechanisms, settings, f"{purpose}/{counted}", side):
            for place, target in enumerate(chosen):
                total = sum((losses[answer][target.same_geounit] for answer in sorted(target.answers)), 0.0)
                # Draw by draw the first threshold that is not exceeded: from there on it is taken for the new record.
                first = np.searchsorted(thresholds[place], np.atleast_1d(total), side="left")
                errors[place] += np.bincount(first, minlength=THRESHOLDS + 1).cumsum()[:THRESHOLDS]
    return [
        Counted(target.name, settings.draws, taken[place], settings.draws - missed[place], target.claim)
        for place, target in enumerate(chosen)
    ]


def _thresholds(mechanisms: Sequence[Mechanism], runs: Sequence[MeasuredRun]) -> Floats:
    """From below the mean of the log-likelihood ratio under the new record to above that under the old one."""
    by = max(run.plan.budget.at_most for run in runs)
    moments = [_moments(mechanism, by) for mechanism in mechanisms]
    mean, variance, most = (2 * sum(each) for each in zip(*moments, strict=True))
    end = min(mean + _REACH * math.sqrt(variance), most)
    return np.linspace(-end, end, THRESHOLDS)


def _moments(mechanism: Mechanism, by: int) -> tuple[float, float, float]:
    """About mean and variance of the loss of one answer, and its largest; nothing but thresholds depends on them."""
    if isinstance(mechanism, DiscreteLaplace):
        most = by / float(mechanism.scale)
        return most * math.tanh(most / 2), most * most, most
    rho = by * by / float(mechanism.sigma_squared)
    return rho / 2, rho, math.inf


def _losses(
    runs: Sequence[MeasuredRun],
    mechanisms: Mapping[Answers, Mechanism],
    settings: AttackSettings,
    purpose: str,
    side: int,
) -> Iterator[dict[Answers, tuple[Floats, Floats]]]:
    """Log-likelihood ratios (T-3) of both answers together, a piece of the draws at a time.

    Args:
        runs: As `count_errors`.
        mechanisms: Of the declared noise.
        settings: As `count_errors`.
        purpose: Of the key.
        side: 0 where the old record is counted, 1 where the new one is.

    Yields:
        For each of the answers: where the new record is in another geounit, and where it is in the same one.
    """
    keys = [_key(settings, f"{purpose}/{number}") for number in range(len(runs))]
    plans = {
        (run, geolevel): runs[run].measuring(geolevel, keys[run])
        for run, geolevel in dict.fromkeys((mechanism.run, mechanism.geolevel) for mechanism in mechanisms)
    }
    for begin in range(0, settings.draws, _CHUNK):
        numbers = range(begin, min(begin + _CHUNK, settings.draws))
        # Two geounits a draw: the old record is in the first one.
        here, there = (GeounitAddresses.of(f"{number}{name}" for number in numbers) for name in "ab")
        found = {}
        for each, mechanism in mechanisms.items():
            plan, by = plans[each.run, each.geolevel], runs[each.run].plan.budget.at_most
            table, _ = plan.mechanisms[""][each.query]
            stream, last = plan.streams[each.query], plan.queries[each.query].rows - 1
            own = sample(table, stream, here, np.arange(0, last + 1, max(1, last)))
            other = sample(table, stream, there, np.array([last]))[:, 0]
            old = log_ratio(mechanism, (own[:, 0] + (1 - side) * by).astype(np.float64), by, 0)
            moved, changed = (
                old + log_ratio(mechanism, (noise + side * by).astype(np.float64), 0, by)
                for noise in (other, own[:, -1])
            )
            # Of a query with one answer, which leaves out some records, a new record of the same geounit has none.
            found[each] = (moved, changed if last else old)
        yield found


def _key(settings: AttackSettings, purpose: str) -> RunKey:
    """A key of its own for everything that is drawn at one time."""
    if settings.test_key is None:
        return RunKey.from_system()
    return RunKey.insecure(f"{settings.test_key}/{purpose}")
