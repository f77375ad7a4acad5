"""Structural zeros: cells in which nobody can be, by definition and not by what the data say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import QueryError
from das_spark.histogram import Schema
from das_spark.histogram.parser import SEPARATOR


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

    def query(self, schema: Schema) -> str:
        """Spell the cells as a query, by recodes: its only answer counts them and no others.

        Args:
            schema: The attributes and their order.

        Returns:
            For example ``"gqNursingTotal * nonvoting"``.

        Raises:
            QueryError: The schema does not have an attribute, or no recode of it selects just these levels.
        """
        names = []
        for name, levels in self.selection:
            recodes = schema.attributes[schema.axis(name)].recodes
            spelled = [each.name for each in recodes if [set(group) for _, group in each.groups] == [set(levels)]]
            if not spelled:
                raise QueryError(
                    f"structural zero {self.name!r}: no recode of {name!r} selects its levels",
                    hint="give the attribute a recode with these levels as its only group",
                )
            names.append(spelled[0])
        return SEPARATOR.join(names)
