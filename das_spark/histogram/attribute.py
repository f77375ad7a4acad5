"""An attribute of the persons or units that are counted, and the recodes that group its levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import QueryError
from das_spark.histogram.parser import check_name

NO_GROUP = -1
"""The group of a level that belongs to no group: what is counted nowhere in a query."""


@dataclass(frozen=True, slots=True)
class Recode:
    """A grouping of an attribute's levels, in which a level belongs to at most one group.

    Args:
        name: How queries call it; unique in a schema.
        groups: Label and level indices of each group. Groups are disjoint and not empty; levels may be left out.

    Raises:
        QueryError: When there is no group, a group is empty, or a label or level occurs twice.
    """

    name: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]

    def __post_init__(self) -> None:
        """Check name, labels and groups."""
        check_name(self.name, "a recode")
        if not self.groups:
            raise QueryError(f"recode {self.name!r} has no group")
        _check_unique(self.labels, f"recode {self.name!r}", "label")
        for label, levels in self.groups:
            if not levels:
                raise QueryError(f"recode {self.name!r}: group {label!r} holds no level")
        _check_unique([level for _, levels in self.groups for level in levels], f"recode {self.name!r}", "level")

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

    Raises:
        QueryError: When there is no level, a label or recode occurs twice, or a recode does not fit the levels.
    """

    name: str
    levels: tuple[str, ...]
    recodes: tuple[Recode, ...] = ()

    def __post_init__(self) -> None:
        """Check name, levels and recodes."""
        check_name(self.name, "an attribute")
        if not self.levels:
            raise QueryError(f"attribute {self.name!r} has no level")
        _check_unique(self.levels, f"attribute {self.name!r}", "level")
        _check_unique([recode.name for recode in self.recodes], f"attribute {self.name!r}", "recode")
        for recode in self.recodes:
            recode.group_of(self.size)

    @property
    def size(self) -> int:
        """Number of levels."""
        return len(self.levels)


def _check_unique(values: Sequence[object], where: str, what: str) -> None:
    for position, value in enumerate(values):
        if value in values[:position]:
            raise QueryError(f"{where} holds the {what} {value!r} twice")
