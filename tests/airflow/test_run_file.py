"""What the DAG reads of a run file without das_spark is what das_spark says of it. Needs no Airflow."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from das_spark.cli.main import main
from das_spark.config import known_levels
from das_spark.core import ESTIMATORS
from das_spark.products import PRODUCTS, product_data

sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline"))
import held_runs

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "jobs" / "airflow"
RUN_FILES = sorted(path for path in (ROOT / "conf").glob("*.toml"))

OF_AREAS = '[geography]\nspine = "{spine}"\nreader = "tidy"\npath = "blocks.csv"\n'
VARIANTS = {
    "levels of its own": '[geography]\nlevels = ["State", "County"]\n'
    '[budget.geolevels]\nState = "1/2"\nCounty = "1/2"\n',
    "an optimised spine": OF_AREAS.format(spine="optimised"),
    "no tables": "[output]\ntables = []\n",
    "intervals": '[output]\nintervals = {level = "0.9", geolevels = ["State"]}\n',
    "both kinds of intervals": '[output]\nintervals = {level = "0.9", geolevels = ["State"]}\n'
    'replicates = {level = "0.9", runs = 2}\n',
    "no report": "[evaluation]\nenabled = false\n",
    "a pass upwards": '[estimation]\nestimator = "blue_down"\n',
    "a pass upwards from the lowest level": '[estimation]\nestimator = "blue_down"\n[measurement]\nrows = "all"\n',
}


@pytest.fixture(scope="module")
def reading() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_file", PLACE / "run_file.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_file"] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


def planned(capsys: Any, *arguments: str) -> tuple[str, ...]:
    assert main(["plan", "stages", *arguments]) == 0, capsys.readouterr().err
    return tuple(capsys.readouterr().out.splitlines())


def known_of_products() -> dict[str, Any]:
    """What `levels.json` must hold."""
    return {
        product.name: {
            "record": product.record,
            "tables": bool(product.tables),
            "published": product.published.product if product.published else "",
            "levels": list(product.default_levels),
            "dhc": [level.name for level in known_levels(product, "dhc")],
            "strategies": {name: list(strategy.geolevels) for name, strategy in product.strategies.items()},
            **({} if product.published is None else {"published": product.published.product}),
        }
        for product in PRODUCTS.values()
    }


@pytest.mark.parametrize("path", RUN_FILES, ids=lambda path: path.name)
def test_the_stages_of_every_run_file_are_those_of_the_plan(reading, capsys, path):
    assert reading.read_run_file(path).stages == planned(capsys, str(path))


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_file_says_what_is_known_of_the_product(reading, name):
    data = json.loads(json.dumps(product_data(PRODUCTS[name])))
    assert reading._of_file(data) == known_of_products()[name]


@pytest.mark.parametrize("more", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("joint", [False, True], ids=["single", "joint"])
def test_what_changes_the_plan_changes_the_tasks(reading, capsys, tmp_path, more, joint):
    text = (
        (ROOT / "conf" / "pl94_2020_simulated.toml")
        .read_text()
        .replace('"us"', '"to_tract"' if "levels" in more else '"state"')
    )
    if "[output]" in more:
        text = text.replace("[output]\n", more)
        more = ""
    for record in ("person", "unit"):
        (tmp_path / f"{record}.toml").write_text(text.replace("2020_person", f"2020_{record}"))
    path = tmp_path / "person.toml"
    if joint:
        path = tmp_path / "both.toml"
        path.write_text('config_version = 1\n[run]\nname = "both"\nparts = ["person.toml", "unit.toml"]\n' + more)
    else:
        path.write_text(text + more)
    found = reading.read_run_file(path)
    assert found.stages == planned(capsys, str(path))
    assert found.name == ("both" if joint else "pl94-2020-simulated")


@pytest.mark.parametrize("joint", [False, True], ids=["single", "joint"])
def test_published_counts_are_taken_where_the_plan_says(reading, capsys, tmp_path, monkeypatch, joint):
    held_runs.registered_units(monkeypatch)
    known = tmp_path / "levels.json"
    known.write_text(json.dumps(known_of_products()))
    monkeypatch.setattr(reading, "PRODUCTS", known)
    path = held_runs.write_joint(tmp_path)
    if not joint:
        path = tmp_path / "households.toml"
        more = 'published = "elsewhere"\n[budget]\nstrategy = "usual"\n[invariants]\nunits = false\n'
        path.write_text(path.read_text() + more)
    found = reading.read_run_file(path)
    assert found.stages == planned(capsys, str(path))
    assert [stage for stage in found.stages if "published counts" in stage]


def test_levels_of_products_are_those_of_the_registry(reading):
    """Where this fails, write json.dumps(known_of_products(), indent=1) into jobs/airflow/levels.json."""
    assert json.loads(reading.PRODUCTS.read_text()) == known_of_products()


def test_passes_upwards_are_those_of_the_estimators(reading):
    """Where this fails, write them into jobs/airflow/run_file.py."""
    found = {name: estimator.needs.upward for name, estimator in ESTIMATORS.items() if estimator.needs.upward != "none"}
    assert found == reading.UPWARD


def test_a_run_without_a_name_is_called_as_its_product(reading, tmp_path):
    path = tmp_path / "nameless.toml"
    path.write_text('config_version = 1\n[run]\nproduct = "e2e_2018"\n')
    assert reading.read_run_file(path).name == "e2e_2018"


def test_names_of_tasks_are_plain_and_differ(reading):
    stages = reading.read_run_file(ROOT / "conf" / "pl94_2020.toml").stages
    names = [reading.task_id(stage) for stage in stages]
    assert "person_measure_Block_Group" in names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("text", ["[run]\n", '[run]\nname = "a"\n', '[run]\nname = "a"\nproduct = "unknown"\n'])
def test_what_is_no_run_file_is_refused_by_name(reading, tmp_path, text):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"wrong\.toml"):
        reading.read_run_file(path)


def test_a_run_file_is_read_by_the_standard_library_alone():
    program = f"import sys; sys.path.insert(0, {str(PLACE)!r}); import run_file; print(len(run_file.read_run_file("
    program += f"run_file.Path({str(ROOT / 'conf' / 'quickstart.toml')!r})).stages))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "13", done.stderr
