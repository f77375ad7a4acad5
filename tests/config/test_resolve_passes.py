"""Passes of estimation: from the strategy, from the run file, and what can be wrong with them."""

from __future__ import annotations

import json

import pytest

from das_spark.config import load_plan, plan_to_config, unused_queries
from das_spark.errors import ConfigurationError
from das_spark.estimation import OuterPass
from das_spark.products import PRODUCTS

MIDDLE = "age18plus * hispanic * race"
ONE = """
[[estimation.passes]]
geolevels = ["State", "County"]
least_squares = [["hhgq"], ["race*hispanic*age18plus", "detailed"]]
rounding = [["total"], ["race * hhgq", "detailed"]]
"""
TWO = """
[[estimation.passes]]
geolevels = ["County"]
least_squares = [["hhgq"]]
rounding = [["hhgq"]]

[[estimation.passes]]
geolevels = ["County"]
least_squares = [["detailed"]]
rounding = [["detailed"]]
"""


def problems_of(path, *settings):
    with pytest.raises(ConfigurationError) as caught:
        load_plan(path, settings=settings)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.fixture
def redistricting(tmp_path):
    """A run file of a product whose strategies have passes."""
    path = tmp_path / "pl94.toml"
    path.write_text(
        'config_version = 1\n[run]\nproduct = "pl94_2020_person"\n[input]\nreader = "pl94_summary"\npath = "."\n'
        '[privacy]\nacknowledge = ["facilities_from_people"]\n[budget]\nstrategy = "state"\n'
    )
    return path


def test_without_any_every_level_is_estimated_at_once(write_run_file):
    plan = load_plan(write_run_file())
    assert plan.estimation.passes == {}
    assert plan_to_config(plan)["estimation"]["passes"] == []


def test_a_pass_belongs_to_its_levels_under_canonical_names(write_run_file):
    passes = load_plan(write_run_file(ONE)).estimation.passes
    expected = OuterPass((("hhgq",), (MIDDLE, "detailed")), (("total",), ("hhgq * race", "detailed")))
    assert passes == {"State": (expected,), "County": (expected,)}


def test_entries_of_one_level_are_its_outer_passes_in_order(write_run_file):
    passes = load_plan(write_run_file(TWO)).estimation.passes
    assert [each.least_squares for each in passes["County"]] == [(("hhgq",),), (("detailed",),)]
    assert list(passes) == ["County"]


def test_the_passes_of_a_strategy_hold_where_the_run_file_names_no_level(redistricting):
    own = PRODUCTS["pl94_2020_person"].strategies["state"].passes
    assert load_plan(redistricting).estimation.passes == own
    more = '[[estimation.passes]]\ngeolevels = ["Tract"]\nleast_squares = [["detailed"]]\nrounding = [["detailed"]]\n'
    redistricting.write_text(redistricting.read_text() + more)
    assert load_plan(redistricting).estimation.passes == {
        **own,
        "Tract": (OuterPass((("detailed",),), (("detailed",),)),),
    }


def test_the_resolved_run_spells_out_every_pass_and_its_hash_tells_them_apart(write_run_file):
    plan = load_plan(write_run_file(TWO))
    assert plan_to_config(plan)["estimation"]["passes"] == [
        {"geolevel": "County", "least_squares": [["hhgq"]], "rounding": [["hhgq"]]},
        {"geolevel": "County", "least_squares": [["detailed"]], "rounding": [["detailed"]]},
    ]
    assert plan.config_hash != load_plan(write_run_file()).config_hash


def test_the_run_file_and_the_strategy_lead_to_the_same_record(redistricting, tmp_path):
    plan = load_plan(redistricting)
    spelled = [
        f"[[estimation.passes]]\ngeolevels = [{json.dumps(each['geolevel'])}]\n"
        f"least_squares = {json.dumps(each['least_squares'])}\nrounding = {json.dumps(each['rounding'])}\n"
        for each in plan_to_config(plan)["estimation"]["passes"]
    ]
    overlay = tmp_path / "overlay.toml"
    overlay.write_text("".join(spelled))
    assert load_plan(redistricting, overlays=[overlay]).config_hash == plan.config_hash


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('"State"', '"Stat"'), "estimation.passes.0.geolevels: 'Stat': there is no such geolevel in the run; did you"),
        (('[["hhgq"]', '[["hgq"]'), "estimation.passes.0.least_squares.0: query 'hgq'"),
        (('[["hhgq"]', '[["race"]'), "estimation.passes.0.least_squares.0: 'race' is not measured at State"),
        (('[["hhgq"]', '[["hhgq", "hhgq"]'), "estimation.passes.0.least_squares.0: 'hhgq' stands twice"),
        (('"race * hhgq"', '"rase * hhgq"'), "estimation.passes.0.rounding.1: query 'rase * hhgq'"),
        (
            ('"race * hhgq", "detailed"', '"race * hhgq"'),
            "estimation.passes.0.rounding: the last rounding of State must end with an inner pass that has 'detailed'",
        ),
        (('[["total"], ["race * hhgq", "detailed"]]', "[]"), "estimation.passes.0.rounding: "),
        (("rounding", "roundings"), "estimation.passes.0.roundings: unknown key; did you mean 'rounding'?"),
    ],
)
def test_a_wrong_pass_is_said_with_its_place(write_run_file, change, expected):
    assert expected in problems_of(write_run_file(ONE.replace(*change)))


def test_only_the_last_rounding_of_a_level_needs_every_cell(write_run_file):
    text = problems_of(write_run_file(TWO.replace('rounding = [["detailed"]]', 'rounding = [["hhgq"]]')))
    assert "estimation.passes.1.rounding: the last rounding of County" in text
    assert "estimation.passes.0" not in text


def test_passes_of_a_strategy_that_fit_what_is_not_measured_are_refused(redistricting):
    text = problems_of(redistricting, "budget.queries.hhgq=1/2", "budget.queries.detailed=1/2")
    assert "estimation.passes: the strategy's passes fit 'cenrace' at State, which the run does not measure" in text
    assert "[[estimation.passes]]" in text


def test_a_measured_query_that_no_pass_fits_is_found():
    passes = {"State": (OuterPass((("a",), ("b",)), (("c",),)), OuterPass((("d",),), (("detailed",),)))}
    assert unused_queries(passes, "State", ("a", "b", "c", "d")) == ("c",)
    assert unused_queries(passes, "County", ("a", "c")) == ()
