"""Synthetic inputs of every run file of the project: neighbours within the invariants that exercise the budget."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from das_spark.audit import SmallPopulation
from das_spark.audit.inputs import _require_neighbours, neighbouring_inputs
from das_spark.config import load_plan
from das_spark.errors import PrivacyGuardError

CONF = Path(__file__).parents[2] / "conf"
FILES = ("quickstart", "e2e_2018", "e2e_1940", "dallas_2010", "pl94_2020_person", "pl94_2020_unit", "pl94_2020_state")


def plan_of(name: str, *settings: str):
    return load_plan(CONF / f"{name}.toml", (), settings, files=False)


@pytest.fixture(scope="module", params=FILES)
def made(request):
    plan = plan_of(request.param)
    return plan, neighbouring_inputs(plan)


def test_one_record_is_replaced_and_units_stay(made):
    _, pairs = made
    assert [pair.name for pair in pairs] == ["crowd", "lone"]
    for pair in pairs:
        change = pair.first.counts - pair.second.counts
        assert sorted(change[change != 0].tolist()) == [-1, 1]
        np.testing.assert_array_equal(pair.first.units, pair.second.units)
        assert pair.first.geocodes == pair.second.geocodes


def test_totals_agree_where_they_are_invariant_and_the_geounits_differ_below(made):
    plan, (crowd, _) = made
    exact = plan.spine.index(plan.invariants.total_at)
    for depth, level in enumerate(plan.spine.levels):
        codes = [leaf[: level.length] for leaf in crowd.leaves]
        assert (codes[0] == codes[1]) == (depth <= exact or exact == len(plan.spine.levels) - 1)


def test_people_keep_to_units_and_to_structural_zeros(made):
    plan, pairs = made
    schema = plan.product.schema
    for pair in pairs:
        for side in (pair.first, pair.second):
            for zero in plan.product.structural_zeros:
                assert not side.counts[:, zero.mask(schema)].any()
            if plan.product.unit_bounds is not None:
                people = schema.query(plan.product.class_query).answer_dense(side.counts)
                least, most = (
                    np.array(ends) for ends in (plan.product.unit_bounds.least, plan.product.unit_bounds.most)
                )
                assert (people >= side.units * least).all()
                assert (people <= side.units * most).all()


def test_every_geounit_on_the_paths_has_a_sibling_so_that_nothing_on_them_goes_unmeasured(made):
    plan, (crowd, _) = made
    for above, level in zip(plan.spine.levels[:-1], plan.spine.levels[1:], strict=True):
        codes = {code[: level.length] for code in crowd.first.geocodes}
        for leaf in crowd.leaves:
            parent = leaf[: above.length]
            assert sum(code.startswith(parent) for code in codes) >= 2


def test_answers_that_differ_differ_by_one_and_spend_all_that_the_invariants_leave(made):
    plan, pairs = made
    for pair in pairs:
        differing = [one for one in pair.answers if one.differs]
        assert {abs(one.first - one.second) for one in differing} == {1}
        assert sum(pair.mechanisms.values()) == len(differing)
        by_query: dict = {}
        for one in differing:
            by_query.setdefault((one.geolevel, one.query), []).append(one)
        assert all(len(answers) == 2 for answers in by_query.values()), "one answer less, one more: sensitivity 2"
        spent = sum((plan.budget.spent(*key) for key in by_query), Fraction(0))
        assert pair.exercised == spent
        # What cannot differ: exact totals that are measured all the same.
        idle = [
            (level.geolevel, item.query)
            for level in plan.budget.levels
            for item in level.queries
            if (level.geolevel, item.query) not in by_query
        ]
        assert {query for _, query in idle} <= {"total"}
        assert spent == plan.budget.total - sum((plan.budget.spent(*key) for key in idle), Fraction(0))


def test_the_lone_record_is_the_only_one_of_its_second_kind(made):
    _, (crowd, lone) = made
    assert lone.first.counts[:, lone.cells[1]].sum() == 0
    assert lone.second.counts[:, lone.cells[1]].sum() == 1
    assert (crowd.first.counts[:, crowd.cells[1]] > 10).all()


def test_bystanders_have_the_number_of_an_answer_that_differs_in_another_query(made):
    _, (crowd, _) = made
    places = {(one.geolevel, one.geocode, one.row) for one in crowd.answers if one.differs}
    bystanders = [one for one in crowd.answers if not one.differs]
    assert {(one.geolevel, one.geocode, one.row) for one in bystanders} <= places
    assert len({one.text for one in crowd.answers}) == len(crowd.answers)


def test_without_exact_totals_the_record_may_go_to_another_root():
    free = neighbouring_inputs(plan_of("quickstart", "invariants.total_at=none", "invariants.units=false"))[0]
    assert free.leaves[0][:5] != free.leaves[1][:5]
    nation = neighbouring_inputs(plan_of("e2e_1940", "invariants.total_at=none", "invariants.units=false"))[0]
    assert nation.leaves[0][:2] != nation.leaves[1][:2]


def test_exact_totals_in_the_leaf_keep_the_record_there():
    plan = plan_of("quickstart", "invariants.total_at=Block")
    pair = neighbouring_inputs(plan)[0]
    assert pair.leaves[0] == pair.leaves[1]
    assert pair.cells[0] != pair.cells[1]
    assert pair.exercised == plan.budget.total


def test_inputs_that_disagree_in_an_invariant_are_refused():
    plan = plan_of("quickstart")
    pair = neighbouring_inputs(plan)[0]
    other_units = SmallPopulation(pair.second.geocodes, pair.second.counts, pair.second.units + 1)
    with pytest.raises(PrivacyGuardError, match="no neighbours"):
        _require_neighbours(plan, pair.first, other_units)
    counts = pair.first.counts.copy()
    counts[0, pair.cells[0]] += 2
    with pytest.raises(PrivacyGuardError, match="no neighbours"):
        _require_neighbours(plan, pair.first, SmallPopulation(pair.first.geocodes, counts, pair.first.units))


def test_all_records_of_a_contributor_differ_between_neighbours():
    plan = plan_of("hospital_stays_like")
    for pair in neighbouring_inputs(plan):
        change = pair.first.counts - pair.second.counts
        assert sorted(change[change != 0].tolist()) == [-3, 3]
        assert {abs(one.first - one.second) for one in pair.answers if one.differs} == {pair.by} == {3}
        assert "the 3 of one contributor" in pair.text
    pair = neighbouring_inputs(plan)[0]
    one_less = pair.second.counts.copy()
    one_less[tuple(np.argwhere(pair.first.counts - pair.second.counts < 0)[0])] -= 1
    second = SmallPopulation(pair.second.geocodes, one_less, pair.second.units)
    with pytest.raises(PrivacyGuardError, match="no neighbours"):
        _require_neighbours(plan, pair.first, second)


def test_geounits_with_codes_of_their_own_are_told_apart_at_every_level():
    plan = plan_of("own_codes_like")
    for pair in neighbouring_inputs(plan):
        assert list(pair.first.geocodes) == sorted(pair.first.geocodes)
        for level in plan.spine.levels:
            geounits = {geocode[: level.length] for geocode in pair.first.geocodes}
            assert len({level.own_code(geocode) for geocode in geounits}) == len(geounits)
        assert len(pair.first.geocodes) > 2
