"""`audit`: what is printed and written, exit codes, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from das_spark.audit import audits
from das_spark.cli.main import main
from das_spark.privacy import RunKey

CONF = Path(__file__).parents[2] / "conf"
QUICK = ["--stage", "measurement", "--draws", "4000", "--test-key", "cli"]


def command(*more: str, conf: str = "quickstart.toml") -> list[str]:
    return ["audit", str(CONF / conf), *more]


def test_the_tables_the_verdict_and_the_guard_are_printed(capsys):
    assert main(command(*QUICK)) == 0
    shown = capsys.readouterr().out
    for words in (
        "synthetic records only",
        "INSECURE",
        "Claimed: epsilon = 2 (exact)",
        "Proven, at confidence 0.95",
        "log-likelihood ratio of all answers",
        "noise / declared",
        "Consistent: nothing was found",
    ):
        assert words in shown


def test_runs_that_can_prove_nothing_are_not_called_consistent(capsys):
    assert (
        main(["audit", str(CONF / "quickstart.toml"), "--stage", "measurement", "--draws", "12", "--test-key", "x"])
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "measurement, crowd: so few runs (6 of each input judge) that even an exact leak would not be found" in shown
    assert "Nothing was found, but too few runs" in shown
    assert "Consistent" not in shown


def test_json_is_the_report_and_nothing_else(capsys, tmp_path):
    assert main(command(*QUICK, "--json", "--out", str(tmp_path / "made"))) == 0
    text = capsys.readouterr().out
    record = json.loads(text)
    assert record["claim"] == {
        "framework": "pure_dp",
        "currency": "epsilon",
        "total": "2",
        "delta": 0.0,
        "epsilon": 2.0,
    }
    assert record["convicts"] is False
    assert (tmp_path / "made" / "audit.json").read_text(encoding="utf-8") == text
    assert "## Power" in (tmp_path / "made" / "audit.md").read_text(encoding="utf-8")


def test_rho_is_told_as_an_epsilon_at_the_delta_that_is_asked_for(capsys):
    more = ["--delta", "1/100", "--json", *QUICK]
    assert main(command(*more, conf="pl94_2020_unit.toml")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["claim"]["currency"] == "rho"
    assert record["claim"]["delta"] == 0.01
    assert record["claim"]["epsilon"] < 2.47


def test_a_system_with_too_little_noise_ends_with_exit_code_one(capsys, monkeypatch):
    class Leaking(audits.LocalSystem):
        def measurement_plan(self, geolevel, key):
            noise = super().measurement_plan(geolevel, key)
            narrow = min(
                (table for tables in noise.mechanisms.values() for table in tables.values()), key=lambda each: each[1]
            )
            return replace(noise, mechanisms={"": dict.fromkeys(noise.queries, narrow)})

    monkeypatch.setattr(audits, "LocalSystem", Leaking)
    assert main(command("--stage", "measurement", "--draws", "40000", "--test-key", "cli")) == 1
    assert "CONVICTED" in capsys.readouterr().out


def test_without_a_test_key_every_key_is_the_operating_system_s(capsys, monkeypatch):
    drawn = []
    fresh = RunKey.from_system
    monkeypatch.setattr(RunKey, "from_system", classmethod(lambda cls: drawn.append(1) or fresh()))
    assert main(command("--stage", "measurement", "--draws", "400")) == 0
    assert len(drawn) == 2
    assert "INSECURE" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "conf", "message"),
    [
        (["--events", "guesses"], "quickstart.toml", "guesses is no kind of event"),
        (["--events", "kept"], "quickstart.toml", "noisy answers alone have no events of kind kept"),
        (["--delta", "0.1.2"], "quickstart.toml", "--delta: '0.1.2' is not a number"),
        (["--level", "95"], "quickstart.toml", "level: lies between 0 and 1"),
        (["--level", "0.9999999999999999"], "quickstart.toml", "level: lies between 0 and 1"),
        (["--delta", "2"], "quickstart.toml", "delta: lies between 0 and 1"),
        (["--runs", "3"], "quickstart.toml", "--runs"),
        (["--set", "geography.spine=optimised"], "pl94_2020_simulated.toml", "none of areas as for 'optimised'"),
        ([], "pl94_2020.toml", "names several runs"),
    ],
)
def test_what_cannot_be_audited_is_refused(capsys, options, conf, message):
    assert main(command("--stage", "measurement", "--draws", "40", *options, conf=conf)) != 0
    assert message in capsys.readouterr().err
