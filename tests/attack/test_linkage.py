"""Linkage against an attacker who is played out: every way to link persons with records is tried."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstart_run import quickstart_run

from das_spark.attack import GROUPS, TALLY, LinkageFindings, LinkedAttributes, Records, area_above, link, linkage_rows
from das_spark.attack.linkage import present_linkage
from das_spark.errors import ConfigurationError, QueryError
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products import PRODUCTS

SCHEMA = Schema(
    "people",
    (
        Attribute("sex", ("f", "m")),
        Attribute("race", ("a", "b", "c"), (Recode("some", (("a or b", (0, 1)),)),)),
    ),
)
ATTRIBUTES = LinkedAttributes.of(SCHEMA)
PLACE = {name: place for place, name in enumerate(TALLY)}
#: (geounit, sex, race) of a record.
people = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=9)


def records(of) -> Records:
    """Records as arrays, those alike together."""
    counted = sorted(Counter((place, 3 * sex + race) for place, sex, race in of).items())
    columns = [[place for (place, _), _ in counted], [cell for (_, cell), _ in counted], [each for _, each in counted]]
    return Records(*(np.array(column, dtype=np.int64) for column in columns))


def whole(found, group, name) -> float:
    return found[group][:, PLACE[name]].sum()


def played(truth, released) -> tuple[Fraction, Fraction]:
    """Expected links and right links, over all ways to link persons and records of the same geounit and sex."""
    links = right = Fraction(0)
    for key in {(place, sex) for place, sex, _ in truth}:
        mine = [race for place, sex, race in truth if (place, sex) == key]
        theirs = [race for place, sex, race in released if (place, sex) == key]
        shorter, longer = sorted([mine, theirs], key=len)
        ways = list(permutations(longer, len(shorter)))
        links += len(shorter)
        right += Fraction(sum(a == b for way in ways for a, b in zip(shorter, way, strict=True)), len(ways))
    return links, right


def most_frequent(values, otherwise):
    counts = Counter(values)
    return min((-count, value) for value, count in counts.items())[1] if counts else otherwise


@given(people, people, people, people)
def test_expected_links_are_those_of_all_ways_to_link(truth, released, swapped, area):
    around = records([(0, *rest) for _, *rest in area])
    found = link(records(truth), records(released), records(swapped), around, ATTRIBUTES)
    links, right = played(truth, released)
    assert whole(found, "all", "persons") == len(truth)
    assert whole(found, "all", "linked") == pytest.approx(float(links))
    assert whole(found, "all", "confirmed") == pytest.approx(float(right))
    assert whole(found, "all", "before") == pytest.approx(float(played(truth, truth)[1]))
    assert whole(found, "all", "swapped") == pytest.approx(float(played(truth, swapped)[1]))


@given(people, people, people)
def test_claims_and_guesses_are_those_of_each_person(truth, released, area):
    found = link(
        records(truth), records(released), records(truth), records([(0, *rest) for _, *rest in area]), ATTRIBUTES
    )
    sums = {group: Counter() for group in GROUPS}
    for place, sex, race in truth:
        around = [each for _, other, each in area if other == sex]
        guess = most_frequent(around, most_frequent([each for _, _, each in area], None))
        claim = most_frequent([each for where, other, each in released if (where, other) == (place, sex)], guess)
        before = most_frequent([each for where, other, each in truth if (where, other) == (place, sex)], None)
        row = {
            "claimed": claim == race,
            "claimed_before": before == race,
            "guessed": guess == race,
            "drawn": Fraction(around.count(race), max(len(around), 1)),
        }
        modal = most_frequent([each for where, _, each in truth if where == place], None)
        groups = {"all": True, "nonmodal": race != modal, "unique": truth.count((place, sex, race)) == 1}
        for group in (name for name, is_in in groups.items() if is_in):
            sums[group].update(row)
    for group, row in sums.items():
        for name, value in row.items():
            assert whole(found, group, name) == pytest.approx(float(value)), (group, name)


def test_confidential_records_give_what_they_would_have_given_before():
    truth = [(0, 0, 0), (0, 0, 1), (0, 1, 2), (1, 0, 2), (1, 0, 2)]
    found = link(records(truth), records(truth), records(truth), records([(0, 0, 1)]), ATTRIBUTES)
    for group in GROUPS:
        assert whole(found, group, "confirmed") == whole(found, group, "before")
        assert whole(found, group, "claimed") == whole(found, group, "claimed_before")


def test_nobody_is_linked_where_nothing_was_released():
    truth, nothing = records([(0, 0, 0), (1, 1, 1)]), records([])
    found = link(truth, nothing, nothing, nothing, ATTRIBUTES)
    assert whole(found, "all", "linked") == 0
    assert whole(found, "all", "confirmed") == 0
    assert whole(found, "all", "drawn") == 0


def test_records_that_say_nothing_of_their_geounit_add_nothing_to_guesses():
    """Records are drawn anew from the area: over many geounits links are right as often as guesses by drawing."""
    numbers = np.random.default_rng(5)
    rate = np.array([0.6, 0.3, 0.1])
    truth, released = (
        [(place, 0, int(race)) for place in range(2000) for race in numbers.choice(3, size=6, p=rate)] for _ in range(2)
    )
    around = records([(0, *rest) for _, *rest in released])
    found = link(records(truth), records(released), records(truth), around, ATTRIBUTES)
    confirmed, drawn, persons = (whole(found, "all", name) for name in ("confirmed", "drawn", "persons"))
    error = np.sqrt(0.25 / persons)
    assert abs(confirmed - drawn) / persons < 4 * error  # wrong once in 10,000 times, were numbers others
    before = whole(found, "all", "before")
    assert (before - drawn) / persons > 10 * error, "the records themselves do tell"


def test_geounits_are_told_apart_by_their_true_population():
    truth = [(0, 0, 0)] * 9 + [(1, 1, 1)] * 10 + [(2, 0, 2)] * 1000
    found = link(records(truth), records([]), records([]), records([]), ATTRIBUTES)
    assert found["all"][:, PLACE["persons"]].tolist() == [9, 10, 0, 0, 0, 0, 1000]
    rows = linkage_rows("all", found["all"])
    assert [(row.size, row.persons) for row in rows] == [("1-9", 9), ("10-49", 10), ("1,000+", 1000)]


def test_what_is_known_and_learned():
    assert [(each.known.name, each.learned.name) for each in (ATTRIBUTES,)] == [("sex", "race")]
    dhc = LinkedAttributes.of(PRODUCTS["dhc_2020_person"].schema)
    assert (dhc.known.name, dhc.learned.name) == ("sex * age", "hispanic * cenrace")
    other = LinkedAttributes.of(SCHEMA, known="total", learned="sex")
    assert (other.known.rows, other.learned.rows) == (1, 2)
    with pytest.raises(ConfigurationError, match="neither origin nor race"):
        LinkedAttributes.of(PRODUCTS["pl94_2020_unit"].schema)
    with pytest.raises(ConfigurationError, match="leaves out"):
        LinkedAttributes.of(SCHEMA, learned="some")
    with pytest.raises(QueryError, match="gender"):
        LinkedAttributes.of(SCHEMA, known="gender")


def test_the_area_is_two_geolevels_above_the_lowest():
    assert area_above(("US", "State", "County", "Tract", "Block_Group", "Block")) == "Tract"
    assert area_above(("State", "County")) == "State"
    assert area_above(("US",)) == "US"


def test_what_people_read_of_it():
    truth = [(0, 0, 0), (0, 1, 1), (1, 0, 2)]
    sums = link(records(truth), records(truth), records(truth), records([(0, 0, 0)]), ATTRIBUTES)
    rows = tuple(row for group, values in sums.items() for row in linkage_rows(group, values))
    found = LinkageFindings("sex", "race", "sex", "race", "Block", Fraction(1, 20), "Tract", rows)
    assert found.whole("unique").persons == 3
    assert found.verdict.startswith("Linkage finds race of 100.0% of unique persons; guesses find 33.3%")
    (section,) = present_linkage(found)
    (table,) = [block for block in section.blocks if hasattr(block, "rows")]
    everybody = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert everybody["links_add"] == pytest.approx(2 / 3)
    assert (
        LinkageFindings("sex", "race", "sex", "race", "Block", Fraction(1, 20), "Tract", ()).verdict
        == "Linkage: nobody is unique."
    )


def of_run(epsilon: str):
    """Everybody linked in the quickstart census, protected under a budget: group -> shares of its persons."""
    run = quickstart_run(epsilon)
    attributes = LinkedAttributes.of(run.plan.product.schema)
    sums = {group: 0 for group in GROUPS}
    for tract, around in run.estimates["Tract"].items():
        blocks = [code for code in run.truth["Block"] if code.startswith(tract)]
        truth, released = (numbered([of["Block"][code] for code in blocks]) for of in (run.truth, run.estimates))
        found = link(truth, released, truth, numbered([around]), attributes)
        sums = {group: sums[group] + found[group].sum(axis=0) for group in GROUPS}
    return {group: dict(zip(TALLY, values / values[0], strict=True)) for group, values in sums.items()}


def numbered(histograms) -> Records:
    geounit = np.repeat(np.arange(len(histograms)), [len(histogram.cells) for histogram in histograms])
    cells, counts = (
        np.concatenate([getattr(histogram, name) for histogram in histograms]) for name in ("cells", "counts")
    )
    return Records(geounit, cells.astype(np.int64), counts)


def test_a_run_under_an_enormous_budget_gives_away_what_the_confidential_records_do():
    for group, shares in of_run("100000").items():
        assert shares["confirmed"] == pytest.approx(shares["before"], abs=0.005), group
        assert shares["claimed"] == pytest.approx(shares["claimed_before"], abs=0.005), group
    assert of_run("100000")["unique"]["confirmed"] > 1.3 * of_run("100000")["unique"]["drawn"]


@pytest.mark.slow
def test_a_run_under_nearly_no_budget_gives_away_no_more_than_guesses_do():
    for group, shares in of_run("1/1000").items():
        assert max(shares["confirmed"], shares["claimed"]) < max(shares["guessed"], shares["drawn"]) + 0.01, group
