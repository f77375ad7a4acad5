"""Structural zeros: cells in which nobody can be, by definition and not by what the data say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das_spark.histogram import Schema


@dataclass(frozen=True, slots=True)
class StructuralZero:
    """Cells that are zero in every geounit of every geolevel.

    Such zeros never stand in the way of dividing a parent among its children, because they hold at every level.

    Attributes:
        name: How reports call the rule.
        selection: For some attributes, the levels that select the cells; attributes left out select all their levels.
        meaning: The rule in plain words.
    """

    name: str
    selection: tuple[tuple[str, tuple[int, ...]], ...]
    meaning: str = ""

    def mask(self, schema: Schema) -> NDArray[np.bool_]:
        """Mark the cells that must be zero.

        Args:
            schema: The attributes and their order.

        Returns:
            (schema.size,), True where a cell must be zero.

        Raises:
            QueryError: The selection names an attribute or a level that the schema does not have.
        """
        return schema.select(**dict(self.selection))
