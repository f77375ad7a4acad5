"""Where the files of a run lie, and which of them tell of the confidential input: nobody else builds these paths.

A run has two roots, `public/` and `restricted/`, which may be two disks with two owners. `PublicLayout` is all that
estimation, microdata and verification are given: no method of it yields a restricted path. Folders are finished when
they hold `_SUCCESS`, which is written last and made durable; whatever lacks it is no result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.errors import ConfigurationError, OutputError
from das_spark.names import RESERVED, check_name
from das_spark.places import Place, inside, place_of
from das_spark.store.commit import names_in

if TYPE_CHECKING:
    from das_spark.config import OutputSettings

MARKER = "run.json"


PUBLIC = "public"
RESTRICTED = "restricted"
JOINT_MARKER = "joint.json"
LATEST, LEDGERS = RESERVED
#: Folder of either root for what is not published yet.
STAGING = ".staging"
#: Folder of the restricted root for what will be public, where that lies in a store and no other folder is named.
UNPUBLISHED = "unpublished"
#: The digests of all tables of a run, in its restricted root.
COMMITTED = "committed.jsonl"
#: Most characters of the name of a run: of a sweep it has the name of the run file and all that varies in it.
_LONGEST_RUN_ID = 200
_MICRODATA = "microdata"
#: Format and kind -> the name of a file of all its records, as the releases call it.
_SINGLE = {
    ("text", "person"): "MDF_PER.txt",
    ("text", "unit"): "MDF_UNIT.txt",
    ("ppmf", "person"): "ppmf_P.csv",
    ("ppmf", "unit"): "ppmf_U.csv",
}


def level_folder(geolevel: str) -> str:
    """Name of the folder of one level of a table: what Spark calls a partition of it."""
    return f"level={geolevel}"


@dataclass(frozen=True, slots=True)
class TablesLayout:
    """Paths of published tables: of a run, or of a folder that somebody named for them.

    Its methods take the name of a table, its format (`parquet` or `csv`) and the name of a geolevel.

    Attributes:
        path: The folder of all tables.
    """

    path: Place

    def table(self, name: str, format: str) -> Place:
        """The folder of one table in one format, `parquet` or `csv`; holds one `level=<geolevel>` folder a level.

        Args:
            name: Name of the table.
            format: `parquet` or `csv`.
        """
        return inside(self.path, f"{name}.{format}")

    def beside(self, name: str, format: str, file: str) -> Place:
        """A file in the folder of a table, beside its levels."""
        return inside(self.path, f"{name}.{format}", file)

    def level(self, name: str, format: str, geolevel: str) -> Place:
        """The folder of one level of a table.

        Args:
            name: Name of the table.
            format: `parquet` or `csv`.
            geolevel: Name of the level.
        """
        return inside(self.path, f"{name}.{format}", level_folder(geolevel))

    @property
    def abandoned(self) -> tuple[Place, ...]:
        """Staging folders that earlier versions left, which made the tables of a run anew in its own folder."""
        return tuple(self.path / name for name in sorted(names_in(self.path)) if name.startswith(".tabulate-"))


@dataclass(frozen=True, slots=True)
class _Root:
    """One root of a run, and the tables that lie in it.

    Attributes:
        path: Its folder; that of the restricted root has mode 0700.
    """

    path: Place

    def inside(self, *parts: str) -> Place:
        """A path in the root; raises as `das_spark.store.filesystem.inside`."""
        return inside(self.path, *parts)

    def table(self, name: str) -> Place:
        """The folder of a table, which holds one `level_folder` a level."""
        return self.inside(name)

    def level(self, table: str, geolevel: str) -> Place:
        """The folder of one level of a table."""
        return self.inside(table, level_folder(geolevel))


@dataclass(frozen=True, slots=True)
class PublicLayout(_Root):
    """Paths of the public root of one run."""

    @property
    def published_source(self) -> Place:
        """Which run has published the counts that the estimates are held to; beside the table of these counts."""
        return self.inside("published", "source.json")

    def microdata(self, kind: str, format: str) -> Place:
        """The folder of a microdata file of a kind, in a format.

        Args:
            kind: What a record is, such as `person`, `unit` or `hospital_stay`.
            format: `parquet`, `text` or `ppmf`.
        """
        return self.inside(_MICRODATA, f"{kind}.{format}")

    @property
    def microdata_files(self) -> Place:
        """The folder of all microdata files."""
        return self.inside(_MICRODATA)

    def microdata_file(self, kind: str, format: str, name: str) -> Place:
        """A file in the folder of a microdata file: a part, or what stands beside the parts."""
        return self.inside(_MICRODATA, f"{kind}.{format}", name)

    def microdata_single(self, kind: str, format: str) -> Place:
        """The one file that all records of a kind are in, where a run writes such files, by its name in the releases.

        Args:
            kind: What a record is, such as `person`, `unit` or `hospital_stay`.
            format: `text` or `ppmf`; Parquet is always in parts.
        """
        return self.microdata_file(kind, format, _SINGLE.get((format, kind), kind))

    @property
    def microdata_rows(self) -> Place:
        """Rows of each microdata file."""
        return self.inside(_MICRODATA, "rows.json")

    @property
    def spine(self) -> Place:
        """The spine of a run whose spine is made of areas."""
        return self.inside("spine")

    @property
    def tables(self) -> TablesLayout:
        """The published tables."""
        return TablesLayout(self.inside("tables"))

    @property
    def problems(self) -> Place:
        """Saved problem files of families that could not be solved; made of public data."""
        return self.inside("problems")

    def problem(self, geolevel: str, family: str) -> Place:
        """The saved problem file of one family."""
        return self.inside("problems", f"{geolevel}.{family}.npz")

    def file(self, name: str) -> Place:
        """The file of a name that was found below the root; what a manifest says may name a file elsewhere.

        Args:
            name: Its path below the root.
        """
        return self.inside(*name.split("/"))

    @property
    def staging(self) -> Place:
        """The folder of what is not published yet; a finished run has none."""
        return self.inside(STAGING)

    @property
    def manifest(self) -> Place:
        """The public manifest."""
        return self.inside("manifest.json")

    @property
    def privacy_statement(self) -> Place:
        """What is claimed of the run, in words."""
        return self.inside("privacy_statement.md")

    @property
    def privacy_ledger(self) -> Place:
        """What the run spent, in exact fractions."""
        return self.inside("privacy_ledger.json")

    @property
    def verification(self) -> Place:
        """The verification report."""
        return self.inside("verification.json")

    @property
    def marker(self) -> Place:
        """The file that makes the folder a run folder."""
        return self.inside(MARKER)


@dataclass(frozen=True, slots=True)
class RunLayout:
    """Both roots of one run.

    Attributes:
        root: The folder of all runs.
        run_id: The name of the run.
        public: The public paths: where the run writes what may be published.
        restricted: The restricted paths.
        published: Where that is copied when the run is finished, if it is another place: the times of objects tell how
            long stages took, so that the public root of a store is filled at once (`das_spark.store.publication`).
    """

    root: Place
    run_id: str
    public: PublicLayout
    restricted: RestrictedLayout
    published: PublicLayout | None = None

    @classmethod
    def at(
        cls,
        root: str | Place,
        run_id: str,
        public: str | Place | None = None,
        restricted: str | Place | None = None,
    ) -> RunLayout:
        """The layout of a run, by default `<root>/<run_id>/public` and `.../restricted`.

        Args:
            root: The folder of all runs.
            run_id: The name of the run: letters, digits, `.`, `_` and `-`.
            public: Another folder of public roots; the run gets a folder of its name in it.
            restricted: The same for restricted roots.

        Raises:
            ConfigurationError: The name would lead out of the folder, or stands for something else beside the runs.
            OutputError: Both roots are one folder.
        """
        check_name(run_id, "run id", also=".", most=_LONGEST_RUN_ID)
        base = place_of(root)
        open_to_all = place_of(public) / run_id if public else base / run_id / PUBLIC
        closed = place_of(restricted) / run_id if restricted else base / run_id / RESTRICTED
        if open_to_all.resolve() == closed.resolve():
            raise OutputError(f"{open_to_all}: the public and the restricted root are one folder")
        return cls(base, run_id, PublicLayout(open_to_all), RestrictedLayout(closed))

    @classmethod
    def of(cls, output: OutputSettings, run_id: str) -> RunLayout:
        """The layout of a run of a plan; nothing is asked of any file system.

        Args:
            output: Of the plan.
            run_id: The name of the run.

        Raises:
            OutputError: As `at`.
        """
        layout = cls.at(output.root, run_id, output.public, output.restricted)
        if isinstance(layout.public.path, Path):
            return layout
        unpublished = layout.restricted.path / UNPUBLISHED
        if output.work is not None:
            unpublished = place_of(output.work) / run_id / PUBLIC
        return replace(layout, public=PublicLayout(unpublished), published=layout.public)

    def as_published(self) -> RunLayout:
        """The layout of a run whose public side was copied to where it lies in the end; itself where there is none."""
        if self.published is None or not self.published.manifest.is_file():
            return self
        return self.in_the_end()

    def in_the_end(self) -> RunLayout:
        """The layout of the run when it is finished."""
        return self if self.published is None else replace(self, public=self.published, published=None)

    @property
    def folder(self) -> Place:
        """The folder of the run under the root of all runs."""
        return self.root / self.run_id

    def side(self, *, restricted: bool) -> PublicLayout | RestrictedLayout:
        """The root that a table lies in, by its declaration."""
        return self.restricted if restricted else self.public


@dataclass(frozen=True, slots=True)
class RestrictedLayout(_Root):
    """Paths of the restricted root of one run: everything that tells of the confidential input."""

    def staging(self, table: str, geolevel: str, attempt: int) -> Place:
        """Where one attempt at a level is written before it is promoted; never shared between attempts.

        Args:
            table: Name of the table.
            geolevel: Name of the level.
            attempt: Number of the attempt, from 1.
        """
        return self.inside("staging", table, f"{level_folder(geolevel)}.attempt={attempt}")

    @property
    def journal(self) -> Place:
        """The folder of the measurement journal."""
        return self.inside("journal")

    @property
    def committed(self) -> Place:
        """The digests of all tables of the run: one JSON object a table and line."""
        return self.inside(COMMITTED)

    @property
    def input_record(self) -> Place:
        """What ingestion read and found wrong, and the identity of the input."""
        return self.inside("input.json")

    @property
    def ledger_entry(self) -> Place:
        """What the run is charged with, and which of its levels are public: never behind the ledger of the input."""
        return self.inside("ledger_entry.json")

    @property
    def instance(self) -> Place:
        """A random word of the run folder in this place, by which a copy of the folder is told from it."""
        return self.inside("instance.json")

    @property
    def begun(self) -> Place:
        """When a run began that is charged with nothing: one from measurements that exist."""
        return self.inside("begun.json")

    @property
    def completion(self) -> Place:
        """What was verified and evaluated, and of which files."""
        return self.inside("completion.json")

    @property
    def removed(self) -> Place:
        """When what is confidential was removed from a finished run; there only where it was."""
        return self.inside("removed.json")

    @property
    def lock(self) -> Place:
        """The file that the live driver holds locked."""
        return self.inside("run.lock")

    @property
    def manifest(self) -> Place:
        """The restricted manifest: checksums and row counts of the input, times, accuracy."""
        return self.inside("manifest.json")

    @property
    def accuracy_json(self) -> Place:
        """The accuracy report as data."""
        return self.inside("accuracy.json")

    @property
    def accuracy_html(self) -> Place:
        """The accuracy report as a page."""
        return self.inside("accuracy.html")

    @property
    def input_problems(self) -> Place:
        """What was wrong in the input, with numbers of rows: one JSON object a problem and line."""
        return self.inside("input_problems.jsonl")

    @property
    def log(self) -> Place:
        """What the drivers of the run did, and when: one JSON object an event and line."""
        return self.inside("log.jsonl")

    @property
    def page(self) -> Place:
        """The run as a page."""
        return self.inside("run.html")

    @property
    def marker(self) -> Place:
        """The file that makes the folder a run folder."""
        return self.inside(MARKER)

    @property
    def kept(self) -> tuple[Place, ...]:
        """What stays when all that is confidential is removed: without the journal, a level could be drawn twice.

        Of `staging` only the plain files stay, without which an executor that was lost could still write there when it
        wakes up.
        """
        return (
            self.journal,
            self.ledger_entry,
            self.instance,
            self.removed,
            self.marker,
            self.lock,
            self.inside("staging"),
        )


@dataclass(frozen=True, slots=True)
class JointLayout:
    """Paths of what a joint run says of all its parts together; the parts are runs beside it.

    Attributes:
        run_id: The name of the joint run.
        path: Its folder; everything in it is public.
    """

    run_id: str
    path: Place

    @classmethod
    def at(cls, root: str | Place, run_id: str) -> JointLayout:
        """The layout of a joint run.

        Args:
            root: The folder of all runs, or of all public roots.
            run_id: The name of the joint run: as of runs.

        Raises:
            ConfigurationError: The name would lead out of the folder, or stands for something else beside the runs.
            OutputError: A run of that name stands there.
        """
        path = RunLayout.at(root, run_id).folder
        if path.exists() and not (path / JOINT_MARKER).is_file() and names_in(path):
            raise OutputError(f"{path}: not empty and not a joint run", hint="choose another run id")
        return cls(run_id, path)

    @classmethod
    def find(cls, path: str | Place) -> JointLayout | None:
        """The joint run that a folder holds, None where it holds none.

        Args:
            path: The folder, under whatever name it lies now, beside the folders of its parts.

        Raises:
            OutputError: The marker cannot be understood.
        """
        layout = cls("", place_of(path).resolve())
        return replace(layout, run_id=str(layout._marked("run_id"))) if layout.marker.is_file() else None

    @property
    def marker(self) -> Place:
        """The names of the parts."""
        return inside(self.path, JOINT_MARKER)

    def created(self) -> str:
        """When the joint run was begun, by its marker; empty where it has none yet.

        Raises:
            OutputError: The marker cannot be understood.
        """
        return str(self._marked("created")) if self.marker.is_file() else ""

    def parts(self) -> dict[str, Place]:
        """The folders of the parts, by what each counts: they lie beside the joint run.

        Raises:
            OutputError: The marker cannot be understood.
        """
        named = self._marked("parts")
        if not isinstance(named, dict):
            raise self._unreadable()
        try:
            return {str(record): RunLayout.at(self.path.parent, str(name)).folder for record, name in named.items()}
        except ConfigurationError as error:  # a name that leads out
            raise self._unreadable() from error

    def _marked(self, name: str) -> object:
        try:
            value: object = json.loads(self.marker.read_text(encoding="utf-8"))[name]
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable() from error
        return value

    def _unreadable(self) -> OutputError:
        return OutputError(f"{self.marker}: not readable as the marker of a joint run")

    @property
    def privacy_statement(self) -> Place:
        """What is claimed of all parts together, in words."""
        return inside(self.path, "privacy_statement.md")

    @property
    def privacy_ledger(self) -> Place:
        """What the parts cost, alone and together, in exact fractions."""
        return inside(self.path, "privacy_ledger.json")

    @property
    def contradictions(self) -> Place:
        """In how many geounits the parts contradict each other."""
        return inside(self.path, "contradictions.json")
