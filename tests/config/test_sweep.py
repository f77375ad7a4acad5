"""Grids of budgets: read exactly, named the same every time, and refused with all that is wrong at once."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.config import difference, load_plan, load_sweep, sample_shares, without_total
from das_spark.errors import ConfigurationError
from das_spark.evaluation.samples import SHARES

CONF = Path(__file__).parents[2] / "conf"
QUICKSTART = CONF / "quickstart.toml"
ZCDP = CONF / "pl94_2020_person.toml"


def test_a_grid_has_every_run_at_every_budget_in_the_order_asked_for():
    plan = load_sweep(QUICKSTART, epsilon=["0.25", " 4", "1/3"], runs=2)
    assert plan.totals == (Fraction(1, 4), Fraction(4), Fraction(1, 3))
    assert [(run.run_id, run.total, run.number) for run in plan] == [
        ("quickstart-epsilon-1_4-run-1", Fraction(1, 4), 1),
        ("quickstart-epsilon-1_4-run-2", Fraction(1, 4), 2),
        ("quickstart-epsilon-4-run-1", 4, 1),
        ("quickstart-epsilon-4-run-2", 4, 2),
        ("quickstart-epsilon-1_3-run-1", Fraction(1, 3), 1),
        ("quickstart-epsilon-1_3-run-2", Fraction(1, 3), 2),
    ]
    assert all(run.plan.budget.total == run.total for run in plan)
    assert plan.shares == tuple(Fraction(share, 100) for share in range(5, 100, 5))


@given(st.lists(st.fractions(Fraction(1, 1000), 20), min_size=1, max_size=4, unique=True), st.integers(1, 5))
def test_the_cost_is_the_exact_sum_over_the_runs(totals, runs):
    plan = load_sweep(QUICKSTART, epsilon=totals, runs=runs)
    assert plan.cost == sum((run.total for run in plan), Fraction(0))
    assert len({run.run_id for run in plan}) == len(list(plan)) == runs * len(totals)


def test_the_plans_of_a_grid_are_those_of_the_run_file_with_another_total():
    plan = load_sweep(QUICKSTART, epsilon=["1/2", "3"], settings=["estimation.rounding=released"])
    for one in plan.plans:
        alone = load_plan(QUICKSTART, settings=["estimation.rounding=released", f"budget.epsilon={one.budget.total}"])
        assert one.config_hash == alone.config_hash
    first, second = plan.plans
    assert first != second
    assert without_total(first) == without_total(second)


def test_budgets_of_concentrated_privacy_are_called_rho():
    plan = load_sweep(ZCDP, rho=["0.5"], runs=1, files=False)
    assert plan.total_key == "rho"
    assert [run.run_id for run in plan] == ["pl94-2020-person-rho-1_2-run-1"]
    with pytest.raises(ConfigurationError, match="zcdp, whose total is called rho"):
        load_sweep(ZCDP, epsilon=["1"], files=False)


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(ConfigurationError) as caught:
        load_sweep(
            QUICKSTART,
            epsilon=["0.25", "x", "1/4", "0", "-1", "1/0"],
            runs=0,
            samples=["1", "0.5", "2/4", ""],
            settings=["budget.epsilon=2", "output.microdatum=text", "output.public=open", "run.product=e2e_2O18"],
        )
    said = str(caught.value)
    for expected in (
        "--epsilon: 'x' is not a number",
        "--epsilon: 1/4 stands twice",
        "--epsilon: 0 is not greater than 0",
        "--epsilon: -1 is not greater than 0",
        "--epsilon: '1/0' is not a number",
        "--runs: a sweep has 1 to 1,000 runs at each budget, not 0",
        "--samples: 1 is not greater than 0 and less than 1",
        "--samples: 2/4 stands twice",
        "--samples: '' is not a number",
        "--set budget.epsilon: the grid says the budget",
        "output.microdatum: unknown key",
        "output.public: a sweep compares both sides of its runs",
        "unknown product 'e2e_2O18'; did you mean 'e2e_2018'?",
    ):
        assert expected in said, expected


@pytest.mark.parametrize("grid", [{}, {"epsilon": ["1"], "rho": ["1"]}])
def test_a_grid_is_given_in_one_way(grid):
    with pytest.raises(ConfigurationError, match="one of --epsilon and --rho"):
        load_sweep(QUICKSTART, **grid)


def test_a_float_is_no_budget():
    with pytest.raises(ConfigurationError, match=r"--epsilon: expected an exact number, found float 0\.1"):
        load_sweep(QUICKSTART, epsilon=[0.1])


def test_a_run_file_of_several_runs_is_refused():
    with pytest.raises(ConfigurationError, match="names several runs"):
        load_sweep(CONF / "pl94_2020.toml", rho=["1"])


def test_no_samples_may_be_asked_for():
    assert load_sweep(QUICKSTART, epsilon=["1"], samples=()).shares == ()


def test_what_varies_is_laid_over_the_run_file_each_with_each():
    vary = ["estimation.rounding=nearest,released", "measurement.rows=all,support"]
    plan = load_sweep(QUICKSTART, epsilon=["1", "1/2"], vary=vary, runs=2)
    rounded = [(run.plan.estimation.rounding, run.plan.measurement_rows) for run in plan if run.number == 1]
    assert rounded == [pair for pair in product(("nearest", "released"), ("all", "support")) for _ in "ab"]
    assert plan.varied == {
        f"rounding {a}, rows {b}": (f"estimation.rounding={a}", f"measurement.rows={b}")
        for a in ("nearest", "released")
        for b in ("all", "support")
    }
    names = [run.run_id for run in plan]
    assert names[:3] == [
        "quickstart-rounding-nearest-rows-all-epsilon-1-run-1",
        "quickstart-rounding-nearest-rows-all-epsilon-1-run-2",
        "quickstart-rounding-nearest-rows-all-epsilon-1_2-run-1",
    ]
    assert len(set(names)) == 2 * 2 * 2 * 2
    assert plan.cost == 2 * 4 * Fraction(3, 2)
    one = next(iter(plan)).plan
    alone = load_plan(QUICKSTART, settings=["estimation.rounding=nearest", "measurement.rows=all", "budget.epsilon=1"])
    assert one.config_hash == alone.config_hash


def test_without_budgets_each_run_has_the_total_of_its_strategy():
    vary = ["budget.strategy=us,state"]
    plan = load_sweep(ZCDP, vary=vary, runs=1, files=False)
    alone = [load_plan(ZCDP, settings=[f"budget.strategy={name}"], files=False).budget for name in ("us", "state")]
    assert [run.plan.budget for run in plan] == alone
    assert plan.total_key == "rho"
    assert plan.cost == sum(each.total for each in alone)


def test_shares_vary_and_long_values_are_numbered():
    even = dict.fromkeys(("County", "Tract", "Block_Group", "Block"), "1/4")
    other = {**even, "County": "1/8", "Block": "3/8"}
    spelled = ["{" + ", ".join(f'{name} = "{share}"' for name, share in each.items()) + "}" for each in (even, other)]
    plan = load_sweep(QUICKSTART, epsilon=["1"], vary=[f"budget.geolevels={', '.join(spelled)}"], runs=1)
    found = [{level.geolevel: str(level.share) for level in each.budget.levels} for each in plan.plans]
    assert found == [even, other]
    assert plan.varied == {f"geolevels {at}": (f"budget.geolevels={text}",) for at, text in enumerate(spelled, 1)}
    assert [run.run_id for run in plan][1] == "quickstart-geolevels-2-epsilon-1-run-1"
    wrong = spelled[1].replace("3/8", "1/8")
    with pytest.raises(ConfigurationError, match=r"\(geolevels 2\)"):
        load_sweep(QUICKSTART, epsilon=["1"], vary=[f"budget.geolevels={spelled[0]},{wrong}"])


def test_keys_of_one_name_are_told_apart():
    vary = ["output.intervals.level=0.9,0.95", "output.replicates.level=0.9,0.95"]
    settings = ["output.replicates.runs=2", "measurement.rows=all"]
    plan = load_sweep(QUICKSTART, epsilon=["1"], vary=vary, settings=settings, runs=1)
    assert next(iter(plan.varied)) == "intervals.level 0.9, replicates.level 0.9"


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        (["budget.epsilon=1,2"], "the budgets of a sweep are given by --epsilon"),
        (["input.path=a,b"], "all runs of a sweep have the same input.path"),
        (["run.product=e2e_2018,e2e_1940"], "all runs of a sweep have the same run.product"),
        (["output.root=a,b"], "all runs of a sweep have the same output.root"),
        (["estimation.rounding=nearest"], "names one value"),
        (["estimation.rounding=nearest,nearest"], "nearest stands twice"),
        (["estimation.rounding=nearest,"], "a value is empty"),
        (["estimation.rounding"], "there is no '='"),
        (["measurement.rows=all,support"], "--set gives measurement.rows, too"),
        (["estimation.rounding=a,b", "estimation.rounding=c,d"], "estimation.rounding varies twice"),
        (["estimation.rounding=nearest,releasd"], "did you mean 'released'?"),
        (["estimation.roundings=nearest,released"], "unknown key"),
        (["estimation.estimator=top_down,'top_down'"], "are the same run, which would be paid for twice"),
    ],
)
def test_what_cannot_vary_is_refused(vary, said):
    with pytest.raises(ConfigurationError) as caught:
        load_sweep(QUICKSTART, epsilon=["1"], vary=vary, settings=["measurement.rows=all"])
    assert said in str(caught.value)


def test_what_is_wrong_with_one_variant_names_it():
    with pytest.raises(ConfigurationError) as caught:
        load_sweep(QUICKSTART, epsilon=["1"], vary=["estimation.rounding=nearest,wrong"])
    assert "(rounding wrong)" in str(caught.value)


def test_of_what_is_acknowledged_every_variant_gets_what_it_needs():
    base = CONF / "e2e_2018.toml"
    plan = load_sweep(base, vary=["invariants.units=true,false"], runs=1, files=False)
    with_units, without = plan.plans
    assert with_units.acknowledged == load_plan(base, files=False).acknowledged != ()
    assert without.acknowledged == ()
    with pytest.raises(ConfigurationError, match="no run of the sweep gives up anything"):
        load_sweep(
            base,
            vary=["estimation.rounding=nearest,released"],
            settings=["invariants.units=false"],
            files=False,
        )


def test_a_difference_is_the_first_key_in_which_trees_differ():
    one = {"a": {"b": [1, 2], "c": "x"}, "d": 1}
    assert not difference(one, {"d": 1, "a": {"c": "x", "b": [1, 2]}})
    assert difference(one, {"a": {"b": [1, 3], "c": "y"}, "d": 1}) == "a.b ([1, 2], and [1, 3])"
    assert difference(one, {"a": {"b": [1, 2]}, "d": 1}) == 'a.c ("x", and null)'
    assert difference({"a": {}}, {"a": 0}) == "a ({}, and 0)"


def test_a_tuple_is_the_list_that_a_file_makes_of_it_and_long_values_are_cut():
    assert not difference({"a": (1, {"b": (2,)})}, {"a": [1, {"b": [2]}]})
    assert len(difference({"a": "x " * 500}, {"a": "y " * 500})) < 200


def test_shares_of_samples_are_exact_and_checked():
    assert sample_shares(None) == SHARES
    assert [str(share) for share in sample_shares(["0.05", "1/3"])] == ["1/20", "1/3"]
    for wrong in (["0"], ["1"], ["1.5"], ["five"], ["1/2", "0.5"], [""]):
        with pytest.raises(ConfigurationError, match="--samples"):
            sample_shares(wrong)
