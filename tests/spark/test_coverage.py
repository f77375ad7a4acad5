"""Coverage of published intervals against loops over geounits and columns, for intervals of either kind."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from verified_run import BLOCKS, COUNTY, PEOPLE, PRODUCT, TOTAL, TRACTS, frame

from das_spark.evaluation import MEASUREMENTS, REPLICATES_OF_RUN, TOTAL_OF
from das_spark.evaluation.coverage import CLASSES
from das_spark.spark.coverage import IntervalsOf, interval_coverage
from das_spark.spark.tabulate import tabulated
from das_spark.tabulation import redistricting_tables

pytestmark = pytest.mark.spark

P1, _, _, _, P5 = redistricting_tables(PRODUCT.schema)
CODES = {"County": (COUNTY,), "Tract": TRACTS, "Block": BLOCKS}
ENDINGS = {MEASUREMENTS: "_se", REPLICATES_OF_RUN: "_rmse"}
LEVEL = 0.9


def people_of(code: str) -> int:
    return sum(sum(people.values()) for block, people in PEOPLE.items() if block.startswith(code))


def interval(table: str, code: str, place: int, count: int) -> tuple[float, int, int]:
    """An error and ends: of some columns exact or away from the count, by where they stand."""
    kind = (place + len(code) + len(table)) % 4
    if kind == 0:
        return 0.0, count, count
    if kind == 1:
        return 0.0, count + 1, count + 1  # said to be exact, and wrong
    if kind == 2:
        return 1.5, count + 1, count + 4 + place
    return 1.5, max(count - place, 0), count + 2


@pytest.fixture(scope="module")
def counts(run):
    """Counts of each geounit, by table and geocode."""
    found = {}
    for table in (P1, P5):
        for row in tabulated(run.tables.estimates, [table], "level").collect():
            found[table.name, row["geocode"]] = [row[name] for name in table.names]
    return found


def published(spark, counts, ending: str):
    """Intervals of both tables, of all geolevels."""
    made = []
    for table in (P1, P5):
        columns = {"level": pa.string(), "geocode": pa.string()}
        for name in table.names:
            columns |= {f"{name}{ending}": pa.float64(), f"{name}_low": pa.int64(), f"{name}_high": pa.int64()}
        rows = [
            (level, code, *sum((interval(table.name, code, n, c) for n, c in enumerate(counts[table.name, code])), ()))
            for level, codes in CODES.items()
            for code in codes
        ]
        made.append((table, frame(spark, rows, columns)))
    return made


@pytest.mark.parametrize("of", ENDINGS)
def test_every_interval_is_counted_once_by_level_table_and_true_population(spark, run, counts, of):
    levels = ("County", "Block") if of == MEASUREMENTS else ("County", "Tract", "Block")
    truths = [(level, run.tables.estimates.where(F.col("level") == level).drop("level")) for level in CODES]
    given = IntervalsOf(of, ENDINGS[of], published(spark, counts, ENDINGS[of]), levels, LEVEL)
    found = interval_coverage(given, truths)
    expected: dict[tuple[str, str, int], list[int]] = {}
    for level in levels:
        for code in CODES[level]:
            place = max(number for number, least in enumerate(CLASSES) if least <= people_of(code))
            for table in (P1, P5):
                for number, count in enumerate(counts[table.name, code]):
                    error, low, high = interval(table.name, code, number, count)
                    inside = low <= count <= high
                    exact = inside and error == 0
                    for name in (table.name, *([f"{table.name}{TOTAL_OF}"] if number == 0 else [])):
                        sums = expected.setdefault((level, name, place), [0, 0, 0, 0])
                        sums[0] += not exact
                        sums[1] += inside and not exact
                        sums[2] += 0 if exact else high - low
                        sums[3] += exact
    assert {(each.of, each.level) for each in found} == {(of, LEVEL)}
    got = {
        (each.place, each.table, each.population): [each.intervals, each.covered, each.width, each.exact]
        for each in found
    }
    assert got == expected
    assert len(found) == len(got)
    # Geolevels stand in the order of the spine.
    assert list(dict.fromkeys(each.place for each in found)) == list(levels)
    assert people_of(COUNTY) == TOTAL
