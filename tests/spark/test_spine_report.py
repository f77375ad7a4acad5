"""A stored spine compared through Spark: what the pure core says of each county, and refusals by county."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import GeographyError
from das_spark.geography import (
    ENTITY_CATEGORIES,
    ENTITY_COLUMNS,
    PL94_PERSON,
    BlockTable,
    LevelShares,
    SpinePaths,
    census_shares,
    compare_county,
    join_comparisons,
)
from das_spark.spark.spine import PATHS, build_spine
from das_spark.spark.spine_report import ComparisonTask, compare_spines, share_paths

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
SHARES = LevelShares.of({level: Fraction(part, 21) for part, level in enumerate(LEVELS, 1)})
TASK = ComparisonTask(SHARES, census_shares(SHARES, "optimised"), "zcdp", 0.5, tuple(ENTITY_CATEGORIES))


def made_rows():
    draw = np.random.default_rng(1)
    rows = []
    for county, count in (("44001", 300), ("44003", 90), ("04001", 40), ("04003", 1)):
        for number in range(count):
            tract, group, block = number // 120 + 1, number // 40 % 3 + 1, number % 40
            area = "0010" if draw.random() < 0.1 else "9999"
            town, place, school = (f"{draw.integers(1, 4):05d}" for _ in range(3))
            geocode = f"{county}{tract * 100:06d}{group}{group}{block:03d}"
            rows.append((geocode, area, town, "A", place, "A", school, "99999", "99999"))
    return rows


ROWS = made_rows()
SCHEMA = ", ".join(f"{name} string" for name in ("geocode", *ENTITY_COLUMNS))


@pytest.fixture(scope="module")
def blocks(spark):
    return spark.createDataFrame(ROWS, SCHEMA).repartition(3)


@pytest.fixture(scope="module")
def stored(spark, blocks):
    """Rows of the spine, read from Spark once."""
    built = build_spine(blocks, PL94_PERSON, SHARES, "zcdp")
    rows = [(row["block"], row["path"], row["shares"]) for row in built.blocks.collect()]
    built.release()
    return rows


def paths_of(spark, rows):
    return spark.createDataFrame(rows, PATHS).repartition(2)


def directly(stored):
    """The same by the core alone."""
    counties = []
    places = {block: (path, shares) for block, path, shares in stored}
    for county in sorted({row[0][:5] for row in ROWS}):
        own = [row for row in ROWS if row[0].startswith(county)]
        columns = {name: np.array([row[place] for row in own]) for place, name in enumerate(ENTITY_COLUMNS, 1)}
        table = BlockTable(np.array([row[0] for row in own]), **columns, gq=np.zeros((len(own), 7)))
        found = [places[row[0]] for row in own]
        codes = tuple(map(np.array, zip(*(path for path, _ in found), strict=True)))
        shares = [np.array([float(Fraction(each[level])) for _, each in found]) for level in range(len(LEVELS))]
        task = (SHARES, TASK.census, "zcdp", 0.5, TASK.categories)
        counties.append(compare_county(table, SpinePaths(codes, tuple(shares)), *task))
    return join_comparisons(counties, TASK.categories, "zcdp", 0.5)


def test_the_comparison_is_that_of_the_core(spark, blocks, stored):
    found, expected = compare_spines(blocks, paths_of(spark, stored), TASK), directly(stored)
    assert found.fan_outs_before == expected.fan_outs_before
    assert found.fan_outs_after == expected.fan_outs_after
    for own, wanted in zip(found.categories, expected.categories, strict=True):
        assert own.category == wanted.category
        assert own.names.tolist() == wanted.names.tolist()
        for column in ("blocks", "distance_before", "distance_after"):
            np.testing.assert_array_equal(getattr(own, column), getattr(wanted, column))
        for column in ("variance_before", "variance_after"):
            np.testing.assert_allclose(getattr(own, column), getattr(wanted, column), rtol=1e-12)


def test_paths_of_shares_are_counted(spark, stored):
    found = share_paths(paths_of(spark, stored), len(LEVELS))
    assert sum(path.blocks for path in found) == len(ROWS)
    assert found[0].shares == tuple(Fraction(part, 21) for part in range(1, 7))
    assert len({path.shares for path in found}) == len(found) > 1


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        (["1/2", "1/2"], "have not 6 levels"),
        (["0.1.2", "0", "0", "0", "0", "1"], "are not fractions"),
        (["1/2", "0", "0", "0", "0", "1"], "do not sum to 1"),
    ],
)
def test_shares_that_are_not_those_of_a_spine_are_refused(spark, stored, shares, message):
    wrong = [(block, path, shares if place == 5 else own) for place, (block, path, own) in enumerate(stored)]
    with pytest.raises(GeographyError, match=message):
        share_paths(paths_of(spark, wrong), len(LEVELS))


def test_blocks_of_one_side_only_are_refused_by_county(spark, blocks, stored):
    lost = [row for row in stored if row[0] != ROWS[0][0]]
    with pytest.raises(GeographyError, match=f"county 44001: 1 blocks of the geography are none .* '{ROWS[0][0]}'"):
        compare_spines(blocks, paths_of(spark, lost), TASK)
    other = [(block.replace("44003", "44009", 1), path, shares) for block, path, shares in stored]
    with pytest.raises(GeographyError, match=r"county 44003: 90 blocks of the geography .*\(and 1 counties more\)"):
        compare_spines(blocks, paths_of(spark, other), TASK)


def test_a_geounit_with_two_parents_is_refused(spark, blocks, stored):
    place = next(place for place, row in enumerate(stored) if row[0] == ROWS[0][0])
    block, path, own = stored[place]
    wrong = [*stored[:place], (block, [*path[:2], "another", *path[3:]], own), *stored[place + 1 :]]
    with pytest.raises(GeographyError, match="two parents"):
        compare_spines(blocks, paths_of(spark, wrong), TASK)


def test_an_unknown_category_is_refused_before_anything_is_read(blocks, stored):
    with pytest.raises(GeographyError, match="'parish'"):
        compare_spines(blocks, None, ComparisonTask(SHARES, SHARES, "zcdp", 1.0, ("parish",)))
