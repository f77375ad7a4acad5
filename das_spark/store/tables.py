"""Every table that any run keeps, declared once: its root, what a row is, and its columns with type, unit and meaning.

Spark's schemas (`das_spark.spark.tables`), what writers of Parquet are given, and the data dictionary of a manifest
(`das_spark.io.dictionary`) are all made from these declarations. Counts are people, or units of the histogram's
universe; `cells` are flat row-major indices of the product's schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from das_spark.core import Needs

if TYPE_CHECKING:
    from das_spark.geography import Spine

#: Types of columns; an element of a list is never null.
_STRING: Final = pa.string()
_LONG: Final = pa.int64()
_DOUBLE: Final = pa.float64()
_INTEGERS: Final = pa.list_(pa.field("element", pa.int32(), nullable=False))
_LONGS: Final = pa.list_(pa.field("element", _LONG, nullable=False))
_DOUBLES: Final = pa.list_(pa.field("element", _DOUBLE, nullable=False))
_STRINGS: Final = pa.list_(pa.field("element", _STRING, nullable=False))
#: As a reader of SQL calls them.
_SPELLED: Final = {
    _STRING: "string",
    _LONG: "long",
    _DOUBLE: "double",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    _INTEGERS: "array<int>",
    _LONGS: "array<long>",
    _DOUBLES: "array<double>",
    _STRINGS: "array<string>",
}
_PEOPLE: Final = "people"


@dataclass(frozen=True, slots=True, eq=False)
class TableDeclaration:
    """One table of a run.

    Attributes:
        name: Its name, which is that of its folder below its root.
        row: What a row is.
        columns: Its columns; the metadata of each has its `description` and its `unit`, where it has one.
        restricted: Whether it tells of the confidential input, so that it lies under the restricted root.
        path: Of its files below the root, as documents name it; by default one folder a geolevel.
    """

    name: str
    row: str
    columns: pa.Schema
    restricted: bool = False
    path: str = ""

    @property
    def by_level(self) -> bool:
        """Whether it has a folder for each geolevel."""
        return not self.path or "level=" in self.path

    @property
    def schema(self) -> pa.Schema:
        """Names, types and nullability alone: what stands in files, of which every byte is given by their rows."""
        return pa.schema([each.remove_metadata() for each in self.columns])

    def described(self) -> tuple[tuple[str, str, str], ...]:
        """Name, type and description of every column, as the data dictionary says them."""
        return tuple((each.name, _SPELLED[each.type], each.metadata[b"description"].decode()) for each in self.columns)


def column(name: str, kind: pa.DataType, description: str, unit: str = "", *, nullable: bool = False) -> pa.Field:
    """Declare a column of a table.

    Args:
        name: Of the column.
        kind: Its type.
        description: What it holds, as the data dictionary says it.
        unit: Of its values, such as `people`; empty where they have none.
        nullable: Whether it may be missing.
    """
    metadata = {"description": description} | ({"unit": unit} if unit else {})
    return pa.field(name, kind, nullable, metadata)


_GEOCODE: Final = column("geocode", _STRING, "digits of the geounit; a prefix is the geocode of the geounit around it")
_PARENT: Final = column("parent", _STRING, "geocode of the parent; empty at the top")
_CELLS: Final = column("cells", _INTEGERS, "occupied cells: flat row-major indices of the schema, ascending")
_COUNTS: Final = column("counts", _LONGS, "people in these cells", _PEOPLE)
_HISTOGRAM: Final = pa.schema([_GEOCODE, _PARENT, _CELLS, _COUNTS])

LEAVES: Final = TableDeclaration(
    "leaves",
    "a geounit of the lowest level, as ingested",
    pa.schema(
        [
            _GEOCODE,
            _CELLS,
            _COUNTS,
            column("units", _LONGS, "units by class; null where no units are known", "units", nullable=True),
            column("vacant", _LONG, "vacant units; null where no units are known", "units", nullable=True),
        ]
    ),
    restricted=True,
    path="leaves",
)
#: `children` is 0 in the lowest level.
GEOUNITS: Final = TableDeclaration(
    "geounits",
    "a geounit of the spine",
    pa.schema([_GEOCODE, _PARENT, column("children", _LONG, "geounits one level below", "geounits")]),
)
HISTOGRAMS: Final = TableDeclaration("histograms", "a geounit: its confidential histogram", _HISTOGRAM, restricted=True)
#: A `group_total` is the total of all geounits that share the spine's `total_key` with this one, whose own total is not
#: known.
INVARIANTS: Final = TableDeclaration(
    "invariants",
    "a geounit and a declared invariant",
    pa.schema(
        [
            _GEOCODE,
            _PARENT,
            column(
                "name",
                _STRING,
                "total (people), group_total (people of all geounits that are parts of the same area), units (units by "
                "class) or vacant (vacant units)",
            ),
            column("values", _LONGS, "exact values: people or units", "people or units"),
        ]
    ),
)
#: Derived from invariants and public constants only. In a `flow` row `member` is the descendant whose total is
#: invariant: its class bounds followed by its total. In a `group_total` row it is the key of the group.
BOUNDS: Final = TableDeclaration(
    "bounds",
    "a geounit and a bound that follows from invariants and public constants",
    pa.schema(
        [
            _GEOCODE,
            _PARENT,
            column("name", _STRING, "total, group_total, class (people by unit class), flow, or added:<constraint>"),
            column(
                "member",
                _STRING,
                "the geounit itself; in a flow row the descendant that is bounded, or the area whose parts have a "
                "total together; in a group_total row that area",
            ),
            column("lower", _LONGS, "least people, by answer of the query", _PEOPLE),
            column("upper", _LONGS, "most people, by answer of the query", _PEOPLE),
        ]
    ),
)
MEASUREMENTS: Final = TableDeclaration(
    "measurements",
    "a geounit and a measured query; written once",
    pa.schema(
        [
            _GEOCODE,
            _PARENT,
            column("query", _STRING, "what was asked"),
            column("rows", _INTEGERS, "which answers are kept; null means all", nullable=True),
            column("values", _LONGS, "noisy answers, people; they may be negative", _PEOPLE),
            column("variance", _DOUBLE, "variance of the noise of each value, people squared", "people^2"),
        ]
    ),
)
#: Integer, nonnegative, summing to the parent cell by cell.
ESTIMATES: Final = TableDeclaration("estimates", "a geounit: its protected histogram", _HISTOGRAM)
#: Of the leaves, the estimates of another product's run; of all others, their sums. Cells are those of that product;
#: or the held answers, where each leaf's counts are divided by its units.
PUBLISHED: Final = TableDeclaration(
    "published",
    "a geounit: its histogram as another product has published it, to which its estimate is held",
    pa.schema(
        [
            _GEOCODE,
            _PARENT,
            column("cells", _INTEGERS, "occupied cells of that product, or held answers: flat indices, ascending"),
            column("counts", _LONGS, "records of that product in these cells", "records"),
        ]
    ),
)
DIAGNOSTICS: Final = TableDeclaration(
    "diagnostics",
    "a family: a parent and its children",
    pa.schema(
        [
            column("geolevel", _STRING, "level of the children"),
            column("family", _STRING, "geocode of the parent"),
            column("children", _LONG, "children", "geounits"),
            column("variables", _LONG, "unknowns of the least-squares problem"),
            column("status", _STRING, "how the family was solved"),
            column("solver", _STRING, "which solver was certified"),
            column("passes", _LONG, "least-squares passes"),
            column("primal_residual", _DOUBLE, "largest violation of a constraint before rounding, people", _PEOPLE),
            column("gap", _DOUBLE, "relative duality gap of the certificate"),
            column("iterations", _LONG, "solver iterations"),
            column("attempts", _LONG, "solvers tried"),
            column("rounding", _STRING, "how the rounder solved its problem"),
            column(
                "rounding_gap",
                _DOUBLE,
                "how far the rounding may be from the best one, relative; 0 where it is proved",
            ),
            column("relaxed", pa.bool_(), "consistency with the parent was relaxed"),
            column("message", _STRING, "what went wrong, if anything did"),
            column("problem", pa.binary(), "the problem, where it could not be solved", nullable=True),
        ]
    ),
)
#: How long families took: never published, since the same measurements must publish the same bytes.
SECONDS: Final = TableDeclaration(
    "seconds",
    "a family",
    pa.schema(
        [
            column("family", _STRING, "geocode of the parent"),
            column("seconds", _DOUBLE, "how long its estimation took", "s"),
        ]
    ),
    restricted=True,
    path="seconds",
)
_ARRAYS: Final = pa.schema(
    [
        _GEOCODE,
        _PARENT,
        column("name", _STRING, "what the numbers are, as the estimator calls them"),
        column("values", _DOUBLES, "the numbers, in the estimator's order", "as the estimator says"),
    ]
)
ESTIMATE_ARRAYS: Final = TableDeclaration(
    "estimate_arrays", "a geounit and what the estimator gives with its estimate, such as standard errors", _ARRAYS
)
UPWARD: Final = TableDeclaration("upward", "a geounit and what the estimator's pass upwards knows of it", _ARRAYS)
#: Of geounits of the level whose folder it is, whose own answers are not in it yet; their parents are not named.
UPWARD_SUMS: Final = TableDeclaration(
    "upward_sums", "a geounit and what the estimator's pass upwards knows of it by the levels below", _ARRAYS
)
#: While intervals are made.
LINEAR: Final = TableDeclaration("linear", "a geounit given the measurements of all levels", _ARRAYS, path="linear")
_MOMENTS: Final = pa.schema(
    [
        _GEOCODE,
        column("estimates", _DOUBLES, "people that each statistic counts, by measurements alone", _PEOPLE),
        column("variances", _DOUBLES, "variance of each of these estimates, people squared", "people^2"),
    ]
)
MOMENTS: Final = TableDeclaration(
    "moments", "a geounit of the spine and the statistics of it", _MOMENTS, path="moments"
)
#: The geocode is the name of the union; its estimates and variances are sums over the rows that name it.
UNION_MOMENTS: Final = TableDeclaration(
    "union_moments", "a union of geounits, and what one family adds to its statistics", _MOMENTS, path="union_moments"
)
BLOCKS: Final = TableDeclaration(
    "blocks",
    "a block: its way through the spine",
    pa.schema(
        [
            column("block", _STRING, "the 16 digits that the census gives it"),
            column("path", _STRINGS, "geocodes of the geounits that contain it, root first, itself last"),
            column("shares", _STRINGS, "exact shares of the budget of these geounits; they sum to 1"),
        ]
    ),
    path="spine/blocks",
)
SHARES: Final = TableDeclaration(
    "shares",
    "a geounit of the spine",
    pa.schema([_GEOCODE, _PARENT, column("share", _STRING, "exact share of the budget; 0/1 where it is not measured")]),
)
CENSUS_ESTIMATES: Final = TableDeclaration(
    "census_estimates",
    "a census geounit: its protected histogram",
    _HISTOGRAM,
    path="census_estimates/level=<census geolevel>",
)

#: What every run keeps by geolevel, in the order of the data dictionary; and what an optimized spine adds to it.
OF_EVERY_RUN: Final = (HISTOGRAMS, GEOUNITS, INVARIANTS, BOUNDS, MEASUREMENTS, ESTIMATES, DIAGNOSTICS)
OF_OPTIMIZED_SPINES: Final = (BLOCKS, SHARES, CENSUS_ESTIMATES)
#: What estimators add that give arrays with their estimates, or go upwards first.
OF_ESTIMATORS: Final = (ESTIMATE_ARRAYS, UPWARD, UPWARD_SUMS)
#: What a run has whose product is held to what another one has published.
OF_PUBLISHED: Final = (PUBLISHED,)


def of_estimator(needs: Needs, levels: Sequence[str]) -> dict[TableDeclaration, tuple[str, ...]]:
    """The tables that a run has because of its estimator, and of which levels.

    Args:
        needs: What the estimator declares.
        levels: All levels of the run, from the top.
    """
    upward = needs.upward_levels(levels)
    found = {ESTIMATE_ARRAYS: tuple(levels) if needs.arrays else (), UPWARD: upward, UPWARD_SUMS: upward[:-1]}
    return {table: of for table, of in found.items() if of}


def of_published(*, held: bool, levels: Sequence[str]) -> dict[TableDeclaration, tuple[str, ...]]:
    """The tables that a run has because its estimates are held to what another product has published.

    Args:
        held: Whether they are.
        levels: All levels of the run, from the top.
    """
    return {table: tuple(levels) for table in OF_PUBLISHED} if held else {}


#: Scratch of what is made from estimates and measurements; never part of a run's result.
SCRATCH: Final = (SECONDS, LINEAR, MOMENTS, UNION_MOMENTS)

#: Every table of a run by name.
TABLES: Final[Mapping[str, TableDeclaration]] = MappingProxyType(
    {
        each.name: each
        for each in (
            LEAVES,
            *OF_EVERY_RUN,
            *OF_OPTIMIZED_SPINES,
            *OF_ESTIMATORS,
            *OF_PUBLISHED,
            *SCRATCH,
        )
    }
)


def published_estimates(spine: Spine) -> str:
    """Name of the table of estimates by geounits of the census."""
    return ESTIMATES.name if spine.is_census else CENSUS_ESTIMATES.name
