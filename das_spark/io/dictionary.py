"""The data dictionary: what every output of a run is, so that nobody has to guess from column names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from das_spark.io.writers._columns import Column, FileColumns, Scope, record_columns, unit_columns

if TYPE_CHECKING:
    from das_spark.products.base import MicrodataColumn, Product, Record
    from das_spark.tabulation import Table

_GEOCODE = ("geocode", "string", "digits of the geounit; a prefix is the geocode of the geounit around it")
_PARENT = ("parent", "string", "geocode of the parent; empty at the top")
_HISTOGRAM = (
    _GEOCODE,
    _PARENT,
    ("cells", "array<int>", "occupied cells: flat row-major indices of the schema, ascending"),
    ("counts", "array<long>", "people in these cells"),
)
_TABLES: Mapping[str, tuple[str, str, tuple[tuple[str, str, str], ...]]] = {
    "histograms": ("restricted", "a geounit: its confidential histogram", _HISTOGRAM),
    "geounits": (
        "public",
        "a geounit of the spine",
        (_GEOCODE, _PARENT, ("children", "long", "geounits one level below")),
    ),
    "invariants": (
        "public",
        "a geounit and a declared invariant",
        (
            _GEOCODE,
            _PARENT,
            (
                "name",
                "string",
                "total (people), group_total (people of all geounits that are parts of the same area), units (units by "
                "class) or vacant (vacant units)",
            ),
            ("values", "array<long>", "exact values: people or units"),
        ),
    ),
    "bounds": (
        "public",
        "a geounit and a bound that follows from invariants and public constants",
        (
            _GEOCODE,
            _PARENT,
            ("name", "string", "total, group_total, class (people by unit class), flow, or added:<constraint>"),
            (
                "member",
                "string",
                "the geounit itself; in a flow row the descendant that is bounded, or the area whose parts have a "
                "total together; in a group_total row that area",
            ),
            ("lower", "array<long>", "least people, by answer of the query"),
            ("upper", "array<long>", "most people, by answer of the query"),
        ),
    ),
    "measurements": (
        "public",
        "a geounit and a measured query; written once",
        (
            _GEOCODE,
            _PARENT,
            ("query", "string", "what was asked"),
            ("rows", "array<int>", "which answers are kept; null means all"),
            ("values", "array<long>", "noisy answers, people; they may be negative"),
            ("variance", "double", "variance of the noise of each value, people squared"),
        ),
    ),
    "estimates": ("public", "a geounit: its protected histogram", _HISTOGRAM),
    "diagnostics": (
        "public",
        "a family: a parent and its children",
        (
            ("geolevel", "string", "level of the children"),
            ("family", "string", "geocode of the parent"),
            ("children", "long", "children"),
            ("variables", "long", "unknowns of the least-squares problem"),
            ("status", "string", "how the family was solved"),
            ("solver", "string", "which solver was certified"),
            ("passes", "long", "least-squares passes"),
            ("primal_residual", "double", "largest violation of a constraint before rounding, people"),
            ("gap", "double", "relative duality gap of the certificate"),
            ("iterations", "long", "solver iterations"),
            ("attempts", "long", "solvers tried"),
            ("rounding", "string", "how the rounder solved its problem"),
            ("rounding_gap", "double", "how far the rounding may be from the best one, relative; 0 where it is proved"),
            ("relaxed", "boolean", "consistency with the parent was relaxed"),
            ("message", "string", "what went wrong, if anything did"),
            ("problem", "binary", "the problem, where it could not be solved"),
        ),
    ),
}
#: Tables of runs whose spine is made of areas, besides.
_OF_AREAS: Mapping[str, tuple[str, str, tuple[tuple[str, str, str], ...]]] = {
    "spine/blocks": (
        "public",
        "a block: its way through the spine",
        (
            ("block", "string", "the 16 digits that the census gives it"),
            ("path", "array<string>", "geocodes of the geounits that contain it, root first, itself last"),
            ("shares", "array<string>", "exact shares of the budget of these geounits; they sum to 1"),
        ),
    ),
    "shares/level=<geolevel>": (
        "public",
        "a geounit of the spine",
        (_GEOCODE, _PARENT, ("share", "string", "exact share of the budget; 0/1 where it is not measured")),
    ),
    "census_estimates/level=<census geolevel>": ("public", "a census geounit: its protected histogram", _HISTOGRAM),
}
_NUMBERS = {
    Scope.RECORD_NUMBER: "running number of the record over the whole file, from 0",
    Scope.UNIT_NUMBER: "running number of the unit over the whole file, from 0",
    Scope.PERSON_NUMBER: "number of the person in the unit, from 1",
    Scope.POPULATION: "people in the unit",
}


def data_dictionary(
    product: Product, flavours: Sequence[str], *, units: bool, tabulated: bool = False, areas: bool = False
) -> tuple[dict[str, Any], ...]:
    """Describe every table and file of a run.

    Args:
        product: Whose microdata layout and schema.
        flavours: Flavours of the microdata files.
        units: Whether the run knows units.
        tabulated: Whether the tables of the product are written.
        areas: Whether the spine is made of areas.

    Returns:
        One entry an output: path, root, what a row is, columns (name, type, meaning); ready for JSON.
    """
    known = {f"{name}/level=<geolevel>": told for name, told in _TABLES.items()}
    known |= _OF_AREAS if areas else {}
    tables = [
        {"path": path, "root": root, "row": row, "columns": [_entry(*column) for column in columns]}
        for path, (root, row, columns) in known.items()
    ]
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
    kinds = product.files(units=units)
    microdata = [
        _file(_compiled(product, kind, flavour, dealt=len(kinds) > 1), product.layout(flavour).columns(kind), flavour)
        for kind in kinds
        for flavour in flavours
    ]
    return (*tables, cells, *microdata, *(tables_dictionary(product.tables) if tabulated else ()))


def tables_dictionary(tables: Sequence[Table]) -> tuple[dict[str, Any], ...]:
    """Describe published tables: their columns by label, with the headings above it.

    Args:
        tables: Of a product.

    Returns:
        One entry a table, as `data_dictionary` has them, with its title.
    """
    return tuple(
        {
            "path": f"tables/{table.name}.<format>/level=<geolevel>",
            "root": "public",
            "row": f"a geounit; universe: {table.universe}",
            "title": table.title,
            "columns": [
                _entry("geocode", "string", _GEOCODE[2]),
                *(_entry(name, "long", table.path(place)) for place, name in enumerate(table.names)),
            ],
        }
        for table in tables
    )


def measurements_dictionary(product: Product) -> tuple[dict[str, Any], ...]:
    """Describe a folder of noisy measurements.

    Args:
        product: Whose schema.

    Returns:
        One entry a kind of rows, as `data_dictionary` has them.
    """
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
    extra = [
        {"path": f"{name}/level=<geolevel>", "root": "public", "row": row, "columns": [_entry(*each) for each in told]}
        for name, (_, row, told) in _TABLES.items()
        if name in ("geounits", "invariants")
    ]
    record = {
        "path": "measurements.json",
        "root": "public",
        "row": "product, schema, configuration, ledger entry, and the size and SHA-256 of every file",
        "columns": [],
    }
    return (*files, *extra, record)


def _compiled(product: Product, kind: Record, flavour: str, *, dealt: bool) -> FileColumns:
    return record_columns(product, flavour, units=dealt) if kind == product.record else unit_columns(product, flavour)


def _file(columns: FileColumns, layout: Sequence[MicrodataColumn], flavour: str) -> dict[str, Any]:
    types = {column.name: column.type for column in layout}
    sources = {column.name: column.source for column in layout}
    kept = columns.produced if flavour == "parquet" else columns.columns
    return {
        "path": f"microdata/{columns.kind}.{flavour}",
        "root": "public",
        "row": f"a protected {columns.kind} record",
        "columns": [_entry(column.name, types[column.name], _meaning(column, sources[column.name])) for column in kept],
    }


def _meaning(column: Column, source: str) -> str:
    if column.scope is Scope.CONSTANT:
        return f"always {column.values[0]}"
    if column.scope is Scope.GEOCODE:
        return f"digits {column.begin + 1} to {column.end} of the geocode"
    return _NUMBERS.get(column.scope, source)


def _entry(name: str, kind: str, meaning: str) -> dict[str, str]:
    return {"name": name, "type": kind, "meaning": meaning}
