"""What a product is: its schema, geography, constraints, strategies and microdata layout, as one frozen table.

The source of a microdata column is a short text. `CODE` stands for texts separated by commas:

    constant:TEXT            the same text in every row
    geocode[START:END]       the digits START (inclusive, from 0) to END (exclusive) of the geocode of the leaf
    recode:ATTRIBUTE:CODE    persons: one text for each level of the attribute
    recode:unit_class:CODE   units: one text for each class of units, and a last one for vacant units
    record_type              persons: 3 in a household, 5 in group quarters; units: 2 and 4
    unit_number              running number of the unit in the file
    person_number            number of the person in the unit, from 1
    population               units: people in the unit
    tenure                   units: 9 for an occupied housing unit, else 0
    vacancy                  units: 9 for a vacant housing unit, else 0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from das_spark.constraints import StructuralZero, UnitBounds
from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Schema
from das_spark.privacy.budget import Budget, Framework, LevelBudget, QueryShare, exact

#: Columns that both microdata files of the End-to-End test carry without content, with the text that fills them.
PERSON_FILLERS: Final = {
    **dict.fromkeys(("QSPANX", *(f"QRACE{number}" for number in range(1, 9))), ("CHAR4", "9999")),
    "CIT": ("CHAR1", "9"),
}
UNIT_FILLERS: Final = {
    "HHT": ("CHAR1", "9"),
    "HHT2": ("CHAR2", "99"),
    "NPF": ("CHAR2", "99"),
    "CPLT": ("CHAR1", "9"),
    "UPART": ("CHAR1", "9"),
    "MULTG": ("CHAR1", "9"),
    "HHLDRAGE": ("INT3", "999"),
    "HHSPAN": ("CHAR1", "9"),
    "HHRACE": ("CHAR2", "99"),
    "PAOC": ("CHAR1", "9"),
    **dict.fromkeys(("P18", "P60", "P65", "P75"), ("INT2", "99")),
}


@dataclass(frozen=True, slots=True)
class MicrodataColumn:
    """A column of a microdata file.

    Attributes:
        name: Name of the column.
        source: Where its text comes from, in the vocabulary of this module.
        type: CHAR (zeros kept) or INT (plain number), and the greatest width; for the data dictionary.
    """

    name: str
    source: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class MicrodataLayout:
    """The two microdata files of a product.

    Attributes:
        name: How manifests call the layout.
        person: Columns of the person file, in order.
        unit: Columns of the unit file, in order.
        comment: First line of each file, beginning with "#"; empty where there is none.
    """

    name: str
    person: tuple[MicrodataColumn, ...]
    unit: tuple[MicrodataColumn, ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named way to spend a budget.

    Attributes:
        name: Name in the product.
        budget: Exact total and shares.
        title: What it is, in a few words.
    """

    name: str
    budget: Budget
    title: str


@dataclass(frozen=True, slots=True)
class Product:
    """Everything that is fixed about a publication before any data are read.

    Attributes:
        name: Name in the registry.
        title: What it is, in a few words.
        schema: Attributes of the persons that are counted.
        geolevels: Every level that the leaf's geocode knows, root first.
        default_levels: Levels of a run that names none.
        unit_classes: Labels of the classes of occupied units, in the order of the answers of `class_query`.
        class_query: Query whose answers the units bound: people by class of unit.
        strata: Query of the stratified counts in accuracy reports.
        unit_bounds: Fewest and most people by class.
        structural_zeros: Cells in which nobody can be.
        strategies: Ways to spend a budget by name; the first is the usual one.
        microdata: Layout of the microdata files.
        total_at: Geolevel whose totals are invariant unless a run says otherwise.
        code_base: Attribute -> number of its first level in tidy input; 0 where missing.
    """

    name: str
    title: str
    schema: Schema
    geolevels: tuple[Geolevel, ...]
    default_levels: tuple[str, ...]
    unit_classes: tuple[str, ...]
    class_query: str
    strata: str
    unit_bounds: UnitBounds
    structural_zeros: tuple[StructuralZero, ...]
    strategies: Mapping[str, Strategy]
    microdata: MicrodataLayout
    total_at: str
    code_base: Mapping[str, int] = field(default_factory=dict)

    def spine(self, levels: Sequence[str] | None = None) -> Spine:
        """The spine of a run.

        Args:
            levels: Names of the levels that the run has, root first; None for the default ones.

        Raises:
            GeographyError: A name is unknown, or the levels do not nest in the order given.
        """
        every = Spine(self.geolevels)
        return Spine(tuple(every.level(name) for name in (self.default_levels if levels is None else levels)))


def pure_strategy(
    name: str, title: str, *, epsilon: str, geolevels: Mapping[str, str], queries: Mapping[str, str]
) -> Strategy:
    """A strategy under pure differential privacy that asks the same queries in every geolevel.

    Args:
        name: Name in the product.
        title: What it is.
        epsilon: Total, as an exact number.
        geolevels: Level -> share of the total, root first, as exact numbers.
        queries: Query -> share of its level, as exact numbers.

    Raises:
        BudgetError: A number is not exact, or shares do not sum to 1.
    """
    shares = tuple(QueryShare(query, exact(share, f"{name}: {query}")) for query, share in queries.items())
    levels = tuple(LevelBudget(level, exact(share, f"{name}: {level}"), shares) for level, share in geolevels.items())
    return Strategy(name, Budget(Framework.PURE_DP, exact(epsilon, f"{name}: epsilon"), levels), title)


def by_name(strategies: Iterable[Strategy]) -> dict[str, Strategy]:
    """The strategies of a product under their names, in order."""
    return {strategy.name: strategy for strategy in strategies}


def fillers(columns: Mapping[str, tuple[str, str]]) -> tuple[MicrodataColumn, ...]:
    """Columns without content.

    Args:
        columns: Name -> type and the text that fills the column.
    """
    return tuple(MicrodataColumn(name, f"constant:{text}", kind) for name, (kind, text) in columns.items())
