"""The plan of a run on given measurements: what was measured stays, estimation and output may change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from das_spark.config import (
    MeasurementOrigin,
    OriginKind,
    RunPlan,
    absolute,
    estimation_plan,
    load_plan,
    plan_from_config,
    plan_to_config,
    same_estimation,
)
from das_spark.config.plan import public_plan
from das_spark.core import ESTIMATORS
from das_spark.errors import ConfigurationError

CONF = Path(__file__).parents[2] / "conf"
JOINT = ("ddp_2010.toml", "dhc_2020.toml", "pl94_2020.toml")  # their parts are here
RUN_FILES = sorted(path for path in CONF.glob("*.toml") if path.name not in JOINT)
FROM = MeasurementOrigin(OriginKind.RUN, "first", "then", "0" * 64, "first#1")


def plan(name: str = "e2e_1940.toml", *settings: str) -> RunPlan:
    return load_plan(CONF / name, settings=settings, files=False)


def again(first: RunPlan, *settings: str) -> RunPlan:
    measured = plan_from_config(plan_to_config(first), source="measurements")
    return estimation_plan(measured, FROM, settings, source="measurements")


@pytest.mark.parametrize("path", RUN_FILES, ids=[path.stem for path in RUN_FILES])
def test_what_was_measured_and_how_it_was_estimated_stays(path):
    first = plan(path.name)
    config = plan_to_config(first)
    config["evaluation"]["enabled"] = False
    assert plan_to_config(again(first)) == config | {"origin": FROM.to_json()}
    assert again(first).queries == first.queries
    assert plan_to_config(again(again(first))) == plan_to_config(again(first))


def test_another_estimator_has_its_own_solvers_where_nobody_chose_any():
    own = ESTIMATORS["blue_down"].needs.solvers
    blue = "estimation.estimator=blue_down"
    assert own != ESTIMATORS["top_down"].needs.solvers
    assert again(plan(), blue).estimation.solvers == own
    chosen = plan("e2e_1940.toml", 'estimation.solvers=["clarabel", "osqp"]')
    assert again(chosen, blue).estimation.solvers == ("clarabel", "osqp")
    assert again(plan(), blue, 'estimation.solvers=["clarabel"]').estimation.solvers == ("clarabel",)


def test_nothing_is_evaluated_and_the_origin_is_part_of_the_hash():
    first = plan()
    other = estimation_plan(first, replace(FROM, run_id="b"), source="m")
    assert first.evaluation.enabled
    assert not other.evaluation.enabled
    assert len({first.config_hash, again(first).config_hash, other.config_hash}) == 3


def test_places_of_the_run_that_measured_are_forgotten_and_new_ones_taken():
    first = plan("e2e_1940.toml", 'output.public="there"', 'output.root="here"', 'output.microdata=["text"]')
    other = again(first, 'output.root="elsewhere"')
    assert (other.output.root, other.output.public) == (absolute("elsewhere"), None)
    assert other.places == {"output.root": absolute("elsewhere")}
    assert other.output.microdata == ("text",)


def test_external_measurements_are_estimated_where_the_run_file_says_and_no_input_is_named():
    first = plan("e2e_1940.toml", 'output.public="there"', 'output.root="here"', "input.path=x/y.dat")
    other = estimation_plan(first, FROM, source="m")
    assert other.output == first.output
    assert set(other.places) == {"output.root", "output.public"}
    assert other.input.path == "y.dat"


def test_a_run_without_exact_totals_stays_one():
    assert again(plan("e2e_1940.toml", 'invariants.total_at="none"')).invariants.total_at is None


def test_estimation_is_the_same_whatever_the_number_of_partitions():
    first = plan()
    assert same_estimation(first, again(first, "estimation.partitions_per_core=9"))
    assert not same_estimation(first, again(first, 'estimation.rounding="released"'))


def test_only_what_is_done_with_unproved_families_is_no_part_of_what_binds_a_run():
    """A run that stops because of one goes on with another setting, and says so in its manifest."""
    first, told = plan(), plan("e2e_1940.toml", "estimation.accept_uncertified=true")
    assert told.config_hash == first.config_hash
    assert plan_to_config(told)["estimation"]["accept_uncertified"] is True
    assert plan_from_config(plan_to_config(told), source="x") == public_plan(told)
    assert "accept_uncertified" not in plan_to_config(first)["estimation"]
    assert not same_estimation(first, told)
    assert plan("e2e_1940.toml", "estimation.rounding=released").config_hash != first.config_hash


def test_passes_that_are_spelled_out_replace_those_of_a_level():
    first = plan("pl94_2020_simulated.toml")
    spelled = '[{geolevels=["Block"], least_squares=[["detailed"]], rounding=[["detailed"]]}]'
    passes = again(first, f"estimation.passes={spelled}").estimation.passes
    assert passes["Block"] != first.estimation.passes["Block"]
    assert {**passes, "Block": ()} == {**first.estimation.passes, "Block": ()}


@pytest.mark.parametrize("setting", ["budget.epsilon=1", "estimations.rounding=1", "outputs=1", "run.product=x"])
def test_what_the_measurements_fix_is_refused_by_name(setting):
    with pytest.raises(ConfigurationError, match="measurements fix everything but estimation and output"):
        again(plan(), setting)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("estimation.roundin=1", "estimation.roundin: unknown key; did you mean 'rounding'"),
        ('estimation.solvers=["piq"]', "estimation.solvers: 'piq' is no solver"),
        ("estimation.failsafe=true", "estimation.failsafe: needs every noisy answer"),
        ('output.microdata=["paper"]', "output.microdata"),
        ('output.tables=["csv"]', "output.tables: product 'e2e_1940' has no tables"),
        ("output.restricted=s3a:/runs", "output.restricted: .* is neither a path nor an address"),
        ("run.name=..", "run.name"),
    ],
)
def test_wrong_settings_are_refused_as_in_a_run_file(setting, sentence):
    with pytest.raises(ConfigurationError, match=f"measurements: {sentence}"):
        again(plan(), setting)
