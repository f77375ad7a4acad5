"""What every stage of a run is given, and how stages read and write the run's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from das_spark.core import UNMEASURED
from das_spark.errors import DasError, OutputError, PrivacyGuardError
from das_spark.pipeline.facts import PublicFacts, RestrictedFacts
from das_spark.spark import tables
from das_spark.spark.arranged import file_starts, level_files, write_arranged
from das_spark.spark.census import census_geocode, published_estimates
from das_spark.spark.level_pass import Spread
from das_spark.store import (
    discard,
    disk_errors,
    finished,
    part_files,
    promote,
    require_held,
    require_staged,
    staging_of,
    succeed,
)
from das_spark.store.parquet import REPORT, ParquetTables, TableFolder, below

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.geography import Spine
    from das_spark.pipeline.charge import RunLedger
    from das_spark.pipeline.origin import Origin
    from das_spark.pipeline.progress import Progress
    from das_spark.privacy import RunKey
    from das_spark.store import FileRecord, RunLayout

Check = Callable[["DataFrame"], None]


def is_insecure(key: RunKey | None, origin: Origin | None) -> bool:
    """Whether the noise of a run comes from a test key.

    Args:
        key: Its own key; None where it draws nothing.
        origin: Where its measurements come from in that case.
    """
    return key.is_insecure if key is not None else origin is not None and origin.entry.insecure


@dataclass(slots=True)
class RunContext:
    """One run at work.

    Attributes:
        plan: What to do.
        layout: Where.
        spark: With what.
        key: The run key: given to measure tasks (as derived streams) and to nothing else; None where nothing is drawn.
        progress: Says how far the run is, and names jobs in Spark's own displays.
        created: When the run was opened for the first time, UTC, ISO 8601 to the second: the only instant that anything
            public names, since all later ones tell how long confidential data took.
        origin: Where the measurements come from that a run without a key estimates from; None where it draws its own.
        ledger: The ledger of its dataset, opened for the run; None where the run has no key.
        ingested_by: A run whose input, ingested already, this one takes over; None where it reads the input itself.
        blind: Whether noise is measured without what it shall hide (`RunOptions`).
        public_facts: What stages found out for the public manifest.
        restricted_facts: The same for the restricted one.
    """

    plan: RunPlan
    layout: RunLayout
    spark: SparkSession
    key: RunKey | None
    progress: Progress
    created: str
    origin: Origin | None = None
    ledger: RunLedger | None = None
    ingested_by: RunLayout | None = None
    blind: bool = False
    public_facts: PublicFacts = field(default_factory=PublicFacts)
    restricted_facts: RestrictedFacts = field(default_factory=RestrictedFacts)
    _sizes: dict[str, int] = field(default_factory=dict)

    @property
    def is_insecure(self) -> bool:
        """Whether the noise comes from a test key, of this run or of the one that measured."""
        return is_insecure(self.key, self.origin)

    def required_key(self) -> RunKey:
        """The run key, for what draws.

        Raises:
            PrivacyGuardError: The run estimates from measurements that exist: it has no key, and never draws.
        """
        if self.key is None:
            raise PrivacyGuardError(
                f"run {self.layout.run_id} estimates from measurements that exist; it draws nothing"
            )
        return self.key

    def required_ledger(self) -> RunLedger:
        """The ledger of the dataset, for what charges it.

        Raises:
            PrivacyGuardError: It was not opened: without it nothing confidential is published.
        """
        if self.ledger is None:
            raise PrivacyGuardError(f"run {self.layout.run_id}: the ledger of its dataset was not opened")
        return self.ledger

    def folder(self, table: str, geolevel: str) -> Path:
        """The folder of one level of a table.

        Args:
            table: Name in `tables.LEVEL_TABLES`.
            geolevel: Name of the level.
        """
        _, restricted = tables.LEVEL_TABLES[table]
        side = self.layout.restricted if restricted else self.layout.public
        return side.level(table, geolevel)

    def read(self, table: str, geolevel: str) -> DataFrame:
        """One finished level of a table.

        Args:
            table: Name in `tables.LEVEL_TABLES`.
            geolevel: Name of the level; its folder is whole.
        """
        schema, _ = tables.LEVEL_TABLES[table]
        return self.spark.read.schema(schema).parquet(str(self.folder(table, geolevel)))

    def read_all(self, table: str) -> DataFrame:
        """All levels of a table, with a column level in front.

        Args:
            table: Name in `tables.LEVEL_TABLES`; the folders of all levels are whole.
        """
        names = self.plan.spine.names
        frames = [self.read(table, name).select(F.lit(name).alias("level"), "*") for name in names]
        return reduce(DataFrame.unionByName, frames)

    def is_finished(self, table: str, levels: Sequence[str] | None = None) -> bool:
        """Whether levels of a table are whole.

        Args:
            table: Name in `tables.LEVEL_TABLES`.
            levels: Names of the levels; all levels of the run where None or empty.
        """
        return all(finished(self.folder(table, name)) for name in levels or self.plan.spine.names)

    def write_all(
        self,
        table: str,
        frame: DataFrame,
        check: Check | None = None,
        levels: Sequence[str] | None = None,
        leaves: DataFrame | None = None,
    ) -> None:
        """Write all levels of a table by one job, and let each level's folder appear only when it is whole.

        A public table is written by `ParquetTables`: its files, their names and the order of their rows follow from
        which geounits exist, and never from the order or size of what it was made of.

        Args:
            table: Name in `tables.LEVEL_TABLES`.
            frame: The table's columns with a column level.
            check: Is given the written rows before any folder appears, and raises what is wrong with them.
            levels: The levels; of the run, where none are named.
            leaves: Column geocode: the geounits of the lowest level, where the table of geounits is not written yet.

        Raises:
            OutputError: If the disk is full, the place cannot be written, or another driver has taken over the run.
        """
        schema, restricted = tables.LEVEL_TABLES[table]
        side = self.layout.restricted if restricted else self.layout.public
        staging = staging_of(self.layout, side) / table
        discard(staging)
        names = levels or self.plan.spine.names
        with disk_errors(staging):
            if restricted:
                columns = ["level", *[each.name for each in schema.fields]]
                frame.select(*columns).write.partitionBy("level").parquet(str(staging))
                written = None
            else:
                written = self._write_arranged(table, frame, staging, names, leaves)
            if check is not None:
                layout = StructType([*schema.fields, StructField("level", StringType(), nullable=False)])
                try:
                    check(self.spark.read.schema(layout).parquet(str(staging)))
                except DasError:
                    discard(staging)
                    raise
            require_staged(staging)
            # Listed once: a level has no rows because none were written, not because they are gone by now.
            with_rows = {path.name for path in staging.glob("level=*")}
            for name in names:
                source, target = staging / f"level={name}", self.folder(table, name)
                require_held(self.layout)
                require_staged(source if source.name in with_rows else staging)
                discard(target)  # what a driver promoted that died before the table was whole
                if source.name in with_rows:
                    promote(source, target, None if written is None else below(source.name, written), check=False)
                else:
                    target.mkdir(parents=True, exist_ok=True)
                    succeed(target)
        discard(staging)

    def _write_arranged(
        self, table: str, frame: DataFrame, staging: Path, levels: Sequence[str], leaves: DataFrame | None
    ) -> tuple[FileRecord, ...]:
        """Write all levels of a public table, in files and in an order that which geounits exist decides alone."""
        schema, _ = tables.LEVEL_TABLES[table]
        on_census = tuple(levels) != self.plan.spine.names
        if leaves is None:
            leaves = self.read("geounits", self.plan.spine.leaf.name)
        starts = file_starts(
            leaves.select(census_geocode() if on_census else F.col("geocode")),
            self.census if on_census else self.plan.spine,
        )
        writer = ParquetTables({table: TableFolder(staging.absolute(), to_arrow_schema(schema))})
        report = write_arranged(
            frame,
            table,
            file=level_files(starts, F.col("level"), F.col("geocode")),
            files=sum(len(codes) + 1 for codes in starts.values()),
            order=[name for name in ("geocode", "name", "member") if name in schema.names],
            finish=writer,
            report=REPORT,
        )
        return writer.place(report.toArrow().to_pylist())[table]

    def geounit_counts(self) -> Mapping[str, int]:
        """Number of geounits of every level, from the footers of the files."""
        if not self._sizes:
            self._sizes.update({name: self.rows("geounits", name) for name in self.plan.spine.names})
        return self._sizes

    @property
    def has_shares(self) -> bool:
        """Whether geounits have shares of the budget of their own, on a spine that is made of areas."""
        return not self.plan.spine.is_census

    def shares_of(self, geolevel: str) -> Mapping[str, Fraction]:
        """The shares of the budget that measured geounits of a level have, by their text; "" stands for the level's.

        Args:
            geolevel: Name of the level; where geounits have shares of their own, its shares are written.

        Returns:
            Exact shares of the whole budget by the text of the table of shares; geounits that are not measured are left
            out.
        """
        if not self.has_shares:
            return {"": self.plan.budget.level(geolevel).share}
        rows = self.read("shares", geolevel).select("share").distinct().collect()  # a handful
        return {row["share"]: Fraction(row["share"]) for row in rows if row["share"] != UNMEASURED}

    @property
    def census(self) -> Spine:
        """The levels of the census, in which microdata, tables and accuracy are given."""
        return self.plan.product.census(self.plan.spine)

    @property
    def published(self) -> str:
        """The table of estimates by geounits of the census."""
        return published_estimates(self.plan.spine)

    def spread(self, geolevel: str) -> Spread:
        """Over which files and partitions the families whose children are of a level are spread.

        Args:
            geolevel: Name of the level.

        Returns:
            Files by the numbers of geounits, which are public; partitions at most `partitions_per_core` for each core
            of the session, and never more than files.

        Raises:
            GeographyError: The spine has no such level.
        """
        depth = self.plan.spine.index(geolevel)
        counts = self.geounit_counts()
        families = counts[self.plan.spine.names[max(depth - 1, 0)]]
        cores = self.spark.sparkContext.defaultParallelism
        return Spread.of(families, counts[geolevel], cores * self.plan.estimation.partitions_per_core)

    def require_whole(self, table: str, geolevel: str) -> None:
        """Refuse a level of a table of one row a geounit that has lost a file since it was finished.

        Args:
            table: Name of the table.
            geolevel: Which level.

        Raises:
            OutputError: It has more or fewer rows than there are geounits, or a file of it cannot be read.
        """
        folder, expected = self.folder(table, geolevel), self.geounit_counts()[geolevel]
        hint = "restore the folder, and run the same command again; nothing was made of it"
        try:
            found = self.rows(table, geolevel)
        except (pa.ArrowInvalid, OSError) as error:
            raise OutputError(f"{folder}: holds a file that is not a whole Parquet file", hint=hint) from error
        if found != expected:
            raise OutputError(f"{folder}: {found:,} rows, expected {expected:,}", hint=hint)

    def rows(self, table: str, geolevel: str) -> int:
        """Rows of one level of a table, from the footers of its files.

        Args:
            table: Name in `tables.LEVEL_TABLES`.
            geolevel: Name of the level.

        Raises:
            OSError: A file cannot be read (`pyarrow.ArrowInvalid`: it is not a whole Parquet file).
        """
        files = part_files(self.folder(table, geolevel))
        return sum(parquet.read_metadata(path).num_rows for path in files)
