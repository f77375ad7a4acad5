"""The direct estimate of Flaxman (2019), section 2.3: many releases of two databases that differ in one person.

Of R releases of D and of D' only the first leaf is looked at, from which somebody has moved away in D'. Its residual is
taken from the count that it has in D, both times, so a log ratio of frequencies of the same event is a lower bound on
epsilon, up to sampling error. Three families of events or smoothed events:

    equal:    the residual, rounded to a whole number (halves up), is k                |k| <= 10
    density:  Gaussian kernel density of the residuals at x, factor 0.15               50 points of [-10, 10]
    at least: the residual is k or more                                                 |k| <= 8

Since all noise has an address, the first leaf can be drawn with the few areas that it depends on, and has the values
that it would have in a release of everything: 500 replicates take milliseconds where the study reports two hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.studies.flaxman_mechanisms import Mechanism, protect
from das_spark.studies.flaxman_population import Database, FlaxmanSettings, moved
from das_spark.studies.noise import Noise
from das_spark.studies.table import Cell, Table

Floats = NDArray[np.float64]

_EQUAL = np.arange(-10.0, 11.0)
_DENSITY = np.linspace(-10.0, 10.0, 50)
_AT_LEAST = np.arange(-8.0, 9.0)
_FACTOR: Final = 0.15
_FEWEST: Final = 2
#: Two-sided, 95 percent.
NORMAL: Final = 1.959963984540054


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One read-out of one mechanism.

    Attributes:
        mechanism: Which.
        events: "equal", "density" or "at least".
        k: Where, people, shape (m,).
        log_ratio: ln of the share in D over that in D'; NaN where one of them is 0.
        standard_error: Of the log ratio, by the delta method; NaN for densities, whose points have none so simple.
    """

    mechanism: Mechanism
    events: str
    k: Floats
    log_ratio: Floats
    standard_error: Floats

    @property
    def largest(self) -> int | None:
        """Place of the log ratio that is largest in size; None where all are undefined."""
        sizes = np.abs(self.log_ratio)
        return None if np.isnan(sizes).all() else int(np.nanargmax(sizes))

    def above(self, epsilon: Fraction) -> int:
        """At how many k the log ratio is above epsilon in size by more than its sampling error (95 percent, each).

        Args:
            epsilon: Of the mechanism, exact.

        Returns:
            Number of points; those without a standard error, such as all of densities, do not count.
        """
        lower = np.abs(self.log_ratio) - NORMAL * self.standard_error
        return int((lower > float(epsilon)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class DirectEstimate:
    """All read-outs.

    Attributes:
        epsilon: Of every mechanism.
        replicates: Of each mechanism on each database.
        target: Number of the area that one person moved to.
        readings: By mechanism and kind of event.
    """

    epsilon: Fraction
    replicates: int
    target: int
    readings: tuple[Reading, ...]

    def table(self) -> Table:
        """A line a reading."""
        columns = (
            "mechanism",
            "events",
            "points",
            "defined",
            "median |ln ratio|",
            "largest |ln ratio|",
            "at",
            "its s.e.",
        )
        return Table(
            "direct",
            f"Direct estimate: {self.replicates:,} releases each of D and D', epsilon = {float(self.epsilon):g}",
            (*columns, "above epsilon"),
            tuple(self._row(reading) for reading in self.readings),
            left=2,
            note="above epsilon: points whose log ratio exceeds epsilon in size by more than 1.96 standard errors; "
            "one in forty is by chance, and neighbouring points go together.",
        )

    def points(self) -> Table:
        """A line a point of every reading."""
        rows: list[tuple[Cell, ...]] = []
        for reading in self.readings:
            for k, ratio, error in zip(reading.k, reading.log_ratio, reading.standard_error, strict=True):
                rows.append((reading.mechanism.value, reading.events, float(k), _defined(ratio), _defined(error)))
        return Table(
            "direct_points",
            "Log ratios of the direct estimate",
            ("mechanism", "events", "k", "ln ratio", "standard error"),
            tuple(rows),
            left=2,
        )

    def _row(self, reading: Reading) -> tuple[Cell, ...]:
        place = reading.largest
        sizes = np.abs(reading.log_ratio)
        defined = int((~np.isnan(sizes)).sum())
        row = (reading.mechanism.value, reading.events, len(sizes), defined)
        if place is None:
            return (*row, None, None, None, None, None)
        error = _defined(reading.standard_error[place])
        numbers = (float(np.nanmedian(sizes)), float(sizes[place]), float(reading.k[place]), error)
        return (*row, *numbers, None if error is None else reading.above(self.epsilon))


def direct_estimate(database: Database, settings: FlaxmanSettings, noise: Noise) -> DirectEstimate:
    """Run every mechanism on both databases, at the largest epsilon.

    Args:
        database: D.
        settings: Of the study; `replicates` above 0.
        noise: Of the experiment.

    Returns:
        Nine readings.

    Raises:
        ConfigurationError: Nobody can move, or a family cannot be raked.
    """
    neighbour, target = moved(database, settings)
    epsilon, exact = max(settings.epsilons), int(database.leaves[0])
    readings: list[Reading] = []
    for mechanism in Mechanism:
        first, second = (
            protect(
                mechanism,
                each,
                epsilon,
                noise,
                parts=settings.parts,
                replicates=settings.replicates,
                first_only=True,
            )[0]
            - exact
            for each in (database, neighbour)
        )
        readings += read_out(mechanism, first, second)
    return DirectEstimate(epsilon, settings.replicates, target, tuple(readings))


def read_out(mechanism: Mechanism, first: Floats, second: Floats) -> tuple[Reading, Reading, Reading]:
    """The three read-outs of one mechanism.

    Args:
        mechanism: Which.
        first: Residuals of the first leaf on D, shape (R,), people.
        second: Those on D'.
    """
    equal = [_shares(np.floor(side + 0.5)[:, None] == _EQUAL) for side in (first, second)]
    at_least = [_shares(side[:, None] >= _AT_LEAST) for side in (first, second)]
    return (
        _reading(mechanism, "equal", _EQUAL, equal, len(first)),
        Reading(mechanism, "density", _DENSITY, _density_ratio(first, second), np.full(len(_DENSITY), np.nan)),
        _reading(mechanism, "at least", _AT_LEAST, at_least, len(first)),
    )


def _shares(events: NDArray[np.bool_]) -> Floats:
    shares: Floats = events.mean(axis=0)
    return shares


def _reading(mechanism: Mechanism, events: str, k: Floats, shares: list[Floats], replicates: int) -> Reading:
    seen = (shares[0] > 0) & (shares[1] > 0)
    first, second = (np.where(seen, share, np.nan) for share in shares)
    variance = ((1 - first) / first + (1 - second) / second) / replicates
    return Reading(mechanism, events, k, np.log(first / second), np.sqrt(variance))


def _density_ratio(first: Floats, second: Floats) -> Floats:
    from scipy.stats import gaussian_kde  # noqa: PLC0415 - half a second that only this read-out should cost

    undefined = np.full(len(_DENSITY), np.nan)
    if any(len(side) < _FEWEST or np.ptp(side) == 0 for side in (first, second)):
        return undefined
    densities = [gaussian_kde(side, bw_method=_FACTOR)(_DENSITY) for side in (first, second)]
    seen = (densities[0] > 0) & (densities[1] > 0)
    return np.log(densities[0], out=undefined.copy(), where=seen) - np.log(
        densities[1], out=undefined.copy(), where=seen
    )


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
