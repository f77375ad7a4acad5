"""The runner: what is finished is skipped, what is spent is entered first and once, estimation sees public things."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.errors import InputError, PrivacyGuardError
from das_spark.pipeline import levels, run_stages, runner
from das_spark.pipeline.ingest import ingest
from das_spark.pipeline.levels import measure
from das_spark.pipeline.statement import INSECURE
from das_spark.privacy import RunKey, StreamDomain
from das_spark.spark.session import ONE_TASK, temporary_properties
from das_spark.store import Journal, RunLayout, finished, read_ledger

pytestmark = [pytest.mark.spark, pytest.mark.whole_run]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, spark, tools) -> Any:
    """A whole run by the command, verification included."""
    workshop = tools.Workshop(tmp_path_factory.mktemp("whole"), spark)
    arguments = ["run", str(workshop.run_file()), "--run-id", "whole", "--test-key", tools.TEST_KEY]
    assert main([*arguments, "--set", "evaluation.enabled=true"]) == 0
    return workshop


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of change of every data file and marker."""
    files = (path for path in folder.rglob("*") if path.name.startswith("part-") or path.name == "_SUCCESS")
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def test_a_whole_run_gives_the_same_bytes_as_its_stages(whole, reference, tools):
    assert tools.level_rows(whole.layout("whole").public.path) == reference


def test_a_finished_run_that_is_run_again_writes_no_table_and_charges_nothing(whole, monkeypatch, tools):
    folder, ledger = whole.layout("whole").folder, whole.ledger()
    before = stamps(folder)
    monkeypatch.setattr(levels, "measurements", lambda *_, **__: pytest.fail("drawn again"))
    monkeypatch.setattr(levels, "estimates", lambda *_: pytest.fail("estimated again"))
    lines: list[str] = []
    plan = whole.plan("evaluation.enabled=true")
    run_stages(plan, run_id="whole", test_key=tools.TEST_KEY, spark=whole.spark, progress=lines.append)
    assert stamps(folder) == before
    assert whole.ledger() == ledger
    assert lines[0].startswith("Spark ")
    assert lines[0].endswith(f"log of the run: {folder}/restricted/log.jsonl")
    assert [line.split(":")[0] for line in lines][1:4] == ["ingest", "measure State", "estimate State"]


def test_latest_points_to_the_last_run(whole):
    link = whole.root / "latest"
    assert link.is_symlink()
    assert os.readlink(link) == "whole"
    assert main(["show", str(link)]) == 0


def test_everything_of_a_run_under_a_test_key_says_so(whole):
    public = whole.layout("whole").public
    assert INSECURE in json.loads(public.manifest.read_text())["notices"]
    assert json.loads(public.privacy_ledger.read_text())["insecure"] is True
    assert "INSECURE" in public.privacy_statement.read_text()


def test_the_ledger_knows_the_run_its_shares_and_every_completed_level(whole, tools):
    (entry,) = read_ledger(whole.ledger_file).entries
    assert entry.run_id.startswith("whole#")
    assert entry.completed_levels == tools.LEVELS
    assert str(entry.total) == "4"
    assert entry.released == 4
    public = json.loads(whole.layout("whole").public.privacy_ledger.read_text())
    restricted = json.loads(whole.ledger()[-1])
    assert len(restricted.pop("sha256_before")) == 64, "of the lines before, some of other runs"
    assert (restricted.pop("format"), public.pop("format")) == (3, 2), "of a line, and of an entry"
    assert len(restricted.pop("contents")) == 2, "persons and units"
    assert len(restricted.pop("manifest")) == 64, "its checksum, which the manifest itself cannot hold"
    assert public == restricted
    assert public["dataset"] == "tiny"
    assert public["invariants"]["total_at"] == "State"


def test_public_files_tell_nothing_of_the_input_files(whole):
    checksum = json.loads(whole.layout("whole").restricted.manifest.read_text())["input_files"]
    shas = [each["sha256"] for each in checksum.values()]
    assert len(shas) == 2
    for path in whole.layout("whole").public.path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(sha.encode() in content for sha in shas), path


def test_public_files_have_no_digest_of_the_ledger(whole):
    """It depends on what other runs on the same people have entered."""
    digests = read_ledger(whole.ledger_file).digests
    layout = whole.layout("whole")
    assert any(digest in layout.restricted.ledger_entry.read_text() for digest in digests)
    for path in layout.public.path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"sha256_before" not in content, path
            assert b"ledger_sha256" not in content, path
            assert not any(digest.encode() in content for digest in digests), path


def test_the_restricted_manifest_says_what_was_read(whole):
    persons = pq.read_table(whole.census / "persons.parquet")
    units = pq.read_table(whole.census / "units.parquet")
    manifest = json.loads(whole.layout("whole").restricted.manifest.read_text())
    assert manifest["input_rows"] == {
        "geounits": len(set(units["geocode"].to_pylist())),
        "occupied cells": len(persons),
        "people": sum(persons["count"].to_pylist()),
    }
    assert manifest["problems"] == []


def test_a_run_does_not_go_on_with_another_input(workshop):
    begun = workshop.context("begun")
    ingest(begun, "the input of yesterday")
    with pytest.raises(InputError, match="has changed since run begun"):
        ingest(workshop.context("begun"), "the input of today")


def test_no_staging_folder_is_left(whole):
    assert list(whole.folder.rglob(".staging")) == []


def test_no_file_of_a_run_holds_a_key_of_its_noise(whole, tools):
    key, plan = RunKey.insecure(tools.TEST_KEY), whole.plan()
    secrets = [tools.TEST_KEY.encode(), key._reveal()]
    for level in plan.budget.levels:
        for query in level.queries:
            domain = StreamDomain(plan.product.name, plan.product.record, level.geolevel, 0, query.query)
            secrets.append(key.derive(domain)._reveal())
    forms = [*secrets, *(raw.hex().encode() for raw in secrets), *(raw.hex().upper().encode() for raw in secrets)]
    files = [path for path in whole.folder.rglob("*") if path.is_file()]
    assert len(files) > 50
    assert [str(path) for path in files if any(form in path.read_bytes() for form in forms)] == []


class Stop(BaseException):
    """Ends a run where a test has seen enough."""


def test_the_input_is_charged_before_the_first_draw_and_each_level_when_it_is_public(
    workshop, calm, monkeypatch, tools
):
    workshop.ingested("charged", calm)
    seen: list[tuple[str, ...]] = []
    opened = Journal.open

    def noting(journal: Journal, geolevel: str, number: int) -> Any:
        (entry,) = read_ledger(workshop.ledger_file).entries
        seen.append(entry.completed_levels)
        return opened(journal, geolevel, number)

    monkeypatch.setattr(Journal, "open", noting)
    run_stages(workshop.plan(), run_id="charged", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert seen == [(), ("State",), ("State", "County")]


def test_two_runs_are_charged_twice_and_one_that_resumes_once(workshop, calm, monkeypatch, tools):
    monkeypatch.setattr(levels, "estimate", lambda *_: (_ for _ in ()).throw(Stop))
    for run_id in ("first", "second"):
        workshop.ingested(run_id, calm)
        for _ in range(2):
            with pytest.raises(Stop):
                run_stages(workshop.plan(), run_id=run_id, test_key=tools.TEST_KEY, spark=workshop.spark)
    entries = read_ledger(workshop.ledger_file).entries
    assert [entry.run_id.split("#")[0] for entry in entries] == ["first", "second"]
    assert all(entry.completed_levels == ("State",) for entry in entries)


def test_public_and_restricted_roots_may_lie_elsewhere(workshop, calm, tools, monkeypatch):
    settings = [f'output.public="{workshop.folder}/open"', f'output.restricted="{workshop.folder}/closed"']
    monkeypatch.setattr(runner, "carry_out", lambda context, _: context.layout)
    layout = run_stages(workshop.plan(*settings), run_id="apart", test_key="x", spark=workshop.spark)
    assert layout == RunLayout.at(workshop.root, "apart", f"{workshop.folder}/open", f"{workshop.folder}/closed")
    assert layout.restricted.path.stat().st_mode & 0o777 == 0o700
    assert layout.public.path.is_dir()


@pytest.fixture
def measured(workshop, calm, tools):
    """A run whose top level is measured, and nothing estimated."""
    context = workshop.ingested("measured", calm)
    tools.charge(context)
    measure(context, "State")
    return context


@pytest.mark.parametrize("entries", ["0", "524288"])
def test_estimation_is_given_public_files_only(measured, monkeypatch, entries):
    given: dict[str, Any] = {}
    real = levels.estimates

    def noting(spark: Any, level: Any, parents: Any, task: Any, spread: Any, *more: Any, **named: Any) -> Any:
        given.update(geounits=level.geounits, measurements=level.measurements, bounds=level.bounds, parents=parents)
        assert (spread.partitions == 1) == (entries != "0" or spread.files == 1)
        return real(spark, level, parents, task, spread, *more, **named)

    monkeypatch.setattr(levels, "estimates", noting)
    with temporary_properties(measured.spark, {ONE_TASK: entries}):
        for level in ("State", "County"):
            measure(measured, level)
            levels.estimate(measured, level)
            for name, stored in given.items():
                if stored is not None:
                    assert stored.files, name
                    assert all(path.is_relative_to(measured.layout.public.path) for path in stored.files)
    assert given["parents"] is not None


def test_estimation_works_where_the_restricted_root_is_not(measured, reference, tools):
    layout = measured.layout
    away = layout.folder.parent / "locked-away"
    layout.restricted.path.rename(away)
    levels.estimate(measured, "State")
    assert not layout.restricted.path.exists()
    assert finished(layout.public.level("estimates", "State"))
    away.rename(layout.restricted.path)
    tools.all_levels(measured)
    assert tools.level_rows(layout.public.path) == reference


def test_tasks_of_estimation_hold_no_key_and_those_of_measuring_no_run_key(measured):
    import cloudpickle

    task = levels.estimation_task(measured.plan, "County")
    pickled = cloudpickle.dumps(task)
    for level in measured.plan.budget.levels:
        for query in level.queries:
            domain = StreamDomain("e2e_1940", "person", level.geolevel, 0, query.query)
            assert measured.key.derive(domain)._reveal() not in pickled
    given = cloudpickle.dumps(levels.measurement_task(measured, "County", 1))
    assert measured.key._reveal() not in given
    other = StreamDomain("e2e_1940", "person", "State", 0, "hhgq")
    assert measured.key.derive(other)._reveal() not in given, "a task has the keys of its own level only"
    own = StreamDomain("e2e_1940", "person", "County", 0, "hhgq")
    assert measured.key.derive(own)._reveal() in given, "the search works"


def test_attempts_under_a_real_key_draw_from_streams_of_their_own(measured):
    measured.key = RunKey.from_system()
    first, second = (levels.measurement_task(measured, "County", number) for number in (1, 2))
    assert first.plan.streams["hhgq"]._reveal() != second.plan.streams["hhgq"]._reveal()


def test_a_measured_level_that_vanished_is_refused_and_not_drawn_again(measured, monkeypatch):
    monkeypatch.setattr(levels, "measurements", lambda *_, **__: pytest.fail("drawn again"))
    (measured.layout.public.level("measurements", "State") / "_SUCCESS").unlink()
    with pytest.raises(PrivacyGuardError, match="State"):
        measure(measured, "State")
