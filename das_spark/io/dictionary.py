"""The data dictionary: what every output of a run is, so that nobody has to guess from column names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from das_spark.io.definitions import counted_cells, microdata_column
from das_spark.io.microdata_formats import Column, FileColumns, Scope, record_columns, unit_columns
from das_spark.products import microdata_codes
from das_spark.store.tables import (
    GEOUNITS,
    INVARIANTS,
    OF_EVERY_RUN,
    TableDeclaration,
)
from das_spark.tabulation import MedianTable

if TYPE_CHECKING:
    from das_spark.products import MicrodataCodes
    from das_spark.products.base import Product
    from das_spark.tabulation import TableShell


_GEOCODE = GEOUNITS.described()[0]
_PEOPLE, _PERSON = re.compile(r"\bpeople\b"), re.compile(r"\bperson\b")
_NUMBERS = {
    Scope.RECORD_NUMBER: "running number of the record over the whole file, from 0",
    Scope.UNIT_NUMBER: "running number of the unit over the whole file, from 0",
    Scope.PERSON_NUMBER: "number of the person in the unit, from 1",
    Scope.POPULATION: "people in the unit",
}


def data_dictionary(
    product: Product, added: Iterable[TableDeclaration] = (), described: Iterable[dict[str, Any]] = ()
) -> tuple[dict[str, Any], ...]:
    """Describe every table and file of a run, for people and (`das_spark.io.definitions`) for programs.

    Args:
        product: What is published.
        added: Tables that not every run has.
        described: Entries about what is published of the estimates.
    """
    tables = [_declared(each) for each in (*OF_EVERY_RUN, *added)]
    cells = {
        "path": "(schema)",
        "root": "public",
        "row": "what a cell index means: row-major over these attributes",
        "columns": [
            _entry(
                attribute.name,
                f"{attribute.size} levels",
                "; ".join(f"{i} {v}" for i, v in enumerate(attribute.levels)),
            )
            for attribute in product.schema.attributes
        ],
    }
    every = (*tables, cells, *described)
    return tuple(_of_records(each, product) for each in every) if product.records.singular else every


def _of_records(entry: dict[str, Any], product: Product) -> dict[str, Any]:
    """An entry about people as one about what the product counts."""

    def said(text: str) -> str:
        return _PERSON.sub(product.noun, _PEOPLE.sub(product.counted, text))

    columns = [{**column, "meaning": said(column["meaning"])} for column in entry["columns"]]
    return {**entry, "row": said(entry["row"]), "columns": columns}


def microdata_dictionary(product: Product, formats: Sequence[str], *, units: bool) -> tuple[dict[str, Any], ...]:
    """Describe microdata files.

    Args:
        product: What is published.
        formats: Of the files.
        units: Whether the run knows units.
    """
    kinds = product.files(units=units)
    codes = microdata_codes(product, units=units)
    return tuple(_file(product, codes, kind, format, assigned=len(kinds) > 1) for kind in kinds for format in formats)


def tables_dictionary(
    tables: Sequence[TableShell], place: str = "tables/", of_cells: Sequence[TableShell] = ()
) -> tuple[dict[str, Any], ...]:
    """Describe published tables: their columns by label, with the headings above it.

    Args:
        tables: Tables of sums and of medians.
        place: Their folder below the folder that is described, with a slash at its end.
        of_cells: Those of them that are sums over cells of histograms that are published with them.
    """
    return tuple(
        {
            "path": f"{place}{table.name}.<format>/level=<geolevel>",
            "root": "public",
            "row": f"a geounit; universe: {table.universe}",
            "title": table.title,
            "columns": [
                _entry(*_GEOCODE),
                *(
                    _entry(name, *_value(table, number))
                    | (counted_cells(table.columns[number]) if table in of_cells else {})
                    for number, name in enumerate(table.names)
                ),
            ],
        }
        for table in tables
    )


def _value(table: TableShell, place: int) -> tuple[str, str]:
    """Type and meaning of a column of a published table."""
    if isinstance(table, MedianTable):
        return "double", f"{table.path(place)}: median of {table.attribute}, to a tenth; null for nobody"
    return "long", table.path(place)


#: Type and meaning of the ends of an interval.
LOWEST: Final = ("long", "least count in the interval")
HIGHEST: Final = ("long", "greatest count in the interval")


def described_ends(
    tables: Sequence[TableShell], place: str, row: str, ends: Mapping[str, tuple[str, str]]
) -> tuple[dict[str, Any], ...]:
    """Describe tables with several columns for each column of a published table.

    Args:
        tables: The published tables.
        place: Folder of all of them below the public root.
        row: What a row is, besides a geounit.
        ends: Ending of a column -> its type, and what it is of the published column.
    """
    return tuple(
        {
            "path": f"{place}/{table.name}.<format>/level=<geolevel>",
            "root": "public",
            "row": f"a geounit, {row}; universe: {table.universe}",
            "title": table.title,
            "columns": [
                _entry(*_GEOCODE),
                *(
                    _entry(f"{name}{end}", kind, f"{table.path(number)}: {meaning}")
                    for number, name in enumerate(table.names)
                    for end, (kind, meaning) in ends.items()
                ),
            ],
        }
        for table in tables
    )


def measurements_dictionary(product: Product) -> tuple[dict[str, Any], ...]:
    """Describe a folder of noisy measurements."""
    bins = (
        "what the answers tell apart: * nothing; the attribute's name, or detailed in the query of that name, every "
        "level; otherwise the groups of the recode named"
    )
    meanings = {
        "query_name": ("string", "the query, with _dpq behind it where it was measured, _con where it is exact"),
        **{attribute.name: ("string", bins) for attribute in product.schema.attributes},
        "query_shape": ("array<int>", "answers along each attribute, 1 where it is summed over"),
        "value": (
            "array<long>",
            f"answers ({product.counted}), row-major over query_shape; measured ones may be negative",
        ),
        "variance": ("double", "variance of the noise of each value; 0 in constraints"),
        "plb": ("string", "epsilon or rho spent on the query, an exact fraction; null in constraints"),
        "sign": ("string", "constraints: whether the answers are =, <= or >= the value; null where it was measured"),
    }
    root = "; empty at the top where that is one geounit by definition (tables of a run call it 0)"
    geocode = _entry(*_GEOCODE[:2], _GEOCODE[2] + root)
    columns = [geocode, *(_entry(name, *meaning) for name, meaning in meanings.items())]
    rows = {
        "DPQuery": "a geounit and a measured query, with all its answers",
        "Constraint": "a geounit and an exact total, a bound that follows from what is exact, or a structural zero;"
        " what follows from the totals of other geounits is not repeated",
    }
    files = [
        {"path": f"{product.name}/<geolevel>.parquet/{kind}", "root": "public", "row": row, "columns": columns}
        for kind, row in rows.items()
    ]
    extra = [_declared(each) for each in (GEOUNITS, INVARIANTS)]
    record = {
        "path": "measurements.json",
        "root": "public",
        "row": "product, schema, configuration, ledger entry, and the size and SHA-256 of every file",
        "columns": [],
    }
    return (*files, *extra, record)


def _compiled(product: Product, kind: str, format: str, *, assigned: bool) -> FileColumns:
    return record_columns(product, format, units=assigned) if kind == product.kind else unit_columns(product, format)


def _file(product: Product, codes: MicrodataCodes, kind: str, format: str, *, assigned: bool) -> dict[str, Any]:
    columns = _compiled(product, kind, format, assigned=assigned)
    layout = product.layout(format)
    declared = {column.name: column for column in layout.columns(kind)}
    entries = [
        _entry(column.name, declared[column.name].type, _meaning(column, declared[column.name].source))
        | ({"digits": [column.begin + 1, column.end]} if column.scope is Scope.GEOCODE else {})
        | microdata_column(codes, kind, format, column.name)
        for column in columns.columns
    ]
    return {
        "path": f"microdata/{columns.kind}.{format}",
        "root": "public",
        "row": f"a protected {columns.kind} record",
        "delimiter": layout.delimiter,
        "header": layout.header,
        "columns": entries,
    }


def _meaning(column: Column, source: str) -> str:
    if column.scope is Scope.CONSTANT:
        return f"always {column.values[0]}"
    if column.scope is Scope.GEOCODE:
        return f"digits {column.begin + 1} to {column.end} of the geocode"
    return _NUMBERS.get(column.scope, source)


def _declared(table: TableDeclaration) -> dict[str, Any]:
    return {
        "path": table.path or f"{table.name}/level=<geolevel>",
        "root": "restricted" if table.restricted else "public",
        "row": table.row,
        "columns": [_entry(*each) for each in table.described()],
    }


def _entry(name: str, kind: str, meaning: str) -> dict[str, str]:
    return {"name": name, "type": kind, "meaning": meaning}
