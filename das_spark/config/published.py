"""Counts of another product that a product is held to: the two queries, looked up and compared."""

from __future__ import annotations

from das_spark.core import DividedCounts, HeldCounts
from das_spark.errors import ConfigurationError
from das_spark.histogram import Schema
from das_spark.products import PRODUCTS, Product


def held_sentence(product: Product) -> str:
    """What estimates of a product are held to, as a sentence; empty where they are held to nothing."""
    held = product.published
    if held is None:
        return ""
    divided = " Those of each leaf are first divided among the classes of its declared units." if held.undivided else ""
    return (
        f"Every estimate is held to the counts of {held.undivided or held.query!r} that a run of {held.product} has "
        f"published: public estimates, not exact counts.{divided}"
    )


def held_counts(product: Product, *, units: bool) -> HeldCounts | None:
    """Return the equality by which estimates of a product are held to what another one has published, if there is one.

    Args:
        product: What is published.
        units: Whether the run declares its units, by which published counts are divided where the product says so.

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
    same = published.undivided or published.query
    query, of = product.schema.query(same), theirs.query(published.of)
    if query.rows != of.rows:
        raise ConfigurationError(
            f"{where}: {same!r} has {query.rows} answers, and {published.of!r} of {published.product} has {of.rows}"
        )
    name = f"published:{published.name}"
    if not (published.undivided and units):
        return HeldCounts(name, query, of)
    parts = product.schema.query(published.query)
    answer, unit_class = (parts.answers_in(each) for each in (query, product.schema.query(product.class_query)))
    if answer is None or unit_class is None:
        raise ConfigurationError(
            f"{where}: the answers of {published.query!r} are no parts of those of {same!r} by class of units"
        )
    return HeldCounts.in_parts(name, parts, DividedCounts(of, answer, unit_class))
