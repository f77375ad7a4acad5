"""A synthetic population for any product of persons: its geolevels, attributes and classes of units, and nothing real.

Nobody is like it: it is there so that a product can be tried before there are data. Geounits differ in size and in whom
they have, structural zeros are empty, and units fit their people. What the levels of an attribute mean is not known, so
that the first ones are the most frequent.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.geography import Spine
from das_spark.simulation.population import Counts, Population, PopulationKind, generator

if TYPE_CHECKING:
    from das_spark.products import Product

_PERSONS: Final = 200_000
_IN_A_LEAF: Final = 120  # people, on average
_SPREAD: Final = 0.8  # of the logarithm of the people of geounits of one parent
_ALIKE: Final = 30.0  # concentration of the shares of levels around those of all geounits
_FALL: Final = 0.7  # share of a level: its place to the minus this
_VACANT: Final = 0.08
#: People of a dwelling of the first class and of the others, where bounds leave it open.
_IN_A_UNIT: Final = (2.5, 40.0)


def population_kind(product: Product, name: str) -> PopulationKind:
    """A kind of population for a product.

    Args:
        product: That counts persons.
        name: How the population is called.

    Raises:
        ConfigurationError: The product counts something else.
    """
    if product.record != "person":
        raise ConfigurationError(
            f"product {product.name!r} counts {product.counted}, and synthetic people are made for products of persons"
        )
    return PopulationKind(
        name=name,
        attributes=tuple((attribute.name, attribute.size) for attribute in product.schema.attributes),
        geocode_length=product.geolevels[-1].length,
        parts=lambda _: (0,),
        make=partial(_population, product),
        contributor=product.records.contributor,
        at_most=product.records.at_most,
        own_codes=tuple(Spine(product.geolevels).own_codes.items()),
    )


def _population(product: Product, part: int, seed: int, share: Fraction) -> Population:
    numbers = generator(seed, part)
    geocodes, sizes = _places(product, max(1, round(_PERSONS * share)), numbers)
    people = numbers.poisson(sizes)
    at = np.repeat(np.arange(len(geocodes)), people)
    cells = np.zeros(len(at), dtype=np.int64)
    for attribute in product.schema.attributes:
        cells = cells * attribute.size + _levels(attribute.size, at, len(geocodes), numbers)
    allowed = ~product.zero_cells()[cells]
    keys, count = np.unique(at[allowed] * product.schema.size + cells[allowed], return_counts=True)
    geounit, cell = keys // product.schema.size, keys % product.schema.size
    units, vacant = _units(product, len(geocodes), geounit, cell, count, numbers)
    return Population(geocodes, geounit, cell, count, units, vacant)


def _places(
    product: Product, persons: int, numbers: np.random.Generator
) -> tuple[NDArray[np.str_], NDArray[np.float64]]:
    """The leaves of a spine, by geocode, and how many people they have on average."""
    levels = [level for level in product.geolevels if level.length]
    wanted = max(1.0, persons / _IN_A_LEAF) ** (1 / max(len(levels), 1))
    codes, sizes, before = [""], np.array([float(persons)]), 0
    for level in levels:
        width, base = level.length - before, 36 if product.spine().letters else 10
        children = np.clip(numbers.poisson(wanted, len(codes)), 1, min(base**width, 10**6))
        if level.code and children.sum() > base**width:
            raise ConfigurationError(f"geolevel {level.name!r}: codes of {width} characters are too few for a trial")
        parent = np.repeat(np.arange(len(codes)), children)
        portion = np.exp(numbers.normal(0.0, _SPREAD, len(parent)))
        sizes = sizes[parent] * portion / np.bincount(parent, portion)[parent]
        own = np.arange(len(parent)) - (np.cumsum(children) - children)[parent]
        if level.code:  # numbered over all geounits of the level, whatever lies above
            own = np.arange(len(parent))
        own_codes = [np.base_repr(number, base).zfill(width) for number in own.tolist()]
        codes = [codes[above] + code for above, code in zip(parent.tolist(), own_codes, strict=True)]
        before = level.length
    return np.array([code or "0" for code in codes]), sizes


def _levels(size: int, at: Counts, geounits: int, numbers: np.random.Generator) -> Counts:
    """The level of an attribute of everybody: geounits have shares around those of all."""
    usual = np.arange(1.0, size + 1) ** -_FALL
    shares = numbers.standard_gamma(_ALIKE * usual / usual.sum(), (geounits, size)) + 1e-9
    ends = np.cumsum(shares, axis=1)
    ends /= ends[:, -1:]
    # One search for everybody: the ends of geounit g lie between g and g + 1.
    drawn = np.searchsorted((ends + np.arange(geounits)[:, None]).ravel(), at + numbers.random(len(at)))
    levels: Counts = np.minimum(drawn - at * size, size - 1)
    return levels


def _units(
    product: Product, geounits: int, geounit: Counts, cell: Counts, count: Counts, numbers: np.random.Generator
) -> tuple[Counts, Counts]:
    """Occupied units by class, as many as the people of the class may live in; and vacant ones."""
    classes = len(product.unit_classes)
    if not product.class_query:
        return np.zeros((geounits, classes), dtype=np.int64), np.zeros(geounits, dtype=np.int64)
    row = product.schema.query(product.class_query).row_of(cell)
    people = np.bincount(geounit * classes + row, count, geounits * classes).reshape(geounits, classes)
    typical = np.array([_IN_A_UNIT[0], *[_IN_A_UNIT[1]] * (classes - 1)])
    units = np.ceil(people / typical)
    if product.unit_bounds is not None:
        least, most = (np.maximum(np.array(side), 1) for side in (product.unit_bounds.least, product.unit_bounds.most))
        units = np.maximum(np.minimum(units, people // least), np.ceil(people / most))
    vacant = numbers.binomial(units[:, 0].astype(np.int64) + 1, _VACANT)
    return units.astype(np.int64), vacant.astype(np.int64)
