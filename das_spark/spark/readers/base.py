"""What readers share: what they read for, and what they give back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.geography import BLOCK
from das_spark.products import CodedField, FileRecodes
from das_spark.spark.problems import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.histogram import Schema
    from das_spark.products import Product


@dataclass(frozen=True, slots=True)
class IngestedTables:
    """The confidential input, read and checked.

    Args:
        leaves: `tables.LEAVES`: every leaf geounit that exists, its occupied cells and its units (or null).
        problems: What was put right, or let pass, while reading, because the settings asked for it.
        held: Confidential counts that Spark keeps, since the leaves are made of them; None where there are none.
        digests: SHA-256 of each file as it was read, where that is told; empty where a file holds nothing to read.
        records: How many records, or rows, were read of each file, or of a table of a catalog.
    """

    leaves: DataFrame
    problems: tuple[Problem, ...] = ()
    held: DataFrame | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    records: Mapping[str, int] = field(default_factory=dict)

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

    @property
    def reads_tables(self) -> bool:
        """Whether its files are tables; else they are lines."""
        ...

    def files(self, settings: InputSettings) -> dict[str, bool]:
        """List the files of an input: whoever reads, hashes or counts it takes these, and no others.

        Args:
            settings: Where they are. Of a folder, tables that other products read are listed, too: they are of the same
                people.

        Returns:
            Path -> whether it holds records; tables of a catalog have none.

        Raises:
            InputError: Something is not there, or looks like a part of the input and is odd.
        """
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
            The leaves, all checks passed.

        Raises:
            InputError: A file is missing, unreadable or holds something that is not allowed; all problems together.
            ConfigurationError: The reader cannot serve this product, spine or setting.
            PrivacyGuardError: Nothing says which geounits exist.
        """
        ...


@contextmanager
def released_if_refused(held: DataFrame) -> Iterator[None]:
    """Let Spark forget what it keeps where the checks refuse it; otherwise `IngestedTables.release` does."""
    try:
        yield
    except BaseException:
        held.unpersist()
        raise


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

    def files(self, path: str) -> list[str]:
        """List the files that are read of a geography; a table of a catalog has none.

        Raises:
            InputError: Something is not there, or looks like one of them and is odd.
        """
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


@dataclass(frozen=True, slots=True)
class Target:
    """What a reader reads for: a product's cells, by its recodes of the reader's codes, in the leaves of a spine."""

    product: Product
    spine: Spine
    recodes: FileRecodes

    @classmethod
    def of(cls, reader: str, product: Product, spine: Spine, *, default: FileRecodes | None = None) -> Target:
        """Find the recodes of a product for a reader."""
        recodes = product.file_recodes.get(reader, default)
        if recodes is None:
            raise ConfigurationError(
                f"product {product.name!r} has no recodes for the codes of reader {reader!r}",
                hint="choose another reader, or a product with recodes for this one",
            )
        return cls(product, spine, recodes)

    @property
    def unit_class(self) -> CodedField:
        """The field of unit records that tells the class."""
        if self.recodes.unit_class is None:
            raise ConfigurationError(f"product {self.product.name!r} has no recode of the class of units")
        return self.recodes.unit_class

    @property
    def classes(self) -> int:
        """Number of classes of units."""
        return len(self.product.unit_classes)

    @property
    def counts_units(self) -> bool:
        """Whether housing units are counted, or households, which are the occupied ones, and not people."""
        return self.product.record != "person"

    def require_geocodes(self, reader: str, parts: str = "", digits: int = BLOCK) -> None:
        """Refuse a spine whose geocodes are longer than those of a reader."""
        leaf = self.spine.leaf
        if leaf.length > digits:
            raise ConfigurationError(
                f"reader {reader!r} gives geocodes of {digits} digits{parts}; the lowest level of the spine, "
                f"{leaf.name}, has {leaf.length}"
            )

    def require_codes(self, reader: str, allowed: Mapping[str, str], coded: Iterable[CodedField]) -> None:
        """Refuse recodes of fields that the files do not have, or that leave out codes which they may hold."""
        for recode in coded:
            where = f"product {self.product.name!r}, recodes for reader {reader!r}: field {recode.name}"
            if recode.name not in allowed:
                raise ConfigurationError(f"{where}: there is none", hint=f"its fields are {', '.join(allowed)}")
            if missing := recode.missing(allowed[recode.name]):
                raise ConfigurationError(f"{where}: no level for the codes from {', '.join(missing)}")

    def cells(self, codes: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Flat cell indices of records as arrays, (n,); -1 where a code stands for no level."""
        schema = self.product.schema
        coded = [self.recodes.attributes[attribute.name] for attribute in schema.attributes]
        levels = [each.level_of(codes[each.name]) for each in coded]
        cells = np.ravel_multi_index([np.maximum(level, 0) for level in levels], schema.shape)
        return np.where(np.min(levels, axis=0) < 0, -1, cells).astype(np.int64)


def strides_of(schema: Schema) -> dict[str, int]:
    """Return what a level of each attribute adds to the number of a cell."""
    return {attribute.name: prod(schema.shape[axis + 1 :]) for axis, attribute in enumerate(schema.attributes)}
