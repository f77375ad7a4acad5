"""Bounds from units: the worked examples of the releases, laws, and the way up the spine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from das_spark.constraints import UnitBounds, bounds_up_the_spine, divisible, tighten
from das_spark.errors import ConfigurationError, InputError

E2E = UnitBounds(least=(1,) * 8, most=(99, *(99_999,) * 7), cap_when_total_known=False)
DDP = UnitBounds(least=(0, *(1,) * 7), most=(99, *(99_999,) * 7), cap_when_total_known=True)
PL94 = UnitBounds(least=(0, *(1,) * 7), most=(99_999,) * 8, cap_when_total_known=True)
ONE_TO_EIGHT = (1, 2, 3, 4, 5, 6, 7, 8)
CAPACITIES = (99, 199_998, 299_997, 399_996, 499_995, 599_994, 699_993, 799_992)

WORKED_EXAMPLES = [
    (PL94, ONE_TO_EIGHT, 1000, (0, 2, 3, 4, 5, 6, 7, 8), (965, 967, 968, 969, 970, 971, 972, 973)),
    (DDP, ONE_TO_EIGHT, 1000, (0, 2, 3, 4, 5, 6, 7, 8), (99, 967, 968, 969, 970, 971, 972, 973)),
    (DDP, ONE_TO_EIGHT, None, (0, 2, 3, 4, 5, 6, 7, 8), CAPACITIES),
    (PL94, (0, 0, 3, 0, 0, 0, 0, 0), 40, (0, 0, 40, 0, 0, 0, 0, 0), (0, 0, 40, 0, 0, 0, 0, 0)),
    (PL94, (10, 0, 0, 2, 0, 0, 0, 0), 40, (0, 0, 0, 2, 0, 0, 0, 0), (38, 0, 0, 40, 0, 0, 0, 0)),
    (E2E, ONE_TO_EIGHT, 1000, ONE_TO_EIGHT, (965, 966, 967, 968, 969, 970, 971, 972)),
    (E2E, ONE_TO_EIGHT, None, ONE_TO_EIGHT, CAPACITIES),
    (E2E, (10, 0, 0, 2, 0, 0, 0, 0), 40, (10, 0, 0, 2, 0, 0, 0, 0), (38, 0, 0, 30, 0, 0, 0, 0)),
]


@pytest.mark.parametrize(("formulas", "units", "total", "lower", "upper"), WORKED_EXAMPLES)
def test_worked_examples(
    formulas: UnitBounds, units: tuple[int, ...], total: int | None, lower: tuple[int, ...], upper: tuple[int, ...]
) -> None:
    many = np.array([units])
    totals = None if total is None else np.array([total])
    assert formulas.lower(many, totals).tolist() == [list(lower)]
    assert formulas.upper(many, totals).tolist() == [list(upper)]


def by_hand(formulas: UnitBounds, units: list[int], total: int | None) -> tuple[list[int], list[int]]:
    """The formulas class by class, in plain Python."""
    lower, upper = [], []
    for i, n in enumerate(units):
        others = sum(m * k for j, (m, k) in enumerate(zip(formulas.least, units, strict=True)) if j != i)
        if total is None:
            lower.append(formulas.least[i] * n)
            upper.append(formulas.most[i] * n)
            continue
        lower.append(formulas.least[i] * n if sum(units) - n > 0 else total)
        left = total - others if n > 0 else 0
        upper.append(min(left, formulas.most[i] * n) if formulas.cap_when_total_known else left)
    return lower, upper


@given(
    st.sampled_from([E2E, DDP, PL94]),
    st.lists(st.tuples(st.lists(st.integers(0, 30), min_size=8, max_size=8), st.integers(0, 500)), min_size=1),
    st.booleans(),
)
def test_many_geounits_at_once_are_the_formulas_one_by_one(
    formulas: UnitBounds, geounits: list[tuple[list[int], int]], known: bool
) -> None:
    units = np.array([each for each, _ in geounits])
    total = np.array([people for _, people in geounits]) if known else None
    expected = [by_hand(formulas, each, people if known else None) for each, people in geounits]
    assert formulas.lower(units, total).tolist() == [lower for lower, _ in expected]
    assert formulas.upper(units, total).tolist() == [upper for _, upper in expected]


@given(st.data(), st.sampled_from([E2E, DDP, PL94]), st.booleans())
def test_people_that_live_in_the_units_are_within_the_bounds(
    data: st.DataObject, formulas: UnitBounds, known: bool
) -> None:
    units = data.draw(arrays(np.int64, (3, 8), elements=st.integers(0, 4)))
    people = np.zeros((3, 8), dtype=np.int64)
    for place in np.ndindex(3, 8):
        i = place[1]
        occupancy = st.integers(formulas.least[i], min(formulas.most[i], 200))
        people[place] = sum(data.draw(occupancy) for _ in range(units[place]))
    total = people.sum(axis=1) if known else None
    lower, upper = formulas.lower(units, total), formulas.upper(units, total)
    assert (lower <= people).all()
    assert (people <= upper).all()
    assert divisible(lower, upper, people.sum(axis=1)).all()


def test_no_units_and_no_people_is_fine_and_no_units_with_people_is_not() -> None:
    units, total = np.zeros((2, 8), dtype=np.int64), np.array([0, 5])
    assert divisible(E2E.lower(units, total), E2E.upper(units, total), total).tolist() == [True, False]


def test_more_households_than_people_cannot_be_divided() -> None:
    units, total = np.array([[10, 0, 0, 2, 0, 0, 0, 0], [10, 0, 0, 2, 0, 0, 0, 0]]), np.array([11, 12])
    assert divisible(E2E.lower(units, total), E2E.upper(units, total), total).tolist() == [False, True]


@given(st.data())
def test_divisible_says_whether_margins_exist(data: st.DataObject) -> None:
    lower = data.draw(arrays(np.int64, (4, 3), elements=st.integers(0, 3)))
    upper = data.draw(arrays(np.int64, (4, 3), elements=st.integers(0, 4)))
    total = data.draw(arrays(np.int64, (4,), elements=st.integers(0, 10)))
    good, boxes = divisible(lower, upper, total), divisible(lower, upper)
    for k in range(4):
        margins = [
            margin
            for margin in np.ndindex(5, 5, 5)
            if all(low <= s <= high for low, s, high in zip(lower[k], margin, upper[k], strict=True))
        ]
        assert boxes[k] == bool(margins)
        assert good[k] == any(sum(margin) == total[k] for margin in margins)


def test_the_tighter_of_own_and_summed_is_taken_class_by_class() -> None:
    lower, upper = tighten(np.array([[1, 5]]), np.array([[9, 9]]), np.array([[2, 3]]), np.array([[7, 12]]))
    assert lower.tolist() == [[2, 5]]
    assert upper.tolist() == [[7, 9]]


def test_bounds_go_up_the_spine_as_sums_tightened_where_the_total_is_known() -> None:
    # Two states; the first has two districts, the second one. Two classes: households of 1 to 3, facilities of 1 to 50.
    formulas = UnitBounds(least=(1, 1), most=(3, 50), cap_when_total_known=False)
    units = np.array([[2, 0], [1, 1], [4, 0]])
    parents = (np.array([0, 0]), np.array([0, 0, 1]))
    totals = (np.array([17]), np.array([10, 7]), None)
    nation, states, districts = bounds_up_the_spine(formulas, units, parents, totals)
    assert [bound.tolist() for bound in districts] == [[[2, 0], [1, 1], [4, 0]], [[6, 0], [3, 50], [12, 0]]]
    # State 1 alone: households 3 to 9 (10 - 1, and 9 fit), facility 1 to 7 (10 - 3). State 2: everybody in households.
    assert [bound.tolist() for bound in states] == [[[3, 1], [7, 0]], [[9, 7], [7, 0]]]
    assert [bound.tolist() for bound in nation] == [[[10, 1]], [[16, 7]]]


@pytest.mark.parametrize(("least", "most"), [((), ()), ((1,), (9, 9)), ((-1,), (9,)), ((5,), (4,)), ((1, 5), (9, 4))])
def test_formulas_that_contradict_themselves_are_refused(least: tuple[int, ...], most: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError):
        UnitBounds(least=least, most=most, cap_when_total_known=True)


@pytest.mark.parametrize(
    ("units", "total"),
    [
        (np.zeros((2, 7), dtype=np.int64), None),
        (np.zeros(8, dtype=np.int64), None),
        (np.zeros((2, 8)), None),
        (np.full((1, 8), -1), None),
        (np.full((1, 8), 2**60), None),
        (np.zeros((2, 8), dtype=np.int64), np.zeros(3, dtype=np.int64)),
        (np.zeros((2, 8), dtype=np.int64), np.zeros(2)),
        (np.zeros((2, 8), dtype=np.int64), np.array([3, -1])),
    ],
)
def test_impossible_units_and_totals_are_refused_without_showing_them(
    units: np.ndarray, total: np.ndarray | None
) -> None:
    with pytest.raises(InputError) as lower:
        E2E.lower(units, total)
    with pytest.raises(InputError):
        E2E.upper(units, total)
    assert str(2**60) not in str(lower.value)
    assert "-1" not in str(lower.value)


def test_no_geounits_give_no_bounds() -> None:
    assert E2E.lower(np.zeros((0, 8), dtype=np.int64)).shape == (0, 8)
    assert E2E.upper(np.zeros((0, 8), dtype=np.int64), np.zeros(0, dtype=np.int64)).shape == (0, 8)
