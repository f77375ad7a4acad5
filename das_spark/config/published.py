"""Counts of another product that a product is held to: the two queries, looked up and compared."""

from __future__ import annotations

from das_spark.core import HeldCounts
from das_spark.errors import ConfigurationError
from das_spark.histogram import Schema
from das_spark.products import PRODUCTS, Product


def held_sentence(product: Product) -> str:
    """What estimates of a product are held to, as a sentence; empty where they are held to nothing."""
    held = product.published
    if held is None:
        return ""
    return (
        f"Every estimate is held to the counts of {held.query!r} that a run of {held.product} has published: public "
        "estimates, not exact counts."
    )


def held_counts(product: Product) -> HeldCounts | None:
    """The equality by which estimates of a product are held to what another one has published; None without one.

    Raises:
        ConfigurationError: There is no such product, or the answers of the two queries are not as many.
    """
    published = product.published
    if published is None:
        return None
    where = f"product {product.name!r}, published {published.name!r}"
    if published.attributes:
        theirs = Schema(published.product, published.attributes)
    elif published.product in PRODUCTS:
        theirs = PRODUCTS[published.product].schema
    else:
        raise ConfigurationError(
            f"{where}: there is no product {published.product!r}",
            hint=f"name its file, such as {published.product}.toml, as seen from this one",
        )
    query, of = product.schema.query(published.query), theirs.query(published.of)
    if query.rows != of.rows:
        raise ConfigurationError(
            f"{where}: {published.query!r} has {query.rows} answers, and {published.of!r} of {published.product} has "
            f"{of.rows}"
        )
    return HeldCounts(f"published:{published.name}", query, of)
