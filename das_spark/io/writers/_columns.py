"""The columns of a microdata file, compiled from the product's layout to what a worker needs: ranges and codes.

The sources of a column are those of `das_spark.products.base`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from das_spark.errors import ConfigurationError
from das_spark.products.base import WITHOUT_UNITS

if TYPE_CHECKING:
    from das_spark.histogram import Schema
    from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product

#: The flavour whose columns are compiled where none is named.
TEXT = "text"
#: Name of the class of a unit in a `recode` source.
UNIT_CLASS = "unit_class"

#: What is counted -> the record types of it in households (or of housing units), and in (or of) group quarters.
_RECORD_TYPES = {"person": ("3", "5"), "unit": ("2", "4")}

_GEOCODE = re.compile(r"geocode\[(\d+):(\d+)\]")


class Scope(StrEnum):
    """What the value of a column depends on."""

    CONSTANT = "constant"
    GEOCODE = "geocode"
    CODE = "code"
    RECORD_NUMBER = "record_number"
    UNIT_NUMBER = "unit_number"
    PERSON_NUMBER = "person_number"
    POPULATION = "population"


NUMBERS = (Scope.RECORD_NUMBER, Scope.UNIT_NUMBER, Scope.PERSON_NUMBER, Scope.POPULATION)


@dataclass(frozen=True, slots=True)
class Column:
    """One compiled column.

    Attributes:
        name: Its name.
        scope: What its value depends on.
        begin: First digit of the geocode part.
        end: Digit after the last of the geocode part.
        values: The constant (one value), or the code of each cell (what is counted) or kind of unit.
    """

    name: str
    scope: Scope
    begin: int = 0
    end: int = 0
    values: tuple[str, ...] = ()

    @property
    def produced(self) -> bool:
        """Whether the run made the value: geocode parts, codes and numbers, no constants."""
        return self.scope is not Scope.CONSTANT


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of one file.

    Attributes:
        kind: `person` or `unit`.
        columns: In the order of the layout.
        delimiter: What stands between the fields of a text file.
        names_inside: Whether each part of a text file begins with a line of the names of its columns.
    """

    kind: str
    columns: tuple[Column, ...]
    delimiter: str = "|"
    names_inside: bool = False

    @property
    def produced(self) -> tuple[Column, ...]:
        """The columns that Parquet files hold."""
        return tuple(column for column in self.columns if column.produced)


def record_columns(product: Product, flavour: str = TEXT, *, units: bool) -> FileColumns:
    """Compile the columns of the file of what is counted; codes are by cell, those of listed group quarters last.

    Args:
        product: Whose layout.
        flavour: Of which files.
        units: Whether people are dealt to units; if not, the number columns hold fillers.

    Raises:
        ConfigurationError: A source of the layout is none of those above, or there is no layout for the flavour.
    """
    layout = product.layout(flavour)
    compiled = []
    home, quarters = _RECORD_TYPES[product.record]
    for column in layout.columns(product.record):
        if column.source == "record_type":
            values = tuple(home if kind == 0 else quarters for kind in class_codes(product).tolist())
            compiled.append(Column(column.name, Scope.CODE, values=values))
        elif column.source.startswith("recode:"):
            values = _cell_codes(column, product.schema, listed=lists_quarters(product))
            compiled.append(Column(column.name, Scope.CODE, values=values))
        elif column.source in WITHOUT_UNITS and not units:
            compiled.append(Column(column.name, Scope.CONSTANT, values=(WITHOUT_UNITS[column.source],)))
        else:
            compiled.append(_common(column))
    return _file(product.record, compiled, layout)


def lists_quarters(product: Product) -> bool:
    """Whether the file of what is counted, units, lists the group quarters besides."""
    return product.record == "unit"


def unit_columns(product: Product, flavour: str = TEXT) -> FileColumns:
    """Compile the columns of the file of the units that people are dealt to; codes are by class, vacant units last.

    Args:
        product: Whose layout.
        flavour: Of which files.

    Raises:
        ConfigurationError: A source of the layout is none of those above, or there is no layout for the flavour.
    """
    layout = product.layout(flavour)
    classes = len(product.unit_classes)
    home, quarters = _RECORD_TYPES["unit"]
    tables = {
        "record_type": (home, *[quarters] * (classes - 1), home),
        "tenure": ("9", *["0"] * classes),
        "vacancy": (*["0"] * classes, "9"),
    }
    compiled = []
    for column in layout.unit:
        if column.source in tables:
            compiled.append(Column(column.name, Scope.CODE, values=tables[column.source]))
        elif column.source.startswith(f"recode:{UNIT_CLASS}:"):
            values = _codes(column, classes + 1, f"one for each of {classes} classes and one for vacant units")
            compiled.append(Column(column.name, Scope.CODE, values=values))
        else:
            compiled.append(_common(column))
    return _file("unit", compiled, layout)


def class_codes(product: Product) -> np.ndarray:
    """The unit class of each cell, shape (cells,), int64: the answer of the class query that counts it.

    Where units are counted, shape (cells + 1,): 0, and a last 1 for group quarters. People without a class query are
    of one class.
    """
    if lists_quarters(product):
        return np.append(np.zeros(product.schema.size, dtype=np.int64), 1)
    if not product.class_query:
        return np.zeros(product.schema.size, dtype=np.int64)
    codes = product.schema.query(product.class_query).row_of(np.arange(product.schema.size))
    return np.asarray(codes, dtype=np.int64)


def _file(kind: str, columns: Sequence[Column], layout: MicrodataLayout) -> FileColumns:
    return FileColumns(kind, tuple(columns), layout.delimiter, layout.header == "inside")


def _common(column: MicrodataColumn) -> Column:
    part = _GEOCODE.fullmatch(column.source)
    if part:
        return Column(column.name, Scope.GEOCODE, int(part[1]), int(part[2]))
    if column.source.startswith("constant:"):
        return Column(column.name, Scope.CONSTANT, values=(column.source.removeprefix("constant:"),))
    if column.source in [str(scope) for scope in NUMBERS]:
        return Column(column.name, Scope(column.source))
    raise ConfigurationError(f"microdata column {column.name}: no source {column.source!r} exists")


def _cell_codes(column: MicrodataColumn, schema: Schema, *, listed: bool) -> tuple[str, ...]:
    name = column.source.split(":", 2)[1]
    axis = [attribute.name for attribute in schema.attributes].index(name)
    size = schema.shape[axis]
    more = " and one for group quarters" if listed else ""
    values = _codes(column, size + listed, f"one for each level of {name}{more}")
    levels = np.arange(schema.size) // int(np.prod(schema.shape[axis + 1 :], dtype=np.int64)) % size
    return (*np.array(values, dtype=object)[levels].tolist(), *values[size:])


def _codes(column: MicrodataColumn, expected: int, meaning: str) -> tuple[str, ...]:
    values = tuple(column.source.split(":", 2)[2].split(","))
    if len(values) != expected:
        raise ConfigurationError(
            f"microdata column {column.name}: {len(values)} codes, expected {expected} ({meaning})"
        )
    return values
