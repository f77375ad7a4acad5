"""Published tables pass where they say what the estimates say, and every planted difference is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import functions as F
from verified_run import BLOCKS, COUNTY, LEVELS, PRODUCT, TOTAL

from das_spark.spark.checks import judge
from das_spark.spark.tabulate import tabulated
from das_spark.spark.verify_tables import (
    HEADERS,
    PublishedTable,
    header_checks,
    table_rules,
)
from das_spark.tabulation import Line, Table, redistricting_tables
from das_spark.verification import TABLES_EQUAL, TOTALS_EQUAL

pytestmark = [pytest.mark.spark, pytest.mark.slow]

P1, _, P3, _, P5 = redistricting_tables(PRODUCT.schema)
FORMATS = ("parquet", "csv")
#: Those in prison have race 1 and count twice, in the total and in the first line.
RACES = ({"cenrace": (0, 1)}, {"cenrace": (1, 5)})
TALLIED = Table.of(
    name="P6",
    title="Races tallied",
    universe="Races tallied",
    schema=PRODUCT.schema,
    prefix="P006",
    lines=(
        Line(0, "Total", {}, RACES),
        Line(1, "Adults", {"votingage": (1,)}, RACES),
        *(Line(1, "One race", levels) for levels in RACES),
    ),
)


@pytest.fixture(scope="module")
def published(run):
    """P1, P3 and P5 in two formats, as they should be."""
    return tuple(
        PublishedTable(table, format, tabulated(run.tables.estimates, [table], "level").persist())
        for table in (P1, P3, P5)
        for format in FORMATS
    )


def changed(published, table, format, frame, **more):
    """The published tables with another frame in the place of one of them."""
    return tuple(
        replace(each, frame=frame(each.frame), **more) if (each.table, each.format) == (table, format) else each
        for each in published
    )


def verified(published, run) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """Rule, level and note of every check that fails -> what fails."""
    checks = judge(table_rules(published, run.tables))
    return {(check.name, check.geolevel, check.note): check.failing for check in checks if not check.passed}


def test_tables_that_say_what_the_estimates_say_pass(published, run):
    checks = judge(table_rules(published, run.tables))
    assert all(check.passed for check in checks)
    columns = len(P1.columns) + len(P3.columns) + len(P5.columns)
    assert {(check.name, check.geolevel, check.note): check.checked for check in checks} == {
        **{(TABLES_EQUAL, level, f"{each} files"): rows * columns for level, rows in counted() for each in FORMATS},
        **{(TOTALS_EQUAL, level, f"{each} files"): rows * 3 for level, rows in counted() for each in FORMATS},
    }


def counted():
    return zip(LEVELS, (1, 2, 3), strict=True)


def test_one_format_needs_no_note_and_no_table_no_rule(published, run):
    checks = judge(table_rules(published[::2], run.tables))
    assert {check.note for check in checks} == {""}
    assert len(checks) == 2 * len(LEVELS)
    assert table_rules((), run.tables) == []


def test_a_format_is_asked_for_its_own_tables_alone(published, run):
    # Intervals of counts are of the tables that were named, beside all tables in Parquet and CSV.
    few = [replace(each, format="more") for each in published if each.table == P3][:1]
    checks = judge(table_rules([*published, *few], run.tables))
    assert all(check.passed for check in checks)
    for level, rows in counted():
        of_more = {
            check.name: check.checked for check in checks if (check.geolevel, check.note) == (level, "more files")
        }
        assert of_more == {TABLES_EQUAL: rows * len(P3.columns), TOTALS_EQUAL: rows}
    for change in (
        lambda frame: frame.where(F.col("geocode") != BLOCKS[1]),
        lambda frame: frame.withColumn("P0030001", F.col("P0030001") + 1),
    ):
        wrong = [replace(few[0], frame=change(few[0].frame))]
        found = verified([*published, *wrong], run)
        assert {note for _, _, note in found} == {"more files"}


@pytest.mark.parametrize("own", ["County", "Block"])
def test_a_table_is_asked_for_the_levels_alone_that_it_is_published_for(published, run, own):
    of_own = [
        replace(each, frame=each.frame.where(F.col("level") == own), levels=(own,)) if each.table == P3 else each
        for each in published
    ]
    checks = judge(table_rules(of_own, run.tables))
    assert all(check.passed for check in checks)
    others = len(P1.columns) + len(P5.columns)
    wanted = {level: rows * (others + len(P3.columns) * (level == own)) for level, rows in counted()}
    found = {check.geolevel: check.checked for check in checks if check.name == TABLES_EQUAL and "csv" in check.note}
    assert found == wanted
    # Alone, it has no check of other levels.
    alone = judge(table_rules([each for each in of_own if each.table == P3], run.tables))
    assert {check.geolevel for check in alone} == {own}
    # A row that is not there is missed where there should be one.
    lost = [replace(each, frame=each.frame.where("false")) if each.table == P3 else each for each in of_own]
    assert {level for _, level, _ in verified(lost, run)} == {own}


def test_a_format_may_have_fewer_levels_of_a_table_than_another(published, run):
    few = [
        replace(each, format="more", frame=each.frame.where("level = 'County'"), levels=("County",))
        for each in published
        if each.table == P3
    ][:1]
    for every in ([*published, *few], [*few, *published]):
        checks = judge(table_rules(every, run.tables))
        assert all(check.passed for check in checks)
        assert {check.geolevel for check in checks if check.note == "more files"} == {"County"}
        # The other formats are asked for all of their levels still.
        wrong = F.when(F.col("geocode") == BLOCKS[0], F.col("P0030003") + 1).otherwise(F.col("P0030003"))
        found = verified(changed(every, P3, "csv", lambda frame, value=wrong: frame.withColumn("P0030003", value)), run)
        assert found == {(TABLES_EQUAL, "Block", "csv files"): (f"{BLOCKS[0]} P0030003",)}


def test_a_wrong_value_is_named_by_geounit_column_and_format(published, run):
    wrong = F.when(F.col("geocode") == BLOCKS[0], F.col("P0010003") + 1).otherwise(F.col("P0010003"))
    found = verified(changed(published, P1, "csv", lambda frame: frame.withColumn("P0010003", wrong)), run)
    assert found == {(TABLES_EQUAL, "Block", "csv files"): (f"{BLOCKS[0]} P0010003",)}


def test_a_value_that_should_be_zero_or_is_not_there_is_found(published, run):
    for wrong in (F.lit(5), F.lit(-5), F.lit(None)):
        value = F.when(F.col("level") == "County", wrong).otherwise(F.col("P0050009")).cast("bigint")
        found = verified(changed(published, P5, "parquet", lambda f, v=value: f.withColumn("P0050009", v)), run)
        assert found == {(TABLES_EQUAL, "County", "parquet files"): (f"{COUNTY} P0050009",)}


def test_two_columns_that_changed_places_are_found(published, run):
    turned = {"P0030004": F.col("P0030003"), "P0030003": F.col("P0030004")}
    found = verified(changed(published, P3, "csv", lambda frame: frame.withColumns(turned)), run)
    assert {key[1] for key in found} == set(LEVELS)
    assert found[TABLES_EQUAL, "County", "csv files"] == (f"{COUNTY} P0030003", f"{COUNTY} P0030004")


@pytest.mark.parametrize(("table", "universe"), [(P1, TOTAL), (P3, TOTAL - 2), (P5, 8)])
def test_a_wrong_total_is_found_twice(published, run, table, universe):
    name = table.total.name
    seen = next(each for each in published if each.table == table).frame.where("level = 'County'").collect()
    assert seen[0][name] == universe
    wrong = F.when(F.col("level") == "County", F.col(name) - 1).otherwise(F.col(name))
    found = verified(changed(published, table, "parquet", lambda frame: frame.withColumn(name, wrong)), run)
    assert found == {
        (TABLES_EQUAL, "County", "parquet files"): (f"{COUNTY} {name}",),
        (TOTALS_EQUAL, "County", "parquet files"): (f"{COUNTY} {name} (total)",),
    }


def test_tallies_are_verified_and_people_who_count_once_for_all_their_races_are_found(run):
    right = PublishedTable(TALLIED, "parquet", tabulated(run.tables.estimates, [TALLIED], "level").persist())
    (county,) = right.frame.where("level = 'County'").collect()
    # 3 + 1 adults, 2 children, 4 + 3 + 1 in institutions, who count twice.
    assert list(county)[2:] == [4 + 2 + 2 * 8, 4 + 2 * 8, 4 + 8, 2 + 8]
    assert verified((right,), run) == {}
    for name, rules in (("P0060001", {TABLES_EQUAL, TOTALS_EQUAL}), ("P0060002", {TABLES_EQUAL})):
        once = F.when(F.col("level") == "County", F.col(name) - 8).otherwise(F.col(name))
        found = verified((replace(right, frame=right.frame.withColumn(name, once)),), run)
        assert {key[:2] for key in found} == {(rule, "County") for rule in rules}
        assert all(failing[0].startswith(f"{COUNTY} {name}") for failing in found.values())


def test_a_row_that_is_missing_twice_there_or_of_nowhere_is_found(published, run):
    empty = BLOCKS[1]  # all its values are zero: only its row is missed
    assert verified(changed(published, P1, "csv", lambda frame: frame.where(F.col("geocode") != empty)), run) == {
        (TABLES_EQUAL, "Block", "csv files"): (f"{empty} P1 (row)",)
    }
    twice = changed(published, P1, "csv", lambda frame: frame.unionAll(frame.where(F.col("geocode") == empty)))
    assert verified(twice, run) == {(TABLES_EQUAL, "Block", "csv files"): (f"{empty} P1 (row)",)}
    moved = F.when(F.col("geocode") == empty, "4400700010011009").otherwise(F.col("geocode"))
    elsewhere = verified(changed(published, P1, "csv", lambda frame: frame.withColumn("geocode", moved)), run)
    assert elsewhere == {(TABLES_EQUAL, "Block", "csv files"): (f"{empty} P1 (row)", "4400700010011009 P1 (row)")}
    lost = F.when(F.col("geocode") == empty, F.lit(None)).otherwise(F.col("geocode"))
    nowhere = verified(changed(published, P1, "csv", lambda frame: frame.withColumn("geocode", lost)), run)
    assert nowhere[TABLES_EQUAL, "Block", "csv files"] == (f"{empty} P1 (row)", "? P1 (row)")


def test_people_at_the_wrong_level_are_found_there_alone(published, run):
    tracts = changed(published, P5, "parquet", lambda frame: frame.where("level != 'Tract'"))
    found = verified(tracts, run)
    assert {key[1] for key in found} == {"Tract"}


def test_files_that_call_their_columns_otherwise_are_named_by_table(published):
    assert header_checks(published, LEVELS) == []
    named = [replace(each, misnamed=("Tract",) if each.table == P3 else ()) for each in published[1::2]]
    found = {check.geolevel: (check.name, check.checked, check.failing) for check in header_checks(named, LEVELS)}
    assert found == {"County": (HEADERS, 3, ()), "Tract": (HEADERS, 3, ("P3",)), "Block": (HEADERS, 3, ())}


def test_an_estimate_that_the_tables_do_not_follow_is_found_by_both_rules(published, run):
    other = run.with_blocks({BLOCKS[1]: {0: 2}})
    found = {key[:2] for key in verified(published, replace(run, tables=other))}
    assert found == {(TABLES_EQUAL, "Block"), (TOTALS_EQUAL, "Block")}
