"""Simple random sampling, to compare a protected release with: samples as data, and the closest one.

How wrong would the tables be if, instead of protecting the counts, one published a sample of m = round(f N) of the N
persons, drawn without replacement, each with weight 1/f? The comparison and its shares are those of Petti and Flaxman
(2020, Gates Open Research 3:1722), figure 2 and table 1. `sample_draws` says how samples are drawn.

RESTRICTED: residuals of samples tell the confidential counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple

from das_spark.errors import InputError
from das_spark.evaluation.definitions import RESTRICTED, TOTAL
from das_spark.evaluation.lines_json import frequencies_of_json, numbers_json, residuals_json
from das_spark.evaluation.metrics import FIGURES, ErrorFigures, Frequencies, figures, pooled
from das_spark.evaluation.privacy_loss import AS_CODED, LossSettings, PrivacyLoss, empirical_privacy_loss
from das_spark.evaluation.sample_draws import Draw

#: Shares of the study: 5, 10, ..., 95 per cent.
SHARES: Final = tuple(Fraction(twentieth, 20) for twentieth in range(1, 20))
#: Those that its figure 2 shows, and among which its table 1 looks for the closest.
SHARES_OF_FIGURE_2: Final = tuple(Fraction(each, 100) for each in (5, 10, 15, 20, 30, 40, 50, 60, 75, 85, 90, 95))

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SampleEntry:
    """One line on a whole geolevel, of one sample or of several pooled.

    Attributes:
        share: f = p/q, the share of the persons that was drawn.
        seed: Of the sample; None where the samples of several seeds are pooled.
        place: A geolevel.
        measure: `total`, or the query of the strata.
        frequencies: How often each residual occurs, as integers k q - n p: p times as large as in people. Totals are of
            all geounits; strata are those that somebody is in. Counts of nobody are counted as `double_zero`.
    """

    share: Fraction
    seed: int | None
    place: str
    measure: str
    frequencies: Frequencies

    @property
    def divisor(self) -> int:
        """p: what the integers are divided by to be people."""
        return self.share.numerator

    @property
    def figures(self) -> ErrorFigures:
        """The error figures, in people."""
        found = figures(self.frequencies)
        scaled = {name: getattr(found, name) / self.divisor for name in FIGURES}
        return replace(found, **scaled, quantiles=tuple(each / self.divisor for each in found.quantiles))

    def privacy_loss(self, settings: LossSettings = AS_CODED) -> PrivacyLoss:
        """The empirical privacy loss of the residuals, in people.

        Args:
            settings: Bandwidth and range.
        """
        return empirical_privacy_loss(self.frequencies.values / self.divisor, self.frequencies.counts, settings)


class SamplePoint(NamedTuple):
    """A sample in the plane of error and loss.

    Attributes:
        share: Of the persons.
        median_absolute: Median absolute error, people.
        loss: Empirical privacy loss; None where it is undefined.
    """

    share: Fraction
    median_absolute: float
    loss: float | None


@dataclass(frozen=True, slots=True)
class SampleReport:
    """Samples of one population.

    Attributes:
        shares: The shares.
        seeds: The seeds, the same for every share.
        entries: By share, seed and geolevel: totals, then strata.
        counted: What is counted, in the plural.
    """

    shares: tuple[Fraction, ...]
    seeds: tuple[int, ...]
    entries: tuple[SampleEntry, ...]
    counted: str = "people"

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
        found = [each for each in self.entries if (each.share, each.place, each.measure) == (share, place, measure)]
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
        keys = dict.fromkeys((each.share, each.place, each.measure) for each in self.entries)
        return replace(self, entries=tuple(self.entry(*key) for key in keys))

    def to_json(self) -> str:
        """The report as text, one line a line of the report; exact."""
        head = {
            "schema_version": SCHEMA_VERSION,
            "classification": RESTRICTED,
            "counted": self.counted,
            "shares": list(map(str, self.shares)),
            "seeds": list(self.seeds),
            "definitions": dict(_definitions(self.counted)),
        }
        parts = [f'"{name}": {json.dumps(value, allow_nan=False)}' for name, value in head.items()]
        lines = ",\n ".join(json.dumps(_entry_json(entry), allow_nan=False) for entry in self.entries)
        return "{\n" + ",\n".join(parts) + f',\n"entries": [\n {lines}\n]' + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> SampleReport:
        """Read a report.

        Args:
            text: Result of `to_json`.

        Raises:
            InputError: It is no report on samples of a known version.
        """
        try:
            content = json.loads(text)
            if content["schema_version"] != SCHEMA_VERSION:
                raise InputError(
                    f"report on samples of version {content['schema_version']}, expected {SCHEMA_VERSION}",
                    hint="make it anew with this version",
                )
            shares = tuple(map(Fraction, content["shares"]))
            entries = tuple(map(_entry_of, content["entries"]))
            return cls(shares, tuple(content["seeds"]), entries, content["counted"])
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("not readable as a report on samples") from error


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
    """Shares of the samples that are closest to a release by each rule of `CLOSEST`.

    Attributes:
        by_median_absolute: By errors.
        by_loss: By losses; None where that of the release or of every sample is undefined.
        by_both: By both; None likewise.
    """

    by_median_absolute: Fraction
    by_loss: Fraction | None
    by_both: Fraction | None


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
    told = [(point, point.loss) for point in ordered if point.loss is not None]
    if loss is None or not told:
        return ClosestSample(nearest, None, None)
    by_loss, _ = min(told, key=lambda each: abs(each[1] - loss))
    by_both, _ = min(
        told, key=lambda each: _relative(each[0].median_absolute, error) ** 2 + _relative(each[1], loss) ** 2
    )
    return ClosestSample(nearest, by_loss.share, by_both.share)


def unequal_seeds_note(runs: int, seeds: int) -> tuple[str, ...]:
    """What a reader must know where samples are not as many as the runs beside them; nothing where they are.

    Args:
        runs: Runs that are pooled.
        seeds: Samples of every share that are pooled.
    """
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
        "figures": numbers_json({name: getattr(shown, name) for name in ("n", "double_zero", *FIGURES)}),
        "residuals": residuals_json(entry.frequencies),
    }


def _entry_of(content: Mapping[str, Any]) -> SampleEntry:
    frequencies = frequencies_of_json(content["residuals"], content["figures"]["double_zero"])
    share = Fraction(content["share"])
    return SampleEntry(share, content["seed"], content["place"], content["measure"], frequencies)
