"""Units: made of records and blocks that were counted, or from the people where no counts of units are published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.spark.readers.base import strides_of

if TYPE_CHECKING:
    from das_spark.constraints import UnitBounds
    from das_spark.products import Product

    Whole = NDArray[np.int64]


UNITS: Final = "units"
VACANT: Final = "vacant"

_PEOPLE_OF_UNITS: Final = (5, 2)
"""Persons and housing units where no counts of units are published: five in two, so one for each 2.5."""


@dataclass(frozen=True, slots=True)
class MadeUnits:
    """Units that are made of the people, where no counts of them are published.

    One housing unit for each 2.5 persons in households, rounded up, and one facility of a class of group quarters where
    it has people, or as many of either as can hold them; no unit is vacant.

    Attributes:
        stride: What a class adds to the number of a cell.
        bounds: Least and most people of a unit; None where units bound nothing.
    """

    stride: int
    bounds: UnitBounds | None

    def of(self, geounit: Whole, cell: Whole, count: Whole, shape: tuple[int, int]) -> Whole:
        """Return units by geounit and class.

        Args:
            geounit: Place of the geounit of what is counted, shape ``(rows,)``.
            cell: Its cell.
            count: How many there are.
            shape: Geounits and classes.
        """
        people = np.zeros(shape, dtype=np.int64)
        np.add.at(people, (geounit, cell // self.stride % shape[1]), count)
        units = (people > 0).astype(np.int64)
        by, of = _PEOPLE_OF_UNITS
        units[:, 0] = people[:, 0] // by * of + -(-(people[:, 0] % by * of) // by)
        if self.bounds is not None:
            most = np.array(self.bounds.most)
            bound = slice(0, len(most))
            needed = people[:, bound] // most + (people[:, bound] % most > 0)
            units[:, bound] = np.maximum(units[:, bound], needed)
        return units


def made_units(product: Product) -> MadeUnits:
    """Say how the units of a product are made of the people.

    Raises:
        ConfigurationError: It counts the units themselves.
    """
    if not product.class_query:
        raise ConfigurationError(
            f"input.units_from_people: product {product.name!r} counts the units themselves", hint="leave it out"
        )
    return MadeUnits(strides_of(product.schema)[product.class_query], product.unit_bounds)
