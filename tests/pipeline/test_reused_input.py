"""The ingested input of another run: shared where nothing but the budget differs, refused otherwise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from das_spark.config import RunPlan, plan_to_config
from das_spark.errors import InputError, OutputError
from das_spark.pipeline import ingest as ingest_stage
from das_spark.pipeline import reused_input
from das_spark.pipeline.context import RunContext, RunOptions
from das_spark.pipeline.ingest import ingest
from das_spark.pipeline.input_record import fingerprint
from das_spark.pipeline.reused_input import holds_input, reuse_input
from das_spark.spark.run_tables import LevelTables
from das_spark.store import PublicManifest, RunLayout, discard, finished, hold_run, part_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TABLES = ("geounits", "histograms", "invariants", "bounds")


def write_manifest(layout: RunLayout, plan: RunPlan) -> None:
    PublicManifest(layout.run_id, "then", product=plan.product.name, config=plan_to_config(plan)).save(
        layout.public.manifest
    )


@pytest.fixture
def first(workshop, calm) -> RunLayout:
    """A run that has ingested its input, and has a manifest as if it were finished."""
    context = workshop.ingested("first", calm)
    write_manifest(context.layout, context.plan)
    return context.layout


def identity_of(context: RunContext) -> str:
    return fingerprint(context.plan.input)[0]


@pytest.fixture
def second(workshop, first) -> RunContext:
    """A run of another budget that has just begun."""
    context = workshop.context("second", "budget.epsilon=1/3", "run.name=other")
    context.options = RunOptions(ingested_by=first)
    return context


def parts(layout: RunLayout) -> dict[str, int]:
    """Inode of every ingested data file."""
    found = {}
    for root in (layout.restricted.path, layout.public.path):
        for path in sorted(root.rglob("part-*")):
            found[str(path.relative_to(root))] = path.stat().st_ino
    return found


def test_a_run_of_another_budget_shares_the_files_and_reads_nothing(first, second, monkeypatch):
    monkeypatch.setattr(ingest_stage, "reader", lambda *_: pytest.fail("the input was read again"))
    monkeypatch.setattr(ingest_stage, "write_levels_of", lambda *_: pytest.fail("made again"))
    monkeypatch.setattr(LevelTables, "promote_levels", lambda *_: pytest.fail("made again"))
    ingest(second, identity_of(second))
    assert parts(second.layout) == parts(first)
    assert holds_input(second.layout, second.plan)
    assert json.loads(second.layout.restricted.input_record.read_text())["read_by"] == "first"
    assert second.restricted_facts.input_rows["geounits"] == 25
    assert list(second.layout.folder.rglob(".staging/*/*")) == []


def test_what_one_run_removes_the_other_one_keeps(first, second):
    reuse_input(second, first, identity_of(second))
    for table in ("leaves", "histograms"):
        discard(first.restricted.table(table))
    assert not holds_input(first, second.plan)
    assert holds_input(second.layout, second.plan)
    assert all(path.read_bytes() for path in part_files(second.layout.restricted.table("leaves")))


@pytest.mark.parametrize("done", [0, 3, 12])
def test_taking_over_goes_on_wherever_it_was_interrupted(first, second, monkeypatch, done):
    class Died(BaseException):
        """Nothing in the product may catch it."""

    calls, replace_folder = iter(range(100)), reused_input.replace_folder

    def dying(staging: Path, target: Path, *files: object) -> None:
        replace_folder(staging, target, *files)
        if next(calls) == done:
            (target / "_SUCCESS").unlink()  # all but the last step
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(reused_input, "replace_folder", dying)
        with pytest.raises(Died):
            reuse_input(second, first, identity_of(second))
    assert not holds_input(second.layout, second.plan)
    reuse_input(second, first, identity_of(second))
    assert parts(second.layout) == parts(first)


def test_what_a_run_has_of_its_own_stays(workshop, calm, first):
    own = workshop.ingested("own", calm, "budget.epsilon=1/3")
    shutil.rmtree(own.layout.restricted.table("histograms"))
    before = parts(own.layout)
    reuse_input(own, first, identity_of(own))
    after = parts(own.layout)
    assert {name: after[name] for name in before} == before
    assert {name for name in after if after[name] == parts(first)[name]} == {
        name for name in after if name.startswith("histograms")
    }


@pytest.mark.parametrize(
    ("setting", "differing"),
    [
        ("invariants.units=false", r"invariants\.units \(true, and false\)"),
        ('output.microdata=["text"]', r"output\.microdata"),
        ('budget.geolevels={State="1/2", County="1/4", Enumdist="1/4"}', r"budget\.levels"),
    ],
)
def test_a_run_that_differs_in_more_than_its_budget_is_refused(workshop, first, setting, differing):
    other = workshop.context("other", setting)
    with pytest.raises(OutputError, match=f"first cannot be reused: .* another {differing}"):
        reuse_input(other, first, identity_of(other))
    assert not part_files(other.layout.restricted.table("leaves"))


def test_another_input_is_refused(first, second):
    with pytest.raises(InputError, match="has changed since run first"):
        reuse_input(second, first, "the input of tomorrow")
    assert not finished(second.layout.restricted.table("leaves"))


@pytest.mark.parametrize("table", ["leaves", *TABLES])
def test_a_run_that_lost_some_of_it_is_refused(first, second, table):
    side = first.restricted if table in {"leaves", "histograms"} else first.public
    shutil.rmtree(side.table(table))
    with pytest.raises(OutputError, match="not all is there"):
        reuse_input(second, first, identity_of(second))


def test_a_run_at_work_or_without_a_manifest_is_refused(first, second):
    with hold_run(first), pytest.raises(OutputError, match="another driver is at work"):
        reuse_input(second, first, identity_of(second))
    first.public.manifest.unlink()
    with pytest.raises(OutputError, match="no manifest"):
        reuse_input(second, first, identity_of(second))
