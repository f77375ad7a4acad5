"""What every reader gives back, and how it says what is wrong with its input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError, InputError, OutputError
from das_spark.geography import ENTITY_COLUMNS, NO_AIAN_AREA, NO_ENTITY
from das_spark.io.input_files import is_data, is_remote, require_path
from das_spark.store import is_disk_full, no_room

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.histogram import Schema
    from das_spark.products import Product


MOST_PROBLEMS = 20
"""Problems that one error message lists; the others are counted."""

MOST_EXAMPLES = 10
"""Row numbers, or geounits, that are kept of one problem."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in an input file that is not as it must be; it never holds a value of the file.

    Args:
        file: File or folder.
        field: Field, as the file calls it.
        expected: What was expected there.
        rows: How many rows are not so.
        examples: Numbers of some of those rows, counted from 1: for the restricted root only.
        geounits: Some well-formed geocodes that are concerned.
    """

    file: str
    field: str
    expected: str
    rows: int
    examples: tuple[int, ...] = ()
    geounits: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line without row numbers."""
        where = f"{self.file}, {self.field}" if self.field else self.file
        geounits = f" (geounits {', '.join(self.geounits)})" if self.geounits else ""
        rows = f"{self.rows:,} row{'s' if self.rows != 1 else ''}"
        return f"{where}: expected {self.expected}; not so in {rows}{geounits}"


class BadInputError(InputError):
    """Input files break rules; all that were found together.

    Args:
        message: All problems, one a line, without any value.
        hint: What to do about them.
        problems: The same as values, with row numbers, for the restricted root only.
    """

    code = "DAS201"

    def __init__(self, message: str, *, hint: str = "", problems: tuple[Problem, ...] = ()) -> None:
        """Keep message, hint and problems."""
        super().__init__(message, hint=hint)
        self.problems = problems


@dataclass(frozen=True, slots=True)
class IngestedTables:
    """The confidential input, read and checked.

    Args:
        counts: Columns geocode (string, leaf), cell (int), count (long, people); occupied cells, which may repeat.
        geounits: Columns geocode (string, leaf, unique), units (array of long by class, or null), vacant (long or
            null): every leaf geounit that exists.
        problems: What was put right, or let pass, while reading, because the settings asked for it.
        held: Confidential counts that Spark keeps, since both tables are made of them; None where there are none.
    """

    counts: DataFrame
    geounits: DataFrame
    problems: tuple[Problem, ...] = ()
    held: DataFrame | None = None

    def release(self) -> None:
        """Let Spark forget what it keeps; the tables can still be computed, from the files again."""
        if self.held is not None:
            self.held.unpersist()


class Reader(Protocol):
    """A kind of input files."""

    @property
    def name(self) -> str:
        """As in ``input.reader``."""
        ...

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See, cheaply and without Spark, whether the files are there and begin as they should.

        Format, encoding and columns of every local file, and that there is a record at all where that costs nothing;
        rows are for :meth:`read`. Files that are not local are left to it, too.

        Args:
            settings: Where the files are and how their columns are called.
            product: Its schema says which columns there must be.
            spine: Its lowest level says how long the geocodes are.

        Raises:
            InputError: A file is missing, unreadable, or not of the kind that the reader reads.
            ConfigurationError: The reader cannot serve this product, spine or setting.
            PrivacyGuardError: Nothing says which geounits exist.
        """
        ...

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the input.

        Args:
            spark: The session.
            settings: Where the files are and how their columns are called.
            product: Its schema says what the cells are, its classes what the units are.
            spine: Its lowest level says how long the geocodes are.

        Returns:
            Counts and geounits, all checks passed.

        Raises:
            InputError: A file is missing, unreadable or holds something that is not allowed; all problems together.
            ConfigurationError: The reader cannot serve this product, spine or setting.
            PrivacyGuardError: Nothing says which geounits exist.
        """
        ...


def refuse(problems: Sequence[Problem], *, hint: str = "") -> None:
    """Raise one error for all problems, if there are any.

    Args:
        problems: What was found.
        hint: What to do about it.

    Raises:
        BadInputError: There is a problem.
    """
    if not problems:
        return
    lines = [str(problem) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        lines.append(f"and {len(problems) - MOST_PROBLEMS} problems more")
    hint = hint or "correct the files, or the columns and code bases of [input]"
    raise BadInputError("\n".join(lines), hint=hint, problems=tuple(problems))


@contextmanager
def released_if_refused(held: DataFrame) -> Iterator[None]:
    """Let Spark forget what it keeps where the checks refuse it; otherwise `IngestedTables.release` does.

    Args:
        held: Confidential counts that Spark keeps.
    """
    try:
        yield
    except BaseException:
        held.unpersist()
        raise


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Turn Spark's errors about a file into one that names the file and quotes nothing of it.

    Args:
        file: File or folder.

    Raises:
        InputError: Spark could not find or read it.
        OutputError: There was no room for scratch files of the tasks that read it.
    """
    try:
        yield
    except PySparkException as error:
        raise _unreadable(file, error, error.getCondition() or "") from None
    except Py4JJavaError as error:
        raise _unreadable(file, error, "") from None


def _unreadable(file: str, error: Exception, condition: str) -> InputError | OutputError:
    if is_disk_full(error):
        return no_room(f"{file} cannot be read")
    if condition.startswith("PATH_NOT_FOUND"):
        return InputError(f"{file}: no such file or folder", hint="check input.path, input.persons and input.units")
    reason = f" ({condition})" if condition else ""
    return InputError(f"{file}: cannot be read{reason}", hint="is the file whole, and of the kind the reader expects?")


GEOCODE: Final = "geocode"

#: The functional status of what does not exist.
NO_STATUS: Final = "9"

#: The functional status that readers give where their files know none: an active government.
ACTIVE: Final = "A"

#: Columns of functional status, and the code that each is about.
STATUS_OF: Final[Mapping[str, str]] = MappingProxyType({"cousubfs": "cousubfp", "placefs": "placefp"})

_OWN_NOTHING: Final = {"aiannhce": NO_AIAN_AREA} | dict.fromkeys(STATUS_OF, NO_STATUS)

#: Column -> what it holds for a block that lies in no such entity; its length is that of every code of the column.
NOTHING: Final[Mapping[str, str]] = MappingProxyType(
    {name: _OWN_NOTHING.get(name, NO_ENTITY) for name in ENTITY_COLUMNS}
)


@dataclass(frozen=True, slots=True)
class EntityBlocks:
    """The blocks of a geography.

    Attributes:
        blocks: Columns geocode (16 digits, every block once) and `ENTITY_COLUMNS`, in this order; text without nulls.
        notes: Sentences about what the files do not say and what was taken instead.
    """

    blocks: DataFrame
    notes: tuple[str, ...] = ()


class GeographyReader(Protocol):
    """A kind of geographic files."""

    @property
    def name(self) -> str:
        """How commands and run files call it."""
        ...

    def look(self, path: str) -> None:
        """See, cheaply and without Spark, whether the files are there and begin as they should; rows are for `read`.

        Args:
            path: File or folder; what is not local is left to `read`.

        Raises:
            InputError: A file or column is missing, or a file is not of the kind that the reader reads.
        """
        ...

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read and check a geography.

        Args:
            spark: The session.
            path: File or folder.

        Returns:
            Every block, once.

        Raises:
            InputError: A file or column is missing, a row is malformed, a block stands twice, or an AIAN code is not
                assigned; all problems of the rows together (`BadInputError`).
        """
        ...


ROOT = "0"
"""Geocode of the one geounit of a level of length 0."""


def require_attributes(reader: str, product: Product, expected: Mapping[str, int]) -> None:
    """Refuse a product whose schema is not the one that a reader's recodes lead to.

    Args:
        reader: Name of the reader.
        product: What the run publishes.
        expected: Name and number of levels of every attribute, in order.

    Raises:
        ConfigurationError: The schema has other attributes.
    """
    found = {attribute.name: attribute.size for attribute in product.schema.attributes}
    if list(found.items()) != list(expected.items()):
        spelled = " x ".join(f"{name} ({size})" for name, size in expected.items())
        raise ConfigurationError(
            f"reader {reader!r} gives {spelled}; product {product.name!r} has another schema",
            hint="choose a product with that schema, or another reader",
        )


def leaf_geocode(column: str, spine: Spine) -> Column:
    """Cut a geocode to the lowest level of a spine.

    Args:
        column: Name of a column of geocodes, at least as long as those of the lowest level.
        spine: The spine.
    """
    return F.lit(ROOT) if spine.leaf.length == 0 else F.substring(column, 1, spine.leaf.length)


def cell_of(schema: Schema, codes: Mapping[str, Column]) -> Column:
    """Flat cell index (int) of 0-based codes, the last attribute fastest.

    Args:
        schema: Of the product.
        codes: A column for every attribute.
    """
    cell = reduce(
        lambda flat, attribute: flat * attribute.size + codes[attribute.name], schema.attributes, F.lit(0).cast("long")
    )
    return cell.cast("int")


def files_in(spark: SparkSession | None, folder: str) -> tuple[str, ...]:
    """Every file in a folder and in its folders.

    Args:
        spark: Lists remote folders; may be None for a local one.
        folder: A local path or a remote address.

    Returns:
        Paths or addresses, sorted.

    Raises:
        InputError: There is no such folder, or it is a file.
    """
    require_path(folder)
    if is_remote(folder):
        if spark is None:
            return ()
        with reading(folder):
            listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(folder)
            return tuple(sorted(row[0] for row in listing.select("path").collect()))
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: a folder is expected, not a file")
    return tuple(sorted(str(file) for file in Path(folder).rglob("*") if file.is_file() and is_data(file)))
