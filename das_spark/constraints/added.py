"""Constraints that the person who runs the system adds: public constants, known before any data are read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.histogram import Query, Schema


class Sense(StrEnum):
    """How the answers of a query and the right-hand sides compare."""

    EQUAL = "="
    AT_MOST = "<="
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class AddedConstraint:
    """A rule on the answers of a query in every geounit of a geolevel.

    Attributes:
        name: How reports call the rule.
        geolevel: Where it holds, for each geounit; above, its sums hold.
        query: The query whose answers are bound.
        sense: How answers and right-hand sides compare.
        right: Right-hand sides, people: one for each answer, or a single one for all answers.

    Raises:
        ConfigurationError: A name is empty, the sense is unknown, or a right-hand side is no whole number >= 0.
    """

    name: str
    geolevel: str
    query: str
    sense: Sense
    right: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check everything that needs no schema."""
        if not (self.name.strip() and self.geolevel.strip() and self.query.strip()):
            raise ConfigurationError(f"constraint {self.name!r}: name, geolevel and query must not be empty")
        if self.sense not in tuple(Sense):
            raise ConfigurationError(
                f"constraint {self.name!r}: unknown sense {self.sense!r}", hint=f"use one of {', '.join(Sense)}"
            )
        object.__setattr__(self, "sense", Sense(self.sense))
        if not self.right:
            raise ConfigurationError(f"constraint {self.name!r}: there is no right-hand side")
        for value in self.right:
            if not _whole(value):
                raise ConfigurationError(
                    f"constraint {self.name!r}: right-hand sides are whole numbers from 0 to 2^63 - 1, not {value!r}"
                )

    def resolve(self, schema: Schema) -> Query:
        """Find the query, and check that the right-hand sides fit its answers.

        Args:
            schema: The schema that the query is asked of.

        Returns:
            The query.

        Raises:
            QueryError: The query names what the schema does not have.
            ConfigurationError: The number of right-hand sides is neither 1 nor that of the answers.
        """
        query = schema.query(self.query)
        if len(self.right) not in (1, query.rows):
            raise ConfigurationError(
                f"constraint {self.name!r}: {len(self.right)} right-hand sides for the {query.rows} answers of "
                f"{self.query!r}",
                hint="give one for each answer, or a single one for all",
            )
        return query

    def right_hand_sides(self, rows: int) -> NDArray[np.int64]:
        """Right-hand side of each answer, (rows,).

        Args:
            rows: Number of answers of the query.

        Raises:
            ConfigurationError: The number of right-hand sides is neither 1 nor `rows`.
        """
        if len(self.right) not in (1, rows):
            raise ConfigurationError(f"constraint {self.name!r}: {len(self.right)} right-hand sides for {rows} answers")
        return np.broadcast_to(np.asarray(self.right, dtype=np.int64), (rows,)).copy()


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= np.iinfo(np.int64).max
