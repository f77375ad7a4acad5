"""What can contradict itself within a product although each of its parts is well formed; found all at once.

What depends on a run (its levels, its budget, its input) is seen to where the run is planned.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Final

from das_spark.geography import DHC, PRIMITIVE_LEVELS, Spine
from das_spark.limits import MOST_QUERIES
from das_spark.products._microdata_codes import SOURCE_RULES, microdata_codes
from das_spark.products.base import NO_TOTAL, OF_UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.errors import Problems
    from das_spark.products.base import MicrodataColumn, Product, Strategy

_PLACE: Final = re.compile(r"geocode\[([0-9]+):([0-9]+)\]")


def check_consistency(product: Product, problems: Problems) -> None:
    """Note every contradiction of a product by the key of the product file."""
    if not product.geolevels:
        problems.add("geolevels", "there is none; a product has one at least")
        return
    _check_levels(product, problems)
    _check_classes(product, problems)
    whose, others = product.records.contributor, [attribute.name for attribute in product.schema.attributes]
    if whose in (*others, "geocode", "count"):
        problems.add("records.contributor", f"{whose!r} says what or where a record is, not whose")
    for place, zero in enumerate(product.structural_zeros):
        with problems.at(f"structural_zeros[{place}]"):
            product.schema.chosen(**dict(zero.selection))
    if len(_queries(product)) > MOST_QUERIES:
        sentence = f"more than {MOST_QUERIES:,} different queries, the most that are possible; name fewer"
        problems.add("strategies", sentence)
        return
    for place, strategy in enumerate(product.strategies.values()):
        _check_strategy(product, strategy, f"strategies[{place}]", problems)
    _check_microdata(product, problems)


def _queries(product: Product) -> set[str]:
    """What the strategies call their queries."""
    strategies = product.strategies.values()
    measured = (item.query for strategy in strategies for level in strategy.budget.levels for item in level.queries)
    fitted = (
        name for strategy in strategies for passes in strategy.passes.values() for one in passes for name in one.names
    )
    return {*measured, *fitted}


def _check_levels(product: Product, problems: Problems) -> None:
    nested = False
    with problems.at("geolevels"):
        nested = bool(Spine(product.geolevels).names)
    if nested:
        with problems.at("default_levels"):
            product.spine()
    names = [level.name for level in product.geolevels]
    if product.total_at not in (NO_TOTAL, *names):
        sentence = f"{product.total_at!r} is no geolevel; known: {', '.join(names)}, and {NO_TOTAL!r}"
        problems.add("total_at", sentence)
    if not product.strategies:
        problems.add("strategies", "there is none; a product has one way to spend a budget at least")


def _check_classes(product: Product, problems: Problems) -> None:
    """Queries by name, and what has a value for every class of units."""
    _rows(product, "strata", product.strata, problems)
    axes = product.schema.attributes
    known = {name for axis in axes for name in (axis.name, *(recode.name for recode in axis.recodes))}
    for place, name in enumerate(product.reported):
        if name not in known:
            problems.add(f"reported[{place}]", f"{name!r} is no attribute or recode of the schema")
    classes = len(product.unit_classes)
    if not classes:
        problems.add("unit_classes", "there is none; without kinds of units there is one class, of any name")
    if product.class_query:
        rows = _rows(product, "class_query", product.class_query, problems)
        if product.record == "person" and rows not in (0, classes):
            sentence = f"{product.class_query!r} has {rows} answers, and there are {classes} unit_classes"
            problems.add("class_query", sentence)
    bounds = product.unit_bounds if product.record == "person" else None
    if bounds is not None and len(bounds.least) != classes:
        problems.add("unit_bounds", f"least and most have {len(bounds.least)} values, for {classes} unit_classes")


def _rows(product: Product, key: str, name: str, problems: Problems) -> int:
    """How many answers a query has, which must count every record once; 0 where that is wrong."""
    with problems.at(key):
        query = product.schema.query(name)
        if query.is_partition:
            return query.rows
        problems.add(key, f"query {name!r} leaves out some cells, and must count every record once")
    return 0


def _check_strategy(product: Product, strategy: Strategy, key: str, problems: Problems) -> None:
    own = [level.name for level in product.geolevels]
    names = own
    if product.spine_settings.kind == DHC.kind:
        names = [*own, *(level.name for level in PRIMITIVE_LEVELS)]  # which a run on such a spine has
    for level in strategy.geolevels:
        if level not in names:
            problems.add(f"{key}.geolevels", f"there is no geolevel {level!r}; known: {', '.join(names)}")
    if set(strategy.geolevels) <= set(own):
        with problems.at(f"{key}.geolevels"):
            product.spine(strategy.geolevels)
    for name in sorted({item.query for level in strategy.budget.levels for item in level.queries}):
        _rows(product, f"{key}.queries", name, problems)
    for level, passes in strategy.passes.items():
        if level not in strategy.geolevels:
            problems.add(f"{key}.passes", f"the strategy has no geolevel {level!r}")
        for name in sorted({name for each in passes for name in each.names}):
            _rows(product, f"{key}.passes.{level}", name, problems)
    if strategy.needs_total_at and strategy.needs_total_at not in names:
        problems.add(f"{key}.needs_total_at", f"there is no geolevel {strategy.needs_total_at!r}")


def _check_microdata(product: Product, problems: Problems) -> None:
    """Whether every record of a file can be written, and read again."""
    columns, before = product.microdata.columns(product.record), problems.met
    if not columns:
        problems.add(
            f"microdata.{'unit' if product.record in OF_UNITS else 'person'}",
            "there is no column; what is counted has a record each",
        )
    for layout in filter(None, (product.microdata, product.ppmf)):
        key = "microdata" if layout is product.microdata else "ppmf"
        for kind in product.files(units=True):
            for column in layout.columns(kind):
                sentence = _column(product, column, counted=kind == product.kind)
                if sentence:
                    problems.add(f"{key}.{'unit' if kind in OF_UNITS else 'person'}.{column.name}", sentence)
    if problems.met == before:
        with problems.at("microdata"):
            microdata_codes(product)
    places = _places(columns)
    if any(level.code for level in product.geolevels):
        _check_own_codes(product, places, problems)
    else:
        _check_geocode(product, places, problems)


def _places(columns: Sequence[MicrodataColumn]) -> list[tuple[int, ...]]:
    """The parts of geocodes that columns hold, in order."""
    return sorted(tuple(map(int, at.groups())) for column in columns if (at := _PLACE.fullmatch(column.source)))


def _check_geocode(product: Product, places: Sequence[tuple[int, ...]], problems: Problems) -> None:
    leaf, end = product.geolevels[-1].length or 1, 0
    for first, last in places:
        end = last if first == end else -1
    if product.microdata.columns(product.record) and end != leaf:
        problems.add("microdata", f"the columns of source geocode do not make up the {leaf} characters of a geocode")


def _check_own_codes(product: Product, places: Sequence[tuple[int, ...]], problems: Problems) -> None:
    """Codes of their own are those of all geolevels, but for a root without a code; microdata have that of the last."""
    levels, above, spans = product.geolevels, 0, list[tuple[int, ...]]()
    for level in levels:
        spans.append((level.length - level.code, level.length))
        if level.length - above != level.code:
            sentence = f"geolevel {level.name!r} has a code of {level.code} characters where there is room for"
            problems.add("geolevels", f"{sentence} {level.length - above}; give every geolevel a code, and no length")
        above = level.length
    of_units = _places(product.microdata.unit) if len(product.files(units=True)) > 1 else places
    if not set(places) <= set(spans) or spans[-1] not in places or of_units != places:
        known = ", ".join(f"geocode[{begin}:{end}]" for begin, end in spans if end)
        problems.add("microdata", f"columns of source geocode hold codes of geolevels, the last among them: {known}")


def _column(product: Product, column: MicrodataColumn, *, counted: bool) -> str:
    """What is wrong with the source of a column; empty where nothing is."""
    if _PLACE.fullmatch(column.source):
        return ""
    kind, *rest = column.source.split(":", 2)
    if len(rest) < {"recode": 2, "constant": 1}.get(kind, 0):
        return f"{column.source!r} is no source of a column"
    if kind != "recode":
        return "" if kind in SOURCE_RULES and kind != "geocode" else f"{column.source!r} is no source of a column"
    texts, sizes = rest[1].split(","), {attribute.name: attribute.size for attribute in product.schema.attributes}
    if rest[0] == "unit_class":
        wanted = len(product.unit_classes) + 1
    elif unknown := [name for name in rest[0].split("*") if name not in sizes]:
        return f"there is no attribute {unknown[0]!r}; known: {', '.join(sizes)}"
    else:
        wanted = prod(sizes[name] for name in rest[0].split("*")) + bool(product.listed and counted)
    return "" if len(texts) == wanted else f"{len(texts)} codes, and {wanted} are needed"
