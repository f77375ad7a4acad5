"""What the statement and the notices of a run say of its plan: nothing here needs Spark or a finished run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from das_spark.config import RunPlan, load_plan
from das_spark.pipeline import publish
from das_spark.pipeline.statement import notices_of
from das_spark.pipeline.summary import summary_of
from das_spark.privacy import Ledger, LedgerEntry
from das_spark.store import RunLayout

pytestmark = pytest.mark.slow

CONF = Path(__file__).parents[2] / "conf"
GEOUNITS = "Which geounits exist was read from the records or counts of units themselves, not from a public list"


def plan(name: str, *settings: str) -> RunPlan:
    return load_plan(CONF / f"{name}.toml", settings=settings, files=False)


def context(of: RunPlan, folder: Path) -> Any:
    layout = RunLayout.at(folder, "run")
    layout.public.path.mkdir(parents=True, exist_ok=True)
    return SimpleNamespace(
        plan=of,
        spine=of.spine,
        layout=layout,
        created="2026-01-01T00:00:00+00:00",
        has_shares=False,
        is_insecure=False,
        tables=SimpleNamespace(geounit_counts=lambda: dict.fromkeys(of.spine.names, 1)),
        restricted_facts=SimpleNamespace(accuracy={}),
        published_run={},
    )


def statement(of: RunPlan, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(publish, "require_held", lambda _layout: None)
    nothing = {"solver_facts_of": {}, "_rows": {}, "stage_records": (), "public_files": ()}
    for name, value in nothing.items():
        monkeypatch.setattr(publish, name, lambda *_, value=value, **__: value)
    entry = LedgerEntry("run#0", "2026-01-01", of.product.name, of.product.record, of.budget, insecure=False)
    publish.publish_statement(context(of, folder), entry, Ledger((entry,)))
    return RunLayout.at(folder, "run").public.privacy_statement.read_text(encoding="utf-8")


def figures(of: RunPlan, folder: Path) -> dict[str, str]:
    manifest: Any = SimpleNamespace(rows={}, worst_residuals={"State": {"gap": 0.0}}, sha256="0" * 64)
    return dict(summary_of(context(of, folder), manifest, "verified").figures)


def test_geounits_that_units_tell_of_are_declared(tmp_path, monkeypatch):
    text = statement(plan("e2e_1940"), tmp_path, monkeypatch)
    assert text.index("## What is treated as public") < text.index(GEOUNITS)
    assert GEOUNITS not in statement(plan("pl94_2020_simulated"), tmp_path, monkeypatch)


def test_a_run_on_official_files_opens_with_what_follows_from_people(tmp_path, monkeypatch):
    made = plan("pl94_2020_person")
    text = statement(made, tmp_path, monkeypatch)
    said = "in every Block, whether anybody lives in group quarters of each type"
    assert text.index("PUBLISHED NEARLY EXACTLY") < text.index(said) < text.index("No claim is made for what this run")
    assert "one facility of a type is declared for each block where table P5 has people of that type" in text
    assert "| hhgq | " not in text.split("## About one attribute of a person")[1]
    assert "what is published nearly exactly has no price" in text
    (notice,) = notices_of(made, insecure=False)
    assert notice.startswith("PUBLISHED NEARLY EXACTLY")
    assert said in notice
    found = figures(made, tmp_path)
    assert list(found)[:3] == ["privacy loss", "this is the loss", "published nearly exactly"]
    assert found["this is the loss"].startswith("of the noisy answers alone")
    assert said in found["published nearly exactly"]


def test_a_run_without_units_claims_what_its_budget_says(tmp_path, monkeypatch):
    made = plan("pl94_2020_state")
    text = statement(made, tmp_path, monkeypatch)
    assert "## The claim\n\n**rho = 293764/114921**" in text
    assert "NEARLY EXACTLY" not in text
    assert "| hhgq | " in text.split("## About one attribute of a person")[1]
    assert "| Tract | " in text.split("## About the place within a geounit")[1]
    assert notices_of(made, insecure=False) == ()
    assert "published nearly exactly" not in figures(made, tmp_path)


def test_a_unit_stays_in_its_block_and_a_household_may_move(tmp_path, monkeypatch):
    text = statement(plan("pl94_2020_unit"), tmp_path, monkeypatch)
    assert "replaced by another one within the same Block" in text
    assert "A household that moves changes two records" in text
    assert "## About the place within a geounit" not in text
