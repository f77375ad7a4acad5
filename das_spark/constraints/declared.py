"""What a run or a product declares must hold: invariants, structural zeros, and constraints that a user adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError, QueryError
from das_spark.names import LONGEST_NAME, check_text

if TYPE_CHECKING:
    from das_spark.histogram import Query, Schema


@dataclass(frozen=True, slots=True)
class Invariants:
    """What a run declares to be exact. Whatever is listed here is outside the privacy guarantee.

    Attributes:
        total_at: Geolevel in which, and above which, the total of the histogram (the number of people, or of whatever
            else is counted) is exact; None where no total is.
        units: Whether the units of each class and the vacant ones are exact in every geounit of the lowest geolevel.
        vacant: Whether vacant units are told apart from occupied ones. If not, they are counted among the units of the
            first class, and nothing exact tells how many there are.

    Raises:
        ConfigurationError: `total_at` is an empty text.
    """

    total_at: str | None
    units: bool
    vacant: bool = True

    def __post_init__(self) -> None:
        """Check that the level has a name."""
        if self.total_at is not None and not self.total_at.strip():
            raise ConfigurationError("invariants: total_at is empty", hint="name a geolevel, or leave it out")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rows that declare these invariants in a run's public table."""
        units = ("units", "vacant") if self.vacant else ("units",)
        return (("total",) if self.total_at is not None else ()) + (units if self.units else ())

    def total_levels(self, geolevels: Sequence[str]) -> tuple[str, ...]:
        """Geolevels whose totals are exact: `total_at` and everything above, as sums.

        Args:
            geolevels: Names of the run's geolevels, root first.

        Raises:
            ConfigurationError: `total_at` is none of them.
        """
        if self.total_at is None:
            return ()
        if self.total_at not in geolevels:
            raise ConfigurationError(
                f"invariants: total_at names {self.total_at!r}, the run has {', '.join(geolevels)}",
                hint="name one of the run's geolevels",
            )
        return tuple(geolevels[: list(geolevels).index(self.total_at) + 1])

    def describe(
        self, unit_classes: Sequence[str] = (), leaf: str = "", counted: str = "people", *, in_parts: bool = False
    ) -> tuple[str, ...]:
        """The invariants as plain sentences, for the privacy statement.

        Args:
            unit_classes: Labels of the classes of units, housing units first, to spell them out.
            leaf: Name of the lowest geolevel of the run.
            counted: What the totals are numbers of, in the plural.
            in_parts: Whether the geounits of `total_at` may be parts of an area, and only the area's total is exact.

        Returns:
            One sentence each; a single sentence where nothing is invariant.
        """
        sentences = []
        if self.total_at is not None:
            whole = f"every geounit of the geolevel {self.total_at}"
            if in_parts:
                whole = f"every area that the geolevel {self.total_at} holds, whole or in parts"
            apart = "; the totals of parts are not" if in_parts else ""
            sentences.append(
                f"The total number of {counted} in {whole}, and hence of every geounit above it, is published "
                f"exactly{apart}."
            )
        if self.units:
            where = f"of the lowest geolevel, {leaf}," if leaf else "of the lowest geolevel"
            classes = unit_classes if self.vacant else unit_classes[1:]
            spelled = f" ({'; '.join(classes)})" if classes else ""
            above = "and hence for every geounit above"
            if self.vacant:
                sentences += [
                    f"The number of units of each class{spelled} in every geounit {where} is published exactly, "
                    f"{above}.",
                    f"The number of vacant housing units in every geounit {where} is published exactly.",
                ]
            else:
                sentences.append(
                    "The number of housing units, occupied plus vacant, and the number of facilities of group quarters "
                    f"of each type{spelled} in every geounit {where} are published exactly, {above}; how many of the "
                    "housing units are vacant is not."
                )
        return tuple(sentences) or ("No number is published exactly: every count is protected by noise.",)


@dataclass(frozen=True, slots=True)
class StructuralZero:
    """Cells that are zero in every geounit of every geolevel.

    Such zeros never stand in the way of dividing a parent among its children, because they hold at every level.

    Attributes:
        name: How reports call the rule.
        selection: For some attributes, the levels that select the cells; attributes left out select all their levels.
        meaning: The rule in plain words.

    Raises:
        ConfigurationError: Name or meaning is not one line of text.
    """

    name: str
    selection: tuple[tuple[str, tuple[int, ...]], ...]
    meaning: str = ""

    def __post_init__(self) -> None:
        """Check the texts."""
        check_text(self.name, "structural zero", most=LONGEST_NAME)
        check_text(self.meaning, f"structural zero {self.name}: meaning")

    def mask(self, schema: Schema) -> NDArray[np.bool_]:
        """Mark the cells that must be zero.

        Returns:
            (schema.size,), True where a cell must be zero.

        Raises:
            QueryError: The selection names an attribute or a level that the schema does not have.
        """
        return schema.select(**dict(self.selection))

    def query(self, schema: Schema) -> str:
        """Spell the cells as a query, by recodes: its only answer counts them and no others.

        Returns:
            For example ``"gqNursingTotal * nonvoting"``.

        Raises:
            QueryError: The schema does not have an attribute, or no recode of it selects just these levels.
        """
        names = []
        for name, levels in self.selection:
            recodes = schema.attributes[schema.axis(name)].recodes
            spelled = [recode.name for recode in recodes if [set(group) for _, group in recode.groups] == [set(levels)]]
            if not spelled:
                raise QueryError(
                    f"structural zero {self.name!r}: no recode of {name!r} selects its levels",
                    hint="give the attribute a recode with these levels as its only group",
                )
            names.append(spelled[0])
        return " * ".join(names)


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
        ConfigurationError: A name is empty or not one line of text, the sense is unknown, or a right-hand side is no
            whole number >= 0.
    """

    name: str
    geolevel: str
    query: str
    sense: Sense
    right: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check everything that needs no schema."""
        check_text(self.name, "constraint", most=LONGEST_NAME)
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
