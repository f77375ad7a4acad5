"""With --log-format json all that a run prints is one event a line: progress, results, warnings and errors."""

from __future__ import annotations

import json
import shlex
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import das_spark.pipeline
from das_spark.cli.log_format import LogFormat, wanted
from das_spark.cli.main import main
from das_spark.cli.runs import print_result
from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.telemetry import Event, Reporter

CONF = Path(__file__).parents[2] / "conf"
RUN = ["run", str(CONF / "quickstart.toml"), "--log-format", "json"]


def events(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def run(monkeypatch):
    """Let runs do what a test says."""

    def let(work):
        monkeypatch.setattr(das_spark.pipeline, "run_stages", work)

    return let


def finished(plan, *, progress, **_):
    fields = {"stage": "ingest", "families": None, "seconds": 1.5}
    Reporter(progress, "first").report("ingest: 1.5 s", Event.STAGE_FINISHED, fields)
    progress("run 1 of 2: first")
    return summary()


def summary(**changes):
    given = {"figures": {"persons": "7"}, "paths": {"ledger": Path("runs/first/x")}, "restricted": {"error": "0.25"}}
    return SimpleNamespace(**{"run_id": "first", "finished": True, **given, **changes})


def failing(error):
    def work(*_, **__):
        raise error

    return work


def test_progress_and_results_are_events_on_standard_output(capsys, run):
    run(finished)
    assert main([*RUN, "--test-key", "sesame"]) == 0
    captured = capsys.readouterr()
    stage, said, result = events(captured.out)
    assert stage.pop("time").endswith("+00:00")
    assert stage == {"run_id": "first", "event": "stage.finished", "level": "info", "stage": "ingest", "seconds": 1.5}
    assert (said["event"], said["text"]) == ("command.said", "run 1 of 2: first")
    assert result["event"] == "run.finished"
    assert (result["figures"], result["paths"]) == ({"persons": "7"}, {"ledger": "runs/first/x"})
    assert [event["event"] for event in events(captured.err)] == ["command.warned"] * 2
    assert "sesame" not in captured.out + captured.err


def test_a_run_that_was_told_to_stop_is_not_said_to_be_finished(capsys, run):
    run(lambda *_, **__: summary(finished=False, figures={"next stage": "measure County"}, paths={}))
    assert main([*RUN, "--run-id", "first", "--until", "ingest"]) == 0
    (result,) = events(capsys.readouterr().out)
    assert (result["event"], result["figures"]) == ("run.left", {"next stage": "measure County"})
    assert "paths" not in result


@pytest.mark.parametrize(("terminal", "shown"), [(True, True), (False, False)])
def test_exact_errors_are_shown_on_a_terminal_alone(terminal, shown):
    out = Console(file=StringIO(), force_terminal=terminal, width=200)
    print_result(out, LogFormat.TEXT, summary())
    printed = out.file.getvalue()
    assert "persons" in printed
    assert ("0.25" in printed) is shown


def test_without_the_option_lines_are_text(capsys, run):
    run(finished)
    assert main(RUN[:2]) == 0
    printed = capsys.readouterr().out
    assert "ingest: 1.5 s" in printed
    assert "{" not in printed


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (OutputError("full", hint="make room"), "DAS500", 1),
        (PrivacyGuardError("not twice", hint="make room"), "DAS700", 3),
    ],
)
def test_our_errors_have_code_exit_code_and_hint(capsys, run, error, code, exit_code):
    run(failing(error))
    assert main(RUN) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    (event,) = events(captured.err)
    assert event["event"] == "command.failed"
    assert (event["code"], event["exit_code"]) == (code, exit_code)
    assert (event["message"], event["hint"]) == (error.message, "make room")


def test_other_errors_are_one_line_too(capsys, run):
    run(failing(ValueError("first\nsecond")))
    assert main(RUN) == 1
    (event,) = events(capsys.readouterr().err)
    assert event["message"] == "ValueError: first"
    assert event["exit_code"] == 1
    assert "code" not in event


def test_an_interruption_is_one_too(capsys, run):
    run(failing(KeyboardInterrupt()))
    assert main(RUN) == 130
    (event,) = events(capsys.readouterr().err)
    assert event["exit_code"] == 130
    run_id = event["hint"].split()[-1]
    assert event["hint"] == shlex.join(["das-spark", *RUN, "--run-id", run_id])
    assert event["message"] == f"interrupted; run {run_id} goes on with"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--log-format", "json"], "CONF"),
        (["run", "x.toml", "--log-format=json", "--no-such-option"], "--no-such-option"),
        (["run", "x.toml", "--log-format=json"], "x.toml"),
    ],
)
def test_errors_of_the_command_line_are_events_too(capsys, arguments, said):
    assert main(arguments) == 2
    (event,) = events(capsys.readouterr().err)
    assert (event["code"], event["exit_code"]) == ("DAS100", 2)
    assert said in event["message"]


def test_the_option_is_found_in_any_form_and_a_wrong_value_is_refused(capsys):
    assert wanted(["run", "x", "--log-format", "json"]) is LogFormat.JSON
    assert wanted(["run", "--log-format=json", "x"]) is LogFormat.JSON
    assert wanted(["run", "x", "--log-format", "text"]) is LogFormat.TEXT
    assert wanted(["run", "--set", "json"]) is LogFormat.TEXT
    assert main(["run", "x.toml", "--log-format", "yaml"]) == 2
    assert "'yaml' is not one of" in capsys.readouterr().err
