"""What readers read for: cells of a product's schema in the lowest level of a spine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column

    from das_spark.geography import Spine
    from das_spark.histogram import Schema
    from das_spark.products import Product

ROOT = "0"
"""Geocode of the one geounit of a level of length 0."""


def require_attributes(reader: str, product: Product, expected: Mapping[str, int]) -> None:
    """Refuse a product whose schema is not the one that a reader's recodes lead to.

    Args:
        reader: Name of the reader.
        product: What the run publishes.
        expected: Name and number of levels of every attribute, in order.

    Raises:
        ConfigurationError: The schema has other attributes.
    """
    found = {attribute.name: attribute.size for attribute in product.schema.attributes}
    if list(found.items()) != list(expected.items()):
        spelled = " x ".join(f"{name} ({size})" for name, size in expected.items())
        raise ConfigurationError(
            f"reader {reader!r} gives {spelled}; product {product.name!r} has another schema",
            hint="choose a product with that schema, or another reader",
        )


def leaf_geocode(column: str, spine: Spine) -> Column:
    """Cut a geocode to the lowest level of a spine.

    Args:
        column: Name of a column of geocodes, at least as long as those of the lowest level.
        spine: The spine.
    """
    return F.lit(ROOT) if spine.leaf.length == 0 else F.substring(column, 1, spine.leaf.length)


def cell_of(schema: Schema, codes: Mapping[str, Column]) -> Column:
    """Flat cell index (int) of 0-based codes, the last attribute fastest.

    Args:
        schema: Of the product.
        codes: A column for every attribute.
    """
    cell = reduce(
        lambda flat, attribute: flat * attribute.size + codes[attribute.name], schema.attributes, F.lit(0).cast("long")
    )
    return cell.cast("int")
