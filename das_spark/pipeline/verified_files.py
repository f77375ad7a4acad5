"""Verification of the files of a run as files, which needs no engine: what there is, in which form, and whose it is.

Two kinds of rules stand here. Those of `file_checks` are about what a run has written, so that a run judges them itself
and its report lists them. Those of `copy_checks` are about a folder that somebody has in hand: whether its manifest is
the one that the ledger has, or that was named; whether its report is what verification finds now; who may write in it;
and times. A manifest cannot hold a digest of `verification.json`, which is written after it: what vouches for the
report is that every rule is judged again, and compared with it.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from das_spark import __version__
from das_spark.errors import OutputError
from das_spark.places import as_input, size_of
from das_spark.spark.checks import Check
from das_spark.store import (
    STAGING,
    OwnEntry,
    PublicManifest,
    files_below,
    find_run,
    ledger_with,
    public_files,
    record_of,
    strict_json,
)
from das_spark.store.parquet import SUFFIX

if TYPE_CHECKING:
    from das_spark.geography import Spine
    from das_spark.places import Place
    from das_spark.spark.checks import VerificationReport
    from das_spark.store import FileRecord, PublicLayout

FILES: Final = "files are those of the manifest"
STRICT: Final = "JSON files are strict"
PARQUET: Final = "Parquet files hold rows alone"
ORDER: Final = "rows are in order"
ENTERED: Final = "manifest is the one in the ledger"
NAMED: Final = "manifest is the one that was named"
REPORT: Final = "report of the run is what verification finds"
LEFT: Final = "nothing else is left in the folder"
MODES: Final = "no other user may write"
TIMES: Final = "times of change are that of the run"
#: What the check of times says of a folder that was copied or unpacked.
COPIED: Final = "no time is that of the run: a copy"
#: What checks of what only disks have say of any other file system.
STORED: Final = "no disk"

#: First part of the path of a public table -> columns by which its rows ascend, no two alike.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "geounits": ("geocode",),
    "invariants": ("geocode", "name"),
    "bounds": ("geocode", "name", "member"),
    "shares": ("geocode",),
    "published": ("geocode",),
    "spine": ("block",),
}
_CSV: Final = ".csv"
_ARROW: Final = b"ARROW:schema"
_NOTICES: Final = b"das_spark.notices"
_WRITER: Final = re.compile(r"parquet-cpp-arrow version \d+\.\d+\.\d+")
#: Bytes of a Parquet file around its columns and its footer: the magic word twice, and the length of the footer.
_FRAME: Final = 12
_UNREADABLE: Final = "cannot be read"
#: Seconds by which a time may differ: archives keep even seconds.
_UNIT_OF_TIME: Final = 2


def unchanged_check(layout: PublicLayout, manifest: PublicManifest, read: Iterable[FileRecord] = ()) -> Check:
    """Compare every public file with the manifest: there are these bytes, and no other file or folder.

    Args:
        layout: The public root.
        manifest: Its manifest.
        read: Files that have just been read for their checksums, by their paths below the root.
    """
    files = (manifest.files, public_files(layout, read=read))
    listed, found = ({record.name: record for record in records} for records in files)
    failing = [name for name in listed.keys() | found.keys() if listed.get(name) != found.get(name)]
    failing += [f"{name}/ is empty" for name in _empty_folders(layout.path)]
    return Check.of((FILES, "", ""), len(listed), failing)


def _empty_folders(root: Place) -> list[str]:
    empty: list[str] = []
    if not isinstance(root, Path):
        return empty  # a store has no folders
    for place, folders, files in os.walk(root):
        if Path(place) == root and STAGING in folders:
            folders.remove(STAGING)  # `copy_checks` looks there
        if not folders and not files:
            empty.append(Path(place).relative_to(root).as_posix())
    return empty


def file_checks(
    layout: PublicLayout, manifest: PublicManifest, census: Spine, of_publications: Mapping[str, tuple[str, ...]]
) -> list[Check]:
    """Judge the form of public files: JSON, Parquet, and the order of rows where a writer promises one.

    Args:
        layout: The public root.
        manifest: Its manifest.
        census: Geolevels of the published tables.
        of_publications: First part of the path of what is published of estimates -> columns by which its rows ascend.
    """
    names = files_below(layout.path, without={layout.verification.name, STAGING})
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # reading leaves the interpreter to others
        return [
            _strict(layout, manifest, names),
            _parquet(layout, manifest, names, threads),
            _order(layout, census, names, threads, of_publications),
        ]


def is_readable(checks: Iterable[Check]) -> bool:
    """Whether every Parquet file can be read, by the checks of files: rows of others are not looked at."""
    return not any(said.endswith(_UNREADABLE) for check in checks for said in check.failing)


def _strict(layout: PublicLayout, manifest: PublicManifest, names: Sequence[str]) -> Check:
    """Every JSON file can be read in one way only, and the manifest is written as a run writes it."""
    failing, read = [], [name for name in names if name.endswith(".json")]
    for name in read:
        try:
            content = strict_json(layout.file(name).read_bytes())
        except ValueError as error:
            failing.append(f"{name}: {error}")
            continue
        current = name == layout.manifest.name and content["schema_version"] == PublicManifest.schema_version
        if current and layout.manifest.read_bytes() != manifest.to_json().encode():
            failing.append(f"{name}: not as a run writes it")
    return Check.of((STRICT, "", ""), len(read), failing)


def _parquet(
    layout: PublicLayout, manifest: PublicManifest, names: Sequence[str], threads: ThreadPoolExecutor
) -> Check:
    """Parquet files hold rows and the notices of the run, and no byte besides."""
    notices = {_NOTICES: json.dumps(list(manifest.notices)).encode()} if manifest.notices else {}
    read = [name for name in names if name.endswith(SUFFIX)]
    said = threads.map(
        lambda name: _beside_rows(layout.file(name), notices if name.startswith("microdata/") else {}), read
    )
    return Check.of(
        (PARQUET, "", ""), len(read), [f"{name}: {what}" for name, what in zip(read, said, strict=True) if what]
    )


def _beside_rows(path: Place, expected: Mapping[bytes, bytes]) -> str:
    """What a Parquet file holds besides its rows; "" where that is nothing."""
    try:
        footer = parquet.read_metadata(as_input(path))
        schema = footer.schema.to_arrow_schema()
    except (pa.ArrowException, OSError):
        return _UNREADABLE
    metadata = dict(footer.metadata or {})
    if metadata.keys() - {_ARROW} != expected.keys() or any(metadata[name] != text for name, text in expected.items()):
        return "metadata that no run writes"
    if dict(schema.metadata or {}) != expected or any(map(_is_described, schema)):
        return "metadata of columns that no run writes"
    if not _WRITER.fullmatch(footer.created_by):
        return "made by other software"
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    columns = sum(group.column(place).total_compressed_size for group in groups for place in range(group.num_columns))
    return "" if size_of(path) == columns + footer.serialized_size + _FRAME else "bytes that belong to no column"


def _is_described(field: pa.Field) -> bool:
    """Whether a column, or what its lists hold, has metadata of its own."""
    inner = [field.type.field(place) for place in range(field.type.num_fields)]
    return bool((field.metadata or {}).keys() - {b"PARQUET:field_id"}) or any(map(_is_described, inner))


def _order(
    layout: PublicLayout,
    census: Spine,
    names: Sequence[str],
    threads: ThreadPoolExecutor,
    of_publications: Mapping[str, tuple[str, ...]],
) -> Check:
    """Rows of tables ascend by what tells them apart, file after file, so that their order says nothing."""
    folders: dict[str, list[Place]] = {}
    keys = {**_KEYS, **of_publications}
    for name in names:
        parts = name.split("/")
        # What geounits that have codes of their own stand under is in another order than geocodes.
        own = parts[0] in of_publications and parts[-2].removeprefix("level=") in census.own_codes
        if parts[0] in keys and parts[-1].startswith("part-") and not own:
            folders.setdefault("/".join(parts[:-1]), []).append(layout.file(name))
    judged = threads.map(lambda folder: _ascend(folders[folder], keys[folder.split("/")[0]]), folders)
    return Check.of(
        (ORDER, "", ""), len(folders), [folder for folder, good in zip(folders, judged, strict=True) if not good]
    )


def _ascend(files: Sequence[Place], keys: Sequence[str]) -> bool:
    """Whether the rows of files, one after the other, ascend by columns, no two alike."""
    last: list[pa.Array] | None = None
    try:
        for path in files:
            for batch in _batches(path, keys):
                columns = [batch.column(name) for name in keys]
                if last is not None:
                    columns = [pa.concat_arrays([end, column]) for end, column in zip(last, columns, strict=True)]
                if not _is_ascending(columns):
                    return False
                last = [column[-1:] for column in columns]
    except (pa.ArrowException, OSError, KeyError):
        return False
    return True


def _batches(path: Place, keys: Sequence[str]) -> Iterable[pa.RecordBatch]:
    if path.suffix != _CSV:
        with parquet.ParquetFile(as_input(path)) as file:
            yield from file.iter_batches(columns=list(keys))
        return
    texts = csv.ConvertOptions(column_types=dict.fromkeys(keys, pa.string()), include_columns=list(keys))
    yield from csv.open_csv(as_input(path), convert_options=texts)


def _is_ascending(columns: Sequence[pa.Array]) -> bool:
    less: pa.Array | None = None
    for column in reversed(columns):
        before, after = column[:-1], column[1:]
        below = pc.less(before, after)
        less = below if less is None else pc.or_(below, pc.and_(pc.equal(before, after), less))
    return less is None or not len(less) or bool(pc.all(less, skip_nulls=False).as_py())


@dataclass(frozen=True, slots=True)
class KnownManifests:
    """SHA-256 of the manifest that a folder must have.

    Attributes:
        named: By the user; empty where they named none.
        entered: By the ledger of the dataset; empty where it is not in reach, or does not say it.
    """

    named: str = ""
    entered: str = ""

    @classmethod
    def of(cls, run: Place, named: str = "") -> KnownManifests:
        """Return what is known of the manifest of a run.

        Args:
            run: As the user names it: only a run folder with a restricted root leads to its ledger.
            named: SHA-256 that the user expects.

        Raises:
            OutputError: That is no SHA-256.
            PrivacyGuardError: The entry of the run cannot be understood.
        """
        if named and not re.fullmatch(r"[0-9a-fA-F]{64}", named):
            raise OutputError(
                f"{named!r} is no SHA-256: expected 64 hexadecimal digits",
                hint="a run prints the SHA-256 of its manifest at its end, and `das-spark show RUN` shows it",
            )
        return cls(named.lower(), _entered(run))


def _entered(run: Place) -> str:
    try:
        layout = find_run(run)
        own = OwnEntry.find(layout.restricted)
    except (OutputError, OSError):  # the public root alone, or a restricted root that is closed to the reader
        return ""
    entry = None if own is None else ledger_with(layout).find(own.entry.run_id)
    return "" if entry is None else entry.manifest


def copy_checks(
    layout: PublicLayout, manifest: PublicManifest, report: VerificationReport, known: KnownManifests, ours: Place
) -> list[Check]:
    """Judge a folder that somebody has in hand.

    Args:
        layout: The public root.
        manifest: Its manifest.
        report: What verification has found of the run.
        known: What is known of its manifest.
        ours: The folder of this verification below the root, which is about to be removed.
    """
    digest = record_of(layout.manifest).sha256
    checks = [
        Check.of((name, "", ""), 1, () if expected == digest else (f"{layout.manifest.name} has SHA-256 {digest}",))
        for name, expected in ((ENTERED, known.entered), (NAMED, known.named))
        if expected
    ]
    staged = layout.staging
    left = [f"{STAGING}/{path.name}" for path in (staged.iterdir() if staged.is_dir() else ()) if path != ours]
    names = files_below(layout.path, without={STAGING, layout.verification.name})
    return [
        *checks,
        _report_check(layout, manifest, report),
        Check.of((LEFT, "", ""), len(names), left),
        _modes(layout.path),
        _times(layout.path, names, manifest.created),
    ]


def _report_check(layout: PublicLayout, manifest: PublicManifest, report: VerificationReport) -> Check:
    """Compare the report that a folder has with what was found now."""
    path = layout.verification
    expected: dict[str, Any] = json.loads(report.to_json())
    try:
        content = strict_json(path.read_bytes())
    except FileNotFoundError:
        failing = [f"{path.name}: is missing, and every finished run has one"]
    except ValueError as error:
        failing = [f"{path.name}: {error}"]
    else:
        failing = [f"{path.name}: {name}" for name in _differing(content, expected, manifest)]
    return Check.of((REPORT, "", ""), len(expected["checks"]), failing)


#: Version of a report of before -> what it says otherwise, or not at all; it may have had other rules, too.
_UNSAID: Final = {2: ("schema_version", "uncertified"), 3: ("schema_version",)}


def _differing(content: Any, expected: Mapping[str, Any], manifest: PublicManifest) -> list[str]:  # noqa: ANN401 - JSON
    """Names of what a report says otherwise; an earlier version may have had other rules, or said less of the run."""
    if not isinstance(content, dict) or not isinstance(content.get("checks"), list):
        return ["is no report"]
    version = content.get("schema_version")
    unsaid = {"checks", *next((names for number, names in _UNSAID.items() if number == version), ())}
    names = {"passed", "relaxed"} if version == 1 else (content.keys() | expected.keys()) - unsaid
    differing = sorted(name for name in names if content.get(name, ...) != expected.get(name, ...))
    said, found = (_by_key(checks) for checks in (content["checks"], expected["checks"]))
    same_rules = version not in (1, *_UNSAID) and manifest.versions.get("das_spark") == __version__
    keys = said.keys() | found.keys() if same_rules else said.keys() & found.keys()
    return [*differing, *sorted(" ".join(key).strip() for key in keys if said.get(key) != found.get(key))]


def _by_key(checks: Sequence[Any]) -> dict[tuple[str, str, str], list[Any]]:
    """Return checks by rule, level and note: there is one of each."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    for check in checks:
        fields = check if isinstance(check, dict) else {"name": check}
        key = (str(fields.get("name")), str(fields.get("geolevel")), str(fields.get("note")))
        found.setdefault(key, []).append(check)
    return found


def _modes(root: Place) -> Check:
    """Nobody but the owner and the group of a file or folder may change it."""
    failing, looked = [], 0
    if not isinstance(root, Path):
        return Check(MODES, "", passed=True, checked=0, note=STORED)
    for place, _, files in os.walk(root):
        for path in (Path(place), *(Path(place, name) for name in files)):
            looked += 1
            if path.lstat().st_mode & stat.S_IWOTH:
                failing.append(path.relative_to(root).as_posix())
    return Check.of((MODES, "", ""), looked, failing)


def _times(root: Place, names: Sequence[str], created: str) -> Check:
    """Files have the time of the run, or none of them has: a faithful copy keeps all times, or none."""
    if not isinstance(root, Path):
        return Check(TIMES, "", passed=True, checked=0, note=STORED)
    begun = datetime.fromisoformat(created).timestamp()
    other = [name for name in names if abs((root / name).stat().st_mtime - begun) > _UNIT_OF_TIME]
    if len(other) == len(names):
        return Check(TIMES, "", passed=True, checked=len(names), note=COPIED)
    return Check.of((TIMES, "", ""), len(names), other)
