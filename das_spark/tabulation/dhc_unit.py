"""Tables of the 2020 Demographic and Housing Characteristics that housing units determine: H1, H3 and H5.

Numbers, universes and names of columns are those of the Census Bureau's file. H2 needs to know which blocks are urban.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from das_spark.histogram import Schema
from das_spark.tabulation._dhc import Declared, made
from das_spark.tabulation.table import Line, Table

_OCCUPIED: Final = tuple(range(4))
_VACANT: Final = tuple(range(4, 11))


def dhc_unit_tables(schema: Schema) -> tuple[Table, ...]:
    """The tables of housing units.

    Args:
        schema: With the attribute tenvac: four levels of occupied units, then seven of vacant ones.

    Returns:
        The three tables.

    Raises:
        QueryError: The schema lacks the attribute, or some of its levels.
    """
    kinds = schema.attributes[schema.axis("tenvac")].levels
    units, total = "Housing units", Line(0, "Total", {})
    vacant = Line(0, "Total", {"tenvac": _VACANT}), *_of_vacancy(kinds)
    return made(
        (
            Declared("H", 1, "Housing units", units, (total,)),
            Declared("H", 3, "Occupancy status", units, (total, *_occupancy())),
            Declared("H", 5, "Vacancy status", "Vacant housing units", vacant),
        ),
        schema,
    )


def _occupancy() -> Iterator[Line]:
    yield Line(1, "Occupied", {"tenvac": _OCCUPIED})
    yield Line(1, "Vacant", {"tenvac": _VACANT})


def _of_vacancy(kinds: tuple[str, ...]) -> Iterator[Line]:
    for level in _VACANT:
        text = kinds[level].removeprefix("Vacant, ")
        yield Line(1, text[:1].upper() + text[1:], {"tenvac": (level,)})
