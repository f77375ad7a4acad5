"""Where the files of a run lie, who may open them, and how a finished folder comes to be.

A run has two roots, `public/` and `restricted/`, which may be two disks with two owners. `PublicLayout` is all that
estimation, microdata and verification are given: no method of it yields a restricted path. Folders are finished when
they hold `_SUCCESS`, which is written last and made durable; whatever lacks it is no result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from das_spark.errors import ConfigurationError, OutputError, PrivacyGuardError
from das_spark.io.files import FileRecord, record_of
from das_spark.io.full_disk import disk_errors
from das_spark.io.restricted_layout import RestrictedLayout
from das_spark.io.run_marker import MARKER, PUBLIC, RESTRICTED, RunMarker

if TYPE_CHECKING:
    from das_spark.config import OutputSettings

JOINT_MARKER = "joint.json"
LATEST = "latest"
LEDGERS = "ledgers"
#: Folder of either root for what is not published yet.
STAGING = ".staging"
#: Names in the folder of all runs that no run can have: the link to the last run, and the ledgers of their inputs.
RESERVED = (LATEST, LEDGERS)
#: Flavour and kind -> the name of a file of all its records, as the releases call it.
_SINGLE = {
    ("text", "person"): "MDF_PER.txt",
    ("text", "unit"): "MDF_UNIT.txt",
    ("ppmf", "person"): "ppmf_P.csv",
    ("ppmf", "unit"): "ppmf_U.csv",
}


@dataclass(frozen=True, slots=True)
class TablesLayout:
    """Paths of published tables: of a run, or of a folder that somebody named for them.

    Its methods take the name of a table, its flavour (`parquet` or `csv`) and the name of a geolevel.

    Attributes:
        path: The folder of all tables.
    """

    path: Path

    def table(self, name: str, flavour: str) -> Path:
        """The folder of one table in one flavour, `parquet` or `csv`; holds one `level=<geolevel>` folder a level.

        Args:
            name: Name of the table.
            flavour: `parquet` or `csv`.
        """
        return self.path / f"{name}.{flavour}"

    def level(self, name: str, flavour: str, geolevel: str) -> Path:
        """The folder of one level of a table.

        Args:
            name: Name of the table.
            flavour: `parquet` or `csv`.
            geolevel: Name of the level.
        """
        return self.table(name, flavour) / f"level={geolevel}"

    @property
    def staging(self) -> Path:
        """Where this process writes tables before they are promoted: a name that nothing else in a named folder has."""
        return self.path / f".tabulate-{os.getpid()}"

    @property
    def abandoned(self) -> tuple[Path, ...]:
        """Staging folders of other processes."""
        return tuple(path for path in self.path.glob(".tabulate-*") if path != self.staging)


@dataclass(frozen=True, slots=True)
class PublicLayout:
    """Paths of the public root of one run. Its methods take the name of a table and the name of a geolevel.

    Attributes:
        path: The public folder of the run.
    """

    path: Path

    def table(self, name: str) -> Path:
        """The folder of a table, which holds one `level=<geolevel>` folder a level.

        Args:
            name: Name of the table.
        """
        return self.path / name

    def level(self, table: str, geolevel: str) -> Path:
        """The folder of one level of a table.

        Args:
            table: Name of the table.
            geolevel: Name of the level.
        """
        return self.table(table) / f"level={geolevel}"

    def microdata(self, kind: str, flavour: str) -> Path:
        """The folder of a microdata file: kind `person` or `unit`, flavour `parquet`, `text` or `ppmf`.

        Args:
            kind: `person` or `unit`.
            flavour: `parquet`, `text` or `ppmf`.
        """
        return self.path / "microdata" / f"{kind}.{flavour}"

    def microdata_single(self, kind: str, flavour: str) -> Path:
        """The one file that all records of a kind are in, where a run writes such files, by its name in the releases.

        Args:
            kind: `person` or `unit`.
            flavour: `text` or `ppmf`; Parquet is always in parts.
        """
        return self.microdata(kind, flavour) / _SINGLE.get((flavour, kind), kind)

    @property
    def microdata_rows(self) -> Path:
        """Rows of each microdata file."""
        return self.path / "microdata" / "rows.json"

    @property
    def spine(self) -> Path:
        """The spine of a run whose spine is made of areas."""
        return self.path / "spine"

    @property
    def tables(self) -> TablesLayout:
        """The published tables."""
        return TablesLayout(self.path / "tables")

    @property
    def problems(self) -> Path:
        """Saved problem files of families that could not be solved; made of public data."""
        return self.path / "problems"

    @property
    def manifest(self) -> Path:
        """The public manifest."""
        return self.path / "manifest.json"

    @property
    def privacy_statement(self) -> Path:
        """What is claimed of the run, in words."""
        return self.path / "privacy_statement.md"

    @property
    def privacy_ledger(self) -> Path:
        """What the run spent, in exact fractions."""
        return self.path / "privacy_ledger.json"

    @property
    def verification(self) -> Path:
        """The verification report."""
        return self.path / "verification.json"

    @property
    def marker(self) -> Path:
        """The file that makes the folder a run folder."""
        return self.path / MARKER


def public_files(public: PublicLayout) -> tuple[FileRecord, ...]:
    """Every file of a public root that its manifest answers for: all but the manifest itself and what examines them.

    Args:
        public: The root.

    Returns:
        Paths below the root, sizes and checksums, by path.
    """
    apart = {public.manifest, public.verification}
    found = []
    for place, folders, names in os.walk(public.path):
        folders[:] = sorted(name for name in folders if name != STAGING)
        found += [Path(place, name) for name in names if Path(place, name) not in apart]
    return tuple(record_of(path, str(path.relative_to(public.path))) for path in sorted(found))


@dataclass(frozen=True, slots=True)
class RunLayout:
    """Both roots of one run.

    Attributes:
        root: The folder of all runs.
        run_id: The name of the run.
        public: The public paths.
        restricted: The restricted paths.
    """

    root: Path
    run_id: str
    public: PublicLayout
    restricted: RestrictedLayout

    @classmethod
    def at(cls, root: str | Path, run_id: str, public: str | None = None, restricted: str | None = None) -> RunLayout:
        """The layout of a run, by default `<root>/<run_id>/public` and `.../restricted`.

        Args:
            root: The folder of all runs.
            run_id: The name of the run: letters, digits, `.`, `_` and `-`.
            public: Another folder of public roots; the run gets a folder of its name in it.
            restricted: The same for restricted roots.

        Raises:
            ConfigurationError: The name stands for something else beside the runs.
            OutputError: The name would lead out of the folder.
        """
        if run_id in RESERVED:
            raise ConfigurationError(
                f"run id {run_id!r}: beside the runs that name stands for something else",
                hint=f"choose another run id; {' and '.join(RESERVED)} are taken",
            )
        if not run_id or run_id.startswith(".") or not all(sign.isalnum() or sign in "._-" for sign in run_id):
            raise OutputError(f"run id {run_id!r}: expected letters, digits, '.', '_' and '-', not starting with '.'")
        base = Path(root)
        open_to_all = Path(public) / run_id if public else base / run_id / PUBLIC
        closed = Path(restricted) / run_id if restricted else base / run_id / RESTRICTED
        if open_to_all.resolve() == closed.resolve():
            raise OutputError(f"{open_to_all}: the public and the restricted root are one folder")
        return cls(base, run_id, PublicLayout(open_to_all), RestrictedLayout(closed))

    @classmethod
    def of(cls, output: OutputSettings, run_id: str) -> RunLayout:
        """The layout of a run of a plan.

        Args:
            output: Where the plan wants its runs.
            run_id: The name of the run.

        Raises:
            OutputError: As `at`.
        """
        return cls.at(output.root, run_id, output.public, output.restricted)

    @property
    def folder(self) -> Path:
        """The folder of the run under the root of all runs."""
        return self.root / self.run_id


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
    published = open_to_all.marks(layout.public.path)
    known = [closed.marks(layout.restricted.path), published]
    if known == [False, True]:
        raise PrivacyGuardError(
            f"{layout.restricted.path}: the run {layout.run_id} has its public root at {layout.public.path}, and its "
            "restricted root is not there; is the restricted disk mounted?",
            hint="begun again, the run would be charged and drawn a second time. Bring the restricted root back, or "
            "begin a run of another name.",
        )
    with disk_errors(layout.folder):
        layout.restricted.path.parent.mkdir(parents=True, exist_ok=True)
        layout.restricted.path.mkdir(mode=0o700, exist_ok=True)
        layout.restricted.path.chmod(0o700)  # also where it was there, or the umask is a strange one
        layout.public.path.mkdir(parents=True, exist_ok=True)
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
    if layout.restricted.path == layout.folder / RESTRICTED and layout.public.path == layout.folder / PUBLIC:
        return closed, public
    return replace(closed, root=str(layout.root.resolve()), public=str(layout.public.path.resolve())), public


def is_concluded(layout: RunLayout) -> bool:
    """Whether a run has come to its end and is verified: its restricted manifest is written last.

    Args:
        layout: Of the run.
    """
    try:
        passed = json.loads(layout.public.verification.read_text(encoding="utf-8"))["passed"]
    except (OSError, ValueError, KeyError):
        return False
    return bool(passed) and layout.restricted.manifest.is_file()


def require_kept(layout: RunLayout) -> None:
    """Refuse to go on with a finished run whose confidential side was removed: it would read the input once more.

    Args:
        layout: Of the run.

    Raises:
        OutputError: It was removed.
    """
    if layout.restricted.removed.is_file():
        when = json.loads(layout.restricted.removed.read_text(encoding="utf-8"))["removed"]
        raise OutputError(
            f"{layout.folder}: this run is finished, and what was confidential in it was removed on {when}",
            hint="nothing is left to do; another run id begins another run",
        )


def point_latest(layout: RunLayout) -> None:
    """Let `<root>/latest` be a link to the run; replaced in one step.

    Args:
        layout: Of the run.

    Raises:
        OutputError: There is a real file or folder of that name.
    """
    link = layout.root / LATEST
    if link.exists() and not link.is_symlink():
        raise OutputError(f"{link} is not a link", hint="move it away: that name is kept for the link to the last run")
    fresh = layout.root / f".{LATEST}.{os.getpid()}"
    with disk_errors(link):
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(layout.run_id)
        fresh.replace(link)
