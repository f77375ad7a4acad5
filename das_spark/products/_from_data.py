"""A product made from plain data, such as a TOML file, in the words of the classes of this package.

Keys are the attributes of :class:`~das_spark.products.Product`, with these differences: `attributes` stand beside
`schema`, which is its name; recodes, cells and other pairs are tables (name -> what it holds); exact numbers are
texts, such as "1/4"; strategies are lists of

    name, title, framework ("pure_dp" or "zcdp"), total, geolevels (level -> share), queries (query -> share, or
    level -> query -> share), passes (level -> outer passes), needs_total_at (level)

and published tables lists of name, title, universe, prefix, perhaps digits and the lowest geolevel, and lines (depth,
label, levels, and perhaps `tallied`: selections among these levels, each of which counts by itself). Tables of medians
are a list of the same, `medians`, with the attribute that they are of.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from das_spark.errors import ConfigurationError
from das_spark.estimation import OuterPass
from das_spark.geography import Geolevel
from das_spark.histogram import Attribute, Schema
from das_spark.privacy import Budget, Framework, LevelBudget, QueryShare, exact
from das_spark.products.base import Product, Strategy, by_name
from das_spark.tabulation import Line, MedianTable, Table

_PASSES: Final = Mapping[str, tuple[OuterPass, ...]]


def product_from(data: Mapping[str, Any]) -> Product:
    """Make a product from plain data.

    Args:
        data: As the text of this module says.

    Raises:
        ConfigurationError: A key is unknown or missing, or a value is not of its kind; the path of the key is given.
        DasError: What the data describe contradicts itself, as the classes of this package find it.
    """
    name = str(data.get("name", ""))
    where = f"product {name!r}"
    rest = dict(data)
    schema_name = str(rest.pop("schema", name))
    schema = Schema(
        schema_name, _decode(tuple[Attribute, ...], _taken(rest, "attributes", where), f"{where}.attributes")
    )
    strategies = [_strategy(each, f"{where}.strategies") for each in _taken(rest, "strategies", where)]
    tables = tuple(_table(each, schema, f"{where}.tables") for each in rest.pop("tables", ()))
    medians = tuple(_median_table(each, schema, f"{where}.medians") for each in rest.pop("medians", ()))
    made = {"schema": schema, "strategies": by_name(strategies), "tables": tables, "medians": medians}
    product: Product = _made(Product, rest, where, made)
    return product


def _strategy(data: Mapping[str, Any], where: str) -> Strategy:
    rest = dict(data)
    name = str(_taken(rest, "name", where))
    where = f"{where}.{name}"
    title, framework = str(rest.pop("title", name)), str(_taken(rest, "framework", where))
    if framework not in [str(each) for each in Framework]:
        raise ConfigurationError(f"{where}.framework: {framework!r} is none of {', '.join(map(str, Framework))}")
    total, shares = _taken(rest, "total", where), _taken(rest, "geolevels", where)
    queries = _taken(rest, "queries", where)
    passes = _decode(_PASSES, rest.pop("passes", {}), f"{where}.passes")
    needs_total_at = str(rest.pop("needs_total_at", ""))
    _refuse_unknown(rest, (), where)
    levels = []
    for level, share in shares.items():
        of_level = queries.get(level, queries)
        asked = tuple(QueryShare(query, exact(part, f"{where}: {query}")) for query, part in of_level.items())
        levels.append(LevelBudget(level, exact(share, f"{where}: {level}"), asked))
    budget = Budget(Framework(framework), exact(total, f"{where}: total"), tuple(levels))
    return Strategy(name, budget, title, passes, needs_total_at)


def _median_table(data: Mapping[str, Any], schema: Schema, where: str) -> MedianTable:
    rest = dict(data)
    attribute = str(_taken(rest, "attribute", where))
    return MedianTable.of(_table(rest, schema, where), attribute)


def _table(data: Mapping[str, Any], schema: Schema, where: str) -> Table:
    rest = dict(data)
    name, title, universe, prefix = (str(_taken(rest, key, where)) for key in ("name", "title", "universe", "prefix"))
    lines = _decode(tuple[Line, ...], _taken(rest, "lines", where), f"{where}.{name}.lines")
    digits = _decode(int, rest.pop("digits", 4), f"{where}.{name}.digits")
    lowest = _decode(Geolevel | None, rest.pop("lowest", None), f"{where}.{name}.lowest")
    _refuse_unknown(rest, (), where)
    texts = {"name": name, "title": title, "universe": universe, "prefix": prefix}
    return Table.of(**texts, schema=schema, lines=lines, digits=digits, lowest=lowest)


def _taken(data: dict[str, Any], key: str, where: str) -> Any:  # noqa: ANN401 - what a file holds
    if key not in data:
        raise ConfigurationError(f"{where}: {key} is missing")
    return data.pop(key)


def _refuse_unknown(data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in data:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            raise ConfigurationError(f"{where}: unknown key {key!r}", hint=f"did you mean {near[0]!r}?" if near else "")


def _made(kind: type[Any], data: Mapping[str, Any], where: str, made: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """A dataclass of this package from the values of its fields."""
    hints = get_type_hints(kind)
    _refuse_unknown(data, [each.name for each in fields(kind) if each.init and each.name not in made], where)
    needed = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    missing = [name for name in needed if name not in data and name not in made]
    if missing:
        raise ConfigurationError(f"{where}: {', '.join(missing)} missing")
    given = {name: _decode(hints[name], value, f"{where}.{name}") for name, value in data.items()}
    return kind(**given, **made)


def _decode(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401, PLR0911 - by the type that is wanted
    """A value of a type, from what a file holds."""
    origin, of = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return None if value is None else _decode(next(each for each in of if each is not types.NoneType), value, where)
    if origin is Literal:
        return _one_of(value, of, where)
    if kind is Fraction:
        return exact(value, where)
    if origin is tuple:
        return _tuple(of, value, where)
    if origin is not None and issubclass(origin, Mapping):
        return {
            str(name): _decode(of[1], each, f"{where}.{name}") for name, each in _expect(Mapping, value, where).items()
        }
    if is_dataclass(kind) and isinstance(kind, type):
        return _made(kind, _expect(Mapping, value, where), where, {})
    if isinstance(kind, type) and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise ConfigurationError(f"{where}: expected {kind.__name__}, not {type(value).__name__}")
    return value


def _tuple(of: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:  # noqa: ANN401
    if of[-1] is Ellipsis:
        # Pairs of a name and what it holds are written as a table.
        values = list(value.items()) if isinstance(value, Mapping) else _expect(Sequence, value, where)
        return tuple(_decode(of[0], each, f"{where}[{place}]") for place, each in enumerate(values))
    values = _expect(Sequence, value, where)
    if len(values) != len(of):
        raise ConfigurationError(f"{where}: expected {len(of)} values, not {len(values)}")
    return tuple(_decode(each, item, where) for each, item in zip(of, values, strict=True))


def _one_of(value: Any, known: tuple[Any, ...], where: str) -> Any:  # noqa: ANN401
    if value not in known:
        raise ConfigurationError(f"{where}: {value!r} is none of {', '.join(map(str, known))}")
    return value


def _expect(kind: type[Any], value: Any, where: str) -> Any:  # noqa: ANN401
    if not isinstance(value, kind) or isinstance(value, str):
        raise ConfigurationError(f"{where}: expected a {'table' if kind is Mapping else 'list'}")
    return value
