"""`plan resources`: what a run needs of machines, before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from das_spark.cli.main import main

CONF = Path(__file__).parents[2] / "conf"
GEOUNITS = [f"--geounits={text}" for text in ("State=1", "County=5", "Tract=461", "Block_Group=1083", "Block=14732")]


def test_it_says_cores_hours_memory_and_disk(capsys):
    words = [str(CONF / "pl94_2020_state.toml"), *GEOUNITS, "--records", "1455271"]
    assert main(["plan", "resources", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["records"], found["geounits"]["Block"]) == (1_455_271, 14_732)
    assert {stage["stage"] for stage in found["stages"]} >= {"ingest", "estimate Block", "verify"}
    assert 0 < found["hours"]["512"] < found["hours"]["2"] < 1
    assert found["memory"]["bytes_per_core"] > 3e8
    assert found["disk"]["public_bytes"] > found["disk"]["restricted_bytes"] > 0
    assert main(["plan", "resources", *words]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "1,455,271 records, 14,732 geounits at the most" in text
    assert "within a factor of two" in text


def test_geounits_that_the_public_table_tells_are_not_asked_for(capsys):
    assert main(["plan", "resources", "quickstart", "--records", "8087", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["geounits"]["Block"] == 154


def test_each_part_of_a_joint_run_has_its_records(capsys):
    words = [str(CONF / "pl94_2020.toml"), *GEOUNITS, "--set", "input.dataset=people"]
    assert main(["plan", "resources", *words, "--records", "person=1455271", "--records", "unit=561066", "--json"]) == 0
    assert [part["records"] for part in json.loads(capsys.readouterr().out)["parts"]] == [1_455_271, 561_066]
    assert main(["plan", "resources", *words, "--records", "person=1455271"]) == 2
    assert "nothing is said of unit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--records", "many"], "--records many: not a number of records"),
        (["--records", "5", "--records", "6"], "--records 6: is said twice"),
        (["--records", "9" * 400], ": not a number of records"),
        (["--records", "person=5"], "--records person=5: not a number of records"),
        (["--records", "5"], "not known how many geounits there are in Tract, Block_Group, Block"),
    ],
)
def test_what_is_wrong_is_named(capsys, words, message):
    settings = ["--geounits=US=1", "--geounits=State=1", "--geounits=County=5"]
    assert main(["plan", "resources", str(CONF / "pl94_2020_nation_simulated.toml"), *settings, *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
