"""Run files, overlays and settings."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.config import load_plan
from das_spark.config.load import apply_setting, merged
from das_spark.errors import ConfigurationError


def test_a_decimal_setting_is_exact(write_run_file):
    plan = load_plan(write_run_file(), settings=["budget.epsilon=0.25"])
    assert plan.budget.total == Fraction(1, 4)


@given(st.decimals(min_value="0.0001", max_value="1000", allow_nan=False, allow_infinity=False))
def test_any_decimal_in_a_setting_loses_no_digit(value):
    data = {}
    apply_setting(data, f"budget.epsilon={value}")
    assert Fraction(data["budget"]["epsilon"]) == Fraction(str(value))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("a.b=1/4", {"a": {"b": "1/4"}}),
        ("a.b=0.1", {"a": {"b": "0.1"}}),
        ("a.b=3", {"a": {"b": 3}}),
        ("a.b=true", {"a": {"b": True}}),
        ('a.b=["x", "y"]', {"a": {"b": ["x", "y"]}}),
        ("a.b=/some/place=1", {"a": {"b": "/some/place=1"}}),
        ('a."x * y"=1/2', {"a": {"x * y": "1/2"}}),
        ("a.b=2020-04-01", {"a": {"b": "2020-04-01"}}),
        ("a.b=", {"a": {"b": ""}}),
    ],
)
def test_a_setting_is_read_as_toml_or_text(setting, expected):
    data = {}
    apply_setting(data, setting)
    assert data == expected


@pytest.mark.parametrize("setting", ["epsilon", "a b=1", "=1", "run.product.name=1"])
def test_a_malformed_setting_is_refused(setting):
    with pytest.raises(ConfigurationError, match="--set"):
        apply_setting({"run": {"product": "x"}}, setting)


def test_settings_win_over_overlays_and_overlays_over_the_file(write_run_file, tmp_path):
    overlay = tmp_path / "overlay.toml"
    overlay.write_text('[run]\nname = "overlaid"\n[budget]\nepsilon = "3"\n')
    plan = load_plan(write_run_file(), overlays=[overlay], settings=["run.name=set"])
    assert (plan.name, plan.budget.total) == ("set", 3)


def test_an_overlay_replaces_a_table_of_shares_as_a_whole():
    base = {"budget": {"epsilon": "1", "queries": {"hhgq": "1/2", "detailed": "1/2"}}}
    result = merged(base, {"budget": {"queries": {"total": "1"}}})
    assert result == {"budget": {"epsilon": "1", "queries": {"total": "1"}}}
    assert base["budget"]["queries"] == {"hhgq": "1/2", "detailed": "1/2"}


def test_environment_variables_are_expanded_in_paths(write_run_file, monkeypatch, tmp_path):
    monkeypatch.setenv("PLACE", str(tmp_path))
    plan = load_plan(write_run_file(), settings=["input.persons=${PLACE}/persons.csv", "output.root=${PLACE}/out"])
    assert plan.input.persons == f"{tmp_path}/persons.csv"
    assert plan.output.root == f"{tmp_path}/out"


def test_a_missing_environment_variable_is_an_error_with_its_key(write_run_file, monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(ConfigurationError, match=r"output\.root: the environment variable NOWHERE is not set"):
        load_plan(write_run_file(), settings=["output.root=${NOWHERE}/out"])


def test_a_missing_run_file_is_named_with_its_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        load_plan("none.toml")
    assert str(tmp_path / "none.toml") in str(caught.value)


def test_a_file_that_is_no_toml_is_refused_with_its_line(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("config_version = 1\n[run\n")
    with pytest.raises(ConfigurationError, match=r"not TOML.*line 2"):
        load_plan(path)
