"""Planted edits of one finished run: each is found by the rule that answers for it; faithful copies pass.

Most are judged by the rules of files alone, which need no engine: a run is copied and judged in a fraction of a second.
An edit that is `listed` has its manifest rewritten, so that checksums agree with what was changed: somebody who changes
a file can change its checksum, too. Then only the rule that is named stands in the way, and, of course, the digest of
the manifest itself.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from eight_blocks import write_run_file

from das_spark.cli.main import main
from das_spark.config import plan_from_config
from das_spark.errors import DasError
from das_spark.pipeline import statement, verify_run
from das_spark.pipeline.assess import text_checks
from das_spark.pipeline.features import orders_of
from das_spark.pipeline.spines import spine_of_run
from das_spark.pipeline.verified_files import (
    COPIED,
    ENTERED,
    FILES,
    LEFT,
    MODES,
    NAMED,
    ORDER,
    PARQUET,
    REPORT,
    STRICT,
    TIMES,
    KnownManifests,
    copy_checks,
    file_checks,
    is_readable,
    unchanged_check,
)
from das_spark.pipeline.verified_texts import TEXTS
from das_spark.privacy import StatementFacts
from das_spark.spark.checks import Check, VerificationReport
from das_spark.spark.verify_run import Verified
from das_spark.store import PublicLayout, PublicManifest, RunLayout, open_public, part_files, public_files, record_of

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

STATEMENT = "statement and ledger follow from the manifest"
LINK = "a symbolic link"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, spark) -> RunLayout:
    """A whole run with tables and both kinds of microdata, which nobody may change."""
    conf = write_run_file(tmp_path_factory.mktemp("planted"), "40")
    formats = ["--set", 'output.microdata=["parquet","text"]']
    assert main(["run", str(conf), "--run-id", "whole", "--test-key", "open", *formats]) == 0
    return RunLayout.at(conf.parent / "runs", "whole")


@pytest.fixture
def copied(whole, tmp_path) -> PublicLayout:
    shutil.copytree(whole.public.path, tmp_path / "copy" / "public")
    return PublicLayout(tmp_path / "copy" / "public")


@pytest.fixture(scope="module")
def once(whole) -> Iterator[None]:
    """Make the statement of equal facts once: exact trade-offs take a second, and most edits do not touch them."""
    known: dict[str, str] = {}
    original = statement.privacy_statement

    def remembered(facts: StatementFacts) -> str:
        return known[repr(facts)] if repr(facts) in known else known.setdefault(repr(facts), original(facts))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statement, "privacy_statement", remembered)
        yield


def found_by_files(folder: Path, whole: RunLayout) -> dict[str, Check]:
    """What the rules of files find of a folder, beside the report of the run as it was made."""
    public = open_public(folder)
    manifest = PublicManifest.load(public.manifest)
    plan = plan_from_config(manifest.config, source="the manifest")
    run = Verified(None, public, manifest, plan, spine_of_run(public, plan), folder)  # type: ignore[arg-type] # no session
    made = json.loads(whole.public.verification.read_text())
    checks = tuple(Check(**{**check, "failing": tuple(check["failing"])}) for check in made["checks"])
    report = VerificationReport(checks, tuple(made["relaxed"]), made["run_id"], made["manifest"])
    known = KnownManifests(entered=record_of(whole.public.manifest).sha256)
    of_files = file_checks(public, manifest, plan.product.census(plan.spine), orders_of(plan))
    judged = [unchanged_check(public, manifest), *of_files]
    judged += text_checks(run) if is_readable(judged) else []
    judged += copy_checks(public, manifest, report, known, folder / "no folder of ours")
    return {check.name: check for check in judged}


# ---------------------------------------------------------------------------------------------- how edits are made


def edited(path: Path, change: Callable[[Any], Any]) -> None:
    """Change what a JSON file holds."""
    content = json.loads(path.read_text())
    path.write_text(json.dumps(change(content) or content, indent=1) + "\n")


def text_of(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def saved(public: PublicLayout, **fields: Any) -> None:
    """Save the manifest with other fields, as a run writes it."""
    replace(PublicManifest.load(public.manifest), **fields).save(public.manifest)


def in_manifest(name: str, change: Callable[[Any], Any]) -> Callable[[PublicLayout], None]:
    def edit(public: PublicLayout) -> None:
        value = getattr(PublicManifest.load(public.manifest), name)
        saved(public, **{name: change(value)})

    return edit


def relisted(public: PublicLayout) -> None:
    saved(public, files=public_files(public))


def in_report(change: Callable[[Any], Any]) -> Callable[[PublicLayout], None]:
    return lambda public: edited(public.verification, change)


def linked(path: Path) -> None:
    """Move a file or folder out of the root, and leave a link to it."""
    outside = path.parents[1] if path.is_relative_to("/") else path
    while (outside / "run.json").exists() or any((above / "run.json").exists() for above in outside.parents):
        outside = outside.parent
    target = outside / f"outside-{path.name}"
    shutil.move(path, target)
    path.symlink_to(target)


def part(public: PublicLayout, table: str, level: str) -> Path:
    return part_files(public.level(table, level))[0]


def rows_changed(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    with pq.ParquetFile(path) as file:
        rows = change(file.read())
    pq.write_table(rows, path, compression="zstd", compression_level=1)


def backwards(rows: pa.Table) -> pa.Table:
    return rows.take(pa.array(range(rows.num_rows - 1, -1, -1)))


def with_bytes(path: Path, more: bytes) -> None:
    """Put bytes between the columns of a Parquet file and its footer, which names places before them alone."""
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    path.write_bytes(whole[:-footer] + more + whole[-footer:])


def of_arrow(path: Path) -> None:
    """Hide a text in the schema of Arrow that a Parquet file holds: in the metadata of a column."""
    rows_changed(
        path, lambda rows: rows.cast(pa.schema([each.with_metadata({"told": "secret"}) for each in rows.schema]))
    )


def lines_swapped(path: Path, first: int) -> None:
    lines = path.read_text().splitlines(keepends=True)
    lines[first], lines[first + 1] = lines[first + 1], lines[first]
    path.write_text("".join(lines))


def drop(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


@dataclass(frozen=True)
class Edit:
    make: Callable[[PublicLayout], object]
    found: str  # the check that fails, or a part of the error
    named: str  # what it names
    listed: bool = False  # whether the manifest is made to agree


OTHER = "0" * 64
T = "tables/P1.csv/level=Block/part-00000.csv"
EDITS: dict[str, Edit] = {
    # The report of the run.
    "report emptied": Edit(lambda p: p.verification.write_text(""), REPORT, "verification.json"),
    "report without content": Edit(lambda p: p.verification.write_text("{}"), REPORT, "no report"),
    "report deleted": Edit(lambda p: p.verification.unlink(), REPORT, "is missing"),
    "report of another run": Edit(in_report(lambda r: r | {"run_id": "other"}), REPORT, "run_id"),
    "report of another manifest": Edit(in_report(lambda r: r | {"manifest": OTHER}), REPORT, "manifest"),
    "report that failed": Edit(in_report(lambda r: r | {"passed": False}), REPORT, "passed"),
    "report with a relaxed family": Edit(in_report(lambda r: r | {"relaxed": ["Tract/01001"]}), REPORT, "relaxed"),
    "report less a check": Edit(in_report(lambda r: r | {"checks": r["checks"][1:]}), REPORT, "folders are whole"),
    "report with a check twice": Edit(in_report(lambda r: r["checks"].append(r["checks"][0])), REPORT, "whole"),
    "report with another count": Edit(in_report(lambda r: r["checks"][1].update(checked=7)), REPORT, FILES),
    "report with a check that nobody knows": Edit(
        in_report(lambda r: r["checks"].append({**r["checks"][0], "name": "all is well"})), REPORT, "all is well"
    ),
    "report with an unknown key": Edit(in_report(lambda r: r | {"signed": "office"}), REPORT, "signed"),
    "report with a key twice": Edit(
        lambda p: text_of(p.verification, '"passed": true', '"passed": false,\n "passed": true'), REPORT, "'passed'"
    ),
    "report with data behind it": Edit(lambda p: p.verification.open("a").write("{}"), REPORT, "Extra data"),
    # The manifest, with and without what it says of itself.
    "manifest with another version of das_spark": Edit(
        in_manifest("versions", lambda v: v | {"das_spark": "0.0.1"}), ENTERED, "SHA-256"
    ),
    "manifest with other software": Edit(in_manifest("versions", lambda v: v | {"openssl": "3.0"}), TEXTS, "versions"),
    "manifest less software": Edit(in_manifest("versions", lambda v: drop(v, "numpy")), TEXTS, "versions"),
    "manifest with a version that is none": Edit(
        in_manifest("versions", lambda v: v | {"numpy": "the latest"}), TEXTS, "versions"
    ),
    "manifest less a stage": Edit(in_manifest("stages", lambda s: s[1:]), TEXTS, "stages"),
    "manifest with stages in another order": Edit(in_manifest("stages", lambda s: s[::-1]), TEXTS, "stages"),
    "manifest with a stage that is not of the run": Edit(
        in_manifest("stages", lambda s: (*s, replace(s[0], name="spine"))), TEXTS, "stages"
    ),
    "manifest with another output": Edit(
        in_manifest("stages", lambda s: (replace(s[0], outputs=("geounits",)), *s[1:])), TEXTS, "stages"
    ),
    "manifest less a count": Edit(in_manifest("rows", lambda r: drop(r, "estimates/Block")), TEXTS, "rows"),
    "manifest with a count": Edit(in_manifest("rows", lambda r: r | {"estimates/Nation": 1}), TEXTS, "rows"),
    "manifest with other records": Edit(
        in_manifest("rows", lambda r: r | {"microdata/unit.parquet": 1}), TEXTS, "microdata/rows.json"
    ),
    "manifest without notices": Edit(in_manifest("notices", lambda _: ()), TEXTS, "notices"),
    "manifest of another time": Edit(in_manifest("created", lambda _: "2020-01-01T00:00:00+00:00"), TEXTS, "run.json"),
    "manifest with other costs of all runs": Edit(
        in_manifest("all_runs", lambda a: f"{a} None of them cost anything."), STATEMENT, "privacy_statement.md"
    ),
    "manifest with another ledger entry": Edit(
        in_manifest("ledger", lambda e: e | {"audited": True}), TEXTS, "ledger", listed=True
    ),
    "manifest with a file twice": Edit(in_manifest("files", lambda f: (*f, f[0])), TEXTS, "files"),
    "manifest with a key twice": Edit(
        lambda p: text_of(p.manifest, '"product":', '"product": "x",\n  "product":'), "'product' appears twice", ""
    ),
    "manifest with a key of its ledger twice": Edit(
        lambda p: text_of(p.manifest, '"insecure": true', '"insecure": false, "insecure": true'), "'insecure'", ""
    ),
    "manifest with no number": Edit(lambda p: text_of(p.manifest, '"gap": ', '"gap": NaN, "was": '), "NaN", ""),
    "manifest with an endless number": Edit(
        lambda p: text_of(p.manifest, '"gap": ', '"a": 1e999, "gap": '), "1e999", ""
    ),
    "manifest with data behind it": Edit(lambda p: p.manifest.open("a").write("{}"), "Extra data", ""),
    "manifest with an unknown key": Edit(lambda p: edited(p.manifest, lambda m: m | {"seal": 1}), "'seal'", ""),
    "manifest with an unknown key of a file": Edit(
        lambda p: edited(p.manifest, lambda m: m["files"][0].update(seen=1)), "seen", ""
    ),
    "manifest with an unknown setting": Edit(
        lambda p: edited(p.manifest, lambda m: m["config"].update(more=1)), "configuration cannot be read", ""
    ),
    "manifest in another form": Edit(lambda p: edited(p.manifest, lambda m: m), STRICT, "not as a run writes it"),
    # Other texts, with a manifest that agrees.
    "marker with a key twice": Edit(
        lambda p: text_of(p.marker, '"run_id":', '"run_id": "x", "run_id":'), "not readable as the marker", "", True
    ),
    "marker with an unknown key": Edit(lambda p: edited(p.marker, lambda m: m | {"by": "me"}), TEXTS, "run.json", True),
    "rows with data behind them": Edit(lambda p: p.microdata_rows.open("a").write(" 1"), STRICT, "rows.json", True),
    "ledger with a key twice": Edit(
        lambda p: text_of(p.privacy_ledger, '"run_id":', '"run_id": "x", "run_id":'),
        STRICT,
        "privacy_ledger.json",
        True,
    ),
    # Links, and what is no file.
    "a linked part": Edit(lambda p: linked(part(p, "estimates", "Block")), LINK, ""),
    "a linked folder": Edit(lambda p: linked(p.level("bounds", "Tract")), LINK, ""),
    "a linked table": Edit(lambda p: linked(p.tables.path), LINK, ""),
    "a linked manifest": Edit(lambda p: linked(p.manifest), LINK, ""),
    "a linked marker": Edit(lambda p: linked(p.marker), LINK, ""),
    "a linked report": Edit(lambda p: linked(p.verification), LINK, ""),
    "a link to nothing": Edit(lambda p: (p.path / "more").symlink_to("nothing"), LINK, ""),
    "a link in the staging folder": Edit(lambda p: (p.path / ".staging").symlink_to("tables"), LINK, ""),
    "a linked public root": Edit(lambda p: linked(p.path), LINK, ""),
    "a named pipe": Edit(lambda p: os.mkfifo(p.path / "tables" / "pipe"), "neither a file nor a folder", ""),
    # Files and folders.
    "an empty folder": Edit(lambda p: (p.path / "empty").mkdir(), FILES, "empty/ is empty"),
    "empty folders in one another": Edit(
        lambda p: (p.tables.path / "a" / "b").mkdir(parents=True), FILES, "tables/a/b/"
    ),
    "a file more": Edit(lambda p: (p.path / "README.txt").write_text("read me"), FILES, "README.txt"),
    "a hidden file": Edit(lambda p: (p.tables.path / ".note").write_text(""), FILES, "tables/.note"),
    "a file less": Edit(lambda p: part(p, "diagnostics", "Block").unlink(), FILES, "diagnostics/level=Block"),
    "a marker with content": Edit(
        lambda p: (p.level("bounds", "Tract") / "_SUCCESS").write_text("1"), FILES, "_SUCCESS"
    ),
    "a file in the staging folder": Edit(
        lambda p: ((p.path / ".staging").mkdir(), (p.path / ".staging" / "told").write_text("secret")), LEFT, "told"
    ),
    "a folder of a verification that is over": Edit(
        lambda p: (p.path / ".staging" / "verifying-1").mkdir(parents=True), LEFT, "verifying-1"
    ),
    # Modes and times.
    "a file that everybody may write": Edit(lambda p: p.manifest.chmod(0o666), MODES, "manifest.json"),
    "a folder that everybody may write": Edit(lambda p: p.tables.path.chmod(0o777), MODES, "tables"),
    "a file of another time": Edit(lambda p: os.utime(p.privacy_statement), TIMES, "privacy_statement.md"),
    "a file from before the run": Edit(lambda p: os.utime(p.path / T, (0, 0)), TIMES, T),
    # Parquet files, with a manifest that agrees.
    "metadata in a Parquet file": Edit(
        lambda p: rows_changed(part(p, "estimates", "Block"), lambda r: r.replace_schema_metadata({"told": "secret"})),
        PARQUET,
        "estimates/level=Block",
        listed=True,
    ),
    "metadata of a column": Edit(lambda p: of_arrow(part(p, "estimates", "Tract")), PARQUET, "columns", listed=True),
    "bytes of no column": Edit(
        lambda p: with_bytes(part(p, "estimates", "Block"), base64.b64encode(b"secret")), PARQUET, "bytes", listed=True
    ),
    "microdata without the notices": Edit(
        lambda p: rows_changed(
            part_files(p.microdata("person", "parquet"))[0], lambda r: r.replace_schema_metadata(None)
        ),
        PARQUET,
        "microdata/person.parquet",
        listed=True,
    ),
    "a Parquet file that is none": Edit(
        lambda p: part(p, "measurements", "Block").write_bytes(b"PAR1PAR1"), PARQUET, "cannot be read", listed=True
    ),
    # The order of rows, with a manifest that agrees.
    "geounits backwards": Edit(
        lambda p: rows_changed(part(p, "geounits", "Block"), backwards), ORDER, "geounits", True
    ),
    "bounds backwards": Edit(lambda p: rows_changed(part(p, "bounds", "Block"), backwards), ORDER, "bounds", True),
    "a table backwards": Edit(
        lambda p: rows_changed(part_files(p.tables.level("P1", "parquet", "Block"))[0], backwards), ORDER, "P1", True
    ),
    "lines of a CSV swapped": Edit(lambda p: lines_swapped(p.path / T, 3), ORDER, "tables/P1.csv", True),
    "a row of geounits twice": Edit(
        lambda p: rows_changed(part(p, "geounits", "Tract"), lambda r: pa.concat_tables([r.slice(0, 1), r])),
        ORDER,
        "geounits/level=Tract",
        listed=True,
    ),
}


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize("name", EDITS)
def test_a_planted_edit_is_found_by_the_rule_that_answers_for_it(whole, copied, name):
    edit = EDITS[name]
    edit.make(copied)
    if edit.listed:
        relisted(copied)
    if not edit.named:  # the folder is refused as a whole
        with pytest.raises(DasError, match=edit.found):
            found_by_files(copied.path.parent, whole)
        return
    checks = found_by_files(copied.path.parent, whole)
    assert not checks[edit.found].passed
    assert any(edit.named in said for said in checks[edit.found].failing), checks[edit.found]
    if edit.listed:
        assert not checks[ENTERED].passed
        assert checks[FILES].passed


def test_there_are_fifty_edits_at_least():
    assert len(EDITS) >= 50


def test_the_run_and_its_faithful_copies_pass(whole, copied, tmp_path):
    shutil.copytree(whole.public.path, tmp_path / "anew" / "public", copy_function=shutil.copyfile)
    (tmp_path / "latest").symlink_to(tmp_path / "copy")
    for folder in (whole.folder, whole.public.path, copied.path, tmp_path / "anew", tmp_path / "latest"):
        checks = found_by_files(folder, whole)
        assert [check for check in checks.values() if not check.passed] == []
        assert checks[TIMES].note == (COPIED if folder.name == "anew" else "")


# ------------------------------------------------------------------------------------------- by the whole command


def failing(report: VerificationReport) -> dict[str, tuple[str, ...]]:
    return {check.name: check.failing for check in report.failures}


def test_the_whole_command_passes_a_run_and_a_copy_and_changes_neither(whole, tmp_path, spark, capsys):
    digest = record_of(whole.public.manifest).sha256
    shutil.copytree(whole.public.path, tmp_path / "anew", copy_function=shutil.copyfile)
    before = {path: path.stat().st_mtime_ns for path in whole.public.path.rglob("*") if path.is_file()}
    found = verify_run(whole.folder, spark)
    assert found.passed
    assert {ENTERED} == {check.name for check in found.checks} & {ENTERED, NAMED}
    assert {path: path.stat().st_mtime_ns for path in whole.public.path.rglob("*") if path.is_file()} == before
    assert not (whole.public.path / ".staging").exists()
    again = verify_run(tmp_path / "anew", spark, manifest_sha256=digest.upper())
    assert again.passed
    assert {NAMED} == {check.name for check in again.checks} & {ENTERED, NAMED}
    assert main(["show", str(tmp_path / "anew")]) == 0
    assert digest in capsys.readouterr().out


def test_another_manifest_fails_against_the_ledger_and_against_what_was_named(whole, tmp_path, spark, capsys):
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    public = PublicLayout(folder / "public")
    digest = record_of(public.manifest).sha256
    saved(public, versions=PublicManifest.load(public.manifest).versions | {"numpy": "1.0"})
    found = failing(verify_run(folder, spark))
    assert found[ENTERED] == (f"manifest.json has SHA-256 {record_of(public.manifest).sha256}",)
    assert REPORT in found
    assert main(["verify", str(public.path), "--manifest-sha256", digest]) == 1
    assert NAMED in capsys.readouterr().out
    assert main(["verify", str(public.path), "--manifest-sha256", "abc"]) == 1
    assert "64 hexadecimal digits" in capsys.readouterr().err


def test_reordered_records_fail_though_every_checksum_agrees(copied, spark):
    """Two people of one block in the text file, and two units in the Parquet file, change places."""
    text = next(path for path in part_files(copied.microdata("person", "text")) if path.stat().st_size)
    lines_swapped(text, 0)
    rows_changed(part_files(copied.microdata("unit", "parquet"))[0], backwards)
    relisted(copied)
    found = [check for check in verify_run(copied.path, spark).failures if check.name == "order of records"]
    assert {check.note for check in found} == {"text files", "parquet files"}


def test_a_report_that_was_made_to_pass_is_contradicted(copied, spark):
    part(copied, "diagnostics", "Tract").unlink()
    found = failing(verify_run(copied.path, spark))
    assert "verification.json: passed" in found[REPORT]
    assert json.loads(copied.verification.read_text())["passed"], "what the run has written stays"


def test_a_link_is_refused_by_name(copied, spark, capsys):
    linked(part(copied, "estimates", "Block"))
    assert main(["verify", str(copied.path)]) == 1
    assert "is a symbolic link, which no run writes" in capsys.readouterr().err
