"""What can contradict itself within a product although each of its parts is well formed; found all at once.

What depends on a run (its levels, its budget, its input) is seen to where the run is planned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final

from das_spark.errors import DasError
from das_spark.geography import DHC, PRIMITIVE_LEVELS, Spine
from das_spark.products._microdata_codes import microdata_codes

if TYPE_CHECKING:
    from das_spark.histogram import Query
    from das_spark.products.base import MicrodataColumn, Product, Strategy

#: Key of a product file, and what is wrong there.
_Problem = tuple[str, str]

#: Form of an ordinary name of a product: it stands in names of files and of runs.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NUMBERS: Final = ("record_number", "unit_number", "person_number", "population")
#: Words with which a source of a column begins, but for geocodes and recodes.
_SOURCES: Final = frozenset((*_NUMBERS, "constant", "record_type", "tenure", "vacancy", "divided"))
_PLACE: Final = re.compile(r"geocode\[([0-9]+):([0-9]+)\]")
NO_TOTAL: Final = "none"


def inconsistencies(product: Product) -> list[_Problem]:
    """Every contradiction of a product, as the key of the product file and a sentence."""
    found: list[_Problem] = []
    if not _NAME.fullmatch(product.name):
        found.append(("name", f"{product.name!r} is no name; use letters, digits, hyphens and underscores"))
    found += _levels(product)
    found += _classes(product)
    for place, zero in enumerate(product.structural_zeros):
        found += _tried(f"structural_zeros[{place}]", partial(zero.mask, product.schema))
    for place, strategy in enumerate(product.strategies.values()):
        found += _strategy(product, strategy, f"strategies[{place}]")
    found += _microdata(product)
    return found


def _tried(key: str, made: Callable[[], object]) -> list[_Problem]:
    """What an attempt at something complains of."""
    try:
        made()
    except DasError as error:
        return [(key, f"{error.message}; {error.hint}" if error.hint else error.message)]
    return []


def _levels(product: Product) -> Iterator[_Problem]:
    yield from (nesting := _tried("geolevels", lambda: Spine(product.geolevels)))
    if not nesting:
        yield from _tried("default_levels", product.spine)
    names = [level.name for level in product.geolevels]
    if product.total_at != NO_TOTAL and product.total_at not in names:
        yield "total_at", f"{product.total_at!r} is no geolevel; known: {', '.join(names)}, and {NO_TOTAL!r}"
    if not product.strategies:
        yield "strategies", "there is none; a product has one way to spend a budget at least"


def _classes(product: Product) -> Iterator[_Problem]:
    """Queries by name, and what has a value for every class of units."""
    yield from _query(product, "strata", product.strata)
    classes = len(product.unit_classes)
    if not classes:
        yield "unit_classes", "there is none; without kinds of units there is one class, of any name"
    if product.class_query and not (wrong := list(_query(product, "class_query", product.class_query))):
        rows = product.schema.query(product.class_query).rows
        if product.record == "person" and rows != classes:
            yield "class_query", f"{product.class_query!r} has {rows} answers, and there are {classes} unit_classes"
    elif product.class_query:
        yield from wrong
    bounds = product.unit_bounds if product.record == "person" else None
    if bounds is not None and len(bounds.least) != classes:
        yield "unit_bounds", f"least and most have {len(bounds.least)} values, for {classes} unit_classes"


def _query(product: Product, key: str, name: str) -> Iterator[_Problem]:
    """A query that must count every record once."""
    made: list[Query] = []
    yield from _tried(key, lambda: made.append(product.schema.query(name)))
    if made and not made[0].is_partition:
        yield key, f"query {name!r} leaves out some cells, and must count every record once"


def _strategy(product: Product, strategy: Strategy, key: str) -> Iterator[_Problem]:
    names = [level.name for level in product.geolevels]
    if product.spine_settings.kind == DHC.kind:
        names += [level.name for level in PRIMITIVE_LEVELS]  # which a run on such a spine has
    unknown = [level for level in strategy.geolevels if level not in names]
    for level in unknown:
        yield f"{key}.geolevels", f"there is no geolevel {level!r}; known: {', '.join(names)}"
    if set(strategy.geolevels) <= {level.name for level in product.geolevels}:
        yield from _tried(f"{key}.geolevels", lambda: product.spine(strategy.geolevels))
    asked = {item.query for level in strategy.budget.levels for item in level.queries}
    for name in sorted(asked):
        yield from _query(product, f"{key}.queries", name)
    for level, passes in strategy.passes.items():
        if level not in strategy.geolevels:
            yield f"{key}.passes", f"the strategy has no geolevel {level!r}"
        for name in sorted({name for each in passes for name in each.names}):
            yield from _query(product, f"{key}.passes.{level}", name)
    if strategy.needs_total_at and strategy.needs_total_at not in names:
        yield f"{key}.needs_total_at", f"there is no geolevel {strategy.needs_total_at!r}"


def _microdata(product: Product) -> Iterator[_Problem]:
    """Whether every record of a file can be written, and read again."""
    columns = product.microdata.columns(product.record)
    if not columns:
        yield f"microdata.{product.record}", "there is no column; what is counted has a record each"
    wrong = False
    for layout in filter(None, (product.microdata, product.ppmf)):
        key = "microdata" if layout is product.microdata else "ppmf"
        for kind in product.files(units=True):
            for column in layout.columns(kind):
                sentence = _column(product, column, counted=kind == product.record)
                if sentence:
                    wrong = True
                    yield f"{key}.{'person' if kind == 'person' else 'unit'}.{column.name}", sentence
    if columns and not wrong:
        yield from _tried("microdata", lambda: microdata_codes(product))
    if columns:
        places = sorted(tuple(map(int, at.groups())) for each in columns if (at := _PLACE.fullmatch(each.source)))
        leaf, end = product.geolevels[-1].length or 1, 0
        for first, last in places:
            end = last if first == end else -1
        if end != leaf:
            yield "microdata", f"the columns of source geocode do not make up the {leaf} characters of a geocode"


def _column(product: Product, column: MicrodataColumn, *, counted: bool) -> str:
    """What is wrong with the source of a column; empty where nothing is."""
    if _PLACE.fullmatch(column.source):
        return ""
    kind, *rest = column.source.split(":", 2)
    if len(rest) < {"recode": 2, "constant": 1}.get(kind, 0):
        return f"{column.source!r} is no source of a column"
    if kind != "recode":
        return "" if kind in _SOURCES else f"{column.source!r} is no source of a column"
    texts, sizes = rest[1].split(","), {each.name: each.size for each in product.schema.attributes}
    if rest[0] == "unit_class":
        wanted = len(product.unit_classes) + 1
    elif unknown := [name for name in rest[0].split("*") if name not in sizes]:
        return f"there is no attribute {unknown[0]!r}; known: {', '.join(sizes)}"
    else:
        wanted = prod(sizes[name] for name in rest[0].split("*")) + bool(product.listed and counted)
    return "" if len(texts) == wanted else f"{len(texts)} codes, and {wanted} are needed"
