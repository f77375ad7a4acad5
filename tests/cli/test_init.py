"""`init` writes run files that `check` and `plan` accept, from answers and from options, for every product."""

from __future__ import annotations

import json
import shutil
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from das_spark.cli.main import app, main
from das_spark.config import READER_NEEDS, SIMULATED, load_plan, readers_of
from das_spark.products import PRODUCTS

CONF = Path(__file__).parents[2] / "conf"
OWN = CONF / "products" / "england_and_wales_like.toml"
FILES = ("--input", "population", "--dataset", "census")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answered(*answers: str, options: tuple[str, ...] = ()):
    return CliRunner().invoke(
        app, ["init", "my.toml", "--ask", *options], input="".join(f"{answer}\n" for answer in answers)
    )


def test_answers_make_a_run_file_that_plan_and_check_accept(capsys):
    done = answered("e2e_2O18", "e2e_2018", "", "1/2", "County,Tract,Block_Group,Block")
    assert done.exit_code == 0, done.output
    assert "did you mean 'e2e_2018'?" in done.output, "a wrong answer is asked for again"
    assert main(["check", "my.toml"]) == 0
    capsys.readouterr()
    assert main(["plan", "my.toml", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["total"], record["product"]["name"], record["run"]) == ("1/2", "e2e_2018", "my")


def test_what_is_left_to_its_default_stands_as_a_comment_and_can_be_uncommented():
    done = answered("e2e_2018", "", "", "")
    assert done.exit_code == 0, done.output
    text = Path("my.toml").read_text()
    assert "epsilon" not in tomllib.loads(text)["budget"]
    before = load_plan("my.toml")
    for key in (
        "epsilon = ",
        "root = ",
        "levels = ",
        "total_at = ",
        "units = ",
        "rows = ",
        "estimator = ",
        "tables = ",
    ):
        assert text.count(f"\n# {key}") == 1, key
        text = text.replace(f"\n# {key}", f"\n{key}")
    Path("my.toml").write_text(text)
    assert load_plan("my.toml").config_hash == before.config_hash, "the comment shows what holds without it"


@pytest.mark.parametrize("name", list(PRODUCTS))
def test_every_product_gets_a_run_file_by_every_reader_that_it_has(name, tmp_path):
    product = PRODUCTS[name]
    for reader in readers_of(product):
        out = tmp_path / f"{reader}.toml"
        options = [] if reader == SIMULATED else list(FILES)
        needed = [] if product.published is None else ["--set", "input.published=runs/held"]
        if reader == "pl94_summary":
            needed += ["--acknowledge", "facilities_from_people"]
        assert main(["init", str(out), "--product", name, "--reader", reader, *options, *needed]) == 0
        plan = load_plan(out, files=False, named=True)
        assert (plan.product.name, plan.input.reader) == (name, reader)
        assert plan.budget == next(iter(product.strategies.values())).budget


@pytest.mark.parametrize("name", ["e2e_2018", "e2e_1940", "pl94_2020_person", "pl94_2020_unit"])
def test_a_simulated_population_fits_its_product(name):
    assert main(["init", "my.toml", "--product", name, "--reader", "simulated"]) == 0
    assert main(["check", "my.toml"]) == 0


def test_a_product_file_is_named_as_seen_from_the_run_file(folder, capsys):
    (folder / "products").mkdir()
    (folder / "runs").mkdir()
    shutil.copy(OWN, folder / "products" / "mine.toml")
    options = ["--product", "products/mine.toml", "--reader", "tidy_counts", *FILES, "--rho", "3"]
    assert main(["init", "runs/mine.toml", *options]) == 0
    assert tomllib.loads(Path("runs/mine.toml").read_text())["run"]["product"] == "../products/mine.toml"
    assert load_plan("runs/mine.toml", files=False).budget.total == Fraction(3)
    capsys.readouterr()
    assert main(["plan", "runs/mine.toml"]) == 0


def test_a_register_without_units_declares_none():
    options = ["--product", str(CONF / "products" / "establishments_like.toml"), "--reader", "tidy_counts", *FILES]
    assert main(["init", "my.toml", *options]) == 0
    assert not load_plan("my.toml", files=False).invariants.units


def test_keys_are_explained_by_the_reference_and_by_nothing_else():
    assert main(["init", "my.toml", "--product", "e2e_2018", "--reader", "tidy_counts", *FILES]) == 0
    explained = set((CONF / "reference.toml").read_text().splitlines())
    lines = Path("my.toml").read_text().splitlines()
    comments = [line for line in lines[3:] if line.startswith("# ") and " = " not in line]
    assert len(comments) > 30
    assert set(comments) <= explained
    assert any("labels" in line for line in lines), "what the reader understands"
    assert not any("simulate" in line for line in lines[3:] if not line.startswith("#"))


def test_what_follows_from_people_is_acknowledged_by_an_answer_alone(capsys):
    options = ("--product", "e2e_2018", "--reader", "pl94_summary", *FILES)
    refused = answered("", "", "n", options=options)
    assert refused.exit_code != 0
    assert not Path("my.toml").exists()
    assert main(["init", "my.toml", *options]) == 2
    assert 'add "facilities_from_people"' in capsys.readouterr().err
    done = answered("", "", "y", options=options)
    assert done.exit_code == 0, done.output
    assert load_plan("my.toml", files=False).acknowledged == ("facilities_from_people",)


def test_nothing_is_overwritten(capsys):
    Path("my.toml").write_text("mine")
    assert main(["init", "my.toml", "--product", "e2e_2018", "--reader", "simulated"]) == 1
    assert "nothing is overwritten" in capsys.readouterr().err
    assert Path("my.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--product: is missing"),
        (["--product", "e2e_2018"], "--reader: is missing"),
        (["--product", "e2e_2018", "--reader", "tidy_counts"], "--input: is missing"),
        (["--product", "e2e_2018", "--reader", "tidy_counts", "--input", "x"], "--dataset: is missing"),
        (["--product", "e2e_2018", "--reader", "simulated", "--epsilon", "x"], "budget.epsilon"),
        (["--product", "e2e_2018", "--reader", "simulated", "--rho", "1"], "the framework is pure_dp"),
        (["--product", "e2e_2018", "--reader", "simulatd"], "did you mean 'simulated'?"),
        (["--product", "e2e_2018", "--reader", "simulated", "--strategy", "e2e"], "e2e_2018"),
        (["--product", "e2e_2018", "--reader", "simulated", "--levels", "State,Countie"], "Count"),
        (["--product", "e2e_2018", "--reader", "simulated", "--epsilon", "1", "--rho", "1"], "both given"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_written(options, said, capsys):
    assert main(["init", "my.toml", *options]) == 2
    assert said in capsys.readouterr().err
    assert not Path("my.toml").exists()


def test_json_says_what_was_written(capsys):
    options = ["--product", "e2e_2018", "--reader", "simulated", "--set", "run.name=first", "--json"]
    assert main(["init", "my.toml", *options]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["path"], said["run"], said["total"], said["framework"]) == (
        "my.toml",
        "first",
        "2499/10000",
        "pure_dp",
    )
    assert said["geolevels"][-1] == "Block"
    assert set(READER_NEEDS) > {said["reader"]}
