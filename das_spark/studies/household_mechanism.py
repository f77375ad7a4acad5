"""The household and person queries of the demonstration of 2019, on schemas small enough to be estimated in a minute.

The published schema of households has 96,768 cells. Here it has the 672 of the published query sex x Hispanic origin x
race x type of household; queries keep their published share, geolevels theirs and the total is the published one, so
that every scale of noise is as published. A published query that also asks for age, size, generations or elderly
people asks for what is left without these: fewer answers, so that totals are known better here than they were, and
what is found is less than what was published.

The schema of persons has the 504 cells of the published query voting age x Hispanic origin x race x citizenship. The
queries on group quarters, sex and age have nothing to ask here; their shares are not spent.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from das_spark.errors import ConfigurationError
from das_spark.histogram import Attribute, Schema
from das_spark.studies.housing import HOUSEHOLD_SHAPE, PERSON_SHAPE
from das_spark.studies.published_demonstration import (
    GEOLEVEL_SHARES,
    HOUSEHOLD_QUERIES,
    PERSON_QUERIES,
    TOTALS,
)
from das_spark.studies.top_down import Measured, Mechanism


def _schema(name: str, attributes: tuple[str, ...], shape: tuple[int, ...]) -> Schema:
    levels = (tuple(map(str, range(size))) for size in shape)
    return Schema(name, tuple(map(Attribute, attributes, levels)))


HOUSEHOLDS: Final = _schema("households", ("hhsex", "hhhisp", "hhrace", "hhtype"), HOUSEHOLD_SHAPE)
PEOPLE: Final = _schema("people", ("votingage", "hispanic", "race", "citizen"), PERSON_SHAPE)

#: What each published query asks here, in the published order.
_ASKED: Final = (
    "detailed",
    "hhhisp * hhrace * hhtype",
    "detailed",
    "hhhisp * hhrace",  # by its printed size, 28 = 2 x 7 x 2, it asks for race and not for the type of household
    "hhsex * hhtype",
    "hhsex * hhtype",
)


def household_mechanism(multiple: Fraction = Fraction(1)) -> Mechanism:
    """How households are measured.

    Args:
        multiple: Of the published total epsilon, above 0.

    Raises:
        ConfigurationError: The multiple is not above 0.
    """
    if multiple <= 0:
        raise ConfigurationError(f"the budget of households must be above 0, not {multiple} times the published one")
    queries = tuple(
        Measured(published.name, HOUSEHOLDS.query(asked), published.share)
        for published, asked in zip(HOUSEHOLD_QUERIES, _ASKED, strict=True)
    )
    return Mechanism("household", HOUSEHOLDS, queries, multiple * TOTALS["household"], GEOLEVEL_SHARES)


def person_mechanism() -> Mechanism:
    """How persons are measured."""
    asked = (PERSON_QUERIES[0], PERSON_QUERIES[2])
    queries = tuple(Measured(published.name, PEOPLE.query("detailed"), published.share) for published in asked)
    return Mechanism("person", PEOPLE, queries, TOTALS["person"], GEOLEVEL_SHARES)
