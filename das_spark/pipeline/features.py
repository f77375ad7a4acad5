"""What runner, preflight, manifest and verification must know of what a run publishes of its estimates.

Each such stage is a folder of `das_spark.features`, and a name there: in `STANDING`, or in `FEATURES` where a run has
it that asks for it in a section of its own. Everything that it publishes is declared here once: who counts, describes,
orders or verifies the files of a run goes over these declarations, and lists no stage by hand.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from das_spark.config import stages_of
from das_spark.features import STANDING
from das_spark.io.table_files import ABOUT, GEOCODE, PARQUET, about_text, rows_of
from das_spark.pipeline.stage import RunStage
from das_spark.pipeline.table_writing import named, named_in_formats
from das_spark.places import Place
from das_spark.store import level_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.config.features import FeatureSettings
    from das_spark.geography import Spine
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.space import KnownSizes
    from das_spark.spark.checks import Check, Rule
    from das_spark.spark.verify import FileRows, RunTables, Source
    from das_spark.spark.verify_run import Verified
    from das_spark.spark.verify_tables import PublishedTable
    from das_spark.store import FileRecord, PublicLayout, PublicManifest
    from das_spark.store.tables import TableDeclaration
    from das_spark.tabulation import Table, TableShell
    from das_spark.verification import FamilyRule

_Settings = TypeVar("_Settings", bound="FeatureSettings")
_Table = TypeVar("_Table", bound="TableShell")


@dataclass(frozen=True, slots=True, eq=False)
class OutputTable:
    """Public files with the same columns, in folders each of which is whole or not there.

    Attributes:
        path: Their folder below the public root, with slashes.
        schema: Columns of the files where they are Parquet; CSV has their names. None where the stage judges them.
        parts: Names of the folders in it; none where the files lie in it.
        format: `parquet` or `csv`.
        order: Columns by which rows ascend, no two alike; empty where their order is not judged.
        beside: The published table that the files are, or go with: the manifest counts their rows, and a text stands
            beside them. None for what is no such table.
    """

    path: str
    schema: pa.Schema | None
    parts: tuple[str, ...] = ()
    format: str = PARQUET
    order: tuple[str, ...] = ()
    beside: TableShell | None = None

    def folders(self, public: PublicLayout) -> dict[str, Place]:
        """Return the folders of the files, by their names below the public root."""
        names = [f"{self.path}/{part}" for part in self.parts] or [self.path]
        return {name: public.inside(*name.split("/")) for name in names}

    def rows(self, public: PublicLayout) -> int:
        """Count the rows of all files."""
        return sum(rows_of(folder, self.format) for folder in self.folders(public).values())


def tables_by_level(
    place: str,
    written: Iterable[tuple[_Table, str]],
    schema: Callable[[TableShell], pa.Schema],
    levels: Callable[[_Table], Sequence[str]],
) -> tuple[OutputTable, ...]:
    """Declare the files of something that goes with published tables, in the layout of these.

    Args:
        place: Folder of all of them below the public root.
        written: Tables and formats.
        schema: Columns of the files of a table.
        levels: Geolevels of a table.
    """
    return tuple(
        OutputTable(
            f"{place}/{table.name}.{format}",
            schema(table),
            tuple(map(level_folder, levels(table))),
            format,
            (GEOCODE,),
            table,
        )
        for table, format in written
    )


@dataclass(frozen=True, slots=True)
class FeatureRoom:
    """Bytes that a feature writes below the public root, estimated when the input is read."""

    published: int = 0  # what stays
    staged: int = 0  # what is removed when the feature is done
    carried: Mapping[str, int] = field(default_factory=dict)  # of that, what a shuffle carries at a level of the spine


@dataclass(frozen=True, slots=True, eq=False)
class PublishedUncertainty:
    """Intervals that a feature publishes, for who compares them with the truth or counts the wide ones.

    Attributes:
        of: What they are made of, as `das_spark.evaluation.Coverage` has it.
        ending: Of the columns that say how uncertain a count is.
        level: Probability that they are made for.
        geolevels: Of the census, those that they are of.
        tables: Those that have them.
        read: Reads those of a table in a format, at some geolevels, with the level.
    """

    of: str
    ending: str
    level: float
    geolevels: tuple[str, ...]
    tables: tuple[Table, ...]
    read: Callable[[SparkSession, PublicLayout, Table, str, Sequence[str]], DataFrame]


@dataclass(frozen=True, slots=True)
class Judged:
    """What verification judges of what a stage has published.

    Attributes:
        rules: To be judged with those of others.
        families: Rules on the families of the spine, to be judged with those on estimates.
        rows: What these look at besides the tables of the run.
        headed: Tables, besides those that are compared, whose CSV files must call their columns by the published names.
        checks: What is judged already.
        files: Files that were read for it, by their paths below the public root.
        counted: Names under which the manifest counts rows -> rows, where these were counted by the way.
    """

    rules: Sequence[Rule] = ()
    families: Sequence[FamilyRule] = ()
    rows: Sequence[Source | FileRows] = ()
    headed: Sequence[PublishedTable] = ()
    checks: Sequence[Check] = ()
    files: tuple[FileRecord, ...] = ()
    counted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Texts:
    """What files say by configuration and manifest.

    Attributes:
        whole: File -> its text.
        begun: File -> the text that it begins with; records follow.
    """

    whole: Mapping[Place, str] = field(default_factory=dict)
    begun: Mapping[Place, str] = field(default_factory=dict)


class Publication(RunStage):
    """A stage that publishes something that is made of estimates, and all that the rest of a run must know of it."""

    @property
    def census(self) -> Spine:
        """The levels of the census, in which tables are published."""
        return self.plan.product.census(self.plan.spine)

    @abstractmethod
    def room(self, known: KnownSizes) -> FeatureRoom:
        """Estimate how much it will write."""

    @abstractmethod
    def publish(self, context: RunContext) -> None:
        """Carry out its stage; what is finished is left as it is."""

    @abstractmethod
    def outputs(self) -> tuple[OutputTable, ...]:
        """Declare everything that it publishes."""

    @abstractmethod
    def rules(self, run: Verified, by_spine: RunTables, by_census: RunTables) -> Judged:
        """Judge what it has published, by what the rest of the run has.

        Args:
            run: The run that is verified.
            by_spine: Its estimates under the geocodes of the spine.
            by_census: Its estimates as they are published.
        """

    def compared(self, run: Verified) -> Sequence[PublishedTable]:
        """Return those of its tables that must hold the counts, or the medians, of the estimates."""
        del run
        return ()

    @property
    def recorded(self) -> tuple[str, ...]:
        """What the manifest says that the stage has written, below the public root."""
        return tuple(output.path for output in self.outputs())

    @property
    def counted(self) -> tuple[str, ...]:
        """Names under which the manifest counts its rows."""
        return tuple(output.path for output in self.outputs() if output.beside is not None)

    def rows(self, public: PublicLayout) -> dict[str, int]:
        """Count its rows, by the names under which the manifest does."""
        return {output.path: output.rows(public) for output in self.outputs() if output.beside is not None}

    def facts(self, run_id: str, created: str, notices: Sequence[str]) -> tuple[str, ...]:
        """Say what the texts beside its tables say of the run."""
        del run_id, created, notices
        return ()

    def facts_of(self, context: RunContext) -> tuple[str, ...]:
        """Say the same of a run that is carried out."""
        return self.facts(context.layout.run_id, context.created, context.notices)

    def declared(self) -> tuple[TableDeclaration, ...]:
        """Declare what it keeps for itself, for the data dictionary."""
        return ()

    def described(self) -> tuple[dict[str, Any], ...]:
        """Describe the files that it publishes, as the data dictionary does."""
        return ()

    def uncertainty(self) -> PublishedUncertainty | None:
        """Return the intervals that it publishes; None where it publishes none."""
        return None

    def texts(self, manifest: PublicManifest, public: PublicLayout) -> Texts:
        """Return what its files say by the manifest of the run."""
        facts = self.facts(manifest.run_id, manifest.created, manifest.notices)
        return Texts(
            {
                public.inside(*output.path.split("/"), ABOUT): about_text(output.beside, facts)
                for output in self.outputs()
                if output.beside is not None
            }
        )


@dataclass(frozen=True, slots=True)
class Feature(Publication, Generic[_Settings]):
    """What a run publishes where its run file has a table of that name, `[output.NAME]`."""

    settings: _Settings

    @property
    def name(self) -> str:
        """Its table of a run file, and its stage."""
        return self.settings.name

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that it goes with."""
        return named(self.plan, self.settings.named_tables)

    @property
    def written(self) -> list[tuple[Table, str]]:
        """These tables, each with each format that intervals are written in."""
        return named_in_formats(self.plan, self.settings.named_tables)

    def levels(self, table: Table) -> tuple[str, ...]:
        """Return the geolevels of the census that it has of a table."""
        return table.levels(self.census, self.settings.named_geolevels or None)


def publications_of(plan: RunPlan) -> tuple[Publication, ...]:
    """Return everything that a run publishes of its estimates, in the order in which it does."""
    stages = {stage.kind for stage in stages_of(plan)}
    standing = (_of_folder(folder)(plan) for stage, folder in STANDING.items() if stage in stages)
    return (*standing, *(_of_folder(feature.name)(plan, feature) for feature in plan.output.features))


def _of_folder(name: str) -> Callable[..., Publication]:
    kind: Callable[..., Publication] = import_module(f"das_spark.features.{name}.feature").FEATURE
    return kind


def uncertainties_of(plan: RunPlan) -> tuple[PublishedUncertainty, ...]:
    """Return the intervals that a run publishes."""
    return tuple(filter(None, (publication.uncertainty() for publication in publications_of(plan))))


def outputs_of(plan: RunPlan) -> tuple[OutputTable, ...]:
    """Return everything that a run publishes of its estimates."""
    return tuple(output for publication in publications_of(plan) for output in publication.outputs())


def orders_of(plan: RunPlan) -> dict[str, tuple[str, ...]]:
    """Return the columns by which rows ascend, by the first part of the path of what a run publishes of estimates."""
    return {output.path.split("/")[0]: output.order for output in outputs_of(plan) if output.order}
