"""Verification answers for every public file: what was changed, added or taken away is found, and named."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from das_spark.pipeline import verify_run
from das_spark.store import PublicLayout, PublicManifest, public_files

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

FILES = "files are those of the manifest"
TEXTS = "statement and ledger follow from the manifest"


def rewritten(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def claims_less(public: PublicLayout) -> None:
    rewritten(public.privacy_statement, "**epsilon = ", "**epsilon = 1/")


def says_less_is_exact(public: PublicLayout) -> None:
    """All that follows from the manifest is made to agree with it: only the configuration says otherwise."""
    manifest = PublicManifest.load(public.manifest)
    replace(manifest, invariants=manifest.invariants[:1]).save(public.manifest)


def spends_less(public: PublicLayout) -> None:
    rewritten(public.privacy_ledger, '"insecure": true', '"insecure": false')


def has_one_more(public: PublicLayout) -> None:
    (public.path / "estimates" / "part-99999.parquet").write_bytes(b"PAR1")


def lost_one(public: PublicLayout) -> None:
    (public.level("diagnostics", "State") / "part-00000.parquet").unlink()


CHANGES: dict[Callable[[PublicLayout], None], tuple[set[str], str]] = {
    claims_less: ({FILES, TEXTS}, "privacy_statement.md"),
    says_less_is_exact: ({TEXTS}, "invariants of the manifest"),
    spends_less: ({FILES, TEXTS}, "privacy_ledger.json"),
    has_one_more: ({FILES}, "estimates/part-99999.parquet"),
    lost_one: ({FILES}, "diagnostics/level=State/part-00000.parquet"),
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_file_fails_the_rule_that_answers_for_it(measured, spark, tmp_path, change):
    public = PublicLayout(tmp_path / "public")
    shutil.copytree(measured.layout("whole").public.path, public.path)
    change(public)
    failed = {check.name: check.failing for check in verify_run(public.path, spark).failures}
    rules, named = CHANGES[change]
    assert rules <= set(failed)
    assert all(any(named in name for name in failed[rule]) for rule in rules)


def test_the_manifest_answers_for_all_files_and_the_ledger_for_the_manifest(measured):
    layout = measured.layout("whole")
    manifest = PublicManifest.load(layout.public.manifest)
    assert manifest.files == public_files(layout.public)
    apart = {layout.public.manifest, layout.public.verification}
    everything = {path for path in layout.public.path.rglob("*") if path.is_file()} - apart
    assert {layout.public.path / file.name for file in manifest.files} == everything
    digest = hashlib.sha256(layout.public.manifest.read_bytes()).hexdigest()
    assert manifest.sha256 == digest
    assert json.loads(measured.ledger()[-1])["manifest"] == digest
