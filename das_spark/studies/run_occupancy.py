"""Occupancy of the housing units of a finished run, and its persons per household, beside the truth. RESTRICTED.

Nothing of data size reaches the driver: Spark counts how often each true number of households occurs, which gives the
quintiles, and then how often each difference occurs in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.evaluation import Frequencies
from das_spark.geography import ROOT_GEOCODE
from das_spark.pipeline.accuracy import pairs
from das_spark.places import Place
from das_spark.products import PRODUCTS
from das_spark.spark.finished_runs import FinishedRun, Pair, require_truths
from das_spark.spark.session import session
from das_spark.spark.tables import read_table
from das_spark.studies.occupancy import (
    HouseholdPeople,
    LevelOccupancy,
    Occupancy,
    OccupancyReport,
    PersonsPerHousehold,
)
from das_spark.studies.occupancy_report import RunOccupancy
from das_spark.studies.quintiles import FIFTHS, Quintile, fivefold_thresholds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.products import Product

_STATUS: Final = frozenset({"Occupied", "Vacant"})

#: Records in all cells of a histogram, and in some.
_TOTAL: Final = "aggregate(counts, 0L, (total, count) -> total + count)"
_PART: Final = (
    "aggregate(zip_with(cells, counts, (cell, count) -> if({among}, count, 0L)), 0L, (total, count) -> total + count)"
)
#: The numbers of `Occupancy` by difference; they are sums over geounits.
_BY_DIFFERENCE: Final = """
SELECT fifth, released - truth AS difference, count(1) AS geounits,
    sum(int(truth = units)) AS full_in_truth, sum(int(released = units)) AS full_in_release,
    sum(int(released = units AND truth < units)) AS filled, sum(int(released > units)) AS overfull,
    sum(units) AS units, sum(truth) AS true_households, sum(released) AS released_households,
    min(truth) AS least, max(truth) AS most
FROM {households} GROUP BY fifth, released - truth
"""


#: The numbers of `PersonsPerHousehold`, where a geounit has either people in households or households.
_TOGETHER: Final = """
SELECT count(1) AS geounits, sum(true_people) AS true_people, sum(truth) AS true_households,
    sum(people) AS released_people, sum(released) AS released_households,
    sum(int(people < released)) AS fewer_people, sum(int(released > 0 AND people = 0)) AS without_people,
    sum(int(people > 0 AND released = 0)) AS without_households,
    percentile(true_people / truth, array(0.05, 0.5, 0.95)) FILTER (WHERE truth > 0) AS true_ratios,
    percentile(people / released, array(0.05, 0.5, 0.95)) FILTER (WHERE released > 0) AS released_ratios
FROM {together} WHERE true_people + truth + people + released > 0
"""


def occupancy_of_run(
    folder: Place, truth: Place | None = None, persons: Place | None = None, spark: SparkSession | None = None
) -> RunOccupancy:
    """Compare occupied housing units, or households, of a run with the confidential ones. RESTRICTED.

    Args:
        folder: A run of housing units or of households.
        truth: Another run whose confidential histograms are taken.
        persons: A run of the people in these units, whose persons per household are looked at, too.
        spark: The session; found or started where None.

    Raises:
        InputError: A run counts something else, or how many housing units there are is not exact.
    """
    run = FinishedRun.at(folder)
    _check_counted(run)
    people = None if persons is None else FinishedRun.at(persons)
    require_truths([run], truth)
    if people is not None:
        _check_people(people, run)
        require_truths([people])
    started = spark or session("das_spark occupancy")
    both = pairs(started, run, truth)
    counted = {each.geolevel: _households(each, run, started) for each in both}
    levels = tuple(occupancy_of_level(name, rows) for name, rows in counted.items())
    ratios: tuple[PersonsPerHousehold, ...] = ()
    if people is not None:
        among = _in_ranges(_household_cells(people.product))
        ratios = tuple(persons_per_household(pair, counted[pair.geolevel], among) for pair in pairs(started, people))
    name = run.manifest.run_id
    return RunOccupancy(run.product.name, name, OccupancyReport(name, run.product.title, levels), ratios)


def _check_counted(run: FinishedRun) -> None:
    """Refuse a run that does not tell occupied housing units from vacant ones, or does not know how many there are."""
    product, invariants = run.product, run.plan.invariants
    if not _counts_occupied(product):
        able = [name for name, product in PRODUCTS.items() if _counts_occupied(product)]
        raise InputError(
            f"{run.folder}: a run of {product.name}, which does not count occupied and vacant housing units",
            hint=f"name a run of {' or '.join(able)}",
        )
    lowest = run.census.leaf.name
    if product.record == "unit" and invariants.total_at != lowest:
        raise InputError(
            f"{run.folder}: the number of housing units is not exact in every {lowest}",
            hint=f'occupancy rests on it: make the run with invariants.total_at = "{lowest}"',
        )
    if product.record == "household" and not (invariants.units and run.spine.is_census):
        raise InputError(
            f"{run.folder}: the number of housing units is not exact in every geounit of the census",
            hint='occupancy rests on it: make the run with invariants.units = true and geography.spine = "census"',
        )


def _counts_occupied(product: Product) -> bool:
    return (product.record == "household" and product.vacant_counted) or occupied_cells(product) is not None


def _check_people(people: FinishedRun, run: FinishedRun) -> None:
    """Refuse people of other units, and such of whom it is not known who lives in a household."""
    if people.product.record != "person" or not people.product.class_query:
        raise InputError(
            f"{people.folder}: a run of {people.product.name}, which does not tell people in households apart",
            hint="--persons names the run of persons of the same census",
        )
    if people.census.names != run.census.names:
        levels = [", ".join(each.census.names) for each in (people, run)]
        raise InputError(
            f"{people.folder} has the geolevels {levels[0]}; {run.folder} has {levels[1]}",
            hint="--persons names the run of persons of the same census",
        )


def occupied_cells(product: Product) -> list[int] | None:
    """Cells of occupied housing units; None where a product does not tell them from vacant ones."""
    if product.record != "unit":
        return None
    for attribute in product.schema.attributes:
        if set(attribute.levels) >= _STATUS:
            level = attribute.levels.index("Occupied")
            return np.flatnonzero(product.schema.select(**{attribute.name: (level,)})).tolist()
    return None


def _household_cells(product: Product) -> list[int]:
    """Cells of people who live in households, the first class of units."""
    return np.flatnonzero(
        product.schema.query(product.class_query).row_of(np.arange(product.schema.size)) == 0
    ).tolist()


def _in_ranges(cells: Sequence[int]) -> str:
    """Whether `cell` is among some, in SQL: few ranges where an attribute that comes first tells."""
    ends = np.flatnonzero(np.diff([-2, *cells, cells[-1] + 2]) != 1).tolist()
    return " OR ".join(f"cell BETWEEN {cells[first]} AND {cells[after - 1]}" for first, after in pairwise(ends))


def occupancy_of_level(geolevel: str, households: DataFrame) -> LevelOccupancy:
    """Compare the geounits of a geolevel in which the number of housing units is exact."""
    households = households.where("units > 0")
    counted = households.groupBy("truth").count().toArrow().sort_by("truth")
    if not counted.num_rows:
        raise InputError(f"{geolevel}: no geounit has a housing unit")
    values, counts = _integers(counted, "truth", "count")
    # The fifth of a geounit, in integers: as many thresholds as its count exceeds.
    fifth = " + ".join(
        f"int(truth * {FIFTHS} > {threshold})" for threshold in fivefold_thresholds(Frequencies(values, counts))
    )
    divided = households.selectExpr("*", f"{fifth} AS fifth")
    found = households.sparkSession.sql(_BY_DIFFERENCE, households=divided).toArrow().sort_by("difference")
    numbers = found.column("fifth").to_numpy()
    parts = [found.filter(numbers == place) for place in range(FIFTHS)]
    return LevelOccupancy(
        geolevel,
        tuple(_quintile(place + 1, part) for place, part in enumerate(parts)),
        tuple(Occupancy(*(int(integer.sum()) for integer in _integers(part, *Occupancy.__slots__))) for part in parts),
    )


def geounits(
    truth: DataFrame, estimate: DataFrame, occupied: Sequence[int] | None, declared: DataFrame | None = None
) -> DataFrame:
    """Housing units and households of every geounit: columns geocode, units, truth, released.

    Args:
        truth: Confidential histograms of a geolevel.
        estimate: Protected ones.
        occupied: Cells of occupied housing units; None where households are counted, which are such.
        declared: Columns geocode and units: the housing units of every geounit; None where the histograms count them.
    """
    part = _TOTAL if occupied is None else _PART.format(among=_in_ranges(occupied))
    true = truth.selectExpr("geocode", f"{_TOTAL} AS units", f"{part} AS truth")
    released = estimate.selectExpr("geocode", f"{part} AS released")
    if declared is not None:
        true = declared.join(true.drop("units"), "geocode", "left")
    whole = true.join(released, "geocode", "left")
    return whole.selectExpr("geocode", "units", "coalesce(truth, 0L) AS truth", "coalesce(released, 0L) AS released")


def _households(pair: Pair, run: FinishedRun, spark: SparkSession) -> DataFrame:
    """What `geounits` makes of a run: of households, the housing units are those that it declared."""
    occupied = occupied_cells(run.product)
    if occupied is not None:
        return geounits(pair.truth, pair.estimate, occupied)
    leaf = run.spine.leaf.name  # where units are declared; the housing units of other geounits are the sums
    declared = read_table(spark, "invariants", run.public.level("invariants", leaf)).where("name = 'units'")
    length = run.spine.level(pair.geolevel).length
    around = f"left(geocode, {length})" if length else f"'{ROOT_GEOCODE}'"
    units = declared.groupBy(F.expr(around).alias("geocode")).agg(F.expr("sum(values[0]) AS units"))
    return geounits(pair.truth, pair.estimate, None, units)


def persons_per_household(people: Pair, households: DataFrame, among: str) -> PersonsPerHousehold:
    """People in households beside households, in the truth and as released.

    Args:
        people: Both histograms of the people of a geolevel.
        households: What `geounits` made of the same geolevel.
        among: Which cells are of people in households, in SQL.
    """
    part = _PART.format(among=among)
    true, released = (
        rows.selectExpr("geocode", f"{part} AS {name}")
        for rows, name in ((people.truth, "true_people"), (people.estimate, "people"))
    )
    together = households.join(true, "geocode", "full").join(released, "geocode", "full").na.fill(0)
    found = households.sparkSession.sql(_TOGETHER, together=together).collect()[0]
    counts = HouseholdPeople(*(int(found[name] or 0) for name in HouseholdPeople.__slots__))
    return PersonsPerHousehold(
        people.geolevel, counts, *(tuple(found[name] or ()) for name in ("true_ratios", "released_ratios"))
    )


def _quintile(number: int, part: pa.Table) -> Quintile:
    """One fifth, from how often each difference occurs in it."""
    values, counts, least, most = _integers(part, "difference", "geounits", "least", "most")
    ends = (int(least.min()), int(most.max())) if len(values) else (0, 0)
    return Quintile(number, *ends, Frequencies(values, counts))


def _integers(table: pa.Table, *names: str) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [table.column(name).to_numpy().astype(np.int64) for name in names]
