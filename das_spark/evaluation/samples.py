"""Simple random sampling, to compare a protected release with: samples as data, and the closest one.

How wrong would the tables be if, instead of protecting the counts, one published a sample of m = round(f N) of the N
persons, drawn without replacement, each with weight 1/f? The comparison and its shares are those of Petti and Flaxman
(2020, Gates Open Research 3:1722), figure 2 and table 1. `sample_draws` says how samples are drawn.

RESTRICTED: residuals of samples tell the confidential counts.

A sample takes a multivariate hypergeometric number of persons from the cells of a population. What the cells of one
geounit gave has the same distribution given how many persons the geounit gave: so it is first drawn how many persons
each geounit gives, and then, geounit by geounit and on any machine, from which cells. A sample protects nothing and is
compared with what is protected: it needs a seed that repeats it, not a secret key. Its residuals k q/p - n are held as
integers k q - n p, so that residuals of parts add up to those of the whole and nothing is rounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from math import isnan
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence  # noqa: TID251 - evaluation repeats its samples by their seed
from numpy.typing import NDArray

from das_spark.errors import InputError
from das_spark.evaluation.accuracy import TOTAL, reading
from das_spark.evaluation.metric_rows import figures_json, frequencies_of_json, residuals_json
from das_spark.evaluation.metrics import FIGURES, ErrorFigures, Frequencies, frequencies_of, pooled, summed
from das_spark.evaluation.privacy_loss import AS_CODED, LossSettings, PrivacyLoss, empirical_privacy_loss
from das_spark.geography import ROOT_GEOCODE
from das_spark.histogram import NO_GROUP, Query
from das_spark.report import JSON, RESTRICTED, ReportColumn, ReportTable, json_text

#: Below this many people numpy draws multivariate hypergeometric numbers.
_TOO_MANY_PEOPLE: Final = 10**9
_WORD: Final = 32
_LARGEST_SEED: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Draw:
    """One sample: its share and its seed.

    Samples of different shares or seeds are independent. (In the study of the 1940 runs the generator was reset before
    every sample, so that its four runs were one and the same, and the samples of all shares were nested.)

    Raises:
        InputError: Share or seed is out of range.
    """

    share: Fraction  #: f = p/q, in (0, 1]: the share of the persons that is drawn
    seed: int  #: at least 0, below 2^63. The sample is the same wherever it is drawn with the same version of numpy

    def __post_init__(self) -> None:
        """Check ranges."""
        if not 0 < self.share <= 1 or self.share.denominator >> _WORD:
            raise InputError(
                f"share {self.share} of a sample: expected a fraction above 0, not above 1 and with at most 9 digits "
                "below the line",
                hint="such as 1/20; a share that was once a floating-point number is none",
            )
        if not 0 <= self.seed <= _LARGEST_SEED:
            raise InputError(f"seed {self.seed} of a sample: expected a whole number from 0 to {_LARGEST_SEED}")

    def persons(self, population: int) -> int:
        """How many persons are drawn: f N, rounded half to even."""
        return round(self.share * population)

    def taken(self, people: NDArray[np.int64], persons: int, geocode: str = "") -> NDArray[np.int64]:
        """How many of some persons each cell, or each geounit, gives.

        Args:
            people: (n,) people of each.
            persons: How many persons are drawn from all of them together, at most their people.
            geocode: Digits of the geounit that the cells make up; none for the whole population.

        Returns:
            Shape (n,).

        Raises:
            InputError: There are a thousand million people or more.
        """
        if people.sum() >= _TOO_MANY_PEOPLE:
            raise InputError(f"samples can be drawn from fewer than {_TOO_MANY_PEOPLE:,} people only")
        drawn: NDArray[np.int64] = self._generator(geocode).multivariate_hypergeometric(
            people, persons, method="marginals"
        )
        return drawn

    def _generator(self, geocode: str) -> Generator:
        # Numbers of a fixed number of words, and the length before what varies: no two draws have the same words.
        words = [*_words(self.seed, 2), self.share.numerator, self.share.denominator, len(geocode)]
        # As a number, which of letters is larger than any of as many digits.
        number = int.from_bytes(geocode.encode()) if geocode.strip("0123456789") else int(geocode or "0")
        words += _words(number, 1 + number.bit_length() // _WORD)
        return Generator(PCG64(SeedSequence(words)))


def _words(number: int, count: int) -> list[int]:
    return [number >> (_WORD * place) & ((1 << _WORD) - 1) for place in range(count)]


#: Residuals that wait to be counted, at most: bounds the memory of a task.
_WAITING: Final = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class StratifiedCells:
    """Pairs of geounit and stratum that somebody is in."""

    geocodes: NDArray[np.str_]  #: (g,) geounits, ascending; in some there may be nobody
    strata: int  #: number of strata; people in none of them have a stratum of that number
    stratum: NDArray[np.int64]  #: (n,) of each cell, ascending
    geounit: NDArray[np.int64]  #: (n,) place among the geocodes, ascending in a stratum

    def at_level(self, length: int, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sum up to a level.

        Args:
            length: Digits of the geocodes of the level; 0 for one root.
            values: (draws, n) of the cells.

        Returns:
            Sums of the geounits that have people, (draws, those), and of their strata that have, (draws, those).
        """
        codes = self.geocodes.astype(f"<U{length}") if length else np.full(len(self.geocodes), ROOT_GEOCODE)
        place = np.concatenate([[0], np.cumsum(codes[1:] != codes[:-1])])[self.geounit]
        order = np.argsort(place, kind="stable")
        totals = np.add.reduceat(values[:, order], _starts(place[order]), axis=1)
        inside = int(np.searchsorted(self.stratum, self.strata))
        # Geocodes that ascend have prefixes that ascend: cells of one geounit and stratum stand together.
        starts = _starts(self.stratum[:inside] * len(self.geocodes) + place[:inside])
        return totals, np.add.reduceat(values[:, :inside], starts, axis=1)

    def by_stratum(self, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sum over the geounits.

        Args:
            values: (draws, n) of the cells.

        Returns:
            The strata that somebody is in, (s,), and their sums, (draws, s).
        """
        starts = _starts(self.stratum)
        return self.stratum[starts], np.add.reduceat(values, starts, axis=1)


def gather(
    geocodes: NDArray[np.str_],
    geounit: NDArray[np.int64],
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
    strata: Query,
) -> tuple[StratifiedCells, NDArray[np.int64]]:
    """Bring histograms together by geounit and stratum.

    Args:
        geocodes: (g,) geounits, ascending.
        geounit: (m,) place of each count among the geocodes.
        cells: (m,) cell of the schema of each count.
        counts: (m,) people.
        strata: The query of the strata.

    Returns:
        The cells that somebody is in, and the people of each, (n,).
    """
    some = counts > 0
    row = strata.row_of(cells[some])
    stratum = np.where(row == NO_GROUP, strata.rows, row)
    keys, people = summed(stratum * len(geocodes) + geounit[some], counts[some])
    return StratifiedCells(geocodes, strata.rows, *np.divmod(keys, max(1, len(geocodes)))), people


def residuals(
    people: NDArray[np.int64], persons: NDArray[np.int64], draws: Sequence[Draw], geocode: str
) -> NDArray[np.int64]:
    """Draw samples from the cells of one geounit.

    Args:
        people: (n,) of each cell.
        persons: (draws,) how many persons the geounit gives to each sample.
        draws: The samples.
        geocode: Of the geounit.

    Returns:
        Residuals of the cells, p times as large as in people, (draws, n).
    """
    pairs = zip(draws, persons.tolist(), strict=True)
    taken = np.stack([draw.taken(people, number, geocode) for draw, number in pairs])
    numerators, denominators = np.array([draw.share.as_integer_ratio() for draw in draws], dtype=np.int64).T
    found: NDArray[np.int64] = taken * denominators[:, np.newaxis] - people * numerators[:, np.newaxis]
    return found


class TallyKey(NamedTuple):
    """What is counted."""

    draw: int
    level: int  #: place in the spine, 0 at the top
    stratified: bool  #: strata, not totals


class ResidualTally:
    """Counts residuals as they come in, in bounded memory."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._waiting: dict[TallyKey, list[NDArray[np.int64]]] = {}
        self._found: dict[TallyKey, Frequencies] = {}
        self._number = 0

    def add(
        self, cells: StratifiedCells, values: NDArray[np.int64], lengths: Mapping[int, int], first: int = 0
    ) -> None:
        """Count the residuals of some levels.

        Args:
            cells: All that somebody is in of the geounits that they lie in.
            values: (draws, n) their residuals.
            lengths: Place of a level -> digits of its geocodes.
            first: Number of the first of the draws.
        """
        for level, length in lengths.items():
            for stratified, rows in zip((False, True), cells.at_level(length, values), strict=True):
                self._number += rows.size
                for draw, row in enumerate(rows, first):
                    self._waiting.setdefault(TallyKey(draw, level, stratified), []).append(row)
        if self._number > _WAITING:
            self._count()

    def frequencies(self) -> dict[TallyKey, Frequencies]:
        """How often each residual occurred until now."""
        self._count()
        return dict(self._found)

    def _count(self) -> None:
        for key, rows in self._waiting.items():
            known = [self._found[key]] if key in self._found else []
            self._found[key] = pooled([*known, frequencies_of(np.concatenate(rows))])
        self._waiting, self._number = {}, 0


class ResidualSums:
    """Adds residuals up by geounit of a level and stratum.

    Args:
        draws: Number of samples.
        strata: Number of strata.
    """

    def __init__(self, draws: int, strata: int) -> None:
        """Nothing yet."""
        self._shape = (strata + 1, draws)  # and those who are in no stratum
        self._sums: dict[str, NDArray[np.int64]] = {}
        self._occupied: dict[str, NDArray[np.bool_]] = {}

    def add(self, geocode: str, strata: NDArray[np.int64], values: NDArray[np.int64], first: int = 0) -> None:
        """Add the residuals of a part of a geounit.

        Args:
            geocode: The geounit.
            strata: (s,) each once.
            values: (draws, s).
            first: Number of the first of the draws.
        """
        sums = self._sums.setdefault(geocode, np.zeros(self._shape, dtype=np.int64))
        sums[strata, first : first + len(values)] += values.T
        self._occupied.setdefault(geocode, np.zeros(self._shape[0], dtype=np.bool_))[strata] = True

    def found(self) -> list[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
        """Of every geounit the strata that somebody is in, (s,), and their sums, (s, draws)."""
        return [
            (geocode, np.flatnonzero(occupied), self._sums[geocode][occupied])
            for geocode, occupied in self._occupied.items()
        ]


def _starts(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where another key begins, in keys that ascend."""
    return np.flatnonzero(np.diff(keys, prepend=-1))


#: Shares of the study: 5, 10, ..., 95 per cent.
SHARES: Final = tuple(Fraction(twentieth, 20) for twentieth in range(1, 20))
#: Those that its figure 2 shows, and among which its table 1 looks for the closest.
SHARES_OF_FIGURE_2: Final = tuple(Fraction(each, 100) for each in (5, 10, 15, 20, 30, 40, 50, 60, 75, 85, 90, 95))

_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SampleEntry:
    """One line on a whole geolevel, of one sample or of several pooled."""

    share: Fraction  # f = p/q, the share of the persons that was drawn
    seed: int | None  # of the sample; None where the samples of several seeds are pooled
    place: str  # a geolevel
    measure: str  # `total`, or the query of the strata
    # How often each residual occurs, as integers k q - n p: p times as large as in people. Totals are of all
    # geounits; strata are those that somebody is in. Counts of nobody are counted as `double_zero`.
    frequencies: Frequencies

    @property
    def divisor(self) -> int:
        """p: what the integers are divided by to be people."""
        return self.share.numerator

    @property
    def figures(self) -> ErrorFigures:
        """The error figures, in people."""
        found = self.frequencies.figures
        scaled = {name: getattr(found, name) / self.divisor for name in FIGURES}
        return replace(found, **scaled, quantiles=tuple(quantile / self.divisor for quantile in found.quantiles))

    def privacy_loss(self, settings: LossSettings = AS_CODED) -> PrivacyLoss:
        """The empirical privacy loss of the residuals, in people."""
        return empirical_privacy_loss(
            Frequencies(self.frequencies.values / self.divisor, self.frequencies.counts), settings
        )


class SamplePoint(NamedTuple):
    """A sample in the plane of error and loss."""

    share: Fraction  #: of the persons
    median_absolute: float  #: median absolute error, people
    loss: float | None  #: empirical privacy loss; None where it is undefined


@dataclass(frozen=True, slots=True)
class SampleReport:
    """Samples of one population."""

    shares: tuple[Fraction, ...]
    seeds: tuple[int, ...]  #: the seeds, the same for every share
    entries: tuple[SampleEntry, ...]  #: by share, seed and geolevel: totals, then strata
    counted: str = "people"  #: what is counted, in the plural

    def entry(self, share: Fraction, place: str, measure: str, seed: int | None = None) -> SampleEntry:
        """The line of a share, place and measure.

        Args:
            share: Of the persons.
            place: A geolevel.
            measure: `total`, or the query of the strata.
            seed: Of one sample; None for all of them pooled.

        Raises:
            InputError: There is none.
        """
        found = [
            entry for entry in self.entries if (entry.share, entry.place, entry.measure) == (share, place, measure)
        ]
        if seed is not None:
            found = [each for each in found if each.seed == seed]
        if not found:
            of_seed = "" if seed is None else f", seed {seed}"
            raise InputError(f"the report on samples has no line {place}, {measure}, share {share}{of_seed}")
        if seed is not None:
            return found[0]
        return SampleEntry(share, None, place, measure, pooled([each.frequencies for each in found]))

    def point(self, share: Fraction, place: str, measure: str) -> SamplePoint:
        """Error and loss of the samples of a share, all seeds pooled; arguments as of `entry`."""
        entry = self.entry(share, place, measure)
        return SamplePoint(share, entry.figures.median_absolute, entry.privacy_loss().value)

    def pooled(self) -> SampleReport:
        """The same with one line for the samples of all seeds together."""
        keys = dict.fromkeys((entry.share, entry.place, entry.measure) for entry in self.entries)
        return replace(self, entries=tuple(self.entry(*key) for key in keys))

    def to_json(self) -> str:
        """The report as text, one line a line of the report; exact."""
        head = {
            "schema_version": _SCHEMA_VERSION,
            "classification": RESTRICTED,
            "counted": self.counted,
            "shares": list(map(str, self.shares)),
            "seeds": list(self.seeds),
            "definitions": dict(_definitions(self.counted)),
        }
        return json_text(head, {"entries": map(_entry_json, self.entries)}, None)

    @classmethod
    def from_json(cls, text: str) -> SampleReport:
        """Read a report.

        Raises:
            InputError: It is no report on samples of a known version.
        """
        with reading("a report on samples"):
            content = json.loads(text)
            if content["schema_version"] != _SCHEMA_VERSION:
                raise InputError(
                    f"report on samples of version {content['schema_version']}, expected {_SCHEMA_VERSION}",
                    hint="make it anew with this version",
                )
            shares = tuple(map(Fraction, content["shares"]))
            entries = tuple(map(_entry_of, content["entries"]))
            return cls(shares, tuple(content["seeds"]), entries, content["counted"])


def entries_of(draw: Draw, place: str, strata: str, total: Frequencies, stratified: Frequencies) -> list[SampleEntry]:
    """The two lines of a sample in a geolevel.

    Args:
        draw: Which sample.
        place: The geolevel.
        strata: Name of the query of the strata.
        total: Residuals of the totals.
        stratified: Residuals of the strata.
    """
    measures = {TOTAL: total, strata: stratified}
    return [SampleEntry(draw.share, draw.seed, place, name, found) for name, found in measures.items()]


#: By which rule a sample is the closest to a release; of two that are equally close, the one with the smaller share.
CLOSEST: Final[Mapping[str, str]] = {
    "by_median_absolute": "the least difference of median absolute errors, whatever the losses",
    "by_loss": "the least difference of empirical privacy losses, whatever the errors; among the shares of figure 2 "
    "this gives the published table 1",
    "by_both": "the least sum of squares of the two relative differences |a - b| / max(a, b)",
}


@dataclass(frozen=True, slots=True)
class ClosestSample:
    """Shares of the samples that are closest to a release by each rule of `CLOSEST`."""

    by_median_absolute: Fraction  # by errors
    by_loss: Fraction | None  # by losses; None where that of the release or of every sample is undefined
    by_both: Fraction | None  # by both; None likewise


def closest_sample(points: Sequence[SamplePoint], release: tuple[float, float | None]) -> ClosestSample:
    """Which sample is as wrong as a release, which tells as much, and which does both.

    Args:
        points: Samples, one a share.
        release: Median absolute error and empirical privacy loss of the release.

    Raises:
        InputError: There is no sample.
    """
    if not points:
        raise InputError("no sample to compare the release with")
    error, loss = release
    ordered = sorted(points, key=lambda point: point.share)  # so that the smaller share comes first among equals
    nearest = min(ordered, key=lambda point: abs(point.median_absolute - error)).share
    defined = [(point, point.loss) for point in ordered if point.loss is not None]
    if loss is None or not defined:
        return ClosestSample(nearest, None, None)
    by_loss, _ = min(defined, key=lambda each: abs(each[1] - loss))
    by_both, _ = min(
        defined, key=lambda each: _relative(each[0].median_absolute, error) ** 2 + _relative(each[1], loss) ** 2
    )
    return ClosestSample(nearest, by_loss.share, by_both.share)


def unequal_seeds_note(runs: int, seeds: int) -> tuple[str, ...]:
    """What a reader must know where samples are not as many as the runs beside them; nothing where they are."""
    if runs == seeds:
        return ()
    return (
        f"samples of every share: {seeds}, runs beside them: {runs}; their residuals are not as many as those of the "
        "release, and empirical privacy loss grows as residuals get fewer, so the losses are not comparable",
    )


def _relative(one: float, other: float) -> float:
    return 0.0 if one == other else abs(one - other) / max(one, other)


def _definitions(counted: str) -> Iterable[tuple[str, str]]:
    yield "residual", f"sampled count times 1/share minus confidential count, in {counted}"
    yield "residuals", "values are residuals times divisor, the numerator of the share: whole numbers"
    yield TOTAL, f"{counted} of each geounit; all of them, empty ones too, which are counted as double_zero besides"
    yield "stratified", f"{counted} of each geounit in each stratum that is not empty; the others are double_zero"
    yield "seed", "of the sample; null where those of all seeds are pooled"
    yield "figures", f"in {counted}: as in the accuracy report"


def _entry_json(entry: SampleEntry) -> dict[str, Any]:
    shown = entry.figures
    return {
        "share": str(entry.share),
        "seed": entry.seed,
        "place": entry.place,
        "measure": entry.measure,
        "divisor": entry.divisor,
        "figures": figures_json(shown),
        "residuals": residuals_json(entry.frequencies),
    }


def _entry_of(content: Mapping[str, Any]) -> SampleEntry:
    frequencies = frequencies_of_json(content["residuals"], content["figures"]["double_zero"])
    share = Fraction(content["share"])
    return SampleEntry(share, content["seed"], content["place"], content["measure"], frequencies)


_HEADINGS: Final = {"by_median_absolute": "closest by error", "by_loss": "by loss", "by_both": "by both"}


@dataclass(frozen=True, slots=True)
class ClosestRow:
    """Samples that are as good as a release in one measure of one place."""

    place: str  # a geolevel
    measure: str  # `total`, or the query of the strata
    # Median absolute residual, and empirical privacy loss, None where it is undefined.
    release: tuple[float, float | None]
    samples: tuple[SamplePoint, ...]  # the same of the samples, by share
    closest: ClosestSample  # shares of the closest ones, by each rule
    total: Fraction | None = None  # budget of the release, where there are several; None for one release
    variant: str = ""  # what else tells the release from others of a sweep


def closest_row(
    of: tuple[str, str],
    figures: ErrorFigures,
    loss: float | None,
    samples: Sequence[SamplePoint],
    total: Fraction | None = None,
    variant: str = "",
) -> ClosestRow | None:
    """The row of a release; None where it has no residuals, is exact (no sample is close to that), or has no sample."""
    beside = tuple(point for point in samples if not isnan(point.median_absolute))
    if not (beside and figures.n and figures.largest):
        return None
    release = (figures.median_absolute, loss)
    return ClosestRow(*of, release, beside, closest_sample(beside, release), total, variant)


def closest_table(lines: Iterable[ClosestRow], budget: str = "", *, varied: bool = False) -> ReportTable:
    """Lines on one release, or on one at several budgets, and where more varies under several settings."""
    columns = (
        *(("variant",) if varied else ()),
        *(((budget, "", "exact"),) if budget else ()),
        *("place", "measure", ("median_absolute", "median abs."), ("empirical_privacy_loss", "privacy loss")),
        *((rule, heading, "percent") for rule, heading in _HEADINGS.items()),
        ReportColumn("samples", media=JSON),
    )
    rows = (
        {
            "variant": one.variant,
            budget: one.total,
            "place": one.place,
            "measure": one.measure,
            **dict(zip(("median_absolute", "empirical_privacy_loss"), one.release, strict=True)),
            **asdict(one.closest),
            "samples": tuple(
                {
                    "share": str(point.share),
                    "median_absolute": point.median_absolute,
                    "empirical_privacy_loss": point.loss,
                }
                for point in one.samples
            ),
        }
        for one in lines
    )
    return ReportTable.of("closest_samples", "Closest simple random samples", columns, rows)
