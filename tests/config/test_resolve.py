"""What a run plan holds, and its hash."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from das_spark.config import READER_NEEDS, JointPlan, load_plan, load_run, plan_to_config, run_file_keys
from das_spark.core import ESTIMATORS
from das_spark.errors import ConfigurationError
from das_spark.estimation import FAMILY_SOLVERS
from das_spark.spark.readers import READERS

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


@pytest.mark.parametrize(
    ("product", "strategy", "leaf", "total_at"),
    [
        ("pl94_2020_person", "us", "Block", "State"),
        ("pl94_2020_person", "to_county", "County", "State"),
        ("pl94_2020_unit", "state", "Block", "Block"),
        ("pl94_2020_unit", "to_tract", "Tract", "Tract"),
    ],
)
def test_a_strategy_brings_its_levels_and_sums_of_exact_totals_are_exact(tmp_path, product, strategy, leaf, total_at):
    path = tmp_path / "run.toml"
    head = f'config_version = 1\n[run]\nproduct = "{product}"\n[input]\nreader = "pl94_summary"\npath = "."\n'
    known = '[privacy]\nacknowledge = ["facilities_from_people"]\n'
    path.write_text(f'{head}{known}[budget]\nstrategy = "{strategy}"\n')
    plan = load_plan(path)
    assert plan.spine.names == plan.product.strategies[strategy].geolevels
    assert (plan.spine.leaf.name, plan.invariants.total_at) == (leaf, total_at)


def test_vacant_units_are_exact_unless_the_product_counts_them_among_the_others(tmp_path, write_run_file):
    assert load_plan(write_run_file()).invariants.vacant
    path = tmp_path / "other.toml"
    path.write_text(write_run_file().read_text().replace('"e2e_1940"', '"pl94_2020_person"', 1))
    plan = load_plan(path, settings=["budget.strategy=us"])
    assert plan.invariants.names == ("total", "units")


def test_levels_of_the_run_file_win_over_those_of_the_strategy(write_run_file):
    settings = ["geography.levels=['State', 'County']", "budget.geolevels.State=1/2", "budget.geolevels.County=1/2"]
    assert load_plan(write_run_file(), settings=settings).spine.names == ("State", "County")


@pytest.mark.parametrize(
    ("settings", "formats"),
    [((), ("parquet", "csv")), (('output.tables=["csv"]',), ("csv",)), (("output.tables=[]",), ())],
)
def test_tables_are_written_as_parquet_and_csv_unless_the_run_file_says_otherwise(write_run_file, settings, formats):
    other = ("run.product=e2e_2018", "budget.strategy=e2e_2018", *settings)
    plan = load_plan(write_run_file(), settings=other)
    assert plan.output.tables == formats
    assert plan_to_config(plan)["output"]["tables"] == list(formats)


def test_a_product_without_tables_has_none_and_may_not_be_asked_for_any(write_run_file):
    plan = load_plan(write_run_file())
    assert plan.output.tables == ()
    assert plan_to_config(plan)["output"]["tables"] == []
    assert load_plan(write_run_file("[output]\ntables = []\n")).output.tables == ()
    with pytest.raises(ConfigurationError, match=r"output.tables: product 'e2e_1940' has no tables"):
        load_plan(write_run_file('[output]\ntables = ["csv"]\n'))


def test_no_total_needs_to_be_exact(write_run_file):
    assert load_plan(write_run_file(), settings=["invariants.total_at=none"]).invariants.total_at is None


def test_the_resolved_run_is_json_and_spells_out_every_share(write_run_file):
    resolved = plan_to_config(load_plan(write_run_file()))
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
    plan = load_run(path, files=False)
    plans = plan.parts.values() if isinstance(plan, JointPlan) else [plan]
    assert all(plan.budget.total > 0 for plan in plans)


@pytest.mark.parametrize("path", sorted(CONF.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_run_file_writes_exact_numbers(path):
    assert not list(_floats(tomllib.loads(path.read_text()).get("budget", {})))


def test_the_reference_explains_every_key():
    text = (CONF / "reference.toml").read_text()
    missing = [key for key in sorted(set(run_file_keys())) if not re.search(rf"(?m)^(# )?\[*{_named(key)}", text)]
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


def test_runs_that_are_held_to_published_counts_ask_the_solver_of_known_sums_first():
    held = load_plan(CONF / "dhc_2020_person.toml", files=False)
    assert held.estimation.solvers == ("nested", *ESTIMATORS["top_down"].needs.solvers)
    other = load_plan(CONF / "ddp_2010_person.toml", files=False)
    assert other.estimation.solvers == ESTIMATORS["top_down"].needs.solvers
    assert set(held.estimation.solvers) <= set(FAMILY_SOLVERS)
