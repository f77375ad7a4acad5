"""A schema: the ordered attributes whose combinations are the cells of a histogram, and how queries on it are spelled.

A query is written as a product of attributes and recodes, such as ``age18plus * hispanic * race``. White space is free,
case matters, and the order of the names says nothing: answers are always laid out in the order of the schema's axes.
``total`` (one answer) and ``detailed`` (one answer a cell) are reserved words that stand alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError, QueryError, did_you_mean, listed
from das_spark.histogram.query import NO_GROUP, Query
from das_spark.limits import MOST_CELLS
from das_spark.names import LONGEST_NAME, check_text

TOTAL: Final = "total"
DETAILED: Final = "detailed"
RESERVED: Final = frozenset({TOTAL, DETAILED})
SEPARATOR: Final = " * "

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_name(name: str, what: str) -> None:
    """Refuse a name that could not be written in a query."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise QueryError(
            f"the name {name!r} of {what} cannot be written in a query",
            hint="use letters, digits and underscores, beginning with a letter or underscore, "
            f"{LONGEST_NAME} characters at most",
        )
    if name in RESERVED:
        raise QueryError(f"the name {name!r} of {what} is a reserved word of the query language")


def split_names(text: str) -> tuple[str, ...]:
    """Split the text of a query into its names, in the order in which they are written."""
    names = tuple(part.strip() for part in text.split("*"))
    for name in names:
        if not _NAME.fullmatch(name):
            found = f"{name!r}" if name else "nothing"
            raise QueryError(
                f"query {text!r} has {found} where a name should be",
                hint='write names separated by "*", such as "age18plus * hispanic * race", or "total" or "detailed"',
            )
    alone = RESERVED.intersection(names)
    if alone and len(names) > 1:
        raise QueryError(f"query {text!r} multiplies the reserved word {min(alone)!r}, which stands alone")
    return names


def unknown_name(name: str, known: Iterable[str], where: str) -> QueryError:
    """Make the error for a name that means nothing, with the nearest one that does."""
    choices = tuple(known)
    guess = did_you_mean(name, choices, 0.5)
    hint = f"{guess} known names: {listed(choices)}".lstrip()
    return QueryError(f"{where} names {name!r}, which is unknown", hint=hint)


@dataclass(frozen=True, slots=True)
class Recode:
    """A grouping of an attribute's levels, in which a level belongs to at most one group.

    Args:
        name: How queries call it; unique in a schema.
        groups: Label and level indices of each group. Groups are disjoint and not empty; levels may be left out.
        title: What people read in reports, such as "race in seven groups"; empty for what follows from the rest.

    Raises:
        QueryError: When there is no group, a group is empty, a label or level occurs twice, or a text is not one line.
    """

    name: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    title: str = ""

    def __post_init__(self) -> None:
        """Check name, labels and groups."""
        check_name(self.name, "a recode")
        _check_texts(f"recode {self.name!r}", self.title, self.labels)
        if not self.groups:
            raise QueryError(f"recode {self.name!r} has no group")
        _check_unique(self.labels, f"recode {self.name!r}", "label")
        for label, levels in self.groups:
            if not levels:
                raise QueryError(f"recode {self.name!r}: group {label!r} holds no level")
        _check_unique([level for _, levels in self.groups for level in levels], f"recode {self.name!r}", "level")

    @property
    def words(self) -> str:
        """What people read: the title, the label of a single group, or the name with blanks."""
        return self.title or (self.labels[0] if len(self.groups) == 1 else self.name.replace("_", " "))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the groups, in the order of their answers."""
        return tuple(label for label, _ in self.groups)

    def group_of(self, size: int) -> NDArray[np.int64]:
        """Say for each level to which group it belongs.

        Args:
            size: Number of levels of the attribute.

        Returns:
            Group index of each level, shape ``(size,)``; -1 where a level is in no group.

        Raises:
            QueryError: When a group names a level that the attribute does not have.
        """
        group = np.full(size, NO_GROUP, dtype=np.int64)
        for index, (label, levels) in enumerate(self.groups):
            if min(levels) < 0 or max(levels) >= size:
                raise QueryError(f"recode {self.name!r}: group {label!r} names a level outside 0 to {size - 1}")
            group[list(levels)] = index
        return group


@dataclass(frozen=True, slots=True)
class Attribute:
    """One axis of a schema: level ``i`` means ``levels[i]``.

    Args:
        name: How queries call it; unique in a schema.
        levels: The label of each level.
        recodes: Groupings of the levels that queries may name.
        title: What people read in reports, such as "voting age"; empty for the name with blanks.

    Raises:
        QueryError: When there is no level, a label or recode occurs twice, a recode does not fit the levels, or a text
            is not one line.
    """

    name: str
    levels: tuple[str, ...]
    recodes: tuple[Recode, ...] = ()
    title: str = ""

    def __post_init__(self) -> None:
        """Check name, levels and recodes."""
        check_name(self.name, "an attribute")
        _check_texts(f"attribute {self.name!r}", self.title, self.levels)
        if not self.levels:
            raise QueryError(f"attribute {self.name!r} has no level")
        _check_unique(self.levels, f"attribute {self.name!r}", "level")
        _check_unique([recode.name for recode in self.recodes], f"attribute {self.name!r}", "recode")
        for recode in self.recodes:
            recode.group_of(self.size)

    @property
    def words(self) -> str:
        """What people read: the title, or the name with blanks."""
        return self.title or self.name.replace("_", " ")

    @property
    def size(self) -> int:
        """Number of levels."""
        return len(self.levels)


def _check_texts(where: str, title: str, labels: Iterable[str]) -> None:
    check_text(title, f"{where}: title", error=QueryError)
    for place, label in enumerate(labels):
        check_text(label, f"{where}: label {place}", error=QueryError)


def _check_unique(values: Sequence[object], where: str, what: str) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise QueryError(f"{where} holds the {what} {value!r} twice")
        seen.add(value)


@dataclass(frozen=True, slots=True)
class Schema:
    """The cells that are counted: all combinations of the levels of some attributes.

    A cell's flat index counts the last attribute fastest (C order).

    Args:
        name: For messages and manifests.
        attributes: The axes, in order.

    Raises:
        QueryError: When there is no attribute, a name is used twice, or there are too many cells.
    """

    name: str
    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        """Check names and size."""
        check_name(self.name, "a schema")
        if not self.attributes:
            raise QueryError(f"schema {self.name!r} has no attribute")
        seen: set[str] = set()
        for name, _ in self._spelled():
            if name in seen:
                raise QueryError(f"schema {self.name!r} uses the name {name!r} twice")
            seen.add(name)
        if self.size > MOST_CELLS:
            raise QueryError(
                f"schema {self.name!r} has {self.size:,} cells, and {MOST_CELLS:,} are possible at most",
                hint="leave out attributes, or group their levels",
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def size(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    def axis(self, name: str) -> int:
        """Find an attribute by name.

        Args:
            name: Name of an attribute (not of a recode).

        Returns:
            Its place in ``attributes``.

        Raises:
            QueryError: When there is none, with the nearest name.
        """
        names = [attribute.name for attribute in self.attributes]
        if name not in names:
            raise unknown_name(name, names, f"schema {self.name!r}: a selection")
        return names.index(name)

    def ravel(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Turn level codes into flat cell indices.

        Args:
            codes: One row a record, one column an attribute, shape ``(n, k)``.

        Returns:
            Cell of each record, shape ``(n,)``.

        Raises:
            InputError: When a code is no level of its attribute; the message names the attribute, not the code.
        """
        table = np.asarray(codes)
        if table.ndim != 2 or table.shape[1] != len(self.attributes) or table.dtype.kind not in "iu":  # noqa: PLR2004
            expected = f"(n, {len(self.attributes)})"
            raise InputError(
                f"schema {self.name!r} needs integer codes of shape {expected}, not {table.dtype} of {table.shape}"
            )
        cells = np.zeros(len(table), dtype=np.int64)
        for column, attribute in zip(table.T, self.attributes, strict=True):
            if ((column < 0) | (column >= attribute.size)).any():
                raise InputError(
                    f"attribute {attribute.name!r}: a code outside 0 to {attribute.size - 1}",
                    hint="check the column's codes and its code base",
                )
            cells = cells * attribute.size + column.astype(np.int64)
        return cells

    def unravel(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Turn flat cell indices into level codes.

        Args:
            cells: Flat cell indices, shape ``(n,)``.

        Returns:
            Level codes, shape ``(n, k)``.

        Raises:
            InputError: When a cell is outside the schema.
        """
        flat = np.asarray(cells)
        if ((flat < 0) | (flat >= self.size)).any():
            raise InputError(f"schema {self.name!r}: a cell outside 0 to {self.size - 1}")
        return np.stack(np.unravel_index(flat.astype(np.int64), self.shape), axis=-1).astype(np.int64)

    def label(self, cell: int) -> str:
        """Spell out a cell.

        Returns:
            For example ``"sex=female, race=white"``.

        Raises:
            InputError: When the cell is outside the schema.
        """
        codes = self.unravel(np.array([cell]))[0]
        pairs = zip(self.attributes, codes, strict=True)
        return ", ".join(f"{attribute.name}={attribute.levels[code]}" for attribute, code in pairs)

    def words(self, text: str) -> str:
        """Say a query as people read it.

        Args:
            text: Its spelling, as for `query`.

        Returns:
            For example ``"voting age x Hispanic or Latino x race"``; ``"every attribute"`` for the detailed query.

        Raises:
            QueryError: When a name is unknown.
        """
        query = self.query(text)
        if query.name == DETAILED:
            return "every attribute"
        known = {axis.name: axis.words for axis in self.attributes}
        known |= {recode.name: recode.words for axis in self.attributes for recode in axis.recodes}
        return " x ".join(known.get(name, name) for name in split_names(query.name))

    def query(self, text: str) -> Query:
        """Make a query from its spelling.

        Args:
            text: Names of attributes and recodes separated by ``*``, in any order; or ``total``, or ``detailed``.

        Returns:
            The query, with its answers in the order of the schema's axes and a canonical name.

        Raises:
            QueryError: When a name is unknown (the nearest is named) or two names group the same attribute.
        """
        names = split_names(text)
        if names == (TOTAL,):
            return self._product(TOTAL, {})
        if names == (DETAILED,):
            return self._product(DETAILED, {axis: attribute.name for axis, attribute in enumerate(self.attributes)})
        known = dict(self._spelled())
        chosen: dict[int, str] = {}
        for name in names:
            if name not in known:
                raise unknown_name(name, (*known, *sorted(RESERVED)), f"query {text!r} on schema {self.name!r}")
            axis = known[name]
            if axis in chosen:
                raise QueryError(
                    f"query {text!r} groups attribute {self.attributes[axis].name!r} twice: "
                    f"by {chosen[axis]!r} and {name!r}",
                    hint="name each attribute, or one of its recodes, once",
                )
            chosen[axis] = name
        return self._product(SEPARATOR.join(chosen[axis] for axis in sorted(chosen)), chosen)

    def select(self, **levels: Iterable[int]) -> NDArray[np.bool_]:
        """Mark the cells that have certain levels.

        Args:
            **levels: For an attribute, the level indices to select; attributes that are not named are not restricted.

        Returns:
            Mask of cells, shape ``(size,)``.

        Raises:
            QueryError: When an attribute is unknown or a level is not one of its own.
        """
        mask, chosen = np.ones(1, dtype=np.bool_), self.chosen(**levels)
        for axis in reversed(range(len(self.shape))):  # the last attribute first, so that each step copies long rows
            marks = chosen.get(axis, np.ones(self.shape[axis], dtype=np.bool_))
            mask = np.logical_and.outer(marks, mask).reshape(-1)
        return mask

    def chosen(self, **levels: Iterable[int]) -> dict[int, NDArray[np.bool_]]:
        """Mark the levels that a selection of cells names: what :meth:`select` does, before cells are made of it.

        Args:
            **levels: As for :meth:`select`.

        Returns:
            For the axis of each attribute that is named a mask of its levels, shape ``(size of the attribute,)``.

        Raises:
            QueryError: As for :meth:`select`.
        """
        marks = {}
        for name, wanted in levels.items():
            axis = self.axis(name)
            size = self.attributes[axis].size
            marks[axis] = np.zeros(size, dtype=np.bool_)
            for level in wanted:
                if not 0 <= level < size:
                    raise QueryError(f"attribute {name!r} has no level {level}; its levels are 0 to {size - 1}")
                marks[axis][level] = True
        return marks

    def _spelled(self) -> list[tuple[str, int]]:
        """Every name that a query may use, and the axis that it groups."""
        return [
            (name, axis)
            for axis, attribute in enumerate(self.attributes)
            for name in (attribute.name, *(recode.name for recode in attribute.recodes))
        ]

    def _product(self, name: str, chosen: Mapping[int, str]) -> Query:
        factors = tuple(_factor(attribute, chosen.get(axis)) for axis, attribute in enumerate(self.attributes))
        return Query(name, self.shape, factors)


def _factor(attribute: Attribute, name: str | None) -> NDArray[np.int64]:
    """Group of each level: one group for all, each its own, or those of a recode."""
    if name is None:
        return np.zeros(attribute.size, dtype=np.int64)
    if name == attribute.name:
        return np.arange(attribute.size, dtype=np.int64)
    recodes = {recode.name: recode for recode in attribute.recodes}
    return recodes[name].group_of(attribute.size)
