"""A product as plain data, such as a TOML file holds: what `product_from` makes an equal product of."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from das_spark.errors import ConfigurationError
from das_spark.geography import Geolevel
from das_spark.histogram import Attribute
from das_spark.tabulation import MedianTable

if TYPE_CHECKING:
    from das_spark.products.base import Product, Strategy
    from das_spark.tabulation import TableShell

#: Parts of a product that a file writes otherwise than as the attributes of their classes.
_TABLES: Final = ("tables", "occupancy", "medians")
_OTHERWISE: Final = ("name", "schema", "strategies", *_TABLES)
_MOST_DIGITS: Final = 9


def product_data(product: Product) -> dict[str, Any]:
    """A product as tables, lists, texts and numbers, as TOML and JSON have them.

    Args:
        product: Any; what is as it would be without being said is left out.

    Returns:
        Data of which `product_from` makes an equal product.

    Raises:
        ConfigurationError: A published table was not made of numbered lines.
    """
    data: dict[str, Any] = {"name": product.name}
    if product.schema.name != product.name:
        data["schema"] = product.schema.name
    data |= {key: value for key, value in _made(product).items() if key not in _OTHERWISE}
    data["attributes"] = encoded(tuple[Attribute, ...], product.schema.attributes)
    data["strategies"] = [_strategy(strategy) for strategy in product.strategies.values()]
    for key in _TABLES:
        if tables := getattr(product, key):
            data[key] = [_table(table) for table in tables]
    return data


def _strategy(strategy: Strategy) -> dict[str, Any]:
    budget = strategy.budget
    queries = {level.geolevel: {query.query: str(query.share) for query in level.queries} for level in budget.levels}
    alike = list(queries.values())
    every = _made(strategy)
    return {
        "name": strategy.name,
        "title": strategy.title,
        "framework": str(budget.framework),
        "total": str(budget.total),
        "geolevels": {level.geolevel: str(level.share) for level in budget.levels},
        "queries": alike[0] if all(each == alike[0] for each in alike) else queries,
        **{key: every[key] for key in ("passes", "needs_total_at") if key in every},
    }


def _table(table: TableShell) -> dict[str, Any]:
    """A table by its lines; the names of its columns must be numbers behind a prefix."""
    for digits in range(1, _MOST_DIGITS + 1):
        prefix = table.names[0][:-digits]
        if table.names == tuple(f"{prefix}{place:0{digits}d}" for place in range(1, len(table.names) + 1)):
            break
    else:
        raise ConfigurationError(f"table {table.name}: its columns are not numbered, and no file can say how they are")
    lines = []
    for column in table.columns:
        selections = [{name: list(levels) for name, levels in each} for each in column.where]
        if not column.tallies and len(selections) > 1:
            raise ConfigurationError(f"table {table.name}: {column.name} is a union, which no file can say")
        levels, tallied = ({}, selections) if column.tallies else (selections[0], [])
        line = {"depth": column.depth, "label": column.label, "levels": levels}
        lines.append(line | ({"tallied": tallied} if tallied else {}))
    return {
        **({"attribute": table.attribute} if isinstance(table, MedianTable) else {}),
        "name": table.name,
        "title": table.title,
        "universe": table.universe,
        "prefix": prefix,
        "digits": digits,
        **({} if table.lowest is None else {"lowest": encoded(Geolevel, table.lowest)}),
        "lines": lines,
    }


def _made(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of this package
    """The fields of a dataclass that are not what they are by default."""
    hints, found = get_type_hints(type(value)), {}
    for field in fields(value):
        own = getattr(value, field.name)
        usual = field.default if field.default_factory is MISSING else field.default_factory()
        if own is not None and (usual is MISSING or own != usual) and field.init:
            found[field.name] = encoded(hints[field.name], own) if field.name not in _OTHERWISE[1:] else None
    return found


def encoded(kind: Any, value: Any) -> Any:  # noqa: ANN401, PLR0911 - by the type of the field
    """A value as TOML has it; pairs of a name and what it holds are a table."""
    origin, of = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return encoded(next(each for each in of if each is not types.NoneType), value)
    if isinstance(value, Fraction):
        return str(value)
    if is_dataclass(value):
        return _made(value)
    if isinstance(value, Mapping):
        return {name: encoded(of[1], each) for name, each in value.items()}
    if isinstance(value, tuple):
        if of and of[-1] is Ellipsis:
            inner = get_args(of[0])
            if get_origin(of[0]) is tuple and inner[0] is str and len(inner) == 2 and inner[-1] is not Ellipsis:  # noqa: PLR2004
                return {name: encoded(inner[1], each) for name, each in value}
            return [encoded(of[0], each) for each in value]
        return [encoded(each_kind, each) for each_kind, each in zip(of, value, strict=True)]
    return value
