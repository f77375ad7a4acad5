"""A run that lies on another file system: it is made in a folder of a disk, and brought home step by step.

What tasks write and read are folders of disks, as in every run. After each step that counts, the driver brings what is
whole to the run's home (`deliver`), in an order that leaves enough at home to go on from, wherever a driver dies:

1. the markers that make its folders those of the run;
2. results and staged measurements: in each folder the marker goes first where it was there, and comes last;
3. the inventory, which says what belongs to the run: a listing, which may be late, is never asked for that;
4. what is gone here is removed there, drawn measurements that were destroyed among it;
5. small files, each in one step, and the journal as the last of them.

So the journal there never speaks of measurements that are not there, and nothing is drawn before its attempt is in the
journal there. A driver on another disk fetches all of it (`at_home`), and goes on. The home has a lock of its own.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from das_spark.errors import OutputError
from das_spark.store.commit import SUCCESS, discard, files_below, make_folder, names_in, succeed, write_durably
from das_spark.store.digests import record_of
from das_spark.store.filesystem import POSIX, Address, Location, disk_errors, inside, uri_of
from das_spark.store.journal import Journal, State
from das_spark.store.layout import COMMITTED, MARKER, PUBLIC, RESTRICTED, STAGING
from das_spark.store.runs import RunMarker, is_complete

if TYPE_CHECKING:
    from das_spark.store.layout import Home, RunLayout

INVENTORY: Final = "inventory.json"
INVENTORY_VERSION: Final = 1
#: The restricted one first: a public root without a restricted one is refused.
_MARKERS: Final = (f"{RESTRICTED}/{MARKER}", f"{PUBLIC}/{MARKER}")
#: Runs that this process works on and that have a home, by the lock of the folder in which they are made.
_AT_WORK: Final[dict[Address, _Delivery]] = {}


@contextmanager
def at_home(layout: RunLayout) -> Iterator[None]:
    """Work on a run whose home may be another file system: fetched at the beginning, and brought home at the end.

    Where the run has no home but its folder, nothing is done. What a finished run has left in the folder in which it
    was made is removed when all of it is at home.

    Args:
        layout: Of the run; its folders need not exist.

    Raises:
        OutputError: Another driver works on the run, or what is at home is not whole.
    """
    if layout.home is None:
        yield
        return
    with _Delivery.begun(layout, layout.home) as delivery:
        _AT_WORK[layout.restricted.lock] = delivery
        try:
            yield
        except BaseException:
            with suppress(OutputError, OSError):  # the error that ends the run is the one to tell
                delivery.deliver()
            raise
        finally:
            del _AT_WORK[layout.restricted.lock]
        delivery.deliver()
        if layout.home.restricted is not None and is_complete(layout):
            delivery.leave()


def deliver(layout: RunLayout) -> None:
    """Bring home what is whole of a run at work; nothing where it has no home but its folder.

    Raises:
        OutputError: Another driver has taken the run over, or the home cannot be written.
    """
    delivery = _AT_WORK.get(layout.restricted.lock)
    if delivery is not None:
        delivery.deliver()


def require_at_home(layout: RunLayout[Any]) -> None:
    """Refuse to go on with a run whose home another driver has taken over; nothing where it has none.

    Raises:
        OutputError: Another driver has taken it over.
    """
    delivery = _AT_WORK.get(layout.restricted.lock)
    if delivery is not None:
        delivery.require_held()


def address_at_home(layout: RunLayout, path: Path) -> str:
    """Where something lies in the end that is made in a folder of a run with a home; an address, or the path."""
    home = layout.home
    if home is not None:
        sides = [(layout.public.path, home.public.path)]
        if home.restricted is not None:
            sides.append((layout.restricted.path, home.restricted.path))
        for folder, there in sides:
            if path.is_relative_to(folder):
                return there.system.uri(str(there.path / path.relative_to(folder)))
    return str(path)


def try_home(home: Home) -> None:
    """Find out whether a file system does what a run needs of it, on a file that is removed again.

    Raises:
        OutputError: It does not, or cannot be written.
    """
    # The public root's parent may hold what is not of this run; the name is of nobody else.
    folder = home.public.path.parent / f".tried-{secrets.token_hex(4)}"
    place, system = folder / "file", folder.system
    address = uri_of(folder)
    with disk_errors(folder):
        try:
            make_folder(folder)
            created = [system.create(str(place), word, mode=0o600) for word in (b"first", b"second")]
            if created != [True, False] or system.read(str(place)) != b"first":
                raise OutputError(f"{address}: a file was created where there was one", hint=_ANOTHER)
            write_durably(place, "other")
            if place.read_text() != "other" or names_in(folder) != {"file"}:
                raise OutputError(f"{address}: a file is found later than it was written", hint=_ANOTHER)
            system.remove(str(place))
            if place.is_file() or names_in(folder):
                raise OutputError(f"{address}: a file is found after it was removed", hint=_ANOTHER)
        except OutputError:
            raise
        except OSError as error:
            raise OutputError(f"{address}: cannot be written ({error})", hint=_ANOTHER) from error
        finally:
            with suppress(OSError):
                system.destroy(str(folder))
            # Folders that were made for this alone.
            for above in (folder.parent, folder.parent.parent):
                system.remove_empty(str(above))


_ANOTHER: Final = "name a place of a file system that is strongly consistent and can be written, or a folder of a disk"


def fetch_public(public: Location, folder: Path) -> Path:
    """Copy the public root of a run to a disk, to be read by what reads disks.

    Args:
        public: The root.
        folder: A folder of the disk.

    Returns:
        The copy, in that folder.
    """
    for name in files_below(public, without={STAGING}):
        target = folder / PUBLIC / name
        make_folder(target.parent)
        public.system.download(f"{public}/{name}", target)
    return folder / PUBLIC


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it was brought home."""

    size: int
    changed: int  # nanoseconds; where it is the same, the file is not read again
    sha256: str


@dataclass(slots=True)
class _Delivery:
    """A run at work: where it is made, where it lies, and what of it is there already.

    Files are named by their side and their path below its root, such as `public/manifest.json`.
    """

    work: RunLayout
    home: Home
    word: str
    known: dict[str, _File] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def begun(cls, work: RunLayout, home: Home) -> Iterator[_Delivery]:
        """Hold the run here and at home, and have all of it here."""
        own = _beside(work, "home")
        with ExitStack() as stack:
            with disk_errors(own):
                make_folder(own.parent)
                # The word of this folder: who holds it here and finds it in the lock at home finds its own dead driver.
                word = own.read_text(encoding="ascii") if own.is_file() else ""
                word = word or secrets.token_hex(8)
                try:
                    stack.enter_context(POSIX.hold(str(own), word))
                except BlockingIOError as error:
                    raise _other_driver(work, "") from error
            delivery = cls(work, home, word)
            with disk_errors(home.public.path):
                delivery._hold(stack)
                delivery._fetch()
            yield delivery

    def _hold(self, stack: ExitStack) -> None:
        """Hold the lock at home; that of a driver which died in this folder is taken away."""
        if self.home.restricted is None:
            return
        lock = self.home.restricted.lock
        stack.callback(self._tidy)  # after the lock is gone
        make_folder(self.home.restricted.path, mode=0o700)
        for last in (False, True):
            try:
                stack.enter_context(lock.system.hold(str(lock), self.word))
                stack.callback(self._forget)
                return
            except BlockingIOError as error:
                if last or self._holder() != self.word:
                    raise _other_driver(self.work, f"; where it has died, remove {uri_of(lock)}") from error
                lock.system.remove(str(lock))

    def _holder(self) -> str:
        if self.home.restricted is None:
            return self.word
        with suppress(OSError):
            return self.home.restricted.lock.read_text()
        return ""

    def _forget(self) -> None:
        """Leave no inventory at home of a run that was refused before it began."""
        if self.home.restricted is not None and not self.known and self._holder() == self.word:
            inventory = self._inventory()
            if inventory is not None and not inventory["files"]:
                self.home.restricted.path.system.remove(str(self.home.restricted.path / INVENTORY))

    def _tidy(self) -> None:
        """Leave no empty folder at home of such a run either."""
        if self.home.restricted is not None and not self.known:
            folder = self.home.restricted.path
            folder.system.remove_empty(str(folder))
            folder.system.remove_empty(str(folder.parent))

    def require_held(self) -> None:
        """Refuse to bring anything home that another driver has taken over."""
        if self._holder() != self.word:
            raise OutputError(
                f"{self.home}: another driver has taken over this run; this one stops, and publishes nothing",
                hint="see whether the run is finished; if no other driver is at work on it, start it again by its id",
            )

    # What lies here.

    def _sides(self) -> dict[str, tuple[Path, Location]]:
        sides = {PUBLIC: (self.work.public.path, self.home.public.path)}
        if self.home.restricted is not None:
            sides[RESTRICTED] = (self.work.restricted.path, self.home.restricted.path)
        return sides

    def _here(self, name: str) -> Path:
        side, _, path = name.partition("/")
        return inside(self._sides()[side][0], *filter(None, path.split("/")))

    def _there(self, name: str) -> Location:
        side, _, path = name.partition("/")
        return inside(self._sides()[side][1], *filter(None, path.split("/")))

    def _found(self) -> tuple[set[str], set[str]]:
        """Names of what is whole here: files of results and staged measurements, and small files."""
        large, small = set[str](), set[str]()
        for side, (folder, _) in self._sides().items():
            below = files_below(folder, without={STAGING, self.work.restricted.lock.name})
            whole = {_folder(name) for name in below if name.rpartition("/")[2] == SUCCESS}
            for name in below:
                place, _, last = name.rpartition("/")
                if place in whole:
                    large.add(f"{side}/{name}")
                elif not last.startswith((".", "part-")) and place.partition("/")[0] != "staging":
                    small.add(f"{side}/{name}")
        if self.home.restricted is not None:
            large |= self._staged()
        return large, small

    def _staged(self) -> set[str]:
        """Measurements that are drawn, in the journal, and not public yet."""
        journal, found = Journal.of(self.work), set[str]()
        for level in {name.rsplit(".", 2)[0] for name in names_in(journal.folder)}:
            for attempt in journal.attempts(level):
                if attempt.state is State.STAGED:
                    folder = journal.staging(level, attempt.number)
                    files = [folder / each.name for each in attempt.files]
                    root = self.work.restricted.path
                    found |= {f"{RESTRICTED}/{each.relative_to(root)}" for each in files if each.is_file()}
        return found

    def _look(self, name: str) -> _File:
        """A file as it is now; read only where its size or time of change is not what is known."""
        path, known = self._here(name), self.known.get(name)
        stat = path.stat()
        if known is not None and (known.size, known.changed) == (stat.st_size, stat.st_mtime_ns):
            return known
        record = record_of(path)
        return _File(record.size, stat.st_mtime_ns, record.sha256)

    # Bringing it home.

    def deliver(self) -> None:
        """Bring home what is not there yet, in the order that the module says."""
        self.require_held()
        large, small = self._found()
        if not large and not small and not self.known:
            return
        now = {name: self._look(name) for name in large | small}
        changed = {name for name, each in now.items() if not _same(each, self.known.get(name))}
        gone = self.known.keys() - now.keys()
        begun = [name for name in _MARKERS if name in changed]
        replaced = {_folder(name) for name in changed | gone if f"{_folder(name)}/{SUCCESS}" in self.known}
        if begun or replaced:
            # A result that is being replaced is none until the inventory has it anew, whatever is there of it.
            self._save_inventory({name for name in large & self.known.keys() if _folder(name) not in replaced}, small)
            self._deliver_small(begun)
        if changed or gone:
            # The digests of a table are there before the table is.
            self._deliver_small([name for name in (f"{RESTRICTED}/{COMMITTED}",) if name in changed])
            removed = self._deliver_folders(large, changed, gone)
            self._save_inventory(large, small)
            self._remove(gone - removed)
            journal = f"{RESTRICTED}/{self.work.restricted.journal.name}/"
            left = changed & small - set(begun)
            self._deliver_small(sorted(left, key=lambda each: (each.startswith(journal), each)))
            self._set_times(changed, gone)
        if self.known != now:
            self.known = now
            self._save_known()

    def _deliver_folders(self, large: set[str], changed: set[str], gone: set[str]) -> set[str]:
        """Bring results and staged measurements home; returns what was removed of results that are replaced."""
        folders, removed = defaultdict[str, set[str]](set), set[str]()
        for name in changed & large:
            folders[_folder(name)].add(name)
        for name in gone:
            folder = _folder(name)
            if f"{folder}/{SUCCESS}" in large:
                folders[folder].add(name)
        for folder, names in sorted(folders.items()):
            self.require_held()
            there, marker = self._there(folder), f"{folder}/{SUCCESS}"
            system = there.system
            make_folder(there)
            system.remove(f"{there}/{SUCCESS}")
            for name in sorted(names - {marker}):
                if name in gone:
                    system.remove(str(self._there(name)))
                    removed.add(name)
                else:
                    system.upload(self._here(name), str(self._there(name)))
            if marker in large:
                succeed(there)
        return removed

    def _deliver_small(self, names: Iterable[str]) -> None:
        self.require_held()
        for name in names:
            mode = 0o600 if name.startswith(RESTRICTED) else 0o666
            write_durably(self._there(name), self._here(name).read_bytes(), mode=mode)

    def _remove(self, names: set[str]) -> None:
        """Remove what is gone here; the marker of a result goes before its files."""
        for name in sorted(names, key=lambda each: (not each.endswith(f"/{SUCCESS}"), each)):
            there = self._there(name)
            there.system.remove(str(there))
        for folder in set(map(_folder, names)):
            there = self._there(folder)
            there.system.remove_empty(str(there))

    def _set_times(self, changed: set[str], gone: set[str]) -> None:
        """Give public files the time at which the run began: others would tell how long confidential data took."""
        marker = RunMarker.find(self.work.public.path)
        if marker is None or not marker.created:
            return
        instant, root = datetime.fromisoformat(marker.created), self.home.public.path
        places = {self._there(name) for name in changed if name.startswith(PUBLIC)}
        for place in [*places, *(self._there(name) for name in gone if name.startswith(PUBLIC))]:
            while place != root:
                place = place.parent  # noqa: PLW2901 - up to the root
                places.add(place)
        for place in places:
            with suppress(FileNotFoundError):
                root.system.set_time(str(place), instant)

    def _save_inventory(self, large: set[str], small: set[str]) -> None:
        if self.home.restricted is None:
            return
        files = {name: self._here(name).stat().st_size if name in large else None for name in sorted(large | small)}
        content = {"schema_version": INVENTORY_VERSION, "worked_on_by": self.word, "files": files}
        self.require_held()
        write_durably(self.home.restricted.path / INVENTORY, json.dumps(content) + "\n", mode=0o600)

    def _save_known(self) -> None:
        content = {name: asdict(each) for name, each in self.known.items()}
        write_durably(_beside(self.work, "delivered"), json.dumps(content), mode=0o600)

    # Fetching it.

    def _fetch(self) -> None:
        """Have here what is at home, unless this folder is the one that brought it there and still has all of it."""
        inventory = self._inventory()
        if self.home.restricted is None:
            self._refuse_lost()
            self._load_known()
            return
        if inventory is not None and inventory["worked_on_by"] == self.word:
            self._load_known()
            if all(self._here(name).is_file() for name in inventory["files"].keys() | self.known.keys()):
                return
            self.known = {}
        for folder, _ in self._sides().values():
            discard(folder)  # another folder has gone on with the run, or it was never here, or some of it is gone
        if inventory is None:
            self._refuse_others()
            self._save_inventory(set(), set())  # before anything else: what is there from now on is of this run
            return
        make_folder(self.work.restricted.path, mode=0o700)
        self._fetch_files(inventory["files"])
        self._remove_left_behind(set(inventory["files"]))
        self.known = {name: self._look(name) for name in inventory["files"] if self._here(name).is_file()}
        self._save_known()
        large = {name for name, size in inventory["files"].items() if size is not None} & self.known.keys()
        self._save_inventory(large, self.known.keys() - large)

    def _load_known(self) -> None:
        known = _beside(self.work, "delivered")
        if known.is_file():
            content = json.loads(known.read_text(encoding="utf-8"))
            self.known = {name: _File(**each) for name, each in content.items()}

    def _refuse_lost(self) -> None:
        """Refuse to begin again what is public already, where the restricted side is here alone and was lost."""
        if self.home.public.marker.is_file() and not self.work.restricted.marker.is_file():
            raise OutputError(
                f"{self.work.restricted.path}: is not there, and what is public of the run is at {self.home}",
                hint="bring the restricted root back, or begin a run of another name: begun again, this one would be "
                "charged and drawn a second time",
            )

    def _inventory(self) -> dict[str, Any] | None:
        if self.home.restricted is None:
            return None
        place = self.home.restricted.path / INVENTORY
        if not place.is_file():
            return None
        try:
            content: dict[str, Any] = json.loads(place.read_text())
            if content["schema_version"] == INVENTORY_VERSION and isinstance(content["files"], dict):
                return content
        except (ValueError, KeyError, TypeError) as error:
            raise OutputError(f"{place}: cannot be read as the inventory of a run") from error
        raise OutputError(f"{place}: version {content['schema_version']}, expected {INVENTORY_VERSION}")

    def _refuse_others(self) -> None:
        """Refuse a home that holds something which no inventory speaks of."""
        for _, there in self._sides().values():
            if names_in(there) - {self.work.restricted.lock.name}:
                raise OutputError(
                    f"{uri_of(there)}: not empty, and no run that was brought there",
                    hint="choose another output folder, or another run id",
                )

    def _fetch_files(self, files: Mapping[str, int | None]) -> None:
        """Get files by name; a result whose marker is not at home was about to be replaced, and is none."""
        for name, size in sorted(files.items(), key=lambda each: each[0].endswith(f"/{SUCCESS}")):
            folder, there, here = _folder(name), self._there(name), self._here(name)
            marker = f"{folder}/{SUCCESS}"
            if marker in files and not self._there(marker).is_file():
                continue
            make_folder(here.parent)
            if name == marker:
                succeed(here.parent)
            elif size is None:
                with suppress(FileNotFoundError):  # the driver died before it was there
                    write_durably(here, there.read_bytes())
            else:
                if not there.is_file() or there.system.size(str(there)) != size:
                    raise OutputError(
                        f"{uri_of(there)}: is not as it was brought there",
                        hint="restore the file; or start a new run, which spends its own budget",
                    )
                there.system.download(str(there), here)

    def _remove_left_behind(self, known: set[str]) -> None:
        """Remove data at home that a driver brought there and that belongs to nothing: it may have been destroyed."""
        for side, (_, there) in self._sides().items():
            for name in files_below(there):
                if name.rpartition("/")[2].startswith("part-") and f"{side}/{name}" not in known:
                    there.system.remove(f"{there}/{name}")

    # Leaving it.

    def leave(self) -> None:
        """Remove what is here of a finished run, when all of it is found at home."""
        for name, each in self.known.items():
            there = self._there(name)
            if not there.is_file() or there.system.size(str(there)) != each.size:
                raise OutputError(
                    f"{uri_of(there)}: is not what was brought there",
                    hint=f"the run is whole in {self.work.folder}: the same command brings it there again",
                )
        # First: half of a folder must never be taken for what was brought home last.
        for kind in ("delivered", "home"):
            _beside(self.work, kind).unlink(missing_ok=True)
        for folder, _ in self._sides().values():
            discard(folder)
        POSIX.remove_empty(str(self.work.folder))


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _same(one: _File, other: _File | None) -> bool:
    return other is not None and (one.size, one.sha256) == (other.size, other.sha256)


def _beside(work: RunLayout, kind: str) -> Path:
    """A file of this machine about a run that is made here; beside its folder, since the folder is discarded."""
    return work.root / f".{work.run_id}.{kind}"


def _other_driver(work: RunLayout, more: str) -> OutputError:
    return OutputError(
        f"{work.folder}: another driver is at work on this run",
        hint=f"wait until it ends, or start a run of another name{more}",
    )
