"""What a run plan holds, and its hash."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
from pydantic import BaseModel

from das_spark.config.inputs import READER_NEEDS
from das_spark.config.model import RunFile
from das_spark.config.resolve import load_plan
from das_spark.io.readers import READERS

CONF = Path(__file__).parents[2] / "conf"


def test_a_strategy_gives_total_and_shares(write_run_file):
    budget = load_plan(write_run_file()).budget
    assert budget.total == Fraction(1, 4)
    assert budget.spent("State", "age18plus * hispanic * race") == Fraction(1, 4) * Fraction(1, 4) * Fraction(27, 40)


def test_a_total_keeps_the_shares_of_the_strategy(write_run_file):
    budget = load_plan(write_run_file(), settings=["budget.epsilon=1/2"]).budget
    assert budget.spent("State", "hhgq") == Fraction(1, 2) * Fraction(1, 4) * Fraction(9, 40)


def test_a_strategy_can_be_spent_under_the_other_framework(write_run_file):
    budget = load_plan(write_run_file(), settings=["budget.framework=zcdp", "budget.rho=2"]).budget
    assert (str(budget.framework), budget.total) == ("zcdp", 2)
    assert budget.mechanism("State", "hhgq").sigma_squared == 1 / (2 * Fraction(1, 4) * Fraction(9, 40))


def test_level_queries_replace_those_of_one_level(write_run_file):
    settings = ["budget.level_queries.State.hhgq=1/3", "budget.level_queries.State.detailed=2/3"]
    plan = load_plan(write_run_file(), settings=settings)
    assert plan.budget.level("State").share_of("detailed") == Fraction(2, 3)
    assert plan.budget.level("County").share_of("detailed") == Fraction(1, 10)
    assert set(plan.queries) == {"hhgq", "detailed", "age18plus * hispanic * race"}


def test_a_query_goes_by_its_canonical_name(write_run_file):
    settings = ['budget.queries."race*hhgq"=1']
    assert list(load_plan(write_run_file(), settings=settings).queries) == ["hhgq * race"]


def test_defaults_come_from_the_product(write_run_file):
    plan = load_plan(write_run_file())
    assert plan.name == "e2e_1940"
    assert plan.spine.names == ("National", "State", "County", "Enumdist")
    assert (plan.invariants.total_at, plan.invariants.units) == ("State", True)


def test_no_total_needs_to_be_exact(write_run_file):
    assert load_plan(write_run_file(), settings=["invariants.total_at=none"]).invariants.total_at is None


def test_the_resolved_run_is_json_and_spells_out_every_share(write_run_file):
    resolved = json.loads(json.dumps(load_plan(write_run_file()).resolved))
    assert resolved["budget"]["total"] == "1/4"
    assert [level["geolevel"] for level in resolved["budget"]["levels"]] == ["National", "State", "County", "Enumdist"]
    assert resolved["budget"]["levels"][0]["queries"]["detailed"] == "1/10"


def test_the_hash_depends_on_what_is_run_and_not_on_how_it_is_written(write_run_file):
    first = load_plan(write_run_file())
    same = load_plan(write_run_file(), settings=["budget.epsilon=0.250", "run.name=e2e_1940"])
    other = load_plan(write_run_file(), settings=["budget.epsilon=0.2501"])
    assert first.config_hash == same.config_hash != other.config_hash


@pytest.mark.parametrize("path", sorted(CONF.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_run_file_resolves(path):
    assert load_plan(path, files=False).budget.total > 0


@pytest.mark.parametrize("path", sorted(CONF.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_run_file_writes_exact_numbers(path):
    assert not list(_floats(tomllib.loads(path.read_text()).get("budget", {})))


def test_the_reference_explains_every_key():
    text = (CONF / "reference.toml").read_text()
    missing = [key for key in sorted(set(_keys(RunFile))) if not re.search(rf"(?m)^(# )?\[*{_named(key)}", text)]
    assert not missing


def test_the_registry_of_needs_is_that_of_the_readers():
    assert set(READER_NEEDS) == set(READERS)


def test_the_configuration_imports_neither_spark_nor_pandas():
    code = (
        "import sys, das_spark, das_spark.config.resolve;"
        "print([name for name in ('pyspark', 'pandas', 'py4j', 'typer') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _floats(value):
    if isinstance(value, dict):
        for each in value.values():
            yield from _floats(each)
    elif isinstance(value, float):
        yield value


def _named(key):
    section, _, name = key.rpartition(".")
    return rf"{re.escape(key)}\W" if not section else rf"(?:{re.escape(name)} = |{re.escape(key)}\W)"


def _keys(model, prefix=""):
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}"
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _keys(kind, f"{prefix}{name}.")
