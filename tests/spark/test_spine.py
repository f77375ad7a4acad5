"""Spines through Spark: what the pure core makes of each county, wherever its rows lie; and Rhode Island."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from statistics import median

import numpy as np
import pytest
from dataframes import assert_frames

from das_spark.errors import GeographyError
from das_spark.geography import (
    DHC,
    ENTITY_COLUMNS,
    PL94_PERSON,
    PL94_UNIT,
    BlockTable,
    LevelShares,
    SpineSettings,
    county_paths,
    county_spines,
    join_counties,
)
from das_spark.geography.distance import entity_distances, name_entities
from das_spark.simulation.entities_2020 import entities
from das_spark.spark.spine import PATHS, build_spine

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
PARTS = (104, 1440, 447, 687, 1256, 165)
SHARES = LevelShares.of({level: Fraction(part, 4099) for level, part in zip(LEVELS, PARTS, strict=True)})
DHC_LEVELS = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")
DHC_SHARES = LevelShares.of({level: Fraction(1, 8) for level in DHC_LEVELS})


def made_counties(counts=(("04", "001", 700), ("04", "003", 130), ("44", "001", 40), ("11", "001", 1))):
    """Geocodes of blocks of several counties, of several tracts and block groups each."""
    codes = []
    for state, county, count in counts:
        for number in range(count):
            tract, group, block = number // 120 + 1, number // 40 % 3 + 1, number % 40
            codes.append(f"{state}{county}{tract * 100:06d}{group}{group}{block:03d}")
    return np.array(codes)


def made_rows(geocodes, flags=True):
    columns = {name.lower(): values.tolist() for name, values in entities(geocodes).items()}
    rows = []
    for place, code in enumerate(geocodes.tolist()):
        gq = [kind == place % 7 for kind in range(7)] if place % 9 == 0 else None
        row = (code, *(columns[name][place] for name in ENTITY_COLUMNS))
        rows.append((*row, gq) if flags else row)
    return rows


def frame_of(spark, rows, partitions=3):
    names = ", ".join(f"{name} string" for name in ("geocode", *ENTITY_COLUMNS))
    schema = names + (", gq array<boolean>" if len(rows[0]) == len(ENTITY_COLUMNS) + 2 else "")
    return spark.createDataFrame(rows, schema).repartition(partitions)


def plain_tables(rows):
    """The same blocks as the core wants them, county by county."""
    for county in sorted({row[0][:5] for row in rows}):
        own = [row for row in rows if row[0].startswith(county)]
        columns = {name: np.array([row[place] for row in own]) for place, name in enumerate(ENTITY_COLUMNS, 1)}
        gq = np.array([(row[-1] or [False] * 7) if isinstance(row[-1], list | None) else [False] * 7 for row in own])
        yield BlockTable(geocode16=np.array([row[0] for row in own]), gq=gq, **columns)


def directly(rows, settings, shares, framework):
    """Block -> (path, shares), by the core alone."""
    counties = [spine for table in plain_tables(rows) for spine in county_spines(table, settings, shares, framework)]
    national = join_counties([county.summary() for county in counties], shares, settings)
    found = {}
    for county in counties:
        paths = county_paths(county, national)
        codes, numerators = paths.codes(), paths.numerators()
        for place, block in enumerate(paths.blocks.tolist()):
            path = [str(level[place]) for level in codes]
            found[block] = (path, [Fraction(int(level[place]), paths.denominator) for level in numerators])
    return national, found


def collected(built):
    rows = built.blocks.collect()
    assert len({row["block"] for row in rows}) == len(rows)
    return {row["block"]: (row["path"], [Fraction(share) for share in row["shares"]]) for row in rows}


@pytest.mark.parametrize(
    ("settings", "shares", "framework"),
    [
        (PL94_PERSON, SHARES, "zcdp"),
        (PL94_UNIT, SHARES, "pure_dp"),
        (SpineSettings("census"), SHARES, "zcdp"),
        (SpineSettings("aian"), SHARES, "zcdp"),
        (DHC, DHC_SHARES, "zcdp"),
    ],
)
def test_the_spine_is_that_of_the_core(spark, settings, shares, framework):
    rows = made_rows(made_counties())
    national, expected = directly(rows, settings, shares, framework)
    built = build_spine(frame_of(spark, rows), settings, shares, framework, notes=["a note"])
    assert built.national == national
    assert collected(built) == expected
    assert all(sum(shares) == 1 for _, shares in expected.values())
    assert built.blocks.schema == PATHS
    assert built.notes == ("a note",)
    built.release()


def test_partitioning_and_order_change_nothing(spark):
    rows = made_rows(made_counties())
    one = build_spine(frame_of(spark, rows, 1), PL94_PERSON, SHARES, "zcdp").blocks
    other = build_spine(frame_of(spark, rows[::-1], 7), PL94_PERSON, SHARES, "zcdp").blocks
    assert_frames(other, one, ignore_row_order=True)


def test_blocks_without_a_column_of_quarters_have_none(spark):
    rows = made_rows(made_counties(), flags=False)
    without = build_spine(frame_of(spark, rows), PL94_PERSON, SHARES, "zcdp").blocks
    nulls = [(*row, None) for row in rows]
    found = build_spine(frame_of(spark, nulls), PL94_PERSON, SHARES, "zcdp").blocks
    assert_frames(found, without, ignore_row_order=True)


def test_a_crosswalk_decides_on_primitive_geounits(spark):
    rows = made_rows(made_counties((("04", "001", 200),)))
    frame = frame_of(spark, rows)
    crosswalk = spark.createDataFrame([(row[0], row[0][-1]) for row in rows], "geocode string, primitive string")
    built = build_spine(frame, DHC, DHC_SHARES, "zcdp", crosswalk)
    paths = collected(built)
    prim = DHC_LEVELS.index("Prim")
    together = {}
    for block, (path, _) in paths.items():
        together.setdefault((path[prim - 1], block[-1]), set()).add(path[prim])
    assert all(len(units) == 1 for units in together.values())
    assert len(together) == len({unit for units in together.values() for unit in units})


def test_a_crosswalk_that_splits_or_lacks_a_block_is_refused(spark):
    rows = made_rows(made_counties((("04", "001", 20),)))
    frame, first, schema = frame_of(spark, rows), rows[0][0], "geocode string, primitive string"
    pairs = [(row[0], "one") for row in rows]
    split = spark.createDataFrame([*pairs, (first, "two")], schema)
    with pytest.raises(GeographyError, match=f"splits 1 blocks between primitive geounits, '{first}'"):
        build_spine(frame, DHC, DHC_SHARES, "zcdp", split)
    with pytest.raises(GeographyError, match=f"no primitive geounit for 1 blocks, '{first}'"):
        build_spine(frame, DHC, DHC_SHARES, "zcdp", spark.createDataFrame(pairs[1:], schema))
    with pytest.raises(GeographyError, match="'optimised' has no primitive geounits"):
        build_spine(frame, PL94_PERSON, SHARES, "zcdp", split)


def test_what_cannot_be_built_is_said_once_with_its_county(spark):
    rows = made_rows(made_counties())
    wrong = [(row[0], "4995", *row[2:]) if row[0][2:5] == "003" else row for row in rows]
    with pytest.raises(GeographyError, match="county 04003: AIANNHCE code '4995' belongs to no category"):
        build_spine(frame_of(spark, wrong), PL94_PERSON, SHARES, "zcdp")
    with pytest.raises(GeographyError, match=f"county 04001: block '{rows[0][0]}' occurs twice"):
        build_spine(frame_of(spark, [*rows, rows[0]]), PL94_PERSON, SHARES, "zcdp")
    with pytest.raises(GeographyError, match="column 'placefp' of the blocks holds 1 nulls"):
        build_spine(frame_of(spark, [(*rows[0][:4], None, *rows[0][5:]), *rows[1:]]), PL94_PERSON, SHARES, "zcdp")
    with pytest.raises(GeographyError, match="must hold 7 booleans"):
        build_spine(frame_of(spark, [(*rows[0][:-1], [True] * 6)]), PL94_PERSON, SHARES, "zcdp")
    with pytest.raises(GeographyError, match="no column 'placefs'"):
        build_spine(frame_of(spark, rows).drop("placefs"), PL94_PERSON, SHARES, "zcdp")
    with pytest.raises(GeographyError, match="has the levels County, Prim"):
        build_spine(frame_of(spark, rows), DHC, SHARES, "zcdp")
    with pytest.raises(GeographyError, match="no bypass rule for 'renyi'"):
        build_spine(frame_of(spark, rows), PL94_PERSON, SHARES, "renyi")


@pytest.fixture(scope="module")
def rhode_island(spark, census_data):
    """Its blocks with their entities and group quarters."""
    from das_spark.spark.readers import GEOGRAPHY_READERS, read_quarters

    folder = census_data / "official" / "BlockAssign_ST44_RI"
    blocks = GEOGRAPHY_READERS["block_assignment"].read(spark, str(folder)).blocks
    quarters = read_quarters(spark, str(census_data / "ri_2020_block_units_and_gq.parquet"))
    return blocks.join(quarters, "geocode", "left").cache()


@pytest.mark.real_data
def test_rhode_island_has_every_block_once_and_paths_that_sum_to_one(rhode_island):
    census = build_spine(rhode_island, SpineSettings("census"), SHARES, "zcdp")
    optimised = build_spine(rhode_island, PL94_PERSON, SHARES, "zcdp")
    blocks = {row[0] for row in rhode_island.select("geocode").collect()}
    units = {}
    for built in (census, optimised):
        paths = collected(built)
        assert paths.keys() == blocks
        assert all(sum(shares) == 1 for _, shares in paths.values())
        sets = [{path[level] for path, _ in paths.values()} for level in range(len(LEVELS))]
        units[built.settings.kind] = [len(each) for each in sets]
        national = built.national
        assert [out.units for out in national.fan_outs] == units[built.settings.kind][:-1]
        assert [len(each) for each in sets[:-1]] + [len(blocks)] == units[built.settings.kind]
        lengths = {len(path[level]) for path, _ in paths.values() for level in (2, 3, 4, 5)}
        assert lengths == set(national.lengths[2:])
    # 2020: 5 counties, 250 tracts and 792 block groups. Narragansett land is in one county, in two tracts.
    assert units["census"] == [1, 1, 5, 250, 792, 25_649]
    assert units["optimised"][:4] == [1, 2, 6, 252]
    assert units["optimised"][4] > units["census"][4]


@pytest.mark.real_data
def test_optimised_groups_of_rhode_island_keep_fan_outs_near_the_root(rhode_island):
    tract, group = LEVELS.index("Tract"), LEVELS.index("Block_Group")
    middle = {}
    for settings in (SpineSettings("census"), PL94_PERSON):
        paths = collected(build_spine(rhode_island, settings, SHARES, "zcdp"))
        parent = {path[group]: path[tract] for path, _ in paths.values()}
        groups, blocks = Counter(parent.values()), Counter(path[group] for path, _ in paths.values())
        middle[settings.kind] = (median(groups.values()), median(blocks.values()))
        if settings is PL94_PERSON:
            in_tract = Counter(path[tract] for path, _ in paths.values())
            limit = {code: int(count**0.5 + PL94_PERSON.fanout_cutoff + 1) for code, count in in_tract.items()}
            assert all(count <= limit[parent[code]] for code, count in blocks.items())
    # More and smaller groups: about 100 blocks of a tract are 6 groups of 17 instead of 3 of 30.
    assert middle["optimised"][0] > middle["census"][0]
    assert middle["optimised"][1] < middle["census"][1]
    print(middle)


@pytest.mark.real_data
def test_places_and_subdivisions_of_rhode_island_come_closer_to_the_spine(rhode_island):
    rows = {row["geocode"]: row for row in rhode_island.collect()}
    middle = {}
    for settings in (SpineSettings("census"), PL94_PERSON):
        paths = collected(build_spine(rhode_island, settings, SHARES, "zcdp"))
        for column in ("placefp", "cousubfp"):
            distances = _distances({block: rows[block][column] for block in paths}, paths)
            middle[column, settings.kind] = median(distances)
    for column in ("placefp", "cousubfp"):
        assert middle[column, "optimised"] <= middle[column, "census"]
    print(middle)


def _distances(codes, paths):
    """Distance of every entity from the root, over the tree that the paths are."""
    ordered = sorted(paths, key=lambda block: paths[block][0])
    levels = np.array([paths[block][0] for block in ordered]).T
    parents, above = [np.zeros(1, np.int64)], np.zeros(len(ordered), np.int64)
    for level in levels[1:]:
        _, first, place = np.unique(level, return_index=True, return_inverse=True)
        parents.append(above[first])
        above = place
    names = np.array([codes[block] if codes[block] != "99999" else "" for block in ordered])
    assert levels[-1].size == np.unique(levels[-1]).size
    found, touch = name_entities(names[np.argsort(above)])
    return entity_distances(touch, parents, found.size).tolist()
