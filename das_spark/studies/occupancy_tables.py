"""The study of occupancy, and the occupancy of a run, as tables of raw values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from das_spark.evaluation.quintiles import Quintile
from das_spark.studies.allocation import Allocation
from das_spark.studies.finding import Finding
from das_spark.studies.occupancy import CountyRelease
from das_spark.studies.occupancy_measures import OccupancyReport
from das_spark.studies.table import Cell, Table

_BOX: Final = ("low", "first", "median", "third", "high", "mean")
_BOX_HEADINGS: Final = ("whisker", "quartile", "median", "quartile above", "whisker above", "mean")


def occupancy_table(reports: Sequence[OccupancyReport]) -> Table:
    """How many geounits are full, a row a release and geolevel.

    Args:
        reports: In order.
    """
    rows: list[tuple[Cell, ...]] = []
    for report in reports:
        for level in report.levels:
            whole = level.occupancy
            ends = (None, None) if whole.interval is None else (whole.interval.low, whole.interval.high)
            counts = (whole.geounits, whole.full_in_truth, whole.filled, whole.overfull)
            rates = (whole.true_households / whole.units, whole.released_households / whole.units)
            rows.append((report.name, level.geolevel, *counts, whole.share_filled, *ends, *rates))
    columns = (
        "release",
        "geolevel",
        "geounits",
        "full in truth",
        "filled",
        "overfull",
        "share filled",
        "from",
        "to",
        "true occupancy",
        "released",
    )
    note = "filled: full in the release, with vacant units in truth; the share is of those that had vacant units."
    return Table("occupancy", "Geounits without a vacant housing unit", columns, tuple(rows), left=2, note=note)


def difference_table(reports: Sequence[OccupancyReport]) -> Table:
    """Differences of the number of households, a row a release, geolevel and quintile.

    Args:
        reports: In order.
    """
    rows: list[tuple[Cell, ...]] = []
    for report in reports:
        for level in report.levels:
            for one, part in zip(level.quintiles, level.parts, strict=True):
                if one.geounits:
                    place = (report.name, level.geolevel, one.number, one.geounits, one.least, one.most)
                    rows.append((*place, part.filled, *_box(one)))
    columns = ("release", "geolevel", "quintile", "geounits", "least", "most", "filled", *_BOX_HEADINGS)
    title = "Released minus true households, by quintile of the true number"
    return Table("differences", title, columns, tuple(rows), left=2)


def people_table(kinds: Mapping[str, Sequence[Quintile]]) -> Table:
    """Differences of the number of people of counties.

    Args:
        kinds: What the quintiles are of, and the five of them.
    """
    rows = [
        (kind, one.number, one.geounits, one.least, one.most, *_box(one))
        for kind, five in kinds.items()
        for one in five
        if one.geounits
    ]
    columns = ("quintiles of", "quintile", "counties", "least", "most", *_BOX_HEADINGS)
    return Table("people", "Released minus true people of counties", columns, tuple(rows))


def allocation_table_of(lines: Sequence[Allocation]) -> Table:
    """The published allocation, with exact epsilons and the percentiles of the noise.

    Args:
        lines: Of `das_spark.studies.allocation.allocation_table`.
    """
    rows = tuple(
        (
            line.query.tables,
            line.query.name,
            line.scope,
            line.query.cells,
            str(line.query.share),
            str(line.epsilon),
            line.printed,
            line.query.scales[line.scope],
            line.noise.p75,
            line.noise.p97_5,
        )
        for line in lines
    )
    columns = ("tables", "query", "geolevels", "cells", "share", "epsilon", "scale", "published", "p75", "p97.5")
    return Table(
        "allocation",
        "Allocation of epsilon in the demonstration of 2019",
        columns,
        rows,
        left=3,
        note="scale = 2 / epsilon; p75 and p97.5: percentiles of the discrete noise x, which are also the median and "
        "the 95th percentile of |x|.",
    )


def findings_table(findings: Sequence[Finding]) -> Table:
    """Every check: what was published, what is found, and whether it holds.

    Args:
        findings: In order.
    """
    rows = tuple(
        (each.key, "holds" if each.holds else "does not hold", each.what, each.published or None, each.found)
        for each in findings
    )
    columns = ("check", "verdict", "what", "published", "found here")
    return Table("findings", "Published phenomena", columns, rows, left=5)


def county_table(counties: CountyRelease) -> Table:
    """Every simulated county.

    Args:
        counties: In truth, and in every arm.
    """
    columns = ("county", "housing units", "households", *counties.released)
    values = (counties.units, counties.truth, *counties.released.values())
    rows = tuple(zip(range(len(counties.units)), *(each.tolist() for each in values), strict=True))
    return Table("counties", "Households of every simulated county", columns, rows)


def _box(one: Quintile) -> tuple[Cell, ...]:
    return tuple(None if one.box is None else getattr(one.box, name) for name in _BOX)
