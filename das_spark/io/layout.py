"""Where the files of a run lie, who may open them, and how a finished folder comes to be.

A run has two roots, `public/` and `restricted/`, which may be two disks with two owners. `PublicLayout` is all that
estimation, microdata and verification are given: no method of it yields a restricted path. Folders are finished when
they hold `_SUCCESS`, which is written last and made durable; whatever lacks it is no result.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from das_spark.errors import OutputError
from das_spark.io.files import disk_errors, write_durably

MARKER = "run.json"
MARKER_VERSION = 1
JOINT_MARKER = "joint.json"
LATEST = "latest"
SUCCESS = "_SUCCESS"


@dataclass(frozen=True, slots=True)
class TablesLayout:
    """Paths of published tables: of a run, or of a folder that somebody named for them.

    Attributes:
        path: The folder of all tables.
    """

    path: Path

    def table(self, name: str, flavour: str) -> Path:
        """The folder of one table in one flavour, `parquet` or `csv`; holds one `level=<geolevel>` folder a level."""
        return self.path / f"{name}.{flavour}"

    def level(self, name: str, flavour: str, geolevel: str) -> Path:
        """The folder of one level of a table."""
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
    """Paths of the public root of one run.

    Attributes:
        path: The public folder of the run.
    """

    path: Path

    def table(self, name: str) -> Path:
        """The folder of a table, which holds one `level=<geolevel>` folder a level."""
        return self.path / name

    def level(self, table: str, geolevel: str) -> Path:
        """The folder of one level of a table."""
        return self.table(table) / f"level={geolevel}"

    def microdata(self, kind: str, flavour: str) -> Path:
        """The folder of a microdata file: kind `person` or `unit`, flavour `parquet`, `text` or `ppmf`."""
        return self.path / "microdata" / f"{kind}.{flavour}"

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


@dataclass(frozen=True, slots=True)
class RestrictedLayout:
    """Paths of the restricted root of one run: everything that tells of the confidential input.

    Attributes:
        path: The restricted folder of the run, mode 0700.
    """

    path: Path

    def table(self, name: str) -> Path:
        """The folder of a restricted table."""
        return self.path / name

    def level(self, table: str, geolevel: str) -> Path:
        """The folder of one level of a restricted table."""
        return self.table(table) / f"level={geolevel}"

    def staging(self, table: str, geolevel: str, attempt: int) -> Path:
        """Where one attempt at a level is written before it is promoted; never shared between attempts."""
        return self.path / "staging" / table / f"level={geolevel}.attempt={attempt}"

    @property
    def journal(self) -> Path:
        """The folder of the measurement journal."""
        return self.path / "journal"

    @property
    def input_record(self) -> Path:
        """What ingestion read and found wrong, and the identity of the input."""
        return self.path / "input.json"

    @property
    def removed(self) -> Path:
        """When what is confidential was removed from a finished run; there only where it was."""
        return self.path / "removed.json"

    @property
    def lock(self) -> Path:
        """The file that the live driver holds locked."""
        return self.path / "run.lock"

    @property
    def manifest(self) -> Path:
        """The restricted manifest: checksums and row counts of the input, times, accuracy."""
        return self.path / "manifest.json"

    @property
    def accuracy_json(self) -> Path:
        """The accuracy report as data."""
        return self.path / "accuracy.json"

    @property
    def accuracy_html(self) -> Path:
        """The accuracy report as a page."""
        return self.path / "accuracy.html"

    @property
    def log(self) -> Path:
        """Row numbers of problems in the input."""
        return self.path / "run.log"

    @property
    def events(self) -> Path:
        """What the drivers of the run did, and when: one JSON object a line."""
        return self.path / "log.jsonl"

    @property
    def page(self) -> Path:
        """The run as a page."""
        return self.path / "run.html"

    @property
    def marker(self) -> Path:
        """The file that makes the folder a run folder."""
        return self.path / MARKER


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
            OutputError: The name would lead out of the folder.
        """
        if not run_id or run_id.startswith(".") or not all(sign.isalnum() or sign in "._-" for sign in run_id):
            raise OutputError(f"run id {run_id!r}: expected letters, digits, '.', '_' and '-', not starting with '.'")
        base = Path(root)
        open_to_all = Path(public) / run_id if public else base / run_id / "public"
        closed = Path(restricted) / run_id if restricted else base / run_id / "restricted"
        if open_to_all.resolve() == closed.resolve():
            raise OutputError(f"{open_to_all}: the public and the restricted root are one folder")
        return cls(base, run_id, PublicLayout(open_to_all), RestrictedLayout(closed))

    @property
    def folder(self) -> Path:
        """The folder of the run under the root of all runs."""
        return self.root / self.run_id


def open_run(layout: RunLayout, config_hash: str) -> bool:
    """Create the two roots of a run, or open those that an earlier driver of the same run left.

    Args:
        layout: Where.
        config_hash: Hash of the resolved configuration; a run folder is bound to it for ever.

    Returns:
        True when the run existed already (it resumes), False when it was created.

    Raises:
        OutputError: The folder is not empty and no run folder, or belongs to another run.
    """
    known = [_belongs(path, layout.run_id, config_hash) for path in (layout.restricted.path, layout.public.path)]
    with disk_errors(layout.folder):
        layout.restricted.path.parent.mkdir(parents=True, exist_ok=True)
        layout.restricted.path.mkdir(mode=0o700, exist_ok=True)
        layout.restricted.path.chmod(0o700)  # also where it was there, or the umask is a strange one
        layout.public.path.mkdir(parents=True, exist_ok=True)
        text = (
            json.dumps({"schema_version": MARKER_VERSION, "run_id": layout.run_id, "config_hash": config_hash}) + "\n"
        )
        for marker, there in zip((layout.restricted.marker, layout.public.marker), known, strict=True):
            if not there:
                write_durably(marker, text)
    return all(known)


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
            hint="Nothing is left to do; another run id begins another run.",
        )


def open_public(path: str | Path) -> PublicLayout:
    """The public root of a finished or running run, for those who hold nothing else.

    Args:
        path: The public folder, or a run folder that holds one.

    Raises:
        OutputError: Neither.
    """
    for folder in (Path(path), Path(path) / "public"):
        if (folder / MARKER).is_file() and folder.name != "restricted":
            _read_marker(folder)
            return PublicLayout(folder)
    raise _no_run(path, MARKER)


def find_run(path: str | Path) -> RunLayout:
    """The layout of an existing run with both roots under one folder.

    Args:
        path: The run folder, or a link to it such as `runs/latest`.

    Raises:
        OutputError: There is no run.
    """
    folder = Path(path).resolve()
    for part in ("public", "restricted"):
        if not (folder / part / MARKER).is_file():
            raise _no_run(path, f"{part}/{MARKER}")
    return RunLayout.at(folder.parent, folder.name)


def _no_run(path: str | Path, missing: str) -> OutputError:
    """The error that names what was meant, perhaps."""
    try:
        parts = json.loads((Path(path) / JOINT_MARKER).read_text(encoding="utf-8"))["parts"].values()
    except (OSError, ValueError, KeyError, AttributeError):
        return OutputError(
            f"{path}: not a run folder (no {missing})", hint="Name a folder under runs/, or runs/latest."
        )
    named = " or ".join(str(Path(path).parent / part) for part in parts)
    return OutputError(f"{path}: a joint run, and one of its parts is asked for", hint=f"Name {named}.")


def point_latest(layout: RunLayout) -> None:
    """Let `<root>/latest` be a link to the run; replaced in one step.

    Raises:
        OutputError: There is a real file or folder of that name.
    """
    link = layout.root / LATEST
    if link.exists() and not link.is_symlink():
        raise OutputError(f"{link} is not a link", hint="Move it away: that name is kept for the link to the last run.")
    fresh = layout.root / f".{LATEST}.{os.getpid()}"
    with disk_errors(link):
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(layout.run_id)
        fresh.replace(link)


def _belongs(path: Path, run_id: str, config_hash: str) -> bool:
    """True: the folder is this run's; False: it is free."""
    if not path.exists():
        return False
    if not path.is_dir():
        raise OutputError(f"{path} is a file", hint="Choose another output folder.")
    if not (path / MARKER).is_file():
        if any(path.iterdir()):
            raise OutputError(f"{path}: not empty and not a run folder", hint="Choose another output folder.")
        return False
    found = _read_marker(path)
    if found != (run_id, config_hash):
        raise OutputError(
            f"{path} belongs to another run ({found[0]}, configuration {found[1][:12]})",
            hint="Choose another run id, or resume with the configuration that the run was started with.",
        )
    return True


def _read_marker(path: Path) -> tuple[str, str]:
    try:
        content = json.loads((path / MARKER).read_text(encoding="utf-8"))
        version, run_id, config_hash = content["schema_version"], content["run_id"], content["config_hash"]
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError(f"{path / MARKER}: not readable as the marker of a run") from error
    if version != MARKER_VERSION:
        raise OutputError(f"{path / MARKER}: version {version}, expected {MARKER_VERSION}")
    return str(run_id), str(config_hash)
