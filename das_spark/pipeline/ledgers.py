"""The cumulative ledger of a dataset: what its input is known by, and where it lies.

One file a dataset, in one folder: the operator's (`ledger.path`), or `ledgers` beside the runs. Nothing is ever written
beside the input.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.config import SIMULATED
from das_spark.errors import InputError, PrivacyGuardError
from das_spark.privacy import Ledger
from das_spark.store import (
    LEDGER_SUFFIX,
    LEDGERS,
    OwnEntry,
    RunMarker,
    disk_errors,
    read_ledger,
    sync_folder,
    unwritable,
)

if TYPE_CHECKING:
    from das_spark.config import InputSettings, RunPlan
    from das_spark.store import RunLayout

_BLOCK = 1 << 22


def fingerprint(settings: InputSettings) -> tuple[str, list[dict[str, object]]]:
    """Identity of an input: a checksum over its files' contents, or over the simulator's arguments.

    Args:
        settings: Where the input is.

    Returns:
        SHA-256 in hexadecimal, and name, size, time of change and checksum of each file (restricted), and whether it
        is confidential: a table that only says which geounits exist is not, nor is what the reader does not read.

    Raises:
        InputError: If a file cannot be read.
    """
    whole = hashlib.sha256()
    if settings.reader == SIMULATED:
        whole.update(json.dumps(settings.population.to_json(), sort_keys=True).encode())
        return whole.hexdigest(), []
    found = dict(sorted(_files(settings).items()))
    # Where nothing looks like what the reader reads, all of it may be.
    known = any(found.values())
    files = [_examined(path) | {"confidential": records or not known} for path, records in found.items()]
    for content in sorted(str(each["sha256"]) for each in files):
        whole.update(content.encode())
    return whole.hexdigest(), files


def is_unchanged(settings: InputSettings, files: Iterable[Mapping[str, object]]) -> bool:
    """Whether the files of an input have the sizes and times of change that they had, and there is no other one.

    Args:
        settings: Where the input is.
        files: As `fingerprint` gave them.

    Raises:
        InputError: A file or folder of the settings is not there.
    """
    return not _changed(settings, files)


def require_unchanged(settings: InputSettings, files: Iterable[Mapping[str, object]]) -> None:
    """Refuse an input that is not, after it was read, what its identity was taken from before.

    Args:
        settings: Where the input is.
        files: As `fingerprint` gave them.

    Raises:
        InputError: A file has changed, is gone, or has come.
    """
    changed = _changed(settings, files)
    if changed:
        raise InputError(
            f"{changed[0]}: changed while it was read; nothing of it is kept",
            hint="let no file be delivered to [input] while a run reads it, and run the same command again",
        )


def _changed(settings: InputSettings, files: Iterable[Mapping[str, object]]) -> list[str]:
    before = {str(each["file"]): (each["bytes"], each["mtime_ns"]) for each in files}
    now: dict[str, tuple[object, object]] = {}
    if settings.reader != SIMULATED:
        for path in _files(settings):
            with suppress(FileNotFoundError):  # gone since its folder was listed
                status = path.stat()
                now[str(path)] = (status.st_size, status.st_mtime_ns)
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def contents_of(settings: InputSettings, identity: str, files: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """What the confidential files hold, whatever else lies beside them: by this the same people are known again.

    Args:
        settings: Where the input is.
        identity: As `fingerprint` gave it.
        files: The same; those that an earlier version has recorded count as confidential.

    Returns:
        Checksums, sorted; of an invented population, that of its arguments.
    """
    if settings.reader == SIMULATED:
        return (identity,)
    return tuple(sorted({str(each["sha256"]) for each in files if each.get("confidential", True)}))


def folder_of(plan: RunPlan, layout: RunLayout) -> Path:
    """The folder of the ledgers of a run: the one that it was begun with, else the operator's, else that of the runs.

    The last of them is made, and closed to others: names of ledgers may tell of inputs. No other folder is.

    Args:
        plan: The run.
        layout: Where it lies, or will lie.

    Returns:
        An absolute path.

    Raises:
        PrivacyGuardError: A folder that was named cannot be reached or written.
        OutputError: The folder with the runs cannot be made.
    """
    marker = RunMarker.find(layout.restricted.path)
    begun = "" if marker is None else marker.ledger
    if begun:
        why = f"run {layout.run_id} was begun with the ledgers in {begun}, and"
        return _reachable(
            Path(begun), why, "bring that folder back (is its disk mounted?), or begin a run of another name"
        )
    if plan.ledger.path is not None:
        folder = Path(plan.ledger.path).absolute()
        return _reachable(folder, "ledger.path:", "make the folder, or mount its disk; it is never made by a run")
    folder = layout.root.absolute() / LEDGERS
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            folder.chmod(0o700)  # an earlier version left it open
        sync_folder(folder.parent)
    return _reachable(folder, "ledgers:", "name another folder: ledger.path")


def ledger_with(layout: RunLayout) -> Ledger:
    """The ledger in which a run stands; without runs where it has none, or none that can be read.

    What cannot be read refuses runs; what is only said of a run is said all the same.

    Args:
        layout: Where the run lies.

    Raises:
        PrivacyGuardError: Its own entry cannot be understood.
    """
    own, marker = OwnEntry.find(layout.restricted), RunMarker.find(layout.restricted.path)
    if own is None or marker is None or not marker.ledger:
        return Ledger()
    for file in sorted(Path(marker.ledger).glob(f"*{LEDGER_SUFFIX}")):
        with suppress(PrivacyGuardError, OSError):
            found = read_ledger(file)
            if found.find(own.entry.run_id) is not None:
                return found
    return Ledger()


def _reachable(folder: Path, why: str, hint: str) -> Path:
    if not folder.is_dir():
        raise PrivacyGuardError(f"{why} there is no folder {folder}", hint=hint)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PrivacyGuardError(f"{why} {folder} cannot be written", hint="get the right to write there from its owner")
    return folder


@dataclass(frozen=True, slots=True)
class Book:
    """The ledger of one dataset.

    Attributes:
        folder: Of the ledgers.
        name: Of the dataset, or half of a checksum of its contents where it has none.
    """

    folder: Path
    name: str

    @classmethod
    def of(cls, folder: Path, settings: InputSettings, contents: Sequence[str]) -> Book:
        """The ledger of an input.

        Args:
            folder: Result of `folder_of`.
            settings: Of the input.
            contents: Result of `contents_of`; of no account where the dataset has a name.
        """
        if settings.dataset:
            return cls(folder, settings.dataset)
        whole = contents[0] if settings.reader == SIMULATED else hashlib.sha256("".join(contents).encode()).hexdigest()
        return cls(folder, whole[:32])

    @property
    def file(self) -> Path:
        """The file."""
        return self.folder / f"{self.name}{LEDGER_SUFFIX}"

    def read(self) -> Ledger:
        """All runs, and nothing where there is no file yet.

        Raises:
            PrivacyGuardError: It cannot be understood, or not be written.
        """
        if not self.file.exists():
            return Ledger()
        if not os.access(self.file, os.R_OK | os.W_OK):
            raise unwritable(self.file)
        return read_ledger(self.file)

    def refuse_same_people(self, contents: Sequence[str], identity: str) -> None:
        """Refuse people that are counted under another name: releases from them would be summed in two places.

        Runs under test keys are not summed, so that theirs do not count.

        Args:
            contents: Of the confidential files.
            identity: Of the input, by which earlier versions named their ledgers.

        Raises:
            PrivacyGuardError: Another ledger of the folder has a run on the same contents, or cannot be understood.
        """
        for file in sorted(self.folder.glob(f"*{LEDGER_SUFFIX}")):
            if file == self.file:
                continue
            other = file.name.removesuffix(LEDGER_SUFFIX)
            for entry in read_ledger(file).real:
                if other == identity[:32] or set(entry.contents) & set(contents):
                    name = f"the dataset '{entry.dataset}'" if entry.dataset else f"{file}, without a name"
                    raise PrivacyGuardError(
                        f"the same records are counted under {name}: run {entry.run_id}",
                        hint=f'set input.dataset = "{entry.dataset}"; two names would hide what all releases from '
                        "these records cost together"
                        if entry.dataset
                        else f"rename that file to {self.file.name}, so that its runs are counted with this one",
                    )

    def refuse_left_behind(self, settings: InputSettings) -> None:
        """Refuse an input beside which an earlier version has kept a ledger, as long as this one lacks its runs.

        Args:
            settings: Of the input.

        Raises:
            PrivacyGuardError: There are such runs, or that ledger cannot be understood.
        """
        known = {entry.run_id for entry in self.read().entries}
        for name in filter(None, (settings.path, settings.persons, settings.units)):
            beside = Path(name).resolve()
            beside = beside.with_name(beside.name + LEDGER_SUFFIX)
            if settings.reader == SIMULATED or not beside.is_file():
                continue
            if missing := [entry.run_id for entry in read_ledger(beside).real if entry.run_id not in known]:
                raise PrivacyGuardError(
                    f"{beside}: an earlier version counted runs on this input there ({', '.join(missing)}), which the "
                    f"ledger of the dataset, {self.file}, does not have",
                    hint="ledgers lie in one folder now (ledger.path): append the lines of that file to this one, and "
                    "run the same command again",
                )


def _files(settings: InputSettings) -> dict[Path, bool]:
    """Every file of the input, and whether it holds records: of a folder, what its reader reads of people and units."""
    found: dict[Path, bool] = {}
    for key in ("path", "persons", "units", "geography"):
        name = getattr(settings, key)
        if name is None:
            continue
        place = Path(name)
        if place.is_dir():
            inside = [each for each in place.rglob("*") if each.is_file() and not each.name.endswith(LEDGER_SUFFIX)]
        elif place.is_file():
            inside = [place]
        else:
            raise InputError(f"{place}: no such file or folder", hint="check [input] in the run file")
        for each in inside:
            records = key != "geography" and (key != "path" or each == place or _is_read(settings.reader, place, each))
            found[each] = found.get(each, False) or records
    return found


def _is_read(reader: str, folder: Path, file: Path) -> bool:
    """Whether a file of `input.path` holds what a reader takes for people or units, by its name."""
    if reader == "pl94_summary":
        return file.suffix == ".pl"
    if reader in ("tidy_counts", "tidy_records", "cef_2020"):
        return file.relative_to(folder).parts[0].partition(".")[0] in ("persons", "units")
    return True


def _examined(path: Path) -> dict[str, object]:
    """Size and time of change of a file before it is read, and its checksum."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({type(error).__name__})", hint="check its permissions") from error
    return {
        "file": str(path),
        "bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "sha256": digest.hexdigest(),
    }
