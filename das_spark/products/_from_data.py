"""A product made from plain data, such as a TOML file, in the words of the classes of this package.

Keys are the attributes of :class:`~das_spark.products.Product`, with these differences: `attributes` stand beside
`schema`, which is its name; recodes, cells and other pairs are tables (name -> what it holds); exact numbers are
texts, such as "1/4"; strategies are lists of

    name, title, framework ("pure_dp" or "zcdp"), total, geolevels (level -> share), queries (query -> share, or
    level -> query -> share), passes (level -> outer passes), needs_total_at (level)

and published tables lists of name, title, universe, prefix, perhaps digits and the lowest geolevel, and lines (depth,
label, levels, and perhaps `tallied`: selections among these levels, each of which counts by itself). Tables of medians
are a list of the same, `medians`, with the attribute that they are of. A name in the place of the list stands for
tables that are published as a set (`TABLE_SETS`); what else may be written in short is what `_shorthand` writes out.

Of the attributes of a product only `name`, `attributes`, `geolevels` and `strategies` must be given. Without more, all
geolevels are those of a run, nothing is bounded, no total is exact, and microdata have the geocode and a column an
attribute, which holds the numbers of the levels.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from das_spark.constraints import UnitBounds
from das_spark.errors import ConfigurationError, Problems, did_you_mean, shortened
from das_spark.estimation import OuterPass
from das_spark.geography import Geolevel
from das_spark.histogram import DETAILED, Attribute, Schema
from das_spark.limits import MOST_TALLIED, check_sizes
from das_spark.names import check_name
from das_spark.privacy import Budget, Framework, LevelBudget, QueryShare, exact
from das_spark.products._consistency import check_consistency
from das_spark.products._shorthand import written_out
from das_spark.products.base import NO_TOTAL, MicrodataColumn, MicrodataLayout, Product, Strategy, by_name
from das_spark.tabulation import Line, MedianTable, Table, housing_tables, redistricting_tables

#: Published tables that a product may have by their name; the functions say which attributes they need.
TABLE_SETS: Final[Mapping[str, Callable[[Schema], tuple[Table, ...]]]] = types.MappingProxyType(
    {"redistricting": redistricting_tables, "housing": housing_tables}
)
_PASSES: Final = Mapping[str, tuple[OuterPass, ...]]
_CLASSES: Final = ("Unit",)
_WRONG: Final = object()
"""In place of a value that could not be made; what it is a part of is not made either."""


def product_from(data: Mapping[str, Any], source: str = "") -> Product:
    """Make a product from plain data.

    Args:
        data: As the text of this module says.
        source: The file that they are from, for messages.

    Raises:
        ConfigurationError: All at once, by the path of the key: keys that are unknown or missing, values that are not
            of their kind, and what contradicts itself.
    """
    source = source or f"product {shortened(str(data.get('name', '')))!r}"
    check_sizes(data, source)
    problems = Problems(source)
    product = _Decoding(problems).product(written_out(data, problems))
    if product is not _WRONG and not problems.found:
        check_consistency(product, problems)
    problems.raise_if_any()
    found: Product = product
    return found


@dataclass(slots=True)
class _Decoding:
    """Values made from plain data; what is wrong is noted with the path of its key, and all others are gone through."""

    problems: Problems
    tallied: int = 0  # cells times selections that are compared for the tables made so far

    def product(self, data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a product, or what says that there is none
        """The product, or `_WRONG`."""
        rest = dict(data)
        if "geolevels" in rest:
            rest["geolevels"] = _with_lengths(rest["geolevels"])
        name = self.named(self.take(rest, "name", str, ""))
        attributes = self.take(rest, "attributes", tuple[Attribute, ...], "")
        schema_name = self.decode(str, rest.pop("schema", name), "schema")
        schema: Any = _WRONG
        if _WRONG not in (attributes, schema_name):
            with self.problems.at("attributes"):
                schema = Schema(schema_name, attributes)
        strategies = self.each("strategies", self.take(rest, "strategies", list, ""), self.strategy)
        made = {"name": name, "schema": schema, "strategies": strategies}
        for key, one in (("tables", self.table), ("occupancy", self.table), ("medians", self.median_table)):
            given = rest.pop(key, [])
            if key == "tables" and isinstance(given, str):
                made[key] = self.table_set(schema, given)
                continue
            listed = self.decode(list, given, key)
            made[key] = _WRONG if schema is _WRONG else self.each(key, listed, partial(one, schema))
        if _WRONG not in made.values():
            made["strategies"] = by_name(made["strategies"])
            usual = {"title": name, **self.usual(rest, schema)}
            made |= {key: value for key, value in usual.items() if key not in rest}
        return self.made(Product, rest, "", made)

    def named(self, name: Any) -> Any:  # noqa: ANN401 - a name or `_WRONG`
        """The name of the product, or `_WRONG`."""
        if name is not _WRONG:
            with self.problems.at("name"):
                check_name(name, "")
                return name
        return _WRONG

    def usual(self, data: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
        """What a product has where its data do not say otherwise; geolevels are looked at, not made."""
        levels = data.get("geolevels", ())
        named = isinstance(levels, Sequence) and all(isinstance(level, Mapping) for level in levels)
        names = tuple(str(level.get("name", "")) for level in levels) if named else ()
        last = levels[-1] if named and levels else {}
        leaf, own = (each if isinstance(each, int) else 0 for each in (last.get("length"), last.get("code")))
        leaf = leaf or 1  # that of a root is "0"
        own = own or leaf
        record, classes = data.get("record", "person"), data.get("unit_classes", _CLASSES)
        number = len(classes) if isinstance(classes, Sequence) else 1
        lists = record == "household" or (record == "unit" and number > 1)
        columns = [MicrodataColumn("GEOCODE", f"geocode[{leaf - own}:{leaf}]", f"CHAR{own}")]
        if lists:
            columns.append(_numbers("UNIT_CLASS", "unit_class", number + 1))
        columns += [
            _numbers(attribute.name.upper(), attribute.name, attribute.size + lists) for attribute in schema.attributes
        ]
        person = record == "person"
        layout = MicrodataLayout(schema.name, tuple(columns) if person else (), () if person else tuple(columns))
        # No more households than housing units, vacant ones among them, unless another product tells their number.
        households = record == "household" and "class_query" not in data
        bounded = households and "published" not in data
        return {
            "default_levels": names,
            "unit_classes": _CLASSES,
            "class_query": "total" if bounded else "",
            "strata": DETAILED,
            "unit_bounds": UnitBounds((0,), (1,), cap_when_total_known=True) if bounded else None,
            "vacant_counted": households,
            "structural_zeros": (),
            "microdata": layout,
            "total_at": NO_TOTAL,
        }

    def strategy(self, data: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401
        """A strategy, or `_WRONG`."""
        rest = dict(data)
        name = self.take(rest, "name", str, where)
        title = self.decode(str, rest.pop("title", name), f"{where}.title")
        framework = self.take(rest, "framework", str, where)
        total, shares = self.take(rest, "total", Fraction, where), self.take(rest, "geolevels", dict, where)
        queries = self.take(rest, "queries", dict, where)
        passes = self.decode(_PASSES, rest.pop("passes", {}), f"{where}.passes")
        needs_total_at = self.decode(str, rest.pop("needs_total_at", ""), f"{where}.needs_total_at")
        self.refuse_unknown(rest, (), where)
        if framework is not _WRONG and framework not in [str(each) for each in Framework]:
            self.problems.add(f"{where}.framework", f"{framework!r} is none of {', '.join(map(str, Framework))}")
            framework = _WRONG
        levels = [] if _WRONG in (shares, queries) else self.levels(shares, queries, where)
        known = (name, title, framework, total, shares, queries, passes, needs_total_at)
        if _WRONG in known or len(levels) < len(shares):
            return _WRONG
        with self.problems.at(where):
            return Strategy(name, Budget(Framework(framework), total, tuple(levels)), title, passes, needs_total_at)
        return _WRONG

    def levels(self, shares: Mapping[str, Any], queries: Mapping[str, Any], where: str) -> list[LevelBudget]:
        """The budgets of the geolevels, without those that are wrong."""
        alike = not any(isinstance(query, Mapping) for query in queries.values())
        for level in () if alike else [query for query in queries if query not in shares]:
            self.problems.add(f"{where}.queries.{level}", "the strategy gives this geolevel no share")
        found = []
        for level, share in shares.items():
            part = self.decode(Fraction, share, f"{where}.geolevels.{level}")
            at = f"{where}.queries" if alike else f"{where}.queries.{level}"
            if not alike and level not in queries:
                self.problems.add(at, "is missing: what the share of the geolevel is spent on")
                continue
            asked = self.decode(Mapping[str, Fraction], queries if alike else queries[level], at)
            if _WRONG not in (part, asked):
                with self.problems.at(at):
                    found.append(LevelBudget(level, part, tuple(QueryShare(*each) for each in asked.items())))
                    continue
            if alike:
                break  # what is wrong with the queries of one is so with those of all
        return found

    def table_set(self, schema: Any, name: str) -> Any:  # noqa: ANN401 - a schema or `_WRONG`
        """The published tables of a name, on the attributes of the product; or `_WRONG`."""
        if self.one_of(name, tuple(TABLE_SETS), "tables") is _WRONG or schema is _WRONG:
            return _WRONG
        with self.problems.at("tables"):
            return TABLE_SETS[name](schema)
        return _WRONG

    def median_table(self, schema: Schema, data: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401
        """A table of medians, or `_WRONG`."""
        rest = dict(data)
        attribute, table = self.take(rest, "attribute", str, where), self.table(schema, rest, where)
        if _WRONG not in (attribute, table):
            with self.problems.at(where):
                return MedianTable.of(table, attribute)
        return _WRONG

    def table(self, schema: Schema, data: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401
        """A table of sums, or `_WRONG`."""
        rest = dict(data)
        texts = {key: self.take(rest, key, str, where) for key in ("name", "title", "universe", "prefix")}
        lines = self.take(rest, "lines", tuple[Line, ...], where)
        digits = self.decode(int, rest.pop("digits", 4), f"{where}.digits")
        lowest = self.decode(Geolevel | None, rest.pop("lowest", None), f"{where}.lowest")
        self.refuse_unknown(rest, (), where)
        if _WRONG not in (*texts.values(), lines, digits, lowest):
            with self.problems.at(where):
                self.require_few_tallied(schema, lines)
                return Table.of(**texts, schema=schema, lines=lines, digits=digits, lowest=lowest)
        return _WRONG

    def require_few_tallied(self, schema: Schema, lines: Sequence[Line]) -> None:
        """Refuse tables of which too many cells had to be looked at, before any is."""
        if not any(line.tallied for line in lines):
            return
        selections = [selection for line in lines for selection in line.where]
        named = {name for selection in selections for name, _ in selection}
        self.tallied += len(selections) * prod(
            attribute.size for attribute in schema.attributes if attribute.name in named
        )
        if self.tallied > MOST_TALLIED:
            raise ConfigurationError(
                f"tallied lines of more than {MOST_TALLIED:,} cells times selections, the most that are possible",
                hint="tally fewer selections, or select by fewer attributes in the tables that have tallied lines",
            )

    def each(self, key: str, data: Any, one: Any) -> Any:  # noqa: ANN401
        """What is made of every table of a list, as a tuple; `_WRONG` where one could not be made."""
        if data is _WRONG:
            return _WRONG
        found = []
        for place, each in enumerate(data):
            at = f"{key}[{place}]"
            known = self.expect(Mapping, each, at)
            found.append(_WRONG if known is _WRONG else one(known, at))
        return _WRONG if _WRONG in found else tuple(found)

    def take(self, data: dict[str, Any], key: str, kind: Any, where: str) -> Any:  # noqa: ANN401
        """The value of a key that must be there, which is taken out."""
        if key not in data:
            self.problems.add(where, f"{key} is missing")
            return _WRONG
        return self.decode(kind, data.pop(key), _below(where, key))

    def refuse_unknown(self, data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
        """Note keys that mean nothing."""
        unknown = [key for key in data if key not in known]
        for place, key in enumerate(unknown, 1):
            near = did_you_mean(key, known)
            sentence = f"unknown key {key!r}; {near}" if near else f"unknown key {key!r}"
            self.problems.add(where, sentence, len(unknown) - place)

    def made(self, kind: type[Any], data: Mapping[str, Any], where: str, made: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """A dataclass of this package from the values of its fields."""
        hints = get_type_hints(kind)
        self.refuse_unknown(
            data, [field.name for field in fields(kind) if field.init and field.name not in made], where
        )
        needed = [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]
        missing = [name for name in needed if name not in data and name not in made]
        if missing and _WRONG not in made.values():
            self.problems.add(where, f"{', '.join(missing)} missing")
        known = {name: value for name, value in data.items() if name in hints}
        given = {name: self.decode(hints[name], value, _below(where, name)) for name, value in known.items()}
        if missing or len(known) < len(data) or _WRONG in (*given.values(), *made.values()):
            return _WRONG
        with self.problems.at(where):
            return kind(**given, **made)
        return _WRONG

    def decode(self, kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401, PLR0911 - by the type that is wanted
        """A value of a type, from what a file holds; `_WRONG` where it is none."""
        origin, of = get_origin(kind), get_args(kind)
        if value is _WRONG:
            return _WRONG
        if origin in {Union, types.UnionType}:
            wanted = next(each for each in of if each is not types.NoneType)
            return None if value is None else self.decode(wanted, value, where)
        if origin is Literal:
            return self.one_of(value, of, where)
        if kind is Fraction:
            with self.problems.at(where):
                return exact(value, "the number")
            return _WRONG
        if origin is tuple:
            return self.listed(of, value, where)
        if origin is not None and issubclass(origin, Mapping):
            return self.mapping(of[1], value, where)
        if is_dataclass(kind) and isinstance(kind, type):
            known = self.expect(Mapping, value, where)
            return _WRONG if known is _WRONG else self.made(kind, known, where, {})
        if isinstance(kind, type) and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            self.problems.add(
                where, f"expected {_KINDS.get(kind, kind.__name__)}, not {_KINDS.get(type(value), 'this')}"
            )
            return _WRONG
        return value

    def mapping(self, of: Any, value: Any, where: str) -> Any:  # noqa: ANN401
        """A table with values of one type."""
        known = self.expect(Mapping, value, where)
        if known is _WRONG:
            return _WRONG
        found = {str(name): self.decode(of, each, _below(where, name)) for name, each in known.items()}
        return _WRONG if _WRONG in found.values() else found

    def listed(self, of: Sequence[Any], value: Any, where: str) -> Any:  # noqa: ANN401
        """A list; pairs of a name and what it holds are written as a table."""
        pairs = of[-1] is Ellipsis and isinstance(value, Mapping)
        values = list(value.items()) if pairs else self.expect(Sequence, value, where)
        if values is _WRONG:
            return _WRONG
        if of[-1] is not Ellipsis and len(values) != len(of):
            self.problems.add(where, f"expected {len(of)} values, not {len(values)}")
            return _WRONG
        kinds = [of[0]] * len(values) if of[-1] is Ellipsis else of
        at = [f"{where}[{place}]" for place in range(len(values))] if of[-1] is Ellipsis else [where] * len(values)
        at = [_below(where, name) for name, _ in values] if pairs else at
        found = tuple(self.decode(*each) for each in zip(kinds, values, at, strict=True))
        return _WRONG if _WRONG in found else found

    def one_of(self, value: Any, known: tuple[Any, ...], where: str) -> Any:  # noqa: ANN401
        """One of some values."""
        if value in known:
            return value
        self.problems.add(where, f"{value!r} is none of {', '.join(map(str, known))}")
        return _WRONG

    def expect(self, kind: type[Any], value: Any, where: str) -> Any:  # noqa: ANN401
        """A table or a list."""
        if isinstance(value, kind) and not isinstance(value, str):
            return value
        self.problems.add(where, f"expected a {'table' if kind is Mapping else 'list'}")
        return _WRONG


def _numbers(name: str, attribute: str, levels: int) -> MicrodataColumn:
    """Make a column of the numbers of levels, of which the last may stand for what is listed."""
    codes = [str(level) for level in range(levels)]
    return MicrodataColumn(name, f"recode:{attribute}:{','.join(codes)}", f"INT{len(codes[-1])}")


def _with_lengths(levels: Any) -> Any:  # noqa: ANN401 - what a file holds
    """Geolevels of which codes alone are said, with the lengths of geocodes that are made of all codes above."""
    if not isinstance(levels, Sequence) or not all(isinstance(level, Mapping) for level in levels):
        return levels
    made, length = [], 0
    for level in levels:
        code = level.get("code", 0)
        if not isinstance(code, int) or "length" in level:
            made.append(level)
            length = level["length"] if isinstance(level.get("length"), int) else length
        else:
            length += code
            made.append({**level, "length": length, "letters": True} if code else level)
    return made


def _below(where: str, key: str) -> str:
    """The path of a key below another one."""
    return f"{where}.{key}" if where else key


_KINDS: Final[Mapping[type[Any], str]] = {
    str: "a text",
    int: "a whole number",
    float: "a decimal number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
