"""From the official tables P1-P5 and H1 of a block to its histogram, in whole numbers (arrays only, no Spark).

Race in 63 levels of all persons is P1, of non-Hispanic persons P2, and P3 and P4 are the same for persons of voting
age; so voting age x Hispanic x race is exact by subtraction. P5 counts persons in group quarters by type, not crossed
with the rest: who of a block they are is chosen by a fixed rule (:func:`assign_group_quarters`), without chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

RACES = 6
TOTAL_ITEMS, HISPANIC_ITEMS, HOUSING_ITEMS, QUARTERS_ITEMS = 71, 73, 3, 10

QUARTERS_OF_CLASS = (2, 3, 4, 5, 7, 8, 9)
"""0-based item in P5 of classes 1 to 7 (adult correctional, juvenile, nursing, ..., other)."""

PERSON_CODES = {"QUARTERS": "0,3-6,8-10", "ADULT": "0-1", "HISPANIC": "0-1", "RACE": "1-63"}
"""What the tables say of a person: the item of P5 that counts her (0 in a household), whether P3 does, whether she is
Hispanic, and the number of her combination of races in the order of P1."""

UNIT_CODES = {"OCCUPANCY": "2-3"}
"""What they say of a housing unit: the item of H1 that counts it, 2 occupied, 3 vacant."""

_JUVENILE, _NURSING = 2, 3
_ORDER = (_NURSING, _JUVENILE, 1, 4, 5, 6, 7)


def race_items() -> tuple[int, ...]:
    """0-based item in P1 (and P3) of each of the 63 combinations of races; two more in P2 (and P4).

    The tables list combinations by their number of races, then in the order of the six races, with a subtotal before
    each number; before the single races and before the pairs two items (total and one race; two or more and exactly
    two).
    """
    items = []
    item = 0
    for number in range(1, RACES + 1):
        item += 2 if number <= 2 else 1  # noqa: PLR2004
        for _ in combinations(range(RACES), number):
            items.append(item)
            item += 1
    return tuple(items)


def class_codes() -> Counts:
    """Code of QUARTERS of each of the eight classes, household first, (8,)."""
    return np.array([0, *(item + 1 for item in QUARTERS_OF_CLASS)])


def person_codes() -> dict[str, Counts]:
    """Codes of each cell of class, voting age, Hispanic origin and race: field -> (8 x 2 x 2 x 63,)."""
    level, adult, hispanic, race = (index.ravel() for index in np.indices((8, 2, 2, 63)))
    return {"QUARTERS": class_codes()[level], "ADULT": adult, "HISPANIC": hispanic, "RACE": race + 1}


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of B blocks.

    Args:
        p1: Race of all persons, (B, 71).
        p2: Hispanic origin, and race of the others, (B, 73).
        p3: As p1, voting age, (B, 71).
        p4: As p2, voting age, (B, 73).
        h1: Housing units: all, occupied, vacant, (B, 3).
        p5: Persons in group quarters by type, (B, 10).
    """

    p1: Counts
    p2: Counts
    p3: Counts
    p4: Counts
    h1: Counts
    p5: Counts

    def people(self) -> Counts:
        """Persons by voting age, Hispanic origin and race, (B, 2, 2, 63); negative where tables contradict."""
        of_all = np.array(race_items())
        of_others = of_all + 2
        adults = np.stack([self.p4[:, of_others], self.p3[:, of_all] - self.p4[:, of_others]], axis=1)
        everyone = np.stack([self.p2[:, of_others], self.p1[:, of_all] - self.p2[:, of_others]], axis=1)
        return np.stack([everyone - adults, adults], axis=1)

    def quarters(self) -> Counts:
        """Persons in group quarters by class 0 to 7, (B, 8); nobody in class 0."""
        counts = np.zeros((len(self.p5), 8), dtype=np.int64)
        counts[:, 1:] = self.p5[:, QUARTERS_OF_CLASS]
        return counts


RULES = (
    ("P1 to P4", "no race with fewer persons of all origins than non-Hispanic ones, or fewer of all ages than adults"),
    ("P1, P3", "totals that are the sum of the 63 races"),
    ("P2, P4", "Hispanics and the 63 races of the others to sum to the total of P1 and P3"),
    ("P5", "types of group quarters that sum to their total, which is not above P1"),
    ("H1", "occupied and vacant units that sum to the total"),
    ("P5, P3", "no more persons in nursing facilities than adults"),
)
"""What must hold between tables: fields, and what is expected."""


def contradictions(tables: Tables) -> NDArray[np.bool_]:
    """Which rules each block breaks.

    Args:
        tables: Of B blocks.

    Returns:
        True where a block breaks a rule of ``RULES``, (B, rules).
    """
    items = np.array(race_items())
    people = tables.people()
    p1, p2, p3, p4, p5, h1 = tables.p1, tables.p2, tables.p3, tables.p4, tables.p5, tables.h1
    races_differ = (p1[:, items].sum(axis=1) != p1[:, 0]) | (p3[:, items].sum(axis=1) != p3[:, 0])
    origins_differ = (
        (p2[:, 0] != p1[:, 0])
        | (p4[:, 0] != p3[:, 0])
        | (p2[:, 1] + p2[:, items + 2].sum(axis=1) != p2[:, 0])
        | (p4[:, 1] + p4[:, items + 2].sum(axis=1) != p4[:, 0])
    )
    quarters_differ = (p5[:, QUARTERS_OF_CLASS].sum(axis=1) != p5[:, 0]) | (p5[:, 0] > p1[:, 0])
    return np.stack(
        [
            (people < 0).any(axis=(1, 2, 3)),
            races_differ,
            origins_differ,
            quarters_differ,
            h1[:, 1] + h1[:, 2] != h1[:, 0],
            p5[:, QUARTERS_OF_CLASS[_NURSING - 1]] > people[:, 1].sum(axis=(1, 2)),
        ],
        axis=1,
    )


def assign_group_quarters(people: Counts, quarters: Counts) -> Counts:
    """Choose who of a block lives in its group quarters.

    Class by class, nursing facilities first (adults only, as the structural zero wants), then juvenile facilities
    (minors, and adults only when no minor is left), then the others (adults, and minors only when no adult is left).
    Within an age, in proportion to the persons by Hispanic origin and race who are not yet assigned, by largest
    remainder, ties to the earlier cell.

    Args:
        people: By voting age, Hispanic origin and race, (2, 2, 63), nonnegative.
        quarters: Persons by class, (8,), as many as there are people at most, and not more in class 3 than adults.

    Returns:
        Persons by class, voting age, Hispanic origin and race, (8, 2, 2, 63), summing to ``people``.
    """
    left = people.reshape(2, -1).copy()
    assigned = np.zeros((8, *left.shape), dtype=np.int64)
    for level in _ORDER:
        wanted = int(quarters[level])
        for age in (0, 1) if level == _JUVENILE else (1, 0):
            taken = apportion(left[age], min(wanted, int(left[age].sum())))
            assigned[level, age] += taken
            left[age] -= taken
            wanted -= int(taken.sum())
    assigned[0] = left
    return assigned.reshape(8, *people.shape)


def apportion(counts: Counts, number: int) -> Counts:
    """Take a number of persons from cells in proportion to their counts, by largest remainder.

    Returns:
        How many to take from each cell, at most its count, (n,).
    """
    total = int(counts.sum())
    if number == 0 or total == 0:
        return np.zeros_like(counts)
    taken, remainder = np.divmod(counts * number, total)
    first = np.argsort(-remainder, kind="stable")[: number - int(taken.sum())]
    taken[first] += 1
    return taken
