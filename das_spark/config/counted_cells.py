"""Which cell of a product each column of a published table is of: `[[input.cells]]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from das_spark.config.load import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from das_spark.config.model import InputSettings
    from das_spark.errors import Problems
    from das_spark.histogram import Attribute, Schema
    from das_spark.products import Product


@dataclass(frozen=True, slots=True)
class CountedCell:
    """A column of published counts."""

    column: str  # of the file
    minus: tuple[str, ...]  # columns that are taken from it
    cell: int  # flat index of what is counted


def counted_cells(settings: InputSettings, product: Product, problems: Problems) -> tuple[CountedCell, ...]:
    """Which cell of a product each column is of; what is wrong is noted by its key.

    Args:
        settings: With `cells`.
        product: Whose cells.
        problems: Is given what is wrong.
    """
    found = []
    if not settings.cells:
        problems.add("input.cells", "is missing: a list of column and levels says which cell each column is of")
    for place, each in enumerate(settings.cells):
        key = f"input.cells[{place}]"
        if each.column in each.minus:
            problems.add(f"{key}.minus", f"{each.column!r} is taken from itself")
        levels = _levels(each.levels, product.schema, f"{key}.levels", problems)
        if None in levels:
            continue
        cell = int(np.ravel_multi_index([level or 0 for level in levels], product.schema.shape))
        if product.zero_cells()[cell]:
            problems.add(f"{key}.levels", f"is a structural zero of product '{product.name}', in which nobody can be")
        found.append(CountedCell(each.column, each.minus, cell))
    return tuple(found)


def _levels(given: Mapping[str, str | int], schema: Schema, key: str, problems: Problems) -> list[int | None]:
    """The level of every attribute; None where there is none."""
    names = [attribute.name for attribute in schema.attributes]
    for name in given:
        if name not in names:
            problems.add(f"{key}.{name}", f"there is no such attribute; {nearest(name, names)}")
    found: list[int | None] = []
    for attribute in schema.attributes:
        if attribute.name not in given and attribute.size > 1:
            problems.add(key, f"{attribute.name} is missing: a column counts one cell")
            found.append(None)
        else:
            found.append(_level(given.get(attribute.name, 0), attribute, f"{key}.{attribute.name}", problems))
    return found


def _level(given: str | int, attribute: Attribute, key: str, problems: Problems) -> int | None:
    """A level by its label, or by its number from 0."""
    if given in attribute.levels:
        return attribute.levels.index(str(given))
    if isinstance(given, int) and 0 <= given < attribute.size:
        return given
    problems.add(key, f"there is no level {given!r}; {nearest(str(given), attribute.levels)}")
    return None
