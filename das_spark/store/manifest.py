"""The two records of a run: `public/manifest.json`, and `restricted/manifest.json` for what tells of the input.

Two more kinds stand in folders of their own that are made of a finished run: of measurements for others to estimate
from, and of tables.

A manifest is a frozen value, made once, when all that it tells of is there, and saved in one step. The public one holds
no time of a task, no size of the input, no accuracy; the restricted one holds just these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from das_spark.errors import ConfigurationError, OutputError
from das_spark.limits import MANIFEST, parse_json, read_limited
from das_spark.places import Place, system_of
from das_spark.store.commit import write_durably
from das_spark.store.digests import FileRecord
from das_spark.store.layout import STAGING
from das_spark.store.strict_json import strict_json

if TYPE_CHECKING:
    from das_spark.store.layout import PublicLayout, RunLayout


#: A table and its format, in the name of what rows are counted of.
_PARTS_OF_A_NAME = 2


@dataclass(frozen=True, slots=True)
class StageRecord:
    """A stage that is done when the manifest is written.

    Attributes:
        name: Such as `measure` (`das_spark.config.stages` has all).
        geolevel: Its level; empty for a stage of the whole run.
        outputs: What it wrote, as paths below the root.
    """

    name: str
    geolevel: str = ""
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What both manifests share: loading, saving, and the version.

    Attributes:
        run_id: Name of the run.
        created: When it began, UTC, ISO 8601.
        schema_version: Version of the format of this kind of manifest.
    """

    schema_version: ClassVar[int] = 1
    #: Earlier versions that are read, too, each with the fields that it does not have.
    earlier: ClassVar[Mapping[int, tuple[str, ...]]] = MappingProxyType({})
    run_id: str
    created: str

    def to_json(self) -> str:
        """The manifest as text; the version stands first."""
        return (
            json.dumps({"schema_version": self.schema_version, "kind": _kind(type(self)), **asdict(self)}, indent=2)
            + "\n"
        )

    @property
    def sha256(self) -> str:
        """Checksum of the manifest as it is saved, which answers for everything that the manifest lists."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def save(self, path: Place) -> None:
        """Write in one step: a reader sees the last whole manifest.

        Raises:
            OutputError: The disk is full.
        """
        write_durably(path, self.to_json())

    @classmethod
    def load(cls, path: Place) -> Self:
        """Read a manifest.

        Raises:
            OutputError: It is missing, not readable, of another kind, or of a version that this software does not know.
        """
        try:
            text = read_limited(path, MANIFEST)
            parse_json(text, str(path), MANIFEST)  # its sizes first
            content = strict_json(text)
        except FileNotFoundError as error:
            raise OutputError(f"{path}: there is no manifest", hint="is this a run folder?") from error
        except ConfigurationError as error:
            raise OutputError(error.message, hint=error.hint) from error
        except ValueError as error:
            raise OutputError(f"{path}: not readable as a manifest: {error}") from error
        if not isinstance(content, dict):
            raise OutputError(f"{path}: not readable as a manifest: expected a JSON object")
        version, kind = content.pop("schema_version", None), content.pop("kind", None)
        if kind != _kind(cls):
            raise OutputError(f"{path}: a {kind} manifest, expected a {_kind(cls)} one")
        if version != cls.schema_version and version not in cls.earlier:
            raise OutputError(
                f"{path}: schema version {version}, expected {cls.schema_version}",
                hint="read it with the software that wrote it",
            )
        try:
            return cls._from(content, path, version)
        except (TypeError, KeyError, AttributeError) as error:
            raise OutputError(f"{path}: not readable as a manifest: {error}") from error

    @classmethod
    def _from(cls, content: dict[str, Any], path: Place, version: int) -> Self:
        known = {entry.name for entry in fields(cls)} - set(cls.earlier.get(version, ()))
        if set(content) != known:
            odd = sorted(set(content) ^ known)[0]
            raise OutputError(f"{path}: field {odd!r} is missing or unknown in version {version}")
        if "stages" in content:
            stages = ({**stage, "outputs": tuple(stage["outputs"])} for stage in content["stages"])
            content["stages"] = tuple(StageRecord(**stage) for stage in stages)
        if "files" in content:
            content["files"] = tuple(FileRecord(**file) for file in content["files"])
        for name in ("invariants", "public_rules", "notices", "relaxed", "uncertified"):
            if name in content:
                content[name] = tuple(content[name])
        return cls(**content)


@dataclass(frozen=True, slots=True)
class PublicManifest(_Manifest):
    """What everybody may know of a run.

    Attributes:
        product: Name of the product.
        config: The resolved configuration.
        config_hash: Its SHA-256.
        versions: Software -> version.
        ledger: The run's entry of the privacy ledger: exact shares as strings.
        invariants: Declared invariants, as sentences.
        public_rules: What is treated as public, as sentences.
        all_runs: What all runs on the dataset cost together, in sentences, as the privacy statement says it.
        stages: What is done, in order.
        rows: Rows of the public tables, by `<table>/<geolevel>` or `microdata/<kind>.<format>`.
        solver_status: Geolevel -> status -> families.
        worst_residuals: Geolevel -> name of a residual -> its largest value.
        estimation: Which geolevels were estimated together, in a sentence; empty where each was by itself.
        published: The run whose published counts the estimates are held to (run id, product, when it began, SHA-256 of
            its manifest, and from this version on the ledger entries of all releases from which these counts follow);
            empty where they are held to none.
        notices: What readers must know, in sentences, such as that the run is insecure; every public file has them.
        relaxed: Families whose consistency with their parent was relaxed, by `<geolevel>/<parent>`.
        uncertified: Families whose estimate is not proved to be the best, likewise; their gaps are in the diagnostics.
        data_dictionary: Every output: what a row is, columns, types, units (`das_spark.io.dictionary`).
        files: Every public file but this one and the verification report: path below the root, size and SHA-256.
    """

    #: 2: `notices` are called so; `stages` are all that are done, under the names that users see. 3: `files`. 4:
    #: `estimation`. 5: `published`. 6: `uncertified`.
    schema_version: ClassVar[int] = 6
    earlier: ClassVar[Mapping[int, tuple[str, ...]]] = MappingProxyType(
        {3: ("estimation", "published", "uncertified"), 4: ("published", "uncertified"), 5: ("uncertified",)}
    )
    product: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    config_hash: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, Any] = field(default_factory=dict)
    invariants: tuple[str, ...] = ()
    public_rules: tuple[str, ...] = ()
    all_runs: str = ""
    stages: tuple[StageRecord, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    solver_status: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    worst_residuals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    estimation: str = ""
    published: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    relaxed: tuple[str, ...] = ()
    uncertified: tuple[str, ...] = ()
    data_dictionary: tuple[Mapping[str, Any], ...] | list[Mapping[str, Any]] = ()
    files: tuple[FileRecord, ...] = ()

    @property
    def tables(self) -> list[tuple[str, str]]:
        """Name and format of every published table whose rows are counted."""
        names = [name.removeprefix("tables/").split(".") for name in self.rows if name.startswith("tables/")]
        return [(parts[0], parts[1]) for parts in names if len(parts) == _PARTS_OF_A_NAME]


@dataclass(frozen=True, slots=True)
class RestrictedManifest(_Manifest):
    """What tells of the confidential input; stays with it.

    Attributes:
        input_files: Path -> size and SHA-256.
        input_rows: What was read -> rows.
        problems: What was wrong in the input, and how often.
        seconds: Stage, such as "measure County" -> wall time, all drivers together.
        metrics: Stage -> what it cost Spark, all drivers together (`das_spark.evaluation.StageMetrics`), and how often
            it was entered, failed and was cut short.
        accuracy: The few accuracy figures that are printed.
        places: Key path -> absolute path, of every file and root that the run file names; the public manifest has none.
    """

    #: 2: `seconds` are of all drivers, and `metrics` stand beside them. 3: `places`.
    schema_version: ClassVar[int] = 3
    input_files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    input_rows: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Mapping[str, Any], ...] | list[Mapping[str, Any]] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    accuracy: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasurementsManifest(_Manifest):
    """What a folder of noisy measurements says of itself: all that estimation needs besides the rows, and checksums.

    Whoever can change the files can change their checksums here, too: compare the SHA-256 of this file, which the run
    that estimates records, with what the publisher says.

    Attributes:
        product: Name of the product; the dataset has the same name.
        title: What the product is, in a few words.
        schema: Attributes in order: name, labels of the levels, and recodes as label -> levels.
        config: The resolved configuration of the run that measured.
        config_hash: Its SHA-256.
        versions: Software -> version, of the run that measured.
        ledger: Its entry of the privacy ledger: the budget that is spent, in exact fractions.
        invariants: Declared invariants, as sentences.
        public_rules: What is treated as public, as sentences.
        all_runs: What all runs on the dataset cost together, in sentences, as the privacy statement says it.
        notices: What readers must know, in sentences, as the run that measured has it.
        rows: Rows by folder.
        files: Every data file below the folder, with its checksum.
        data_dictionary: What a row and a column is.
    """

    #: 2: `notices` are called so.
    schema_version: ClassVar[int] = 2
    product: str = ""
    title: str = ""
    schema: tuple[Mapping[str, Any], ...] | list[Mapping[str, Any]] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    config_hash: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, Any] = field(default_factory=dict)
    invariants: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    files: tuple[FileRecord, ...] = ()
    data_dictionary: tuple[Mapping[str, Any], ...] | list[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class TablesManifest(_Manifest):
    """What a folder of tables says of itself that was made of a finished run, outside of that run.

    Attributes:
        product: Name of the product.
        manifest: SHA-256 of the public manifest of the run, as it was when the tables were made of it.
        versions: Software -> version, of what made the tables.
        notices: What readers must know, in sentences, as the run has it.
        rows: Rows by `<table>.<format>`.
        data_dictionary: What a row and a column of every table is.
        files: Every file below the folder but this one, with its checksum.
    """

    product: str = ""
    manifest: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    data_dictionary: tuple[Mapping[str, Any], ...] | list[Mapping[str, Any]] = ()
    files: tuple[FileRecord, ...] = ()


def _kind(cls: type[_Manifest]) -> str:
    return cls.__name__.removesuffix("Manifest").lower()


@dataclass(frozen=True, slots=True)
class CompletionRecord:
    """What is done of the last stages, and of which files.

    Attributes:
        files: Digest of the public files that were looked at.
        passed: Whether they were verified, and every check has passed.
        verified: What verification said in one line; empty where there was none.
        accuracy: The figures of the accuracy report, by name (restricted); empty where there is none.
    """

    files: str
    passed: bool = False
    verified: str = ""
    accuracy: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, layout: RunLayout, manifest: str) -> Self:
        """What is done of the files that lie there now."""
        now = cls(_digest(layout.public, manifest))
        path = layout.restricted.completion
        if not path.is_file():
            return now
        before = cls(**json.loads(path.read_text(encoding="utf-8")))
        if before.files != now.files:
            return now
        there = layout.restricted.accuracy_json.is_file() and layout.restricted.accuracy_html.is_file()
        return replace(
            before,
            passed=before.passed and layout.public.verification.is_file(),
            accuracy=before.accuracy if there else {},
        )

    def moved(self, layout: RunLayout, manifest: str) -> None:
        """Keep that the same is done of these files where they lie now."""
        replace(self, files=_digest(layout.public, manifest)).save(layout)

    def save(self, layout: RunLayout) -> None:
        """Keep what is done.

        Args:
            layout: Of the run; the file lies under its restricted root.

        Raises:
            OutputError: The disk is full.
        """
        write_durably(layout.restricted.completion, json.dumps(asdict(self), indent=1) + "\n")


def _digest(public: PublicLayout, manifest: str) -> str:
    """SHA-256 of the manifest, and of path and version of every other file that verification reads."""
    whole = hashlib.sha256(manifest.encode())
    # Written anew with every completion; the manifest holds what is verified of them.
    ours = {public.manifest, public.verification, public.privacy_statement, public.privacy_ledger}
    left_out, found = {STAGING, *(path.name for path in ours)}, system_of(public.path).files_below(str(public.path))
    for name in sorted(found, key=lambda each: each.split("/")):
        if name.split("/")[0] not in left_out:
            whole.update(f"{name} {found[name]}\n".encode())
    return whole.hexdigest()
