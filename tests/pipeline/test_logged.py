"""The log and the page of a run: what a real run notes, and how every end of a driver is told."""

from __future__ import annotations

import json

import pytest

from das_spark.cli.main import main
from das_spark.errors import InputError, OutputError, PrivacyGuardError
from das_spark.pipeline import progress as module
from das_spark.pipeline import run_stages, runner
from das_spark.pipeline.run_record import known_run
from das_spark.store import RestrictedManifest
from das_spark.telemetry import COMMON, Event, read_log

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]


@pytest.fixture(scope="module")
def lines(measured):
    log = read_log(measured.layout("whole").restricted.log)
    assert log.torn == ()
    return log.lines


def test_a_whole_run_notes_every_step_of_every_level_in_order(lines, tools):
    for level in tools.LEVELS:
        own = [line["event"] for line in lines if line.get("geolevel") == level]
        measured = ["level.opened", "level.drawn", "level.staged", "level.promoted", "ledger.completed"]
        assert own == [*measured, "families.slowest"]
    events = [line["event"] for line in lines]
    assert events[:3] == ["run.opened", "spark.started", "stage.started"]
    assert events[-3:] == ["verification.finished", "stage.finished", "run.finished"]
    assert events.index("ledger.entered") < events.index("level.opened"), "charged before anything is drawn"


def test_every_line_carries_what_the_registry_says(lines):
    for line in lines:
        event = next(event for event in Event if event.value == line["event"])
        told = {name: value for name, value in line.items() if name not in COMMON}
        assert set(told) <= set(event.fields), event
        wrong = [name for name, value in told.items() if not isinstance(value, event.fields[name])]
        assert wrong == [], event
        assert (line["run_id"], line["level"], line["opening"]) == ("whole", event.level, 1)


def test_lines_name_the_application_from_its_start_on(lines, spark):
    assert lines[0]["application"] == ""
    assert {line["application"] for line in lines[1:]} == {spark.sparkContext.applicationId}


def test_the_restricted_manifest_has_the_cost_of_every_stage(measured, lines):
    manifest = RestrictedManifest.load(measured.layout("whole").restricted.manifest)
    stages = [line["stage"] for line in lines if line["event"] == "stage.finished"]
    assert list(manifest.metrics) == stages == list(manifest.seconds)
    for name, cost in manifest.metrics.items():
        assert (cost["entered"], cost["failed"], cost["cut_short"]) == (1, 0, 0)
        assert cost["lost_stages"] == 0
        if name == "verify":  # it was left out
            assert (cost["jobs"], cost["tasks"]) == (0, 0)
            continue
        assert cost["jobs"] > 0, name
        assert cost["tasks"] > 0
        assert 0 < cost["slowest_task_seconds"] <= manifest.seconds[name] + 1
    assert manifest.metrics["ingest"]["input_bytes"] > 0, "the input is read by Spark"


def test_a_stage_takes_few_jobs_of_spark(measured):
    """Each costs a third of a second, whatever it does: nobody adds one unseen."""
    costs = RestrictedManifest.load(measured.layout("whole").restricted.manifest).metrics
    jobs = {name: cost["jobs"] for name, cost in costs.items()}
    most = {"ingest": 12, "microdata": 3, "tabulate": 1, "verify": 0, "evaluate": 1}
    assert {name: number for name, number in jobs.items() if number > most.get(name, 1)} == {}
    assert set(jobs) >= {"ingest", "microdata"}


def test_nothing_of_the_log_is_public(measured):
    layout = measured.layout("whole")
    assert layout.restricted.page.is_file()
    names = {path.name for path in layout.public.path.rglob("*")}
    assert not names & {layout.restricted.page.name, layout.restricted.log.name}


@pytest.fixture
def ending(workshop, monkeypatch, tools):
    """A run whose work is what a test says; gives its layout and the lines of its log."""

    def end(work):
        monkeypatch.setattr(runner, "carry_out", lambda context, _: work(context))
        layout = workshop.layout("short")
        try:
            run_stages(workshop.plan(), run_id="short", test_key=tools.TEST_KEY, spark=workshop.spark)
        finally:
            end.lines = read_log(layout.restricted.log).lines
        return layout

    end.layout = workshop.layout("short")
    return end


def raising(error):
    def work(context):
        with context.progress.stage(context.spark, "measure County"):
            raise error

    return work


def test_an_error_is_noted_with_its_code_and_the_page_says_so(ending):
    with pytest.raises(OutputError):
        ending(raising(OutputError("there is no room", hint="make room")))
    stage, run = ending.lines[-2:]
    assert (stage["event"], stage["code"], stage["error"]) == ("stage.failed", "DAS500", "OutputError")
    assert (run["event"], run["code"], run["exit_code"]) == ("run.failed", "DAS500", 1)
    assert (run["message"], run["hint"]) == ("there is no room", "make room")
    page = ending.layout.restricted.page.read_text()
    assert "failed: DAS500" in page
    assert "there is no room" in page


def test_a_refusal_of_a_guard_is_noted_as_such(ending):
    with pytest.raises(PrivacyGuardError):
        ending(raising(PrivacyGuardError("not twice")))
    assert [line["event"] for line in ending.lines[-2:]] == ["guard.refused", "run.failed"]
    assert ending.lines[-1]["exit_code"] == 3


def test_of_an_error_that_is_none_of_ours_only_the_type_is_noted(ending):
    """Spark's messages may quote rows."""
    with pytest.raises(ValueError, match="42"):
        ending(raising(ValueError("a count of 42")))
    assert ending.lines[-1]["error"] == "ValueError"
    told = {name: value for name, value in ending.lines[-1].items() if name not in COMMON}
    assert "42" not in json.dumps(told)
    assert "a count" not in ending.layout.restricted.page.read_text()


def test_an_interruption_is_noted_and_raised(ending):
    with pytest.raises(KeyboardInterrupt):
        ending(raising(KeyboardInterrupt()))
    assert ending.lines[-1]["event"] == "run.interrupted"


def test_a_driver_that_does_less_than_the_run_leaves_it(ending):
    ending(lambda _: None)
    assert ending.lines[-1]["event"] == "run.left"
    ending(lambda _: None)
    assert [line["event"] for line in ending.lines if line["event"].startswith("run.")] == [
        "run.opened",
        "run.left",
        "run.resumed",
        "run.left",
    ]
    record = known_run(ending.layout.folder)
    assert [opening.number for opening in record.drivers] == [1, 2]
    assert record.state == "left, as it was asked to"


def test_a_run_at_work_says_so(ending):
    seen = []
    ending(lambda context: seen.append(known_run(context.layout.folder)))
    assert seen[0].state == "at work"
    assert known_run(ending.layout.folder).state != "at work"


def test_a_page_that_fails_costs_no_run(ending, monkeypatch):
    def broken(_):
        raise ZeroDivisionError

    monkeypatch.setattr(module, "write_page", broken)
    ending(lambda _: None)
    assert [line["event"] for line in ending.lines[-2:]] == ["run.left", "page.failed"]


def test_an_unfinished_attempt_that_is_drawn_again_is_noted(workshop, calm, monkeypatch, tools):
    noted = []
    context = workshop.ingested("again", calm)
    tools.charge(context)
    monkeypatch.setattr(type(context.progress), "log", lambda _, event, **fields: noted.append((event, fields)))
    from das_spark.pipeline import levels

    with tools.dying(levels, "_draw"):
        levels.measure(context, "State")
    noted.clear()
    levels.measure(context, "State")
    levels.measure(context, "State")
    assert [event.value for event, _ in noted] == [
        "level.destroyed",
        "level.opened",
        "level.drawn",
        "level.staged",
        "level.promoted",
        "level.skipped",
    ]
    assert [fields["attempt"] for _, fields in noted[:2]] == [1, 2]
    assert noted[-1][1] == {"geolevel": "State", "work": "measure"}


def test_show_says_what_is_restricted_when_asked_and_not_otherwise(measured, capsys):
    folder = str(measured.layout("whole").folder)
    assert main(["show", folder]) == 0
    assert "Drivers" not in capsys.readouterr().out
    assert main(["show", folder, "--restricted"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("RESTRICTED")
    assert "measure County" in printed
    assert "finished and verified" in printed
    assert main(["show", f"{folder}/public", "--restricted"]) == 1


def test_a_page_with_restricted_facts_is_not_written_below_a_public_root(measured, capsys, tmp_path):
    layout = measured.layout("whole")
    inside = layout.public.path / "run.html"
    assert main(["show", str(layout.folder), "--page", str(inside)]) == 1
    assert not inside.exists()
    assert "public root" in capsys.readouterr().err
    assert main(["show", str(layout.folder), "--page", str(tmp_path / "own.html")]) == 0
    assert "RESTRICTED" in (tmp_path / "own.html").read_text()
    assert main(["show", str(layout.public.path), "--page", str(tmp_path / "public.html")]) == 0
    public = (tmp_path / "public.html").read_text()
    assert "RESTRICTED" not in public
    assert 'id="levels"' in public
    assert 'id="stages"' not in public
    assert 'id="spending"' not in public


def test_a_collector_of_lineage_hears_of_every_driver_and_nothing_of_the_input(workshop, tools, monkeypatch):
    sent = workshop.folder / "events.jsonl"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(sent))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    layout = workshop.layout("heard")
    for until in ("ingest", None):
        run_stages(workshop.plan(), run_id="heard", test_key=tools.TEST_KEY, spark=workshop.spark, until=until)
    (workshop.census / "persons.parquet").unlink()
    with pytest.raises(InputError):
        run_stages(
            workshop.plan("input.dataset=other"), run_id="refused", test_key=tools.TEST_KEY, spark=workshop.spark
        )
    events = [json.loads(line) for line in sent.read_text().splitlines() if line]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE", "START", "COMPLETE"]
    assert {one["name"] for event in events for one in event["inputs"]} == {"tiny"}
    made = [(one["namespace"], one["name"]) for event in events for one in event["outputs"]]
    assert made == [("file", str(layout.public.path.absolute()))]
    assert str(workshop.census) not in sent.read_text()
