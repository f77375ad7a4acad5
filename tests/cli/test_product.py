"""`product`: files to begin with, what is wrong with them, and what they say."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from das_spark.cli import main as door
from das_spark.products import PRODUCTS, product_from


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Runs a command in an empty folder: its exit code and all that it printed."""
    monkeypatch.chdir(tmp_path)

    def command(*words):
        code = door.main(["product", *words])
        out = capsys.readouterr()
        return code, out.out + out.err

    return command


def test_what_is_written_to_begin_with_has_no_fault_and_is_not_overwritten(run, tmp_path):
    assert run("new", "village.toml")[0] == 0
    code, said = run("check", "village.toml")
    assert (code, said.strip()) == (0, "village.toml: fine. village: 6 cells, strategies: 1.")
    code, said = run("new", "village.toml")
    assert code == 1
    assert "is there already" in said
    assert run("new", "village")[0] == 2


@pytest.mark.parametrize("name", ["e2e_2018", "pl94_2020_unit"])
def test_a_copy_of_a_product_is_that_product_under_another_name(run, tmp_path, name):
    assert run("new", "copy.toml", "--like", name)[0] == 0
    made = product_from(tomllib.loads((tmp_path / "copy.toml").read_text()))
    assert replace(made, name=name, schema=PRODUCTS[name].schema, tables=()) == replace(PRODUCTS[name], tables=())
    assert product_from(tomllib.loads(run("show", name, "--toml")[1])) == PRODUCTS[name]
    assert product_from(json.loads(run("show", name, "--json")[1])) == PRODUCTS[name]


def test_everything_that_is_wrong_is_said_at_once(run, tmp_path):
    run("new", "village.toml")
    text = (tmp_path / "village.toml").read_text()
    (tmp_path / "village.toml").write_text(text.replace('"1/4"', '"1/3"', 1).replace("sex = [1]", "sex = [2]"))
    code, said = run("check", "village.toml")
    assert code == 2
    for part in ("2 problems", "strategies[0].queries: ", "not 1", "tables[0]: ", "no level 2"):
        assert part in said


def test_a_product_is_shown(run):
    code, said = run("show", "e2e_1940")
    assert code == 0
    stays = str(Path(__file__).parents[2] / "conf" / "products" / "hospital_stays_like.toml")
    assert "L1 sensitivity 6 and squared L2 sensitivity 18" in run("show", stays)[1]
    for part in ("192 cells", "Enumdist", "age18plus * hispanic * race", "27/40", "L1 sensitivity 2"):
        assert part in said
