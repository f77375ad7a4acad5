"""Text files with a line of names and a delimiter: columns found by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.io.cef_layout import DELIMITER
from das_spark.io.readers._begin import data_files, first_line
from das_spark.io.readers._rows import Check, with_place
from das_spark.io.readers._sources import require_path
from das_spark.io.readers.base import reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Delimited:
    """An opened text file, or several with the same line of names.

    Attributes:
        file: Path, for messages.
        placed: Column value (the line), and where each line lies.
        header: The line of names.
        names: The names.
    """

    file: str
    placed: DataFrame
    header: str
    names: tuple[str, ...]

    @classmethod
    def open(
        cls, spark: SparkSession, paths: Sequence[str], wanted: Sequence[str], *, file: str, kind: str
    ) -> Delimited:
        """Open text files.

        Args:
            spark: The session.
            paths: Files, folders or patterns.
            wanted: Names of columns that must be there.
            file: What messages call them.
            kind: What the file should be, for the hint.

        Raises:
            InputError: There is no such file, it is empty, or a column is missing.
        """
        for path in paths:
            require_path(path)
        with reading(file):
            lines = spark.read.text(list(paths))
            first = lines.head()
        if first is None:
            raise InputError(f"{file}: the file is empty, so no geounit exists")
        header = str(first[0])
        return cls(file, with_place(lines), header, _names(header, wanted, file=file, kind=kind))

    @staticmethod
    def look(paths: Sequence[str], wanted: Sequence[str], *, file: str, kind: str) -> None:
        """See without Spark how text files begin.

        Args:
            paths: Files or folders; what is not local is passed over.
            wanted: Names of columns that must be there.
            file: What messages call them.
            kind: What the file should be, for the hint.

        Raises:
            InputError: There is no such file, it is empty or no text, or a column is missing.
        """
        for path in paths:
            require_path(path)
            for each in data_files(path):
                line = first_line(each, utf8=False)
                if not line:
                    raise InputError(f"{file}: the file is empty, so no geounit exists")
                _names(line, wanted, file=file, kind=kind)

    @property
    def is_row(self) -> Column:
        """True for every line but that of names."""
        return F.col("value") != self.header

    @property
    def whole(self) -> Column:
        """True where a line that is no line of names has as many columns as that."""
        return self.is_row & (F.size(self._parts()) == len(self.names))

    @property
    def form(self) -> Check:
        """The rule that every line has as many columns as the line of names."""
        return Check(self.file, "", f"{len(self.names)} columns, as in the first line", self.is_row & ~self.whole)

    def column(self, name: str) -> Column:
        """The text of a column, without spaces around it."""
        return F.trim(F.get(self._parts(), F.lit(self.names.index(name))))

    @staticmethod
    def _parts() -> Column:
        return F.split("value", rf"\{DELIMITER}", -1)


def _names(header: str, wanted: Sequence[str], *, file: str, kind: str) -> tuple[str, ...]:
    """Names in the first line, of which none that is wanted is missing."""
    names = tuple(name.strip() for name in header.lstrip("\ufeff").split(DELIMITER))
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InputError(
            f"{file}: no column {', '.join(missing)}",
            hint=f"the first line names the columns, delimited by {DELIMITER}, as in {kind}",
        )
    return names
