"""Runs as folders: the marker that binds each root to one run, how a run is begun, found again, and pointed to.

The public marker names no path: whoever gets the public root need not know how the machine is furnished.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten
from types import MappingProxyType
from typing import Any, Self

from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.places import Place, disk_errors, is_address, place_of
from das_spark.store.commit import create_exclusively, files_below, finished, make_folder, names_in
from das_spark.store.digests import FileRecord, committed_record, record_of
from das_spark.store.layout import (
    LATEST,
    MARKER,
    PUBLIC,
    RESTRICTED,
    STAGING,
    JointLayout,
    PublicLayout,
    RestrictedLayout,
    RunLayout,
)
from das_spark.store.strict_json import strict_json

MARKER_VERSION = 2  # 2: `created`
#: Differing keys that the error names, and the length of a value in it.
_NAMED = 4
_SAID = 60


@dataclass(frozen=True, slots=True)
class RunMarker:
    """What a marker says.

    Attributes:
        run_id: Name of the run.
        config_hash: Hash of its resolved configuration.
        is_restricted: Whether the folder is the restricted root of the run.
        root: The folder of all runs, where the two roots lie apart; named by the restricted root only.
        public: The public root, in the same case.
        unpublished: Where the run writes what will be public, until it is copied there; empty where that is one place.
        created: When the run was opened for the first time, UTC, ISO 8601 to the second.
        ledger: Folder of the ledgers the run was begun with; named by the restricted root only, and empty for a run
            that draws nothing. It is no part of the identity of the run.
        config: The resolved configuration, as everybody may read it in the manifest, so that another one can be told
            what differs; empty in runs by earlier versions.
    """

    run_id: str
    config_hash: str
    is_restricted: bool = False
    root: str = ""
    public: str = ""
    unpublished: str = ""
    created: str = ""
    ledger: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def find(cls, folder: Place) -> Self | None:
        """The marker of a folder; None where it has none.

        Raises:
            OutputError: The marker cannot be understood.
        """
        path = folder / MARKER
        _refuse_link(path)
        if not path.is_file():
            return None
        try:
            content = strict_json(path.read_text(encoding="utf-8"))
            version, run_id, config_hash = content["schema_version"], content["run_id"], content["config_hash"]
            # Restricted roots of earlier runs do not say what they are; in a run folder their name does.
            side = content.get("side", folder.name)
            names = ("root", "public", "unpublished", "created", "ledger")
            root, public, unpublished, created, ledger = (str(content.get(name, "")) for name in names)
            config = dict(content.get("config", {}))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise OutputError(f"{path}: not readable as the marker of a run") from error
        if version != MARKER_VERSION:
            raise OutputError(f"{path}: version {version}, expected {MARKER_VERSION}")
        is_restricted = side == RESTRICTED
        return cls(str(run_id), str(config_hash), is_restricted, root, public, unpublished, created, ledger, config)

    def to_json(self) -> str:
        """The text of the file."""
        content: dict[str, Any] = {
            "schema_version": MARKER_VERSION,
            "run_id": self.run_id,
            "config_hash": self.config_hash,
            "created": self.created,
        }
        if self.is_restricted:
            content["side"] = RESTRICTED
        if self.public:
            content |= {"root": self.root, "public": self.public}
        if self.unpublished:
            content["unpublished"] = self.unpublished
        if self.ledger:
            content["ledger"] = self.ledger
        if self.config:
            content["config"] = dict(self.config)
        return json.dumps(content) + "\n"

    def is_of_run(self, other: RunMarker) -> bool:
        """Whether two markers belong to one run.

        Args:
            other: The other marker; of the same root or of another one.

        Returns:
            Whether run id and hash of the configuration are the same.
        """
        return (self.run_id, self.config_hash) == (other.run_id, other.config_hash)

    def put(self, folder: Place) -> None:
        """Mark a folder, which must be free or this run's. Nobody needs to hold the run: no marker is ever replaced.

        Args:
            folder: A root that is there.

        Raises:
            OutputError: Another run was quicker, or the disk is full.
        """
        if not self.marks(folder) and not create_exclusively(folder / MARKER, self.to_json()):
            self.marks(folder)

    def marks(self, folder: Place) -> bool:
        """Whether a folder is this run's already; False: it is free.

        Raises:
            OutputError: It belongs to another run, or holds something else.
        """
        if not folder.is_dir():
            if folder.exists():
                raise OutputError(f"{folder} is a file", hint="choose another output folder")
            return False
        found = RunMarker.find(folder)
        if found is None:
            if names_in(folder):
                raise OutputError(f"{folder}: not empty and not a run folder", hint="choose another output folder")
            return False
        if not self.is_of_run(found):
            raise OutputError(
                f"{folder} belongs to another run ({found.run_id}, configuration {found.config_hash[:12]})"
                f"{self._difference(found)}",
                hint="choose another run id, or resume with the configuration that the run was started with",
            )
        return True

    def _difference(self, found: RunMarker) -> str:
        """In which keys the run that was found differs from this one, as the end of a sentence."""
        if self.config_hash == found.config_hash or not self.config:
            return ""
        if not found.config:
            return ", begun by a version of das_spark that did not keep it"
        from das_spark.config import differences  # noqa: PLC0415 - for this message alone

        said = [
            f"{key} is {_spelled(theirs)} there and {_spelled(ours)} here"
            for key, (theirs, ours) in differences(found.config, self.config).items()
        ]
        more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
        return f": {'; '.join(said[:_NAMED])}{more}"


def _spelled(value: object) -> str:
    return "not set" if value is None else shorten(json.dumps(value), _SAID, placeholder=" ...")


def is_public_root(folder: Place) -> bool:
    """Whether a folder is the public root of a run.

    Raises:
        OutputError: It has a marker that cannot be understood.
    """
    found = RunMarker.find(folder)
    return found is not None and not found.is_restricted


def public_files(
    public: PublicLayout, *, as_written: bool = False, read: Iterable[FileRecord] = ()
) -> tuple[FileRecord, ...]:
    """Every file of a public root that its manifest answers for: all but the manifest itself and what examines them.

    Args:
        public: The root.
        as_written: Whether a file that this driver has promoted is listed as it was written, and not read again for its
            checksum.
        read: Files, by their paths below the root, that have just been read for their checksums.

    Returns:
        Paths below the root, sizes and checksums, by path.
    """
    names = files_below(public.path, without={public.manifest.name, public.verification.name, STAGING})
    known = {each.name: each for each in read}
    record = committed_record if as_written else record_of

    def listed(name: str) -> FileRecord:
        return known.get(name) or record(public.path / name, name)

    with ThreadPoolExecutor(os.cpu_count()) as threads:  # reading and hashing leave the interpreter to others
        return tuple(threads.map(listed, names))


def open_run(
    layout: RunLayout,
    config_hash: str,
    config: Mapping[str, Any] = MappingProxyType({}),
    *,
    ledger: str = "",
    created: str | None = None,
) -> bool:
    """Create the two roots of a run, or open those that an earlier driver of the same run left.

    Args:
        layout: Where.
        config_hash: Hash of the resolved configuration; a run folder is bound to it for ever.
        config: The resolved configuration itself, from which a driver with another one is told what differs.
        ledger: Folder of the ledgers that a run is begun with; empty where it draws nothing.
        created: When the run begins, ISO 8601, as its markers say it where they are made now; now, by default.

    Returns:
        True when the run existed already (it resumes), False when it was created.

    Raises:
        OutputError: The folder is not empty and no run folder, or belongs to another run.
        PrivacyGuardError: The public root is there, and the restricted one is not: the run would begin again.
    """
    # The restricted root gets its marker first, so that it is asked for last: another driver may be making both.
    closed, open_to_all = _markers(
        layout, RunMarker(layout.run_id, config_hash, created=created or now(), config=config), ledger
    )
    roots = [side.path for side in (layout.public, layout.published) if side is not None]
    published = any([open_to_all.marks(root) for root in roots])  # each is asked: it may belong to another run
    known = [closed.marks(layout.restricted.path), published]
    if known == [False, True]:
        raise PrivacyGuardError(
            f"{layout.restricted.path}: the run {layout.run_id} has its public root at {layout.public.path}, and its "
            "restricted root is not there; is the restricted disk mounted?",
            hint="begun again, the run would be charged and drawn a second time. Bring the restricted root back, or "
            "begin a run of another name.",
        )
    with disk_errors(layout.folder):
        make_folder(layout.restricted.path, mode=0o700)
        if isinstance(layout.restricted.path, Path):
            layout.restricted.path.chmod(0o700)  # also where it was there, or the umask is a strange one
        make_folder(layout.public.path)
        closed.put(layout.restricted.path)
        open_to_all.put(layout.public.path)
    return all(known)


def now() -> str:
    """The time as public files name it: UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def created_at(layout: RunLayout) -> str:
    """When a run was opened for the first time, by the markers of its roots.

    Args:
        layout: Of a run that is open.

    Raises:
        OutputError: There is no marker, or it cannot be understood.
    """
    # The public marker holds: with `Another driver was quicker` the restricted one may name another second.
    found = RunMarker.find(layout.public.path)
    if found is None:
        raise OutputError(f"{layout.public.path}: is no run folder", hint="name the folder of a run")
    return found.created


def _markers(layout: RunLayout, public: RunMarker, ledger: str) -> tuple[RunMarker, RunMarker]:
    """The markers of the restricted and of the public root; a run folder with both in it can be moved as a whole."""
    closed = replace(public, is_restricted=True, ledger=ledger)
    final = (layout.published or layout.public).path
    if layout.published is not None:
        closed = replace(closed, unpublished=str(layout.public.path.resolve()))
    if layout.restricted.path == layout.folder / RESTRICTED and final == layout.folder / PUBLIC:
        return closed, public
    return replace(closed, root=str(layout.root.resolve()), public=str(final.resolve())), public


def is_complete(layout: RunLayout) -> bool:
    """Whether a run has come to its end and is verified: its restricted manifest is written last."""
    try:
        passed = strict_json(layout.public.verification.read_text(encoding="utf-8"))["passed"]
    except (OSError, ValueError, KeyError):
        return False
    return bool(passed) and layout.restricted.manifest.is_file()


def require_kept(layout: RunLayout) -> None:
    """Refuse to go on with a finished run whose confidential side was removed: it would read the input once more.

    Raises:
        OutputError: It was removed.
    """
    if layout.restricted.removed.is_file():
        when = json.loads(layout.restricted.removed.read_text(encoding="utf-8"))["removed"]
        raise OutputError(
            f"{layout.folder}: this run is finished, and what was confidential in it was removed on {when}",
            hint="nothing is left to do; another run id begins another run",
        )


def latest_link(layout: RunLayout) -> Path | None:
    """Return `<root>/latest`, which leads to the last run that measured; None where no link can lead to a run.

    Raises:
        OutputError: There is a real file or folder of that name.
    """
    if not isinstance(layout.root, Path):  # links are for the disks of this machine
        return None
    if not layout.folder.is_dir():  # the roots lie elsewhere
        return None
    link = layout.root / LATEST
    if link.exists() and not link.is_symlink():
        raise OutputError(f"{link} is not a link", hint="move it away: that name is kept for the link to the last run")
    return link


def point_latest(layout: RunLayout) -> None:
    """Let `<root>/latest` be a link to the run, where one can be; replaced in one step.

    Raises:
        OutputError: As `latest_link`.
    """
    link = latest_link(layout)
    if link is None:
        return
    fresh = link.with_name(f".{LATEST}.{os.getpid()}")
    with disk_errors(link):
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(layout.run_id)
        fresh.replace(link)


def open_public(path: str | Place) -> PublicLayout:
    """The public root of a finished or running run, for those who hold nothing else.

    Somebody else may have made the folder: nothing in it may lead out of it.

    Args:
        path: The public folder, or a run folder that holds one; or the restricted root of a run whose roots lie apart.
            It may be a link itself, such as `runs/latest`.

    Raises:
        OutputError: None of them, or a link or a special file lies below the public root.
    """
    given = place_of(path).absolute()  # Spark's JVM may have another working folder than whoever names the run now
    _refuse_link(given / PUBLIC)
    for folder in (given, given / PUBLIC):
        if is_public_root(folder):
            refuse_links(folder)
            return PublicLayout(folder)
    try:
        return find_run(path).public
    except PermissionError as error:
        raise _no_run(path, MARKER) from error


def require_finished(public: PublicLayout, tables: Iterable[str], geolevels: Sequence[str]) -> None:
    """Refuse the public root of a run that has not come as far as is needed.

    Args:
        public: The root.
        tables: Tables by level that are needed.
        geolevels: Names of all levels.

    Raises:
        OutputError: One of them is not finished.
    """
    for table in tables:
        for name in geolevels:
            if not finished(public.level(table, name)):
                raise OutputError(f"{public.path}: {table} of {name} are not there", hint="finish the run first")


def find_run(path: str | Place) -> RunLayout:
    """The layout of an existing run with both roots.

    Args:
        path: The run folder, or a link to it such as `runs/latest`; or its restricted root, which says where the public
            one is. The public root alone stands for what everybody may know, and leads to nothing else.

    Raises:
        OutputError: There is no run, or its restricted root is to be named.
    """
    given = place_of(path).resolve()
    for folder in (given / RESTRICTED, given):
        marker = RunMarker.find(folder)
        if marker is not None and marker.is_restricted:
            return _with_public(folder, marker)
    for folder in (given, given / PUBLIC):
        if is_public_root(folder):
            raise OutputError(
                f"{path}: the public root of a run, and its restricted root is asked for",
                hint="name the folder of the run, or where its roots lie apart its restricted root: the folder of its "
                "name below output.restricted",
            )
    raise _no_run(path, f"{RESTRICTED}/{MARKER}")


def _with_public(restricted: Place, marker: RunMarker) -> RunLayout:
    """The run whose restricted root is found."""
    run = restricted.parent
    root, run_id, public = run.parent, run.name, run / PUBLIC
    if marker.public:
        root, run_id, public = place_of(marker.root), marker.run_id, place_of(marker.public)
    published = None
    if marker.unpublished and not is_public_root(public):
        published, public = PublicLayout(public), place_of(marker.unpublished)
    if not is_public_root(public) or not marker.marks(public):
        raise OutputError(
            f"{public}: not a run folder, and {restricted} has its public root there",
            hint=f"is the disk mounted? Where the root was moved, {restricted / MARKER} must name its new place",
        )
    refuse_links(public)
    return RunLayout(root, run_id, PublicLayout(public), RestrictedLayout(restricted), published)


def refuse_links(folder: Place) -> None:
    """Refuse a folder in which a name leads somewhere else, or to what is neither a file nor a folder.

    Args:
        folder: What others may have made; it may be a link itself. Only disks of this machine have links.

    Raises:
        OutputError: A symbolic link, a named pipe, a socket or a device lies below the folder.
    """
    if not isinstance(folder, Path):
        return
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            with suppress(FileNotFoundError):  # a driver at work removes what it has staged
                mode = path.lstat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise _leads_out(path, is_link=stat.S_ISLNK(mode))


def _refuse_link(path: Place) -> None:
    if isinstance(path, Path) and path.is_symlink():
        raise _leads_out(path, is_link=True)


def _leads_out(path: Path, *, is_link: bool) -> OutputError:
    return OutputError(
        f"{path}: is {'a symbolic link' if is_link else 'neither a file nor a folder'}, which no run writes",
        hint="read nothing of this folder before its publisher has explained it; a run that was moved to another disk "
        "is named by its new place, or by a link to the whole run folder",
    )


def _no_run(path: str | Place, missing: str) -> OutputError:
    """The error that names what was meant, perhaps."""
    joint = JointLayout.find(path)
    if joint is None:
        # A store has no links.
        hint = "name the run by its id" if is_address(str(path)) else "name a folder under runs/, or runs/latest"
        return OutputError(f"{path}: not a run folder (no {missing})", hint=hint)
    named = " or ".join(str(part) for part in joint.parts().values())
    return OutputError(f"{path}: a joint run, and one of its parts is asked for", hint=f"name {named}")
