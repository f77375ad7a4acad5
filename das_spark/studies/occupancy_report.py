"""The study of occupancy, or the occupancy of a run, as a report: tables of raw values, and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.report import (
    PROGRAMS,
    RESTRICTED,
    Axis,
    Boxes,
    Cell,
    Curve,
    Figure,
    Guide,
    Panel,
    ReportTable,
    Whiskers,
    table_records,
)
from das_spark.studies import demonstration as published
from das_spark.studies.demonstration import Allocation, allocation_table, noise_figures
from das_spark.studies.occupancy import (
    DEFINITIONS,
    CountyRelease,
    Occupancy,
    OccupancyReport,
    OccupancySettings,
    OccupancyStudy,
    PersonsPerHousehold,
    Reported,
    StudyFinding,
    occupancy_findings,
    study_occupancy,
)
from das_spark.studies.occupancy_releases import ARMS, AS_PUBLISHED, UNBOUNDED
from das_spark.studies.quintiles import Quintile
from das_spark.studies.results import StudyResult, study_table

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

_HEIGHT: Final = 6
#: Rows of text that a release takes in the figure of shares, and how far releases of a geolevel are apart.
_ROWS, _APART = 0.6, 0.16

_SOURCE: Final = (
    "The study: D. Van Riper, T. Kugler and S. Ruggles, Disclosure Avoidance in the Census Bureau's 2010 Demonstration "
    "Data Product, PSD 2020."
)
_SIMULATED: Final = (
    "{counties:,} simulated counties in {states} states, {units:,} housing units, seed {seed}. Nobody lives there and "
    "the key of the noise is known. Households have 672 cells (sex, Hispanic origin and race of the householder by "
    "type of household) instead of the 96,768 of the demonstration; the budget of households, its shares by geolevel "
    "and query, and so every scale of noise are the published ones. Counties of up to {follow:,} housing units are "
    "followed down to the block, the others end at the county; so geolevels below it tell of small counties only."
)
_ESTIMATED: Final = (
    "Arms with nonnegative counts are estimated by the estimator of a run (certified least squares, then whole "
    "numbers), family by family from the nation down. Arms in which counts may be negative have a closed form for "
    "totals; they are real numbers, rounded here. All arms of one budget see the same noise."
)
_BOXES: Final = (
    "Released minus true households of counties, by quintile of the true number, in each arm; the same scale "
    "everywhere. Box: middle half; line: median; dot: mean; whiskers: last difference within 1.5 lengths of the box; "
    "differences beyond are not drawn. First plot: as figure 2 of the study."
)
_RATES: Final = (
    "Occupancy of every county against its number of housing units: in truth (grey), in the release (blue), and where "
    "no vacant unit is left (orange diamonds). Without the upper bound rates exceed 1; the scales differ."
)
_SHARES: Final = (
    "Share of the geounits with vacant units in truth that have none in the release, with 95 % intervals (Wilson). "
    "Published for counties: {full} of {counties:,}, {share:.1%}; none in truth. How many there are depends on how "
    "many vacant units small counties have, so that the phenomenon can be compared, and not the number."
)
_PEOPLE: Final = (
    "People, whose number is exact in every state: released minus true number of people of counties, by quintile of "
    "people (left), and of the number of occupied cells of voting age by Hispanic origin by race by citizenship "
    "(right; 1: the most homogeneous)."
)
_NOISE: Final = (
    "The noise of a detailed query from the county down, scale {scale:.2f}: half of the draws lie within "
    "the inner lines, 95 % within the outer ones. As figure 1 of the study, which draws the continuous distribution."
)
_RUN_BOXES: Final = (
    "{geolevel}: released minus true households, by quintile of the true number of the geounits with a housing unit. "
    "Box: middle half; line: median; dot: mean; whiskers: last difference within 1.5 lengths of the box."
)


@dataclass(frozen=True, slots=True, eq=False)
class OccupancyResult(StudyResult):
    """A study, the allocation that it rests on, and what it says of the published phenomena."""

    title = "Occupied housing units"
    definitions = MappingProxyType({arm.name: arm.title for arm in ARMS} | dict(DEFINITIONS))

    study: OccupancyStudy  # what was simulated
    allocation: tuple[Allocation, ...]  # the published allocation
    findings: tuple[StudyFinding, ...]

    def tables(self) -> tuple[ReportTable, ...]:
        """Findings first, counties last."""
        return (
            _findings_table(self.findings),
            _occupancy_table(self.study.reports),
            _difference_table(self.study.reports),
            _people_table(self._people()),
            _allocation_table_of(self.allocation),
            _county_table(self.study.counties),
        )

    def _people(self) -> dict[str, Sequence[Quintile]]:
        return {"people": self.study.people.by_size, "occupied cells": self.study.people.by_diversity}

    def lead(self) -> tuple[str, ...]:
        """The source, and what was simulated and how."""
        counties, settings = self.study.counties, self.study.settings
        size = {"counties": len(counties.units), "states": settings.states, "units": int(counties.units.sum())}
        return _SOURCE, _SIMULATED.format(**size, seed=settings.seed, follow=settings.follow_up_to), _ESTIMATED

    def figures(self) -> list[Figure]:
        """Differences, rates and shares of households, differences of people, and the noise."""
        arms = {arm.name: self.study.report(arm).level("County").quintiles for arm in ARMS}
        people = {f"by {name}": five for name, five in self._people().items()}
        return [
            _difference_boxes(arms, "households", _BOXES),
            _occupancy_rates(self.study.counties, (AS_PUBLISHED.name, UNBOUNDED.name)),
            _shares_filled(self.study.reports),
            _difference_boxes(people, "people", _PEOPLE),
            _noise_distribution(published.FIGURE_1_SCALE),
        ]

    def content(self) -> dict[str, Any]:
        """Settings, findings, releases with the frequency of every difference, allocation, people and counties."""
        tables = table_records(self.tables())
        return {
            "format": 1,
            "experiment": "occupancy",
            "settings": asdict(self.study.settings),
            "findings": [asdict(finding) for finding in self.findings],
            "releases": [report.to_json() for report in self.study.reports],
            "tables": {name: tables[name] for name in ("allocation", "people", "counties")},
            "definitions": dict(DEFINITIONS),
        }


@dataclass(frozen=True, slots=True, eq=False)
class RunOccupancy(StudyResult):
    """The occupancy of a run beside its confidential counts. RESTRICTED: the titles of its tables say so, too."""

    definitions = DEFINITIONS
    restricted = f"{RESTRICTED}."

    product: str
    run: str
    occupancy: OccupancyReport
    ratios: tuple[PersonsPerHousehold, ...] = ()  # where the persons of the same census were named

    @property
    def title(self) -> str:
        """With the name of the run."""
        return f"Occupied housing units of {self.run}"

    def lead(self) -> tuple[str, str]:
        """Which run, and the study."""
        return f"Run {self.run}, product {self.product}.", _SOURCE

    def tables(self) -> list[ReportTable]:
        """Occupancy and differences, beside the published figure; persons per household."""
        found = [_occupancy_table((self.occupancy,), PUBLISHED_COUNTIES), _difference_table((self.occupancy,))]
        found += [_ratio_table(self.ratios)] if self.ratios else []
        return [replace(table, title=f"{table.title} (restricted: not protected by noise)") for table in found]

    def figures(self) -> Iterator[Figure]:
        """Shares, and the differences of every geolevel."""
        yield _shares_filled((self.occupancy,))
        for level in self.occupancy.levels:
            name = level.geolevel.replace("_", " ")
            yield _difference_boxes({name: level.quintiles}, "households", _RUN_BOXES.format(geolevel=name))

    def content(self) -> dict[str, Any]:
        """The geolevels with the frequency of every difference."""
        releases = [self.occupancy.to_json()]
        facts = {"format": 1, "restricted": RESTRICTED, "product": self.product, "run": self.run}
        ratios = [asdict(ratio) for ratio in self.ratios]
        return {**facts, "releases": releases, "persons_per_household": ratios, "definitions": dict(DEFINITIONS)}


def occupancy_experiment(settings: OccupancySettings, report: Reported = lambda _: None) -> OccupancyResult:
    """Carry out the study, and judge it; the same settings give the same result."""
    allocation = allocation_table()
    study = study_occupancy(settings, report)
    return OccupancyResult(study, allocation, occupancy_findings(study, allocation))


_BOX: Final = ("low", "first", "median", "third", "high", "mean")
_BOX_HEADINGS: Final = ("whisker", "quartile", "median", "quartile above", "whisker above", "mean")


#: What was published of the demonstration's counties, to be read beside those of a run.
PUBLISHED_COUNTIES: Final = (
    f"Published of the demonstration: {published.FULL_COUNTIES:,} of {published.COUNTIES:,} counties filled, "
    f"{published.FULL_COUNTIES_IN_TRUTH} full in truth."
)


def _occupancy_table(reports: Sequence[OccupancyReport], beside: str = "") -> ReportTable:
    """How many geounits are full, a row a release and geolevel."""
    rows: list[tuple[Cell, ...]] = []
    for report in reports:
        for level in report.levels:
            whole = level.occupancy
            ends = (None, None) if whole.interval is None else (whole.interval.low, whole.interval.high)
            counts = (whole.geounits, whole.full_in_truth, whole.filled, whole.overfull)
            rates = (whole.true_households / whole.units, whole.released_households / whole.units)
            rows.append((report.name, level.geolevel, *counts, whole.share_filled, *ends, *rates))
    columns = (
        *("release", "geolevel", "geounits", "full in truth", "filled", "overfull", "share filled", "from", "to"),
        *("true occupancy", "released"),
    )
    note = "filled: full in the release, with vacant units in truth; the share is of those that had vacant units."
    note = " ".join(filter(None, (note, beside)))
    return study_table("occupancy", "Geounits without a vacant housing unit", columns, rows, note=note)


def _difference_table(reports: Sequence[OccupancyReport]) -> ReportTable:
    """Differences of the number of households, a row a release, geolevel and quintile."""
    rows: list[tuple[Cell, ...]] = []
    for report in reports:
        for level in report.levels:
            for one, part in zip(level.quintiles, level.parts, strict=True):
                if one.geounits:
                    place = (report.name, level.geolevel, one.number, one.geounits, one.least, one.most)
                    rows.append((*place, part.filled, *_box(one)))
    columns = ("release", "geolevel", "quintile", "geounits", "least", "most", "filled", *_BOX_HEADINGS)
    title = "Released minus true households, by quintile of the true number"
    return study_table("differences", title, columns, rows)


def _ratio_table(levels: Sequence[PersonsPerHousehold]) -> ReportTable:
    """Persons per household of every geolevel: of all together, and over its geounits."""

    def divided(people: int, households: int) -> Cell:
        return people / households if households else None

    rows: list[tuple[Cell, ...]] = []
    for level in levels:
        both = level.together
        impossible = (both.fewer_people, both.without_people, both.without_households)
        for name, people, households, ratios, wrong in (
            ("truth", both.true_people, both.true_households, level.true_ratios, (None,) * len(impossible)),
            ("release", both.released_people, both.released_households, level.released_ratios, impossible),
        ):
            shown = (divided(people, households), *(ratios or (None,) * 3))
            rows.append((level.geolevel, name, both.geounits, people, households, *shown, *wrong))
    columns = (
        *("geolevel", "of", "geounits", "people in households", "households", "persons per household"),
        *("5th percentile", "median", "95th percentile"),
        *("fewer people than households", "households without people", "people without households"),
    )
    note = (
        "Percentiles are over geounits with a household. People and households are protected apart, and nothing holds "
        "them together: the last three columns count geounits of the release in which they contradict each other."
    )
    return study_table("persons_per_household", "Persons per household", columns, rows, note=note)


def _people_table(kinds: Mapping[str, Sequence[Quintile]]) -> ReportTable:
    """Differences of the number of people of counties."""
    rows = [
        (kind, one.number, one.geounits, one.least, one.most, *_box(one))
        for kind, five in kinds.items()
        for one in five
        if one.geounits
    ]
    columns = ("quintiles of", "quintile", "counties", "least", "most", *_BOX_HEADINGS)
    return study_table("people", "Released minus true people of counties", columns, rows)


def _allocation_table_of(lines: Sequence[Allocation]) -> ReportTable:
    """The published allocation, with exact epsilons and the percentiles of the noise."""
    rows = (
        (
            *(line.query.tables, line.query.name, line.scope, line.query.cells, str(line.query.share)),
            *(str(line.epsilon), line.printed, line.query.scales[line.scope], line.noise.p75, line.noise.p97_5),
        )
        for line in lines
    )
    columns = ("tables", "query", "geolevels", "cells", "share", "epsilon", "scale", "published", "p75", "p97.5")
    return study_table(
        "allocation",
        "Allocation of epsilon in the demonstration of 2019",
        columns,
        rows,
        note="scale = 2 / epsilon; p75 and p97.5: percentiles of the discrete noise x, which are also the median and "
        "the 95th percentile of |x|.",
    )


def _findings_table(findings: Sequence[StudyFinding]) -> ReportTable:
    """Every check: what was published, what is found, and whether it holds."""
    rows = tuple(
        (
            finding.key,
            "holds" if finding.holds else "does not hold",
            finding.what,
            finding.published or None,
            finding.found,
        )
        for finding in findings
    )
    columns = ("check", "verdict", "what", "published", "found here")
    return study_table("findings", "Published phenomena", columns, rows)


def _county_table(counties: CountyRelease) -> ReportTable:
    """Every simulated county."""
    columns = ("county", "housing units", "households", *counties.released)
    values = (counties.units, counties.truth, *counties.released.values())
    rows = tuple(zip(range(len(counties.units)), *(value.tolist() for value in values), strict=True))
    return study_table("counties", "Households of every simulated county", columns, rows, media=PROGRAMS)


def _box(one: Quintile) -> tuple[Cell, ...]:
    return tuple(None if one.box is None else getattr(one.box, name) for name in _BOX)


def _difference_boxes(groups: Mapping[str, Sequence[Quintile]], counted: str, caption: str) -> Figure:
    """A box plot by quintile for each group, side by side; the scale is the same for all."""
    reach = max((abs(end) for five in groups.values() for one in five for end in _ends(one)), default=1.0) or 1.0
    panels = []
    for place, (title, five) in enumerate(groups.items()):
        shown = [(one.number, one.box) for one in five if one.box is not None]
        low, first, median, third, high, mean = ([getattr(box, name) for _, box in shown] for name in _BOX)
        quintile = Axis(
            "quintile (1: smallest)" if place >= len(groups) - 2 else "",
            ticks=tuple((one.number, str(one.number)) for one in five),
        )
        up = Axis(f"released minus true\n({counted})", low=-1.08 * reach, high=1.08 * reach, form=",g")
        boxes = Boxes([number for number, _ in shown], low, first, median, third, high, mean, color=4)
        panels.append(Panel((Guide(y=0.0, dashed=True), boxes), quintile, up, title))
    return Figure(caption, tuple(panels), title=f"Released minus true {counted} by quintile")


def _ends(one: Quintile) -> tuple[float, ...]:
    return () if one.box is None else (one.box.low, one.box.high, one.box.mean)


def _shares_filled(reports: Sequence[OccupancyReport]) -> Figure:
    """Share of geounits that lost their last vacant unit, a row a geolevel and a mark a release, with intervals."""
    levels: dict[str, list[tuple[int, Occupancy]]] = {}
    for place, report in enumerate(reports):
        for level in report.levels:
            levels.setdefault(level.geolevel, []).append((place, level.occupancy))
    marks = []
    for row, found in enumerate(levels.values()):
        for at, (place, whole) in enumerate(found):
            if whole.interval is None or whole.share_filled is None:
                continue
            height, ends = row + (at - (len(found) - 1) / 2) * _APART, whole.interval
            label = "" if row else reports[place].name
            marks.append(Whiskers([height], [ends.low], [ends.high], place, 1.5, [whole.share_filled], label, place))
    across = Axis("share of the geounits with vacant units in truth that are full in the release", low=-0.02, high=1.02)
    rows = tuple(level.replace("_", " ") for level in levels)
    share = published.FULL_COUNTIES / published.COUNTIES
    return Figure(
        _SHARES.format(full=published.FULL_COUNTIES, counties=published.COUNTIES, share=share),
        (Panel(tuple(marks), across, rows=rows),),
        height=_ROWS * sum(map(len, levels.values())) + len(levels),
        legend="above",
        title="Geounits that lost their last vacant unit",
    )


def _occupancy_rates(counties: CountyRelease, arms: Sequence[str]) -> Figure:
    """Occupancy of every county against its size, in truth and in the release, a plot an arm."""
    true = counties.truth / counties.units
    panels = []
    for arm in arms:
        rate = counties.released[arm] / counties.units
        full = rate == 1
        series: list[Curve | Guide] = [_dots(counties.units, true, "truth", None, 0, 2.5)]
        series.append(_dots(counties.units[~full], rate[~full], "release", 0, 0, 3.5))
        series.append(_dots(counties.units[full], rate[full], "full", 1, 3, 3.5))
        low, high = 0.98 * min(true.min(), rate.min()), 1.02 * max(1.0, rate.max())
        up = Axis("households / housing units", low=low, high=high)
        across = Axis("housing units of the county", "decades")
        panels.append(Panel((*series, Guide(y=1.0, dashed=True)), across, up, arm))
    return Figure(_RATES, tuple(panels), legend="above", title="Occupancy by size of the county")


def _dots(x: Counts, y: Floats, label: str, color: int | None, marker: int, size: float) -> Curve:
    return Curve(x.tolist(), y.tolist(), label, color, "none", marker, size=size)


def _noise_distribution(scale: Fraction) -> Figure:
    """The discrete Laplace distribution of a scale with the percentiles that hold half and 95 % of its draws."""
    ratio = float(np.exp(-1 / float(scale)))
    reach = round(6 * float(scale))
    x = np.arange(-reach, reach + 1)
    noise = noise_figures(scale)
    guides = [
        Guide(x=float(side * bound), dashed=True, color=color, label=f"{share} within {bound}" if side > 0 else "")
        for bound, color, share in ((noise.p75, 2, "half"), (noise.p97_5, 1, "95 %"))
        for side in (-1, 1)
    ]
    curve = Curve(x.tolist(), ((1 - ratio) / (1 + ratio) * ratio ** np.abs(x)).tolist())
    panel = Panel((curve, *guides), Axis("noise (people or households)"), Axis("probability", low=0))
    caption = _NOISE.format(scale=float(scale))
    return Figure(caption, (panel,), height=_HEIGHT, legend="above", title="The noise of one count")
