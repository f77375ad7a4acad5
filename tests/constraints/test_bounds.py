"""Class bounds, and flows between areas: formulas, enumeration, the published counterexample, the search for others."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from das_spark.constraints import UnitBounds, bounds_up_the_spine, divisible, find_flows, tighten
from das_spark.constraints import bounds as bounds_module
from das_spark.errors import ConfigurationError, EstimationError, InputError

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


def flow_feasible(margins, lower, upper, total):
    return find_flows(margins, lower, upper, total) is not None


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
    good, of_classes = divisible(lower, upper, total), divisible(lower, upper)
    for k in range(4):
        margins = [
            margin
            for margin in np.ndindex(5, 5, 5)
            if all(low <= s <= high for low, s, high in zip(lower[k], margin, upper[k], strict=True))
        ]
        assert of_classes[k] == bool(margins)
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


#: Capacity-bound classes, so that every kind of bound binds in small cases.
TOY = UnitBounds(least=(1, 1, 0), most=(2, 4, 3), cap_when_total_known=False)


def margins_within(lower: np.ndarray, upper: np.ndarray, total: int | None) -> list[tuple[int, ...]]:
    """Every margin in a box, with the given sum if there is one."""
    ranges = [range(int(low), int(high) + 1) for low, high in zip(lower, upper, strict=True)]
    return [margin for margin in product(*ranges) if total is None or sum(margin) == total]


def reachable_sums(lower: np.ndarray, upper: np.ndarray, total: np.ndarray) -> set[tuple[int, ...]]:
    """Sums over the areas of every choice of one margin an area: all margins that can be divided."""
    sums = {(0,) * lower.shape[1]}
    for low, high, people in zip(lower, upper, total, strict=True):
        area = margins_within(low, high, int(people))
        sums = {tuple(map(sum, zip(one, other, strict=True))) for one in sums for other in area}
    return sums


def gale(margins: np.ndarray, lower: np.ndarray, upper: np.ndarray, total: np.ndarray) -> bool:
    """Gale's condition, in integers: no set of classes asks for more than the areas can put into it."""
    left, wanted, room = total - lower.sum(1), margins - lower.sum(0), upper - lower
    if (left < 0).any() or (room < 0).any() or left.sum() != wanted.sum():
        return False
    for chosen in product([False, True], repeat=len(margins)):
        inside = np.array(chosen)
        if wanted[inside].sum() > np.minimum(left, room[:, inside].sum(1)).sum():
            return False
    return bool((wanted >= 0).all())


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 3))
def test_the_program_agrees_with_enumeration(data: st.DataObject, areas: int, classes: int) -> None:
    lower = data.draw(arrays(np.int64, (areas, classes), elements=st.integers(0, 2)))
    upper = lower + data.draw(arrays(np.int64, (areas, classes), elements=st.integers(-1, 3)))
    total = data.draw(arrays(np.int64, (areas,), elements=st.integers(0, 6)))
    reachable = reachable_sums(lower, upper, total)
    near = data.draw(arrays(np.int64, (classes,), elements=st.integers(0, 6)))
    for margins in [near, *(np.array(each) for each in sorted(reachable)[:3])]:
        assert flow_feasible(margins, lower, upper, total) == (tuple(margins.tolist()) in reachable)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 12), st.integers(0, 8))
def test_the_program_agrees_with_gales_condition_on_large_numbers(
    data: st.DataObject, areas: int, slack_bits: int
) -> None:
    flows = data.draw(arrays(np.int64, (areas, 5), elements=st.integers(0, 10**8)))
    slack = st.integers(0, 2**slack_bits)
    lower = np.maximum(flows - data.draw(arrays(np.int64, (areas, 5), elements=slack)), 0)
    upper = flows + data.draw(arrays(np.int64, (areas, 5), elements=slack))
    moved = data.draw(st.integers(-(2 ** (slack_bits + 2)), 2 ** (slack_bits + 2)))
    margins = flows.sum(0) + np.array([moved, -moved, 0, 0, 0])
    found = find_flows(margins, lower, upper, flows.sum(1))
    assert (found is not None) == gale(margins, lower, upper, flows.sum(1))
    if found is not None:
        assert found.dtype == np.int64
        assert ((lower <= found) & (found <= upper)).all()
        assert (found.sum(0) == margins).all()
        assert (found.sum(1) == flows.sum(1)).all()


def test_the_known_counterexample_meets_every_summed_bound_and_has_no_division() -> None:
    formulas = UnitBounds(least=(1,) * 4, most=(99, *(99_999,) * 3), cap_when_total_known=False)
    units = np.array([[1, 1, 1, 0], [1, 0, 0, 1]])
    totals = (np.array([110]), np.array([10, 100]), None)
    nation, states, _ = bounds_up_the_spine(formulas, units, (np.array([0, 0]), np.array([0, 1])), totals)
    margins = np.array([2, 8, 8, 92])
    assert divisible(*nation, totals[0]).all()
    assert (nation[0][0] <= margins).all()
    assert (margins <= nation[1][0]).all()
    assert margins.sum() == 110
    assert not flow_feasible(margins, *states, totals[1])
    assert tuple(margins.tolist()) not in reachable_sums(*states, totals[1])
    # Moved a little it can be divided: ten people in state A, one in the household of B.
    assert flow_feasible(np.array([2, 5, 4, 99]), *states, totals[1])


@st.composite
def small_nations(draw: st.DrawFn) -> tuple[np.ndarray, list[np.ndarray], np.ndarray, np.ndarray]:
    """Units of districts, parents from states down, people of districts by class, and the state of each district."""
    counties = draw(st.lists(st.integers(0, 1), min_size=2, max_size=3).map(sorted))
    counties = [county - counties[0] for county in counties]
    county_state = np.array(counties)
    district_county = np.repeat(np.arange(len(counties)), draw(st.integers(1, 2)))
    units = draw(arrays(np.int64, (len(district_county), 3), elements=st.integers(0, 1)))
    people = np.zeros_like(units)
    for place in np.ndindex(*units.shape):
        if units[place]:
            people[place] = draw(st.integers(TOY.least[place[1]], TOY.most[place[1]]))
    return (
        units,
        [np.zeros(county_state.max() + 1, dtype=np.int64), county_state, district_county],
        people,
        county_state,
    )


def summed(values: np.ndarray, parent: np.ndarray) -> np.ndarray:
    sums = np.zeros((parent.max() + 1, *values.shape[1:]), dtype=np.int64)
    np.add.at(sums, parent, values)
    return sums


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(small_nations())
def test_what_flows_to_the_states_divides_at_every_level_below(
    nation_of: tuple[np.ndarray, list[np.ndarray], np.ndarray, np.ndarray],
) -> None:
    units, parents, people, county_state = nation_of
    state_people = summed(summed(people, parents[2]), county_state).sum(1)
    totals = (np.array([state_people.sum()]), state_people, None, None)
    nation, states, counties, districts = bounds_up_the_spine(TOY, units, parents, totals)
    reachable = reachable_sums(*states, state_people)
    for margin in margins_within(nation[0][0], nation[1][0], int(totals[0][0])):
        # Flows are the whole truth at the root: nothing divisible is excluded and nothing indivisible let in.
        assert flow_feasible(np.array(margin), *states, state_people) == (margin in reachable)
    for k, people_of_state in enumerate(state_people):
        for margin in margins_within(states[0][k], states[1][k], int(people_of_state)):
            assert divides(margin, counties[0][county_state == k], counties[1][county_state == k])
    for k in range(len(county_state)):
        for margin in margins_within(counties[0][k], counties[1][k], None):
            inside = parents[2] == k
            assert divides(margin, districts[0][inside], districts[1][inside])


def divides(margin: tuple[int, ...], lower: np.ndarray, upper: np.ndarray) -> bool:
    """Whether children without totals can take a margin: class by class, by enumeration."""
    for j, people in enumerate(margin):
        ranges = [range(int(low), int(high) + 1) for low, high in zip(lower[:, j], upper[:, j], strict=True)]
        if not any(sum(choice) == people for choice in product(*ranges)):
            return False
    return True


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(small_nations())
def test_with_county_totals_flows_to_the_counties_divide_among_the_states_and_below(
    nation_of: tuple[np.ndarray, list[np.ndarray], np.ndarray, np.ndarray],
) -> None:
    units, parents, people, county_state = nation_of
    county_people = summed(people, parents[2]).sum(1)
    state_people = summed(county_people, county_state)
    totals = (np.array([state_people.sum()]), state_people, county_people, None)
    nation, _, counties, _ = bounds_up_the_spine(TOY, units, parents, totals)
    of_state = [
        reachable_sums(counties[0][county_state == k], counties[1][county_state == k], county_people[county_state == k])
        for k in range(len(state_people))
    ]
    through_states = {
        tuple(map(sum, zip(*choice, strict=True))) for choice in product(*[sorted(sums) for sums in of_state])
    }
    for margin in margins_within(nation[0][0], nation[1][0], int(totals[0][0])):
        assert flow_feasible(np.array(margin), *counties, county_people) == (margin in through_states)


def test_no_area_takes_nobody() -> None:
    nothing = np.zeros((0, 2), dtype=np.int64)
    assert flow_feasible(np.array([0, 0]), nothing, nothing, np.zeros(0, dtype=np.int64))
    assert not flow_feasible(np.array([0, 1]), nothing, nothing, np.zeros(0, dtype=np.int64))


def test_shapes_that_do_not_fit_are_refused() -> None:
    box = np.zeros((2, 3), dtype=np.int64)
    with pytest.raises(InputError):
        flow_feasible(np.zeros(2, dtype=np.int64), box, box, np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize(("status", "flow"), [(4, 1.0), (1, 1.0), (0, 0.0), (0, 2.0)])
def test_an_answer_of_the_program_that_is_no_proof_is_never_believed(
    monkeypatch: pytest.MonkeyPatch, status: int, flow: float
) -> None:
    box = np.ones((2, 2), dtype=np.int64)
    answer = SimpleNamespace(status=status, x=np.full(4, flow), message="planted")
    monkeypatch.setattr(bounds_module, "linprog", lambda *_, **__: answer)
    two = np.array([2, 2])
    with pytest.raises(EstimationError, match="planted"):
        flow_feasible(two, 0 * box, 2 * box, two)
