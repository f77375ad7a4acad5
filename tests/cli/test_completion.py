"""What the shell offers after a tab, asked for as bash asks; and nothing, quietly, where nothing can be found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from das_spark.cli.main import app
from das_spark.config import RunPlan, load_plan, run_file_keys, shipped_run_files, stage_names
from das_spark.products import PRODUCTS

PROGRAM = "das-spark"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with a run file, a product and a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "mine.toml").write_text("")
    (tmp_path / "conf" / "notes.txt").write_text("")
    public = tmp_path / "runs" / "first" / "public"
    for name in ("P1.csv", "P1.parquet", "H1.csv"):
        (public / "tables" / name).mkdir(parents=True)
    levels = {"config": {"geography": {"levels": ["State", "County"]}}}
    (public / "manifest.json").write_text(json.dumps(levels))
    (tmp_path / "runs" / "ledgers").mkdir()
    return tmp_path


def offered(line: str) -> list[str]:
    """What is offered for the last word of a line."""
    words = line.split(" ")
    variables = {"_DAS_SPARK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = CliRunner().invoke(app, [], env=variables, prog_name=PROGRAM)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return [each for each in done.stdout.splitlines() if each]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pla", ["plan"]),
        ("spine re", ["report"]),
        ("plan conf/", ["conf/mine.toml"]),
        ("plan con", ["conf/"]),
        ("check quick", ["quickstart"]),
        ("plan compare quickstart conf/m", ["conf/mine.toml"]),
        ("plan st", ["stages"]),
        ("init --product e2e_1", ["e2e_1940"]),
        ("product show conf/m", ["conf/mine.toml"]),
        ("init --product pl94_2020_person --strategy us", ["us", "us_rebalanced"]),
        ("init --product e2e_1940 --levels National,", ["National,County", "National,Enumdist", "National,State"]),
        ("init --reader tidy_", ["tidy_counts", "tidy_records"]),
        ("simulate --like 2020", ["2020", "2020-state"]),
        ("verify ", ["runs/", "runs/first", "runs/ledgers/"]),
        ("evaluate runs/f", ["runs/first"]),
        ("interval runs/first --table ", ["H1", "P1"]),
        ("interval runs/first --geolevel ", ["County", "State"]),
        ("plan quickstart --geounits B", ["Block=", "Block_Group="]),
        ("run quickstart --set evaluation.", ["evaluation.areas=", "evaluation.enabled="]),
        ("list r", ["readers"]),
    ],
)
def test_names_and_places_are_offered(line, found):
    assert offered(f"{PROGRAM} {line}") == found


def test_all_that_there_is_is_offered():
    assert set(offered(f"{PROGRAM} init --product ")) >= set(PRODUCTS)
    assert set(offered(f"{PROGRAM} run ")) == {"conf/", "runs/", *shipped_run_files()}
    plan = load_plan("quickstart")
    assert isinstance(plan, RunPlan)
    stages = [name for name in stage_names(plan) if " " not in name]
    assert set(offered(f"{PROGRAM} run quickstart --until ")) >= set(stages)
    assert set(offered(f"{PROGRAM} sweep quickstart --vary ")) == {f"{key}=" for key in run_file_keys()}


@pytest.mark.parametrize(
    "line",
    [
        "verify nowhere/",
        "interval runs/none --table ",
        "run conf/mine.toml --until ",
        "init --product nothing --strategy ",
        "interval --geolevel ",
    ],
)
def test_where_nothing_can_be_found_nothing_is_said(line):
    assert offered(f"{PROGRAM} {line}") == []


def test_the_shell_can_be_taught():
    options = [option for param in typer.main.get_command(app).params for option in param.opts]
    assert {"--install-completion", "--show-completion"} <= set(options)
    nested = typer.main.get_command(app).get_command(None, "plan")
    assert "--install-completion" not in [option for param in nested.params for option in param.opts]


def test_completion_of_products_imports_no_engine():
    code = (
        "import sys\n"
        "from das_spark.cli import completion\n"
        "completion.products(None, 'e'), completion.keys(None, 'b'), completion.runs(None, '')\n"
        "print([each for each in ('pyspark', 'pandas', 'matplotlib') if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
