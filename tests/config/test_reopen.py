"""The plan of a run on given measurements: what was measured stays, estimation and output may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from das_spark.config import RunPlan, absolute, load_plan
from das_spark.config.reopen import ORIGIN, reopen, same_estimation
from das_spark.errors import ConfigurationError

CONF = Path(__file__).parents[2] / "conf"
RUN_FILES = sorted(path for path in CONF.glob("*.toml") if path.name != "pl94_2020.toml")  # its parts are here
FROM = {"run_id": "first"}


def plan(name: str = "e2e_1940.toml", *settings: str) -> RunPlan:
    return load_plan(CONF / name, settings=settings, files=False)


@pytest.mark.parametrize("path", RUN_FILES, ids=[path.stem for path in RUN_FILES])
def test_every_run_file_comes_back_from_what_it_resolved_to(path):
    first = plan(path.name)
    again = reopen(first.resolved, (), FROM, source="measurements")
    for name in ("product", "spine", "budget", "invariants", "added", "estimation", "measurement_rows"):
        assert getattr(again, name) == getattr(first, name)
    assert {name: query.name for name, query in again.queries.items()} == {name: name for name in first.queries}
    kept = {key: value for key, value in again.resolved.items() if key not in (ORIGIN, "evaluation", "output")}
    assert kept == {key: first.resolved[key] for key in kept}
    twice = reopen(again.resolved, (), FROM, source="measurements")
    assert twice.resolved == again.resolved


def test_nothing_is_evaluated_and_the_origin_is_part_of_the_hash():
    first = plan()
    one, other = (reopen(first.resolved, (), {"run_id": name}, source="m") for name in ("a", "b"))
    assert first.evaluation.enabled
    assert not one.evaluation.enabled
    assert one.resolved[ORIGIN] == {"run_id": "a"}
    assert len({first.config_hash, one.config_hash, other.config_hash}) == 3


def test_places_of_the_run_that_measured_are_forgotten_and_new_ones_taken():
    first = plan("e2e_1940.toml", 'output.public="there"', 'output.root="here"', 'output.microdata=["text"]')
    again = reopen(first.resolved, ('output.root="elsewhere"',), FROM, source="m")
    assert (again.output.root, again.output.public) == (absolute("elsewhere"), None)
    assert again.places == {"output.root": absolute("elsewhere")}
    assert again.microdata_formats == ("text",)


def test_a_run_without_exact_totals_stays_one():
    first = plan("e2e_1940.toml", 'invariants.total_at="none"')
    assert reopen(first.resolved, (), FROM, source="m").invariants.total_at is None


def test_estimation_is_the_same_whatever_the_number_of_partitions():
    first = plan()
    same, other = (
        reopen(first.resolved, (setting,), FROM, source="m").resolved
        for setting in ("estimation.partitions_per_core=9", 'estimation.rounding="released"')
    )
    assert same_estimation(first.resolved, same)
    assert not same_estimation(first.resolved, other)


@pytest.mark.parametrize("setting", ["budget.epsilon=1", "estimations.rounding=1", "outputs=1", "run.product=x"])
def test_what_the_measurements_fix_is_refused_by_name(setting):
    with pytest.raises(ConfigurationError, match="measurements fix everything but estimation and output"):
        reopen(plan().resolved, (setting,), FROM, source="m")


def test_unknown_keys_are_errors_with_the_nearest_name():
    with pytest.raises(ConfigurationError, match="rounding"):
        reopen(plan().resolved, ("estimation.roundin=1",), FROM, source="m")


@pytest.mark.parametrize("wrong", [{}, {"budget": 3}, {**plan().resolved, "budget": {"framework": "x"}}])
def test_a_configuration_that_is_none_is_an_error(wrong):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        reopen(wrong, (), FROM, source="m")
