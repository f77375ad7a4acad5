"""`run --until` and `plan stages`, as schedulers use them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import das_spark.pipeline
from das_spark.cli.main import main

CONF = Path(__file__).parents[2] / "conf"
QUICKSTART, JOINT = str(CONF / "quickstart.toml"), str(CONF / "pl94_2020.toml")


def test_the_plan_lists_the_stages_one_a_line(capsys):
    assert main(["plan", "stages", QUICKSTART]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["ingest", "measure County", "estimate County"]
    assert lines[-3:] == ["tabulate", "verify", "evaluate"]
    assert main(["plan", "stages", QUICKSTART, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == lines


def test_stages_follow_settings(capsys):
    assert main(["plan", "stages", QUICKSTART, "--set", "evaluation.enabled=false"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "verify"


@pytest.mark.parametrize(
    ("conf", "name", "until"),
    [(QUICKSTART, "run_stages", "measure Tract"), (JOINT, "run_parts", "unit: measure Tract")],
)
def test_the_stage_is_handed_on_and_what_comes_next_is_printed(capsys, monkeypatch, conf, name, until):
    given = {}

    def carry_out(_, **options):
        given.update(options)
        figures = {"stages done": until, "next stage": "estimate Tract"}
        return SimpleNamespace(run_id="first", figures=figures, paths={}, parts={})

    monkeypatch.setattr(das_spark.pipeline, name, carry_out)
    settings = ["--set", f"input.path={CONF}", "--set", "input.dataset=people"] if conf == JOINT else []
    assert main(["run", conf, "--run-id", "first", "--until", until, *settings]) == 0
    assert (given["run_id"], given["until"]) == ("first", until)
    printed = " ".join(capsys.readouterr().out.split())
    assert "next stage estimate Tract" in printed
    assert "Written" not in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--until", "ingest"], "--until needs --run-id"),
        (["--resume"], "--resume needs --run-id"),
        (["--until", "measure Enumdist", "--run-id", "first"], "its stages are: ingest; measure County; estimate"),
    ],
)
def test_a_stage_without_a_run_and_an_unknown_one_never_reach_the_pipeline(capsys, monkeypatch, options, said):
    monkeypatch.setattr(das_spark.pipeline, "run_stages", lambda *_, **__: pytest.fail("reached"))
    assert main(["run", QUICKSTART, *options]) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_is_not_there_is_not_begun_in_its_place(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(das_spark.pipeline, "run_stages", lambda *_, **__: pytest.fail("reached"))
    options = ["--resume", "--run-id", "first", "--output", str(tmp_path), "--until", "measure County"]
    assert main(["run", QUICKSTART, *options]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "there is no run first to resume" in said
    assert "leave --resume out" in said
    assert list(tmp_path.iterdir()) == []
