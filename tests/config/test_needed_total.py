"""A strategy that does not measure totals is for runs in which they are exact, and for no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from das_spark.cli.main import main
from das_spark.config import choose_spine, load_plan
from das_spark.errors import ConfigurationError
from das_spark.products import PRODUCTS

CONF = Path(__file__).parents[2] / "conf" / "pl94_2020_person.toml"
AREAS = ("geography.reader=block_assignment", "geography.path=areas")
NAMES = pytest.mark.parametrize(
    ("name", "others"),
    [("us_rebalanced", "us"), ("state_rebalanced", "pr, state"), ("state_least_error", "pr, state")],
    ids=["us", "state", "sought"],
)


def load(*settings: str):
    return load_plan(CONF, settings=["input.path=files", *settings], files=False)


@NAMES
def test_on_the_census_spine_it_is_spent_as_it_is(name, others):
    plan = load(f"budget.strategy={name}")
    assert (plan.strategy, plan.invariants.total_at) == (name, "State")
    assert plan.budget == plan.product.strategies[name].budget


@NAMES
@pytest.mark.parametrize("kind", ["aian", "optimised"])
def test_a_spine_that_divides_states_is_refused(name, others, kind):
    said = (
        rf"geography\.spine: '{kind}' divides geounits of State, whose parts have no exact totals, and strategy "
        rf"'{name}' "
        rf'does not measure the totals of State, which must be exact; set it to "census", or take another '
        rf"budget\.strategy \({others}\)"
    )
    with pytest.raises(ConfigurationError, match=said) as caught:
        load(f"budget.strategy={name}", f"geography.spine={kind}", *AREAS)
    assert "invariants.total_at" not in str(caught.value)
    assert load(f"budget.strategy={others.split(',')[0]}", f"geography.spine={kind}", *AREAS).spine.kind == kind


@NAMES
def test_a_run_without_exact_totals_is_refused(name, others):
    said = (
        rf"invariants\.total_at: is \"none\", and strategy '{name}' does not measure the totals of State, which "
        rf'must be exact; set it to "State", or take another budget\.strategy \({others}\)'
    )
    with pytest.raises(ConfigurationError, match=said):
        load(f"budget.strategy={name}", "invariants.total_at=none")


def test_totals_that_are_exact_above_only_are_not_enough_and_below_are():
    with pytest.raises(ConfigurationError, match=r'invariants\.total_at: is "US", and strategy'):
        load("budget.strategy=us_rebalanced", "invariants.total_at=US")
    assert load("budget.strategy=us_rebalanced", "invariants.total_at=County").invariants.total_at == "County"


def test_parts_of_states_whose_blocks_have_exact_totals_have_exact_totals():
    settings = ("geography.spine=optimised", *AREAS, "invariants.total_at=Block")
    assert load("budget.strategy=us_rebalanced", *settings).spine.total_key is not None


def test_a_wrong_level_is_said_once():
    with pytest.raises(ConfigurationError) as caught:
        load("budget.strategy=us_rebalanced", "invariants.total_at=Stat")
    assert str(caught.value).count("invariants.total_at") == 1


def test_a_run_that_says_what_states_measure_answers_for_itself():
    queries = 'budget.level_queries.State={total="1/2", detailed="1/2"}'
    both = '[["total", "detailed"]]'
    passes = f'estimation.passes=[{{geolevels=["State"], least_squares={both}, rounding={both}}}]'
    plan = load("budget.strategy=us_rebalanced", queries, passes, "invariants.total_at=none")
    assert plan.budget.level("State").share_of("total") > 0


@pytest.mark.parametrize("command", ["check", "run"])
def test_nothing_is_made_of_a_run_that_is_refused(command, capsys, tmp_path):
    settings = ["budget.strategy=us_rebalanced", "invariants.total_at=none", f"output.root={tmp_path / 'runs'}"]
    options = [part for each in (*settings, f"input.path={tmp_path}") for part in ("--set", each)]
    assert main([command, str(CONF), *options, "--test-key", "a"]) == 2
    assert "invariants.total_at" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@NAMES
@pytest.mark.parametrize("kind", ["aian", "optimised"])
def test_a_spine_that_divides_states_is_not_made_for_it_either(name, others, kind):
    said = (
        rf"--spine '{kind}' divides geounits of State, whose parts have no exact totals, and strategy '{name}' does "
        r"not measure the totals of State, which must be exact"
    )
    product = {"product_name": "pl94_2020_person"}
    with pytest.raises(ConfigurationError, match=said) as caught:
        choose_spine(kind, strategy=name, **product)
    assert caught.value.hint.startswith(f"give --spine census, or shares of another strategy ({others})")
    assert choose_spine("census", strategy=name, **product).settings.kind == "census"
    for other in others.split(", "):
        assert choose_spine(kind, strategy=other, **product).settings.kind == kind


def test_shares_of_a_run_file_are_those_of_its_strategy_unless_it_measures_the_totals_itself(tmp_path):
    run = 'budget.strategy = "us_rebalanced"\n'
    head = 'config_version = 1\nrun.product = "pl94_2020_person"\ninput.reader = "cef_2020"\ninput.path = "files"\n'
    head += 'input.dataset = "people"\n'
    path = tmp_path / "run.toml"
    path.write_text(head + run)
    with pytest.raises(ConfigurationError, match=r"--spine 'optimised' divides geounits of State.*'us_rebalanced'"):
        choose_spine("optimised", shares=path)
    assert choose_spine("census", shares=path).settings.kind == "census"
    queries = PRODUCTS["pl94_2020_person"].strategies["us_rebalanced"].budget.level("State").queries
    own = "".join(f'"{query.query}" = "{query.share / 2}"\n' for query in queries)
    measured = f'[budget.level_queries.State]\ntotal = "1/2"\n{own}'
    for more in ('invariants.total_at = "Block"\n', measured):
        path.write_text(head + run + more)
        assert choose_spine("optimised", shares=path).settings.kind == "optimised"
