"""The synthetic state of 2020 person by person: nobody and no household that there cannot be, and published shares."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from das_spark.io.cef import UNIT
from das_spark.products import HOUSEHOLD_PLACE_VALUES, HOUSEHOLD_TYPES, PRODUCTS
from das_spark.products import dhc_2020_household as household
from das_spark.simulation import LIKES, People2020, Records, census_2020, household_fields
from das_spark.simulation.people_2020 import QUARTERS

SHARE = Fraction(1, 40)
SEED = 11
PERSON, HOUSEHOLD = PRODUCTS["dhc_2020_person"], PRODUCTS["dhc_2020_household"]
SPOUSES, PARTNERS, OWN = (21, 23), (22, 24), (25, 26, 27)
LAST_RELATIVE, LAST_AT_HOME = 33, 36


def _joined(parts: list[Records]) -> Records:
    """All records of a state as one."""
    before = np.cumsum([0, *(len(part.block) for part in parts)])
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in Records.__slots__ if name != "unit"
    }
    unit = np.concatenate([first + part.unit for first, part in zip(before, parts, strict=False)])
    return Records(unit=unit, **arrays)


@pytest.fixture(scope="module")
def state() -> People2020:
    return People2020.of(SEED, SHARE)


@pytest.fixture(scope="module")
def records(state: People2020) -> Records:
    return _joined(list(state.records()))


def _members(records: Records) -> tuple[np.ndarray, ...]:
    """Household of each person who lives in one, and what `household_fields` takes of her."""
    at_home = records.relationship <= LAST_AT_HOME
    _, home = np.unique(records.unit[at_home], return_inverse=True)
    people = (records.relationship, records.woman, records.age, records.hispanic, records.race)
    return home, *(person[at_home] for person in people)


@pytest.fixture(scope="module")
def derived(records: Records) -> dict[str, np.ndarray]:
    return dict(household_fields(*_members(records)))


def test_places_and_units_are_those_of_the_population_of_2020(state: People2020, records: Records) -> None:
    plain = LIKES["2020-state"].make(20, SEED, SHARE)
    assert state.geocodes.tolist() == plain.geocodes.tolist()
    blocks = len(plain.geocodes)
    vacant = records.vacancy > 0
    level = np.minimum(records.quarters // 100, 7)
    units = np.bincount((records.block * 8 + level)[~vacant], minlength=blocks * 8).reshape(blocks, 8)
    assert np.array_equal(units, plain.units)
    assert np.array_equal(np.bincount(records.block[vacant], minlength=blocks), plain.vacant)
    residents = Counter()
    for quarters, number in zip(records.quarters, np.bincount(records.unit, minlength=len(records.block)), strict=True):
        residents[min(quarters // 100, 7)] += int(number)
    hhgq = np.bincount(np.unravel_index(plain.cell, LIKES["2020-state"].shape)[0], plain.count, 8)
    assert [residents[each] for each in range(1, 8)] == hhgq[1:].tolist()
    assert residents[0] == pytest.approx(hhgq[0], rel=0.03)


def test_units_are_of_one_kind_and_sorted_as_their_people_are(records: Records) -> None:
    inhabited = np.bincount(records.unit, minlength=len(records.block)) > 0
    kinds = np.stack([records.quarters > 0, records.tenure > 0, records.vacancy > 0])
    assert (kinds.sum(axis=0) == 1).all()
    assert np.array_equal(inhabited, ~kinds[2])
    assert (np.diff(records.block) >= 0).all()
    assert (np.diff(records.unit) >= 0).all()
    in_quarters = records.quarters[records.unit] > 0
    assert np.array_equal(in_quarters, records.relationship > LAST_AT_HOME)
    institution = (records.quarters[records.unit] > 0) & (records.quarters[records.unit] < 500)
    assert np.array_equal(institution, records.relationship == 37)
    assert {1, 2, 3, 4} <= set(records.tenure.tolist())
    assert set(range(1, 8)) <= set(records.vacancy.tolist())


def test_there_is_every_type_of_quarters_with_ages_that_it_may_have(records: Records) -> None:
    allowed = expanded(UNIT.field("QGQTYP").allowed.removesuffix(",blank"))
    assert set(QUARTERS) == allowed
    attribute = PERSON.file_recodes["cef_2020"].attributes["relgq"]
    possible = ~PERSON.zero_cells().reshape(PERSON.schema.shape)[:, 0, :, 0, 0]
    for code, quarter in QUARTERS.items():
        level = attribute.level_of(np.array([code]))[0]
        assert possible[level, quarter.youngest : quarter.oldest + 1].all()
    found = set(records.quarters.tolist()) - {0}
    assert found <= allowed
    assert {code // 100 for code in found} >= {1, 2, 3, 4, 5, 6, 7, 8}


def expanded(codes: str) -> set[int]:
    """The numbers of a list of codes and ranges."""
    ends = [(each.split("-")[0], each.split("-")[-1]) for each in codes.split(",")]
    return {code for first, last in ends for code in range(int(first), int(last) + 1)}


def test_every_household_has_one_householder_who_comes_first_and_a_partner_next(records: Records) -> None:
    home, relationship, woman, age, *_ = _members(records)
    first = np.flatnonzero(np.diff(home, prepend=-1))
    assert np.array_equal(np.flatnonzero(relationship == 20), first)
    partner = np.flatnonzero(np.isin(relationship, (*SPOUSES, *PARTNERS)))
    assert np.isin(partner - 1, first).all()
    other_sex = woman[partner] != woman[partner - 1]
    assert np.array_equal(other_sex, np.isin(relationship[partner], (21, 22)))
    assert (np.abs(age[partner] - age[partner - 1]) <= 35).all()


@pytest.mark.parametrize(
    ("relationship", "least", "most"),
    [(25, -52, -15), (26, -52, -15), (27, -52, -15), (29, 15, 45), (30, -85, -32), (31, 15, 45), (32, -52, -15)],
)
def test_generations_are_years_apart(records: Records, relationship: int, least: int, most: int) -> None:
    home, each, _, age, *_ = _members(records)
    head = age[each == 20]
    older = (age - head[home])[each == relationship]
    assert len(older) > 0
    assert least <= older.min()
    assert older.max() <= most


def test_nobody_is_where_the_product_of_persons_has_structural_zeros(records: Records) -> None:
    coded = PERSON.file_recodes["cef_2020"].attributes
    quarters = records.quarters[records.unit]
    alone = (np.bincount(records.unit)[records.unit] == 1) & (records.relationship == 20)
    codes = {
        "RELGQ": np.where(quarters > 0, quarters, np.where(alone, 19, records.relationship)),
        "QSEX": 1 + records.woman,
        "QAGE": records.age,
        "CENHISP": 1 + records.hispanic,
        "CENRACE": 1 + records.race,
    }
    levels = [
        coded[attribute.name].level_of(codes[coded[attribute.name].name]) for attribute in PERSON.schema.attributes
    ]
    assert min(level.min() for level in levels) >= 0
    cells = np.ravel_multi_index(levels, PERSON.schema.shape)
    assert not PERSON.zero_cells()[cells].any()
    relgq = np.unique(levels[0])
    assert set(range(18)) <= set(relgq.tolist())


def _fields_of_type(derived: dict[str, np.ndarray]) -> np.ndarray:
    """The seven fields of the type of each household as one number, (households,)."""
    ages = np.array([0, 1, 2, 3, 0])
    fields = (
        np.array([4, 0, 1, 2, 3, 4])[derived["CPLT"]],
        ages[derived["PAOC"]],
        ages[derived["PAC"]],
        derived["P18"] > 0,
        np.isin(derived["HHT"], (1, 2, 3)),
        derived["MULTG"] == 2,
        np.minimum(derived["FINAL_POP"], 7),
    )
    return sum(np.asarray(field) * value for field, value in zip(fields, HOUSEHOLD_PLACE_VALUES, strict=True))


def test_no_household_is_one_that_there_cannot_be(records: Records, derived: dict[str, np.ndarray]) -> None:
    coded = HOUSEHOLD.file_recodes["cef_2020"].attributes
    codes = derived | {
        "ELDERLY": np.select([derived[f"P{each}"] > 0 for each in (75, 65, 60)], [3, 2, 1], 0),
        "TEN": records.tenure[records.tenure > 0],
        "HHTYPE": _fields_of_type(derived),
    }
    levels = [
        coded[attribute.name].level_of(codes[coded[attribute.name].name]) for attribute in HOUSEHOLD.schema.attributes
    ]
    assert min(level.min() for level in levels) >= 0
    cells = np.ravel_multi_index(levels, HOUSEHOLD.schema.shape)
    broken = [zero.meaning for zero in HOUSEHOLD.structural_zeros if zero.mask(HOUSEHOLD.schema)[cells].any()]
    assert broken == []
    kinds = len(np.unique(levels[-1]))
    assert kinds > 300


def test_codes_of_a_household_are_those_that_the_microdata_give_its_type(derived: dict[str, np.ndarray]) -> None:
    by_code = {each.code: each for each in HOUSEHOLD_TYPES}
    rows = Counter(
        zip(
            _fields_of_type(derived).tolist(),
            (derived["HHSEX"] - 1).tolist(),
            *(derived[name].tolist() for name in ("HHT", "HHT2", "CPLT", "UPART", "MULTG", "PAOC", "PAC")),
            strict=True,
        )
    )
    for code, sex, *found in rows:
        each = by_code[code]
        expected = (
            household._household_type(sex, each),
            household._detailed_type(sex, each),
            household._couple_code(each),
            household._unmarried_partner(sex, each),
            1 + each.generations if each.size > 2 else 0,
            household._ages(each.own_children),
            household._ages(each.children),
        )
        assert found == [int(one) for one in expected]


def _recomputed(members: list[tuple[int, int, int, int, int]]) -> dict[str, int]:
    """The fields of one household, in plain words: members are (relationship, woman, age, Hispanic, race)."""
    (_, woman, age, hispanic, race), *others = members
    size = len(members)
    relationships = [member[0] for member in members]
    couple = next((code for code, each in enumerate((21, 23, 22, 24), start=1) if each in relationships), 5)
    relatives = any(relationship in SPOUSES or 25 <= relationship <= LAST_RELATIVE for relationship in relationships)

    def ages(of: list[int]) -> int:
        young, grown = any(each < 6 for each in of), any(6 <= each < 18 for each in of)
        return {(True, False): 1, (False, True): 2, (True, True): 3, (False, False): 4}[young, grown]

    own = ages([other[2] for other in others if other[0] in OWN])
    everybody = ages([other[2] for other in others if other[0] not in (*SPOUSES, *PARTNERS)])
    if couple <= 2:
        kind, detailed = 1, 1 if own < 4 else 2
    elif couple <= 4:
        kind, detailed = 0, 3 if own < 4 else 4
    else:
        kind = 0
        detailed = 1 if size == 1 else 2 if own < 4 else 3 if relatives else 4
        detailed += 4 if woman else 8
    kind = kind or (2 + woman if relatives else (6 if woman else 4) + (size > 1))
    generations = {1: {29, 31}, -1: {*OWN, 32}, -2: {30}}
    spread = {0} | {step for step, codes in generations.items() if codes & set(relationships)}
    together = len({0, *spread}) >= 3 or {1, -2} <= spread
    unmarried = 5
    if couple in (3, 4):
        other = next(other[1] for other in others if other[0] in PARTNERS)
        unmarried = {(0, 0): 1, (0, 1): 2, (1, 1): 3, (1, 0): 4}[woman, other]
    return {
        "FINAL_POP": size,
        "HHLDRAGE": age,
        "HHSPAN": hispanic + 1,
        "HHLDRACE": min(race + 1, 6),
        "HHRACE": race + 1,
        "HHSEX": woman + 1,
        "HHT": kind,
        "HHT2": detailed,
        "CPLT": 0 if size == 1 else couple,
        "UPART": 0 if size == 1 else unmarried,
        "MULTG": 0 if size < 3 else 1 + together,
        "PAOC": own,
        "PAC": everybody,
        "P18": sum(member[2] < 18 for member in members),
        **{f"P{least}": sum(member[2] >= least for member in members) for least in (60, 65, 75)},
    }


def test_fields_of_units_are_what_their_members_say(records: Records, derived: dict[str, np.ndarray]) -> None:
    home, *people = _members(records)
    first = np.searchsorted(home, np.arange(len(derived["FINAL_POP"])))
    last = np.append(first[1:], len(home))
    rows = list(zip(*(person.tolist() for person in people), strict=True))
    large = np.flatnonzero(derived["FINAL_POP"] > 4)[:2_000]
    for place in [*range(0, len(first), 20), *large.tolist()]:
        expected = _recomputed(rows[first[place] : last[place]])
        assert {name: int(values[place]) for name, values in derived.items()} == expected


def test_fields_of_no_household_are_empty() -> None:
    nobody = np.empty(0, dtype=np.int64)
    assert all(len(field) == 0 for field in household_fields(*[nobody] * 6).values())


def test_the_same_seed_gives_the_same_people_and_another_seed_others(records: Records) -> None:
    again, other = (_joined(list(People2020.of(seed, SHARE).records())) for seed in (SEED, SEED + 1))
    for name in Records.__slots__:
        assert np.array_equal(getattr(records, name), getattr(again, name))
    assert len(records.unit) != len(other.unit)


def test_people_come_some_blocks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census_2020, "_PERSONS_AT_ONCE", 2_000)
    state = People2020.of(SEED, Fraction(1, 1000))
    parts = list(state.records())
    assert len(parts) > 3
    ends = [(int(part.block[0]), int(part.block[-1])) for part in parts]
    assert all(last < first for (_, last), (first, _) in pairwise(ends))
    vacant = sum(int((part.vacancy > 0).sum()) for part in parts)
    assert vacant == LIKES["2020-state"].make(20, SEED, Fraction(1, 1000)).vacant.sum()


#: Published shares of the households of 2020, percent: sizes 1 to 7 and more, and the kinds of households.
SIZES = (27.6, 34.0, 15.2, 12.7, 6.3, 2.5, 1.7)


def test_shares_are_near_the_published_ones(records: Records, derived: dict[str, np.ndarray]) -> None:
    homes = len(derived["HHT"])
    sizes = np.bincount(np.minimum(derived["FINAL_POP"], 7), minlength=8)[1:] / homes * 100
    assert sizes == pytest.approx(SIZES, abs=1.0)
    assert derived["FINAL_POP"].mean() == pytest.approx(2.53, abs=0.06)
    couples = np.bincount(derived["CPLT"], minlength=6) / homes * 100
    assert couples[1] + couples[2] == pytest.approx(46.5, abs=1.5)
    assert couples[3] + couples[4] == pytest.approx(6.8, abs=1.0)
    assert couples[2] + couples[4] == pytest.approx(0.9, abs=0.3)
    tenure = np.bincount(records.tenure, minlength=5)[1:] / homes * 100
    assert tenure[0] + tenure[1] == pytest.approx(63.1, abs=3)
    assert tenure[3] == pytest.approx(2, abs=1)
    vacant = (records.vacancy > 0).sum()
    assert vacant / (vacant + homes) * 100 == pytest.approx(9.7, abs=2)
    everybody = len(records.unit)
    assert (records.relationship > LAST_AT_HOME).sum() / everybody * 100 == pytest.approx(2.4, abs=0.8)
    assert (records.age < 18).mean() * 100 == pytest.approx(22.1, abs=1.5)
    assert (records.age >= 65).mean() * 100 == pytest.approx(16.8, abs=2)
    assert records.woman.mean() * 100 == pytest.approx(50.9, abs=1)
    assert (derived["P18"] > 0).mean() * 100 == pytest.approx(31, abs=3)
    assert (derived["MULTG"] == 2).mean() * 100 == pytest.approx(5, abs=1)


def test_members_of_a_family_are_more_alike_than_neighbours(records: Records) -> None:
    home, relationship, *_, hispanic, race = _members(records)
    head = relationship == 20
    group = hispanic * 63 + race
    like = (group == group[head][home])[relationship == 25].mean()
    block = records.block[records.unit[records.relationship <= LAST_AT_HOME]]
    strangers = (group[head][:-1] == group[head][1:])[np.diff(block[head]) == 0].mean()
    assert like > 0.8 > strangers + 0.1
