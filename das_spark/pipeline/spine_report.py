"""The report on a stored spine: read it and its geography, compare it with the census spine, write the pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from das_spark.errors import BudgetError
from das_spark.evaluation import SpineLevelRow, SpineReport, present_spine
from das_spark.geography import ENTITY_CATEGORIES, FanOut, LevelShares, census_shares, check_categories
from das_spark.pipeline.spines import require_source
from das_spark.places import Place
from das_spark.report import page
from das_spark.report.data import data_files
from das_spark.spark.census import read_spine
from das_spark.spark.readers import geography_reader
from das_spark.spark.spine_report import ComparisonTask, compare_spines, share_paths
from das_spark.store import write_texts
from das_spark.store.spine import RECORD, SpineRecord, read_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Where a spine may lie in a folder that is named: itself, the public folder of a run, the run.
_PLACES: Final = ("", "spine", "public/spine")


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What a report is made from."""

    spine: Place  # folder of a spine, of a run, or of what is public of a run
    geography: str  # file or folder of the geography that it was made from
    reader: str  # name of its reader
    budget: Fraction = Fraction(1)  # rho or epsilon, all of it for totals
    #: Categories of entities, names in `ENTITY_CATEGORIES`; all of them by default.
    categories: tuple[str, ...] = field(default_factory=lambda: tuple(ENTITY_CATEGORIES))

    def __post_init__(self) -> None:
        """Check what can be checked without reading anything."""
        check_categories(self.categories)
        if self.budget <= 0:
            raise BudgetError(f"the budget of a report on a spine must be above 0, is {self.budget}")

    def look(self) -> None:
        """Look for everything that is named, before Spark is started for nothing."""
        geography_reader(self.reader)
        read_record(spine_folder(self.spine))
        require_source(self.geography)


def report_spine(spark: SparkSession, request: ReportRequest) -> SpineReport:
    """Compare a spine with the census spine of its blocks."""
    reader = geography_reader(request.reader)
    stored = read_spine(spark, spine_folder(request.spine))
    record = stored.record
    paths = share_paths(stored.blocks, len(record.levels))
    found = reader.read(spark, request.geography)
    census = census_shares(record.shares, record.kind)
    task = ComparisonTask(record.shares, census, record.framework, float(request.budget), request.categories)
    compared = compare_spines(found.blocks, stored.blocks, task)
    return SpineReport(
        record.kind,
        record.framework,
        request.budget,
        _census_levels(census, compared.fan_outs_before),
        _levels(record),
        paths,
        compared.categories,
        tuple(dict.fromkeys((*record.notes, *found.notes))),
        record.facts,
    )


def spine_folder(folder: Place) -> Place:
    """The folder of the spine in a folder that is one, or that of a run."""
    places = [folder / place for place in _PLACES]
    return next((place for place in places if (place / RECORD).is_file()), folder)


def write_spine_report(report: SpineReport, folder: Place, data: Place | None = None) -> None:
    """Write `spine_report.json` and `spine_report.html`; with `data`, every table and figure of the page there."""
    found = present_spine(report)
    write_texts(folder, {"spine_report.json": report.to_json(), "spine_report.html": page(found)})
    if data is not None:
        write_texts(data, data_files(found))


def _levels(record: SpineRecord) -> tuple[SpineLevelRow, ...]:
    return tuple(
        SpineLevelRow(
            level.name, level.share, level.geounits, level.children, level.most, level.bypassed, level.unmeasured
        )
        for level in record.levels
    )


def _census_levels(shares: LevelShares, fan_outs: Sequence[FanOut]) -> tuple[SpineLevelRow, ...]:
    whole = [*((out.units, out.children, out.most) for out in fan_outs), (fan_outs[-1].children, 0, 0)]
    return tuple(
        SpineLevelRow(name, Fraction(part, shares.denominator), *counts)
        for name, part, counts in zip(shares.levels, shares.numerators, whole, strict=True)
    )
