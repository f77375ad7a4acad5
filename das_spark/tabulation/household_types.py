"""The 522 types of households of the 2020 Demographic and Housing Characteristics: every combination that there can be.

A type is what seven fields of a household say together. Which combinations there can be, and their order, are facts
from the public release of the production code; here they are rules, from which the levels are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from das_spark.histogram import Recode

#: Couples of householder and spouse or unmarried partner, in the order of the levels; the last one is none.
COUPLES: Final = (
    "Married opposite-sex couple",
    "Married same-sex couple",
    "Cohabiting opposite-sex couple",
    "Cohabiting same-sex couple",
    "No spouse or partner",
)
_MARRIED: Final = 2
_NO_COUPLE: Final = 4
#: Ages of children as two bits, under 6 and 6 to 17: of none, one or both.
UNDER_6: Final = 1
FROM_6: Final = 2
BOTH: Final = UNDER_6 | FROM_6
_OF_AGES: Final = {
    0: "none under 18",
    UNDER_6: "under 6 only",
    FROM_6: "6 to 17 only",
    BOTH: "under 6 and 6 to 17",
}
LARGEST: Final = 7
#: Place values of the fields of a type, in their order, where they are put together to one number, the code.
PLACE_VALUES: Final = (896, 224, 56, 28, 14, 7, 1)


@dataclass(frozen=True, slots=True)
class HouseholdType:
    """One type of households.

    Attributes:
        couple: Place in `COUPLES`.
        own_children: Ages of children of the householder, as bits `UNDER_6` and `FROM_6`.
        children: Ages likewise of all children but householder, spouse and partner.
        minor: Whether anybody is under 18, householder, spouse and partner among them.
        relatives: Whether anybody is related to the householder, as a spouse is, and an unmarried partner is not.
        generations: Whether three generations or more live together.
        size: Number of people; 7 stands for 7 or more.
    """

    couple: int
    own_children: int
    children: int
    minor: bool
    relatives: bool
    generations: bool
    size: int

    @property
    def coupled(self) -> bool:
        """Whether a spouse or an unmarried partner lives there."""
        return self.couple != _NO_COUPLE

    @property
    def married(self) -> bool:
        """Whether the couple is married."""
        return self.couple < _MARRIED

    @property
    def cohabiting(self) -> bool:
        """Whether the couple is not married."""
        return self.coupled and not self.married

    @property
    def others(self) -> int:
        """How many live there besides householder, spouse and partner."""
        return self.size - 1 - self.coupled

    @property
    def alone(self) -> bool:
        """Whether the householder lives alone."""
        return self.size == 1

    @property
    def code(self) -> int:
        """The seven fields as one number, each times its place value in `PLACE_VALUES`."""
        flags = self.minor, self.relatives, self.generations
        fields = self.couple, self.own_children, self.children, *flags, self.size
        return sum(field * value for field, value in zip(fields, PLACE_VALUES, strict=True))

    @property
    def label(self) -> str:
        """What the type is, in words."""
        people = f"{self.size}{'-or-more' if self.size == LARGEST else ''}-person household"
        own, all_of_them = _OF_AGES[self.own_children], _OF_AGES[self.children]
        minor = "somebody under 18" if self.minor else "nobody under 18"
        relatives = "relatives" if self.relatives else "no relatives"
        generations = "three or more generations" if self.generations else "not three generations"
        return (
            f"{COUPLES[self.couple]}, own children {own}, children {all_of_them}, {minor}, {relatives}, {generations}, "
            f"{people}"
        )

    def _is_possible(self) -> bool:
        """Whether there can be such a household."""
        adults = 1 + self.coupled
        least = max(
            adults,
            adults + self.children.bit_count(),
            1 + self.relatives,
            2 + self.relatives if self.cohabiting else 1,
            adults + 2 if self.generations else 1,
            # The parent between two generations is no child, or is the parent of one of two.
            adults + 3 if self.generations and self.children == BOTH and self.own_children in {0, BOTH} else 1,
        )
        return (
            self.size >= least
            and not self.own_children & ~self.children
            and self.minor >= (self.children > 0)
            and self.relatives >= (self.married or self.own_children > 0 or self.generations)
            and not (self.generations and not self.coupled and self.minor and not self.children)
        )


def _place(each: HouseholdType) -> tuple[int, ...]:
    """What the levels are in ascending order of: couples, the alone, families, young children first, then the rest."""
    own, other = (each.own_children - 1) % 4, (each.children - 1) % 4
    return each.couple, not each.alone, not each.relatives, own, other, each.minor, each.generations, each.size


def _every() -> Iterable[HouseholdType]:
    flags = (False, True)
    for fields in product(range(5), range(4), range(4), flags, flags, flags, range(1, LARGEST + 1)):
        each = HouseholdType(*fields)
        if each._is_possible():
            yield each


#: The levels, in order.
TYPES: Final = tuple(sorted(_every(), key=_place))


def levels(where: Callable[[HouseholdType], bool]) -> tuple[int, ...]:
    """The types for which something holds, ascending."""
    return tuple(level for level, each in enumerate(TYPES) if where(each))


def crossed(name: str, *fields: tuple[Sequence[object], Callable[[HouseholdType], object]]) -> Recode:
    """A recode of types by some of their fields, the last one fastest, without combinations that there are not.

    Args:
        name: Of the recode.
        fields: Of each, its values in order, and what tells the value of a type.
    """
    found: dict[tuple[object, ...], list[int]] = {values: [] for values in product(*(each for each, _ in fields))}
    for level, each in enumerate(TYPES):
        found[tuple(field(each) for _, field in fields)].append(level)
    return Recode(name, tuple((", ".join(map(str, values)), tuple(own)) for values, own in found.items() if own))
