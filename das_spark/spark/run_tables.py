"""The tables of a run as DataFrames: a finished level is read, and all levels of a table are written by one job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.core import UNMEASURED
from das_spark.errors import DasError, OutputError
from das_spark.places import Place, disk_errors, system_of
from das_spark.spark.arranged import write_levels
from das_spark.spark.census import census_geocode
from das_spark.spark.engine import scan
from das_spark.spark.family_rows import RESTORE
from das_spark.spark.tables import LEVEL_TABLES, levels_together, read_table, with_level
from das_spark.store import (
    discard,
    finished,
    level_folder,
    replace_folder,
    require_held,
    require_staged,
    staging_of,
)
from das_spark.store.parquet import ParquetTables, TableFolder, below, count_rows
from das_spark.store.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.geography import Spine
    from das_spark.store import FileRecord, RunLayout

#: Is given written rows with a column level, and raises what is wrong with them.
RowCheck = Callable[[DataFrame], None]


@dataclass(frozen=True, slots=True)
class LevelTables:
    """The tables by geolevel of one run; `table` is a name in `das_spark.store.tables` throughout."""

    spark: SparkSession
    layout: RunLayout  # where the run lies
    spine: Spine
    #: The levels of the census, in which results are given; the same where the spine is that of the census.
    census: Spine
    _sizes: dict[str, int] = field(default_factory=dict)

    def folder(self, table: str, geolevel: str) -> Place:
        """The folder of one level of a table."""
        return self.layout.side(restricted=TABLES[table].restricted).level(table, geolevel)

    def is_finished(self, table: str, levels: Sequence[str] | None = None) -> bool:
        """Whether levels of a table are whole; all levels of the run where none are named."""
        return all(finished(self.folder(table, name)) for name in levels or self.spine.names)

    def read(self, table: str, geolevel: str) -> DataFrame:
        """One finished level of a table."""
        return read_table(self.spark, table, self.folder(table, geolevel))

    def read_all(self, table: str) -> DataFrame:
        """All levels of a finished table, with a column level in front."""
        return levels_together((name, self.read(table, name)) for name in self.spine.names)

    def fresh_staging(self, table: str, geolevel: str = "") -> Place:
        """An empty place where this driver writes a table, or one level of it, before it is promoted."""
        staging = staging_of(self.layout, self.layout.side(restricted=TABLES[table].restricted)) / table
        if geolevel:
            staging /= level_folder(geolevel)
        discard(staging)
        return staging

    def rows(self, table: str, geolevel: str) -> int:
        """Rows of one level of a table, from the footers of its files; raises as `store.parquet.read_metadata`."""
        return count_rows(self.folder(table, geolevel))

    def geounit_counts(self) -> Mapping[str, int]:
        """Number of geounits of every level, from the footers of the files."""
        if not self._sizes:
            self._sizes.update({name: self.rows("geounits", name) for name in self.spine.names})
        return self._sizes

    def require_complete(self, table: str, geolevel: str) -> None:
        """Refuse a level of a table of one row a geounit that has lost a file since it was finished."""
        folder, expected = self.folder(table, geolevel), self.geounit_counts()[geolevel]
        try:
            found = self.rows(table, geolevel)
        except (pa.ArrowInvalid, OSError) as error:
            raise OutputError(f"{folder}: holds a file that is not a whole Parquet file", hint=RESTORE) from error
        if found != expected:
            raise OutputError(f"{folder}: {found:,} rows, expected {expected:,}", hint=RESTORE)

    def measured_shares(self, geolevel: str) -> dict[str, Fraction]:
        """Exact shares of the whole budget that measured geounits of a level have, by their text in the table."""
        rows = self.read("shares", geolevel).select("share").distinct().collect()  # a handful
        return {row["share"]: Fraction(row["share"]) for row in rows if row["share"] != UNMEASURED}

    def write_all(
        self,
        table: str,
        frame: DataFrame,
        check: RowCheck | None = None,
        levels: Sequence[str] | None = None,
        leaves: DataFrame | None = None,
    ) -> None:
        """Write all levels of a public table by one job, and let each level's folder appear only when it is whole.

        `ParquetTables` writes it: its files, their names and the order of their rows follow from
        which geounits exist, and never from the order or size of what it was made of.
        """
        staging = self.fresh_staging(table)
        names = levels or self.spine.names
        with disk_errors(staging):
            written = self._write_arranged(table, frame, staging, names, leaves)
            folders = [folder for name in names if (folder := staging / level_folder(name)).is_dir()]
            if check is not None and folders:  # a run without invariants has no bounds
                try:
                    check(scan(self.spark, with_level(LEVEL_TABLES[table]), folders, staging))
                except DasError:
                    discard(staging)
                    raise
            self.promote_levels(table, staging, names, written)
        discard(staging)

    def promote_levels(self, table: str, staging: Place, names: Sequence[str], written: Sequence[FileRecord]) -> None:
        """Let each level's folder of a table that was written appear, as it is in a staging folder."""
        for name in names:
            source = staging / level_folder(name)
            require_held(self.layout)
            # Another driver that took over unnoticed has removed it; in a store it ends with its last file.
            if system_of(staging).capabilities.renames:
                require_staged(staging)
            # What a driver promoted that died before the table was whole goes first.
            replace_folder(source, self.folder(table, name), below(source.name, written))

    def _write_arranged(
        self, table: str, frame: DataFrame, staging: Place, levels: Sequence[str], leaves: DataFrame | None
    ) -> tuple[FileRecord, ...]:
        """Write all levels of a public table, in files and in an order that which geounits exist decides alone."""
        schema = TABLES[table].schema
        on_census = tuple(levels) != self.spine.names
        number = None
        if leaves is None:
            leaves = self.read("geounits", self.spine.leaf.name)
            number = self.rows("geounits", self.spine.leaf.name)
        return write_levels(
            frame,
            table,
            ParquetTables({table: TableFolder(staging.absolute(), schema)}),
            leaves.select(census_geocode() if on_census else F.col("geocode")),
            self.census if on_census else self.spine,
            [name for name in ("geocode", "name", "member") if name in schema.names],
            number=number,
        )
