"""What a run has committed: the digest of every file of every table, written down before the table appears.

A driver that holds a run has one `Commits`. Every table passes it twice. Before a table is promoted, its digests are
appended to the journal of the run, and a public table is refused while the ledger has no entry that covers it: this is
the one gate to the public root. Before a table is read, its bytes are compared with these digests, so that no stage
goes on from a table that was changed since. A file whose inode, size and times are those of the last comparison by
this process is not read again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from das_spark.errors import PrivacyGuardError
from das_spark.places import Place, disk_errors, system_of
from das_spark.store.numbered import Lines, read_lines

_BLOCK: Final = 1 << 20
_VERSION: Final = 1
_PUBLIC: Final = "public"
#: Tables that are public before anything is measured: their release is entered in the ledger, and charged later.
BEFORE_NOISE: Final = frozenset({"spine", "shares", "geounits", "invariants", "bounds", "published"})
_PART: Final = "part-"
_MARKER: Final = "_SUCCESS"
#: In place of a folder: says that the run was begun by a version that wrote no digests.
_EARLIER: Final = ""
#: What changes with a file.
_State = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file that was written, and by what its bytes are known again.

    Attributes:
        name: Its name in its folder.
        size: Bytes.
        sha256: Checksum in hexadecimal.
    """

    name: str
    size: int
    sha256: str


def record_of(path: Place, name: str | None = None) -> FileRecord:
    """Read a file and return its record.

    Args:
        path: The file.
        name: The name to record, by default its own.
    """
    digest, size = hashlib.sha256(), 0
    with system_of(path).open_input(str(path)) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return FileRecord(name or path.name, size, digest.hexdigest())


@dataclass(slots=True)
class Commits:
    """The tables that one run has committed.

    Attributes:
        file: Where they are written down, under the restricted root.
        public: The public root.
        restricted: The restricted root.
        staging: Name of the folders of both roots in which tables are written before they are promoted.
        guard: Raises where another driver has taken over the run.
        gate: Is given the name of a public table before it appears; raises where no entry of the ledger covers it.
    """

    file: Place
    public: Place
    restricted: Place
    staging: str
    guard: Callable[[], None]
    gate: Callable[[str], None]
    #: Folder, such as `public/estimates/level=State` -> its files.
    tables: dict[str, tuple[FileRecord, ...]] = field(default_factory=dict)
    #: Whether a version made the run that wrote no digests: its tables are taken as they are found.
    is_earlier: bool = False
    _lines: Lines = field(init=False)
    #: File -> its state when it was last compared.
    _compared: dict[str, _State] = field(default_factory=dict)
    #: The same when this driver promoted it, with the digest that was made while it was written.
    _promoted: dict[str, _State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write lines down where the file says."""
        self._lines = Lines(self.file)

    def load(self) -> None:
        """Read what earlier drivers have committed.

        Raises:
            PrivacyGuardError: The file cannot be understood.
        """
        if not self.file.exists():
            self.is_earlier = any(_holds_results(root) for root in (self.public, self.restricted))
            if self.is_earlier:
                with disk_errors(self.file):
                    self._append(_line(_EARLIER, ()))
            return
        content = read_lines(self.file)
        whole = content[: content.rfind(b"\n") + 1]  # a line that was cut short stands for no table that appeared
        try:
            lines = [json.loads(line) for line in whole.splitlines()]
            if any(line["schema_version"] != _VERSION for line in lines):
                raise ValueError("another version")
            self.tables = {line["folder"]: tuple(FileRecord(*file) for file in line["files"]) for line in lines}
            self.is_earlier = self.tables.pop(_EARLIER, None) is not None
        except (ValueError, KeyError, TypeError) as error:
            raise PrivacyGuardError(
                f"{self.file}: cannot be read, so that no table of the run can be compared with what was committed",
                hint="restore the file from a copy of the run's restricted root",
            ) from error
        if whole != content and isinstance(self.file, Path):
            with disk_errors(self.file):
                system_of(self.file).write(str(self.file), whole, mode=0o600)

    def commit(self, folder: Place, records: Iterable[FileRecord]) -> None:
        """Write down the digests of a table, durably, before it appears.

        Raises:
            PrivacyGuardError: The table is public, and no entry of the ledger covers it.
            OutputError: Another driver has taken over the run, or the disk is full.
        """
        key = self._key(folder)
        if key is None:
            return
        self.guard()
        side, _, path = key.partition("/")
        if side == _PUBLIC:
            self.gate(path.partition("/")[0])
        self._record(key, records)

    def require_committed(self, folder: Place) -> None:
        """Refuse a folder in which a file is not as it was committed.

        Raises:
            PrivacyGuardError: A file was changed, added or removed, or the table was never committed.
        """
        key = self._key(folder)
        if key is None:
            return
        keys = [name for name in self.tables if name == key or name.startswith(f"{key}/")]
        if not keys and self.is_earlier:
            self._record(key, [record_of(folder / name) for name in _parts(folder)])
        elif not keys and _parts(folder):
            raise _refusal(key, "it appeared")
        for name in keys:
            self._compare(name)

    def appeared(self, folder: Place) -> None:
        """Remember the state in which the files of a committed table appeared."""
        key = self._key(folder)
        if key in self.tables:
            self._promoted |= {str(folder / name): state for name, state in _parts(folder).items()}

    def compare_all(self) -> None:
        """Compare every table that is there: what this driver promoted by its state, all others by their bytes."""
        for key in self.tables:
            if _parts(self._folder(key)):
                self._compare(key, promoted=True)

    def committed(self, path: Place) -> FileRecord | None:
        """Return the record of a file of a committed table, compared with its bytes; None for any other file."""
        key = self._key(path.parent)
        known = {each.name: each for each in self.tables.get(key or "", ())}
        if path.name not in known or key is None:
            return None
        state = _state(path) if isinstance(path, Path) else _parts(path.parent).get(path.name, ())
        self._compare_file(path, known[path.name], key, state, promoted=True)
        return known[path.name]

    def _compare(self, key: str, *, promoted: bool = False) -> None:
        folder, known = self._folder(key), {each.name: each for each in self.tables[key]}
        states = _parts(folder)
        if states.keys() != known.keys():
            odd = sorted(states.keys() ^ known.keys())[0]
            raise _refusal(key, f"{odd} was {'added' if odd in states else 'removed'}")

        def compare(name: str) -> None:
            self._compare_file(folder / name, known[name], key, states[name], promoted=promoted)

        with ThreadPoolExecutor(os.cpu_count()) as threads:  # reading and hashing leave the interpreter to others
            list(threads.map(compare, states))

    def _compare_file(self, path: Place, record: FileRecord, key: str, state: _State, *, promoted: bool) -> None:
        if state and (self._compared.get(str(path)) == state or (promoted and self._promoted.get(str(path)) == state)):
            return
        if record_of(path, record.name) != record:
            raise _refusal(key, f"{record.name} was changed")
        if state:
            self._compared[str(path)] = state

    def _record(self, key: str, records: Iterable[FileRecord]) -> None:
        self.tables[key] = tuple(records)
        with disk_errors(self.file):
            self._append(_line(key, self.tables[key]))

    def _append(self, line: bytes) -> None:
        self._lines.append(line, durably=True)

    def _folder(self, key: str) -> Place:
        side, _, path = key.partition("/")
        return (self.public if side == _PUBLIC else self.restricted) / path

    def _key(self, folder: Place) -> str | None:
        """Return the name of a folder of one of the roots; None for others, and for what is staged."""
        for side, root in ((_PUBLIC, self.public), ("restricted", self.restricted)):
            prefix = f"{_text(root)}/"
            if _text(folder).startswith(prefix):
                path = _text(folder).removeprefix(prefix)
                return None if path.split("/")[0] in (self.staging, "staging") else f"{side}/{path}"
        return None


#: Of the runs that this process holds, by their restricted roots.
_HELD: Final[dict[Place, Commits]] = {}


def hold_commits(commits: Commits) -> None:
    """Let every table of a run pass its `Commits`, until `release_commits`."""
    commits.load()
    _HELD[commits.restricted] = commits


def release_commits(restricted: Place) -> None:
    """Forget the commits of a run that this process no longer holds."""
    _HELD.pop(restricted, None)


def commits_of(restricted: Place) -> Commits | None:
    """Return the commits of a run that this process holds; None of any other."""
    return _HELD.get(restricted)


def commit(folder: Place, records: Iterable[FileRecord]) -> None:
    """Pass a table that is about to appear through the commits of the run it belongs to, if this process holds it."""
    for commits in _of(folder):
        commits.commit(folder, records)


def appeared(folder: Place) -> None:
    """Tell the commits of a run that a table appeared as it was committed, if this process holds the run."""
    for commits in _of(folder):
        commits.appeared(folder)


def require_committed(folder: Place) -> None:
    """Compare a table that is about to be read with what was committed, if this process holds its run.

    Raises:
        PrivacyGuardError: It is not the same.
    """
    for commits in _of(folder):
        commits.require_committed(folder)


def committed_record(path: Place, name: str) -> FileRecord:
    """Return the record of a file: as it was committed, where its run is held; otherwise by reading it.

    Raises:
        PrivacyGuardError: It is not as it was committed.
    """
    for commits in _of(path):
        record = commits.committed(path)
        if record is not None:
            return FileRecord(name, record.size, record.sha256)
    return record_of(path, name)


def _of(path: Place) -> Iterator[Commits]:
    for commits in tuple(_HELD.values()):
        if _text(path).startswith((f"{_text(commits.public)}/", f"{_text(commits.restricted)}/")):
            yield commits


def _text(path: Place) -> str:
    return str(path.absolute())


def _line(key: str, records: Iterable[FileRecord]) -> bytes:
    files = [[record.name, record.size, record.sha256] for record in records]
    return (json.dumps({"schema_version": _VERSION, "folder": key, "files": files}) + "\n").encode()


def _holds_results(root: Place) -> bool:
    """Return whether a finished folder lies below a root."""
    system, folders = system_of(root), [str(root)]
    while folders:
        folder = folders.pop()
        names = system.names(folder)
        if _MARKER in names:
            return True
        folders += [path for name in names if not system.is_file(path := f"{folder}/{name}")]
    return False


def _parts(folder: Place) -> dict[str, _State]:
    """The data files of a folder in order, each with that by which a change is noticed without reading it."""
    files = system_of(folder).files(str(folder))
    names = [name for name in sorted(files) if name.startswith(_PART)]
    if isinstance(folder, Path):
        return {name: _state(folder / name) for name in names}
    return {name: (files[name],) for name in names}


def _state(path: Path) -> _State:
    """A disk tells more than a version: also of a file whose time was set back."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _refusal(key: str, what: str) -> PrivacyGuardError:
    measured = key.startswith(f"{_PUBLIC}/measurements/")
    fix = "a level that was measured is never drawn again; begin a new run, which spends its own budget"
    remove = "or remove that folder, and the same command makes it again"
    return PrivacyGuardError(
        f"{key}: {what} since the run committed it; nothing is made of it",
        hint=f"restore the folder from a copy{': ' + fix if measured else ', ' + remove}",
    )
