"""A run is begun in place of one that cannot be found only where nobody said that it is there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from made_runs import SPARK

from das_spark.config import load_plan, load_run
from das_spark.errors import PrivacyGuardError
from das_spark.pipeline import require_begun, run_stages, spines
from das_spark.pipeline.stages import ingest
from das_spark.store import RunLayout, open_run, succeed
from das_spark.store.spine import require_new

CONF = Path(__file__).parents[2] / "conf"


@pytest.mark.parametrize("whole", [True, False])
def test_a_run_whose_journal_is_lost_is_refused_before_it_is_charged(dry_workshop, monkeypatch, whole):
    plan, layout = dry_workshop.plan(), dry_workshop.layout("first")
    open_run(layout, plan.config_hash)
    published = layout.public.level("measurements", "County")
    published.mkdir(parents=True)
    (published / "part-0").touch()
    if whole:
        succeed(published)
    monkeypatch.setattr(ingest, "ingest", lambda *_: None)
    with pytest.raises(PrivacyGuardError, match="level County: measurements are published that the journal does not"):
        run_stages(plan, run_id="first", test_key="x", spark=SPARK)
    assert dry_workshop.ledger() == []
    assert not list((dry_workshop.root / "ledgers").glob("*"))


def test_a_spine_is_copied_where_a_driver_left_half_of_one(dry_workshop, monkeypatch):
    layout = begin(dry_workshop.root, "first")
    layout.public.spine.mkdir()
    (layout.public.spine / "left").touch()
    monkeypatch.setattr(spines, "read_spine", lambda *_: SimpleNamespace(blocks=None, record=None))
    monkeypatch.setattr(spines, "write_spine", lambda record, folder, *_: require_new(folder))
    spines.copy_spine(cast("Any", SimpleNamespace(has_shares=True, layout=layout, spark=None)), layout.public)


def begin(root: Path, run_id: str, public: Path | None = None) -> RunLayout:
    layout = RunLayout.at(root, run_id, str(public) if public else None)
    open_run(layout, "0" * 64)
    return layout


def test_a_run_that_was_begun_is_found_and_no_other(tmp_path):
    plan = load_plan(CONF / "quickstart.toml", settings=[f'output.root="{tmp_path}"'])
    with pytest.raises(PrivacyGuardError, match="no run first to resume"):
        require_begun(plan, "first")
    begin(tmp_path, "first")
    require_begun(plan, "first")
    with pytest.raises(PrivacyGuardError, match="no run second to resume"):
        require_begun(plan, "second")


@pytest.mark.parametrize("lost", ["public", "restricted"])
def test_one_root_without_the_other_is_no_run(tmp_path, lost):
    settings = [f'output.root="{tmp_path}"', f'output.public="{tmp_path / "shared"}"']
    plan = load_plan(CONF / "quickstart.toml", settings=settings)
    layout = begin(tmp_path, "first", tmp_path / "shared")
    require_begun(plan, "first")
    getattr(layout, lost).marker.unlink()
    with pytest.raises(PrivacyGuardError, match=str(getattr(layout, lost).path)):
        require_begun(plan, "first")


def test_of_a_joint_run_the_parts_with_earlier_stages_must_be_there(tmp_path):
    plan = load_run(CONF / "pl94_2020.toml", (), [f'output.root="{tmp_path}"', f'input.path="{CONF}"'])
    require_begun(plan, "first", "person: ingest")  # the first stage: nothing comes before it
    with pytest.raises(PrivacyGuardError, match="no run first-person"):
        require_begun(plan, "first", "unit: ingest")
    begin(tmp_path, "first-person")
    require_begun(plan, "first", "unit: ingest")
    with pytest.raises(PrivacyGuardError, match="no run first-unit"):
        require_begun(plan, "first", "person: measure US")
    begin(tmp_path, "first-unit")
    require_begun(plan, "first")
