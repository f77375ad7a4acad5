"""How the codes of files become the levels of a schema, as data of a product: one `FileRecodes` for each reader.

A reader knows a file format and delivers the codes of its fields; what they mean for a product stands here. Codes are
whole numbers. Those of a level are written as in the record layouts of censuses: numbers and ranges separated by
commas, such as `101-106,201`, and `blank` for a field without a code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.histogram import Schema

BLANK: Final = "blank"
#: A code or a range of codes, whole numbers of 64 bits.
_CODES: Final = re.compile(r"([0-9]{1,18})(?:-([0-9]{0,18}))?")

#: First and last code of a range.
_CodeRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CodedField:
    """The levels that the codes of a field stand for.

    Attributes:
        name: Of the field, as the reader calls it.
        levels: Of each level, its codes.

    Raises:
        ConfigurationError: A code belongs to two levels, or none is written as a code.
    """

    name: str
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse what is no code, and a code of two levels."""
        ends = sorted((low, high) for low, high, _ in self.ranges())
        twice = any(low <= before for (_, before), (low, _) in pairwise(ends))
        if twice or len(self._blank()) > 1:
            raise ConfigurationError(f"field {self.name}: a code stands for two levels ({'; '.join(self.levels)})")

    @classmethod
    def numbered(cls, name: str, size: int, first: int = 0) -> CodedField:
        """A field whose codes are the numbers of the levels.

        Args:
            name: Of the field.
            size: Number of levels.
            first: Code of the first level.
        """
        return cls(name, tuple(str(code) for code in range(first, first + size)))

    @property
    def first(self) -> int | None:
        """The code of the first level, where the codes are consecutive numbers, one a level; None otherwise."""
        ranges = list(self.ranges())
        low = ranges[0][0] if ranges else 0
        plain = [(low + level, low + level, level) for level in range(len(self.levels))]
        return low if ranges == plain and self.blank_level is None else None

    @property
    def blank_level(self) -> int | None:
        """The level of a field without a code; None where that is none."""
        return next(iter(self._blank()), None)

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """First code, last code and level of every range, level by level."""
        for level, codes in enumerate(self.levels):
            for low, high in code_ranges(codes, self.name):
                yield low, high, level

    def missing(self, allowed: str) -> tuple[str, ...]:
        """Codes that a file may hold and that stand for no level.

        Args:
            allowed: Codes as the format of the file allows them, written like those of a level.
        """
        known = sorted((low, high) for low, high, _ in self.ranges())
        found = [BLANK] if _allows_blank(allowed) and self.blank_level is None else []
        for low, high in code_ranges(allowed, self.name):
            for begin, end in known:
                if begin > low:
                    break
                low = max(low, end + 1)  # noqa: PLW2901 - what is left of the range
            if low <= high:
                found.append(str(low))
        return tuple(found)

    def level_of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The level of each code; -1 where it stands for none.

        Args:
            codes: Whole numbers.
        """
        level = np.full(codes.shape, -1, dtype=np.int64)
        for low, high, each in self.ranges():
            level[(codes >= low) & (codes <= high)] = each
        return level

    def _blank(self) -> tuple[int, ...]:
        return tuple(level for level, codes in enumerate(self.levels) if _allows_blank(codes))


@dataclass(frozen=True, slots=True)
class FileRecodes:
    """How what a reader delivers is recoded to a product.

    Attributes:
        attributes: Attribute -> field of the records that are counted, which tells its level.
        unit_class: Field of the unit records whose levels are the classes of units.
    """

    attributes: Mapping[str, CodedField] = field(default_factory=dict)
    unit_class: CodedField | None = None

    def check(self, schema: Schema, classes: int, where: str) -> None:
        """Refuse recodes that do not fit a schema.

        Args:
            schema: Of what is counted.
            classes: Number of classes of units.
            where: Whose recodes, for the message.

        Raises:
            ConfigurationError: An attribute is missing or unknown, or a field has another number of levels.
        """
        sizes = {attribute.name: attribute.size for attribute in schema.attributes}
        if self.attributes and set(self.attributes) != set(sizes):
            names = ", ".join(sorted(set(self.attributes) ^ set(sizes)))
            raise ConfigurationError(f"{where}: recodes of other attributes than those of the schema ({names})")
        wanted = [(coded, sizes[name], f"attribute {name}") for name, coded in self.attributes.items()]
        wanted += [(self.unit_class, classes, "unit_class")] if self.unit_class else []
        for coded, size, what in wanted:
            if len(coded.levels) != size:
                raise ConfigurationError(f"{where}, {what}: {len(coded.levels)} levels, expected {size}")


def code_ranges(codes: str, name: str) -> Iterator[_CodeRange]:
    """The ranges of written codes; `blank` is left out.

    Args:
        codes: Numbers and ranges, separated by commas.
        name: Of the field, for messages.

    Raises:
        ConfigurationError: Something is neither a number nor an ascending range.
    """
    for item in codes.split(","):
        if item.strip() == BLANK:
            continue
        found = _CODES.fullmatch(item.strip())
        low, high = (0, -1) if found is None else (int(found[1]), int(found[2] or found[1]))
        if low > high:
            raise ConfigurationError(f"field {name}: {item.strip()!r} is no code and no range of codes")
        yield low, high


def _allows_blank(codes: str) -> bool:
    return BLANK in (item.strip() for item in codes.split(","))
