"""Invariants: the numbers of a run that are published exactly, without noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from das_spark.errors import ConfigurationError


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
