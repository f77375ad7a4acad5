"""Flaxman (2019), "Empirical quantification of privacy loss with examples relevant to the 2020 US Census", repeated.

The simulated people (section 2.1): N people; J nested levels below the root, each area with C = floor((N / mu)^(1/J))
children; on each level everybody is in one of the C children with equal chances, so the leaf counts are multinomial.
Areas are numbered so that the children of area i are i C, ..., i C + C - 1.

The three mechanisms (section 2.2). A person is in one leaf, so every query has sensitivity 1.

    GDPC(eps):    leaf + G(eps)                                                                                  (X-3)
    ADPC(eps, P): mean of P independent GDPC(eps / P)                                                            (X-4)
    RDPC(eps):    every area of every level, the root too, + G(eps / (J + 1)); then from the top down each family of
                  siblings is multiplied by one number, so that it sums to its parent as raked before            (X-5)

All three are eps-differentially private by sequential composition. The results of (X-4) and (X-5) are no integers.

The "less-obvious" estimate reads the privacy loss off the residuals of all leaves in one release: the log ratio of
their kernel density one person apart. Its level away from the middle (the median of its size) is what the study
compares with epsilon: GDPC keeps all of it, ADPC about half, RDPC about 1 / (J + 1).

The direct estimate (section 2.3): many releases of two databases that differ in one person. Of R releases of D and of
D' only the first leaf is looked at, from which somebody has moved away in D'. Its residual is taken from the count that
it has in D, both times, so a log ratio of frequencies of the same event is a lower bound on epsilon, up to sampling
error. Three families of events or smoothed events:

    equal:    the residual, rounded to a whole number (halves up), is k                |k| <= 10
    density:  Gaussian kernel density of the residuals at x, factor 0.15               50 points of [-10, 10]
    at least: the residual is k or more                                                 |k| <= 8

Since all noise has an address, the first leaf can be drawn with the few areas that it depends on, and has the values
that it would have in a release of everything: 500 replicates take milliseconds where the study reports two hours.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.evaluation import FLAXMAN
from das_spark.report import (
    PROGRAMS,
    STROKES,
    Axis,
    Cell,
    Curve,
    Figure,
    Guide,
    Panel,
    ReportTable,
    Whiskers,
    table_records,
)
from das_spark.simulation import generator
from das_spark.studies.noise import RATIOS, Noise, NoiseRatio, ResidualLoss, residuals_and_curves
from das_spark.studies.results import StudyResult, as_float, require_least, study_table

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

EPSILONS: Final = (Fraction(1, 40), Fraction(1, 20), Fraction(1, 10))
#: The areas between which one person moves: so chosen in the study, arbitrarily.
_FROM: Final = 0
_TO: Final = 1001
_YEAR: Final = 2019  # names the random numbers of this population
_FEWEST_CHILDREN: Final = 2


@dataclass(frozen=True, slots=True)
class FlaxmanSettings:
    """What the study sets; the defaults are its own."""

    persons: int = 1_000_000  # N
    levels: int = 3  # J, below the root
    mean_size: int = 100  # mu, people an area of the last level should have on average, at least
    epsilons: tuple[Fraction, ...] = EPSILONS  # every mechanism is run at each
    parts: int = 4  # P, measurements that ADPC averages
    law: NoiseRatio = NoiseRatio.CODED
    seed: int = 12345  # of people and noise
    replicates: int = 500  # R of the direct estimate, on each of the two databases; 0 leaves it out

    def __post_init__(self) -> None:
        """Refuse what gives no hierarchy."""
        require_least(1, persons=self.persons, levels=self.levels, mean_size=self.mean_size, parts=self.parts)
        require_least(0, seed=self.seed, replicates=self.replicates)
        if not self.epsilons or min(self.epsilons) <= 0:
            raise ConfigurationError("epsilon: expected numbers above 0")
        if self.children < _FEWEST_CHILDREN:
            raise ConfigurationError(
                f"{self.persons:,} people in {self.levels} levels with {self.mean_size:,} an area leave every area "
                f"{self.children} child",
                hint=f"take {self.mean_size * 2**self.levels:,} people or more, fewer levels, or a smaller mean size",
            )

    @property
    def children(self) -> int:
        """C: the largest whole number with C^J mu <= N."""
        root: int = round(float((self.persons / self.mean_size) ** (1 / self.levels))) + 1
        while root**self.levels * self.mean_size > self.persons:
            root -= 1
        return root


@dataclass(frozen=True, slots=True, eq=False)
class Database:
    """Exact counts."""

    name: str  # D, or D' after one person has moved; noise on other databases is independent
    levels: tuple[Counts, ...]  # people by area, root first, shapes (1,), (C,), ..., (C^J,)

    @property
    def leaves(self) -> Counts:
        """People by area of the last level."""
        return self.levels[-1]


def population(settings: FlaxmanSettings) -> Database:
    """Everybody's place, drawn."""
    areas = settings.children**settings.levels
    leaves = generator(settings.seed, _YEAR).multinomial(settings.persons, np.full(areas, 1 / areas))
    return Database("D", _sums(leaves, settings.children, settings.levels))


def moved(database: Database, settings: FlaxmanSettings) -> tuple[Database, int]:
    """The neighbour in which one person of the first area lives in another one."""
    leaves = database.leaves.copy()
    target = min(_TO, len(leaves) - 1)
    if leaves[_FROM] == 0:
        raise ConfigurationError("nobody lives in the first area, so that nobody can move", hint="take more persons")
    leaves[_FROM] -= 1
    leaves[target] += 1
    return Database("D'", _sums(leaves, settings.children, settings.levels)), target


def _sums(leaves: Counts, children: int, levels: int) -> tuple[Counts, ...]:
    return tuple(leaves.reshape(children**level, -1).sum(axis=1) for level in range(levels + 1))


class FlaxmanMechanism(StrEnum):
    """The mechanisms, in the order of the study."""

    GDPC = "GDPC"
    RDPC = "RDPC"
    ADPC = "ADPC"

    @property
    def words(self) -> str:
        """What its letters stand for, and the letters."""
        spelt = {"G": "geometric", "R": "raked", "A": "averaged"}
        return f"{spelt[self.value[0]]} DP count ({self.value})"

    def expected_share(self, levels: int) -> Fraction:
        """Empirical privacy loss as a share of epsilon, as the study reads it off its figure (for P = 4)."""
        shares = {FlaxmanMechanism.GDPC: Fraction(1), FlaxmanMechanism.ADPC: Fraction(1, 2)}
        return shares.get(self, Fraction(1, levels + 1))


def protect(
    mechanism: FlaxmanMechanism,
    database: Database,
    epsilon: Fraction,
    noise: Noise,
    *,
    parts: int,
    replicates: int = 1,
    first_only: bool = False,
) -> Floats:
    """Protected counts of the leaves; of the first leaf alone, with the same value, where only that is asked for."""
    name = f"{mechanism} with epsilon {epsilon} of {database.name}"
    if mechanism is FlaxmanMechanism.RDPC:
        return _raked(database, epsilon, noise, name, replicates, first_only)
    leaves = database.leaves[:1] if first_only else database.leaves
    # GDPC is the mean of one part.
    number = 1 if mechanism is FlaxmanMechanism.GDPC else parts
    drawn = noise.draw(name, epsilon / number, len(leaves), replicates * number)
    protected: Floats = leaves[:, None] + drawn.reshape(len(leaves), replicates, number).mean(axis=2)
    return protected


def _raked(database: Database, epsilon: Fraction, noise: Noise, name: str, replicates: int, first_only: bool) -> Floats:
    """(X-5): children of the areas that are kept are the first ones of the next level."""
    share = epsilon / len(database.levels)
    children = len(database.levels[1])
    root = database.levels[0][:, None] + noise.draw(f"{name}, root", share, 1, replicates)
    raked: Floats = root.astype(np.float64)
    for level, counts in enumerate(database.levels[1:], 1):
        asked = counts[: children * len(raked)]
        noisy = asked[:, None] + noise.draw(f"{name}, level {level}", share, len(asked), replicates)
        raked = rake(raked, noisy.astype(np.float64))
        if first_only:
            raked = raked[:1]
    return raked


def rake(parents: Floats, children: Floats) -> Floats:
    """Scale families so that they sum to their parents."""
    families = children.reshape(len(parents), -1, parents.shape[1])
    sums = families.sum(axis=1)
    if (sums == 0).any():
        raise ConfigurationError(
            "the noisy counts of a family sum to 0 and cannot be scaled to their parent",
            hint="take a larger epsilon or a larger mean size",
        )
    scaled: Floats = (families * (parents / sums)[:, None, :]).reshape(children.shape)
    return scaled


_EQUAL = np.arange(-10.0, 11.0)
_DENSITY = np.linspace(-10.0, 10.0, 50)
_AT_LEAST = np.arange(-8.0, 9.0)
_FACTOR: Final = 0.15
_FEWEST: Final = 2
#: Two-sided, 95 percent.
_NORMAL: Final = 1.959963984540054


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One read-out of one mechanism."""

    mechanism: FlaxmanMechanism
    events: str  # "equal", "density" or "at least"
    k: Floats  # where, people, shape (m,)
    log_ratio: Floats  # ln of the share in D over that in D'; NaN where one of them is 0
    standard_error: Floats  # of the log ratio, by the delta method; NaN for densities, whose points have none so simple

    @property
    def largest(self) -> int | None:
        """Place of the log ratio that is largest in size; None where all are undefined."""
        sizes = np.abs(self.log_ratio)
        return None if np.isnan(sizes).all() else int(np.nanargmax(sizes))

    def above(self, epsilon: Fraction) -> int:
        """At how many k the log ratio is above epsilon in size by more than its sampling error (95 percent, each)."""
        # Points without a standard error, such as all of densities, do not count.
        lower = np.abs(self.log_ratio) - _NORMAL * self.standard_error
        return int((lower > float(epsilon)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class DirectEstimate:
    """All read-outs."""

    epsilon: Fraction  # of every mechanism
    replicates: int  # of each mechanism on each database
    target: int  # number of the area that one person moved to
    readings: tuple[Reading, ...]  # by mechanism and kind of event

    def table(self) -> ReportTable:
        """A line a reading."""
        columns = ("mechanism", "events", "points", "defined", "median |ln ratio|", "largest |ln ratio|", "at")
        return study_table(
            "direct",
            f"Direct estimate: {self.replicates:,} releases each of D and D', epsilon = {float(self.epsilon):g}",
            (*columns, "its s.e.", "above epsilon"),
            map(self._row, self.readings),
            note="above epsilon: points whose log ratio exceeds epsilon in size by more than 1.96 standard errors; "
            "one in forty is by chance, and neighbouring points go together.",
        )

    def points(self) -> ReportTable:
        """A line a point of every reading; too many for people."""
        rows = [
            (reading.mechanism.value, reading.events, float(k), _defined(ratio), _defined(error))
            for reading in self.readings
            for k, ratio, error in zip(reading.k, reading.log_ratio, reading.standard_error, strict=True)
        ]
        columns = ("mechanism", "events", "k", "ln ratio", "standard error")
        return study_table("direct_points", "Log ratios of the direct estimate", columns, rows, media=PROGRAMS)

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
    """Run every mechanism on both databases, at the largest epsilon."""
    neighbour, target = moved(database, settings)
    epsilon, exact = max(settings.epsilons), int(database.leaves[0])
    readings: list[Reading] = []
    for mechanism in FlaxmanMechanism:
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


def read_out(mechanism: FlaxmanMechanism, first: Floats, second: Floats) -> tuple[Reading, Reading, Reading]:
    """The three read-outs of one mechanism."""
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


def _reading(mechanism: FlaxmanMechanism, events: str, k: Floats, shares: list[Floats], replicates: int) -> Reading:
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


_SOURCE = "A. D. Flaxman, Empirical quantification of privacy loss with examples relevant to the 2020 US Census, 2019"
_DEFINITIONS: Final = {
    "GDPC": "Geometric differentially private count: every leaf count plus noise at epsilon.",
    "RDPC": "Raked differentially private count: every count of every level plus noise at epsilon / (J + 1); then "
    "every family of siblings is scaled, from the top down, to sum to its parent.",
    "ADPC": "Averaged differentially private count: the mean of P geometric counts of every leaf at epsilon / P each.",
    "EPL(x)": "ln f(x) - ln f(x + 1), f the Gaussian kernel density of the residuals of all leaves (factor 0.15 of "
    "their standard deviation), x up to twice the 95th percentile of residuals. A figure of the release, no bound.",
    "plateau": "Median of |EPL(x)|.",
    "direct estimate": "ln of how often something happens in releases of D, over how often in releases of D', in which "
    "one person has left the first leaf; residuals are taken from the count in D both times.",
}
_LESS_OBVIOUS: Final = (
    "Left: residuals (protected minus exact) of the leaves in one release of each mechanism. Right: EPL(x) of the same "
    "residuals; dashed: {low:g} and {high:g}. Each mechanism is shown at the epsilon at which the study finds a loss "
    "of about {low:g}."
)
_DIRECT: Final = (
    "Direct estimate at epsilon = {epsilon:g} from {replicates:,} releases of D and of D': log ratios of the share of "
    "releases in which the residual of the first leaf is k (left), of their kernel density (middle), and of the share "
    "in which it is k or more (right); bars: 95 percent of sampling error; dashed: epsilon."
)


@dataclass(frozen=True, slots=True, eq=False)
class LossLine:
    """One mechanism at one epsilon."""

    mechanism: FlaxmanMechanism
    epsilon: Fraction
    expected: Fraction  # empirical privacy loss that the study reads off its figure for such a mechanism
    found: ResidualLoss  # residuals of the leaves, and their loss


@dataclass(frozen=True, slots=True, eq=False)
class FlaxmanResult(StudyResult):
    """Everything that was found."""

    title = "Empirical privacy loss of three mechanisms"
    definitions = _DEFINITIONS

    settings: FlaxmanSettings
    areas: tuple[int, ...]  # how many areas each level has, root first
    lines: tuple[LossLine, ...]  # the less-obvious estimate, by mechanism and epsilon
    direct: DirectEstimate | None  # the direct estimate, where it was asked for

    def compared(self) -> tuple[LossLine, ...]:
        """Of each mechanism the line whose expected loss is nearest to the smallest epsilon: those of the figure."""
        aim = min(self.settings.epsilons)
        return tuple(
            min((line for line in self.lines if line.mechanism is mechanism), key=lambda line: abs(line.expected - aim))
            for mechanism in FlaxmanMechanism
        )

    def tables(self) -> tuple[ReportTable, ...]:
        """Losses, and the readings of the direct estimate."""
        columns = ("mechanism", "epsilon", "r.m.s. residual", "plateau", "expected plateau", "plateau / epsilon")
        losses = study_table(
            "losses",
            f"Empirical privacy loss of {self.areas[-1]:,} areas, one release each",
            (*columns, "maximum"),
            map(_row, self.lines),
            note="plateau: median of |ln f(x) / f(x + 1)| over all x, which the study compares with epsilon; maximum: "
            "the largest, which noise in the tails inflates. expected: what the study reads off its figure, for P = 4.",
        )
        return (losses,) if self.direct is None else (losses, self.direct.table(), self.direct.points())

    def lead(self) -> tuple[str, ...]:
        """The source, and what was simulated."""
        settings = self.settings
        shape = " / ".join(f"{number:,}" for number in self.areas)
        return (
            f"The study: {_SOURCE}.",
            "The mechanisms: geometric (GDPC), raked (RDPC) and averaged (ADPC) differentially private counts.",
            f"{settings.persons:,} simulated people in {shape} areas ({settings.levels} levels below the root, on "
            f"average {settings.persons / self.areas[-1]:.2f} people a leaf); {RATIOS[settings.law]}; P = "
            f"{settings.parts}; seed {settings.seed}. Nobody lives there and the key of the noise is known.",
        )

    def figures(self) -> list[Figure]:
        """Of both estimates."""
        return [_less_obvious(self), *(() if self.direct is None else (_direct(self.direct),))]

    def content(self) -> dict[str, Any]:
        """Settings, tables and curves."""
        given = {field.name: getattr(self.settings, field.name) for field in fields(self.settings)}
        settings = {name: as_float(value) for name, value in given.items()}
        settings["epsilons"] = tuple(map(float, self.settings.epsilons))
        curves = [
            {"mechanism": line.mechanism.value, "epsilon": float(line.epsilon), **line.found.curve_json()}
            for line in self.lines
        ]
        facts = {"format": 1, "experiment": "flaxman", "settings": settings, "areas": self.areas}
        return {**facts, "tables": table_records(self.tables()), "curves": curves}


def flaxman(settings: FlaxmanSettings) -> FlaxmanResult:
    """Repeat the study; the same for the same settings."""
    database, noise = population(settings), Noise("flaxman", settings.seed, settings.law)
    lines = [
        _line(mechanism, epsilon, database, settings, noise)
        for mechanism in FlaxmanMechanism
        for epsilon in sorted(set(settings.epsilons))
    ]
    direct = direct_estimate(database, settings, noise) if settings.replicates else None
    return FlaxmanResult(settings, tuple(map(len, database.levels)), tuple(lines), direct)


def _line(
    mechanism: FlaxmanMechanism, epsilon: Fraction, database: Database, settings: FlaxmanSettings, noise: Noise
) -> LossLine:
    residuals = protect(mechanism, database, epsilon, noise, parts=settings.parts)[:, 0] - database.leaves
    expected = epsilon * mechanism.expected_share(settings.levels)
    return LossLine(mechanism, epsilon, expected, ResidualLoss.of(residuals, FLAXMAN))


def _row(line: LossLine) -> tuple[Cell, ...]:
    found = line.found
    share = None if found.plateau is None else found.plateau / float(line.epsilon)
    losses = (found.plateau, line.expected, share, found.maximum)
    return (line.mechanism.value, line.epsilon, found.root_mean_square, *losses)


def _less_obvious(result: FlaxmanResult) -> Figure:
    compared = result.compared()
    low = float(min(result.settings.epsilons))
    releases = {f"{line.mechanism.words}, epsilon {float(line.epsilon):g}": line.found for line in compared}
    curves = [line.found.curve for line in compared if line.found.curve is not None]
    reach = max([1.0, *(float(np.abs(curve.x).max()) for curve in curves)])
    caption, width = _LESS_OBVIOUS.format(low=low, high=2 * low), max(1, round(reach / 20))
    return residuals_and_curves(releases, (low, 2 * low), "leaves", reach * 1.1, caption, width)


def _direct(direct: DirectEstimate) -> Figure:
    epsilon = float(direct.epsilon)
    panels: list[Panel] = []
    for events in ("equal", "density", "at least"):
        series: list[Curve | Whiskers | Guide] = []
        for at, mechanism in enumerate(FlaxmanMechanism):
            reading = next(one for one in direct.readings if (one.mechanism, one.events) == (mechanism, events))
            ratios, stroke = reading.log_ratio, STROKES[at]
            if events == "density":
                series.append(Curve(reading.k.tolist(), ratios.tolist(), mechanism.words, at, stroke))
                continue
            beside = (reading.k + 0.15 * (at - 1)).tolist()  # so that the bars of the three do not cover each other
            bars = _NORMAL * reading.standard_error
            series.append(Whiskers(beside, (ratios - bars).tolist(), (ratios + bars).tolist(), at, 0.8))
            series.append(Curve(beside, ratios.tolist(), color=at, stroke=stroke, marker=0, size=3))
        series += [Guide(y=level, dashed=True) for level in (-epsilon, epsilon)]
        up = Axis("ln ratio")
        panels.append(Panel(tuple(series), Axis("k (people)"), up, events))
    caption = _DIRECT.format(epsilon=epsilon, replicates=direct.replicates)
    return Figure(caption, tuple(panels), columns=3, legend="above", title="Direct estimate of the privacy loss")
