"""The schema of every table that a run keeps, in one place.

Counts are people (or units of the histogram's universe); `cells` are flat row-major indices of the product's schema.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

GEOCODE = StructField("geocode", StringType(), nullable=False)
PARENT = StructField("parent", StringType(), nullable=False)


def _longs(name: str, *, nullable: bool = False) -> StructField:
    return StructField(name, ArrayType(LongType(), containsNull=False), nullable)


def _integers(name: str, *, nullable: bool = False) -> StructField:
    return StructField(name, ArrayType(IntegerType(), containsNull=False), nullable)


#: restricted; one row a leaf geounit, as ingested. `units` counts units by class, null where no units are known.
LEAVES = StructType(
    [
        GEOCODE,
        _integers("cells"),
        _longs("counts"),
        _longs("units", nullable=True),
        StructField("vacant", LongType(), nullable=True),
    ]
)

#: public; one row a geounit of the spine. `parent` is empty at the top; `children` is 0 in the lowest level.
GEOUNITS = StructType([GEOCODE, PARENT, StructField("children", LongType(), nullable=False)])

#: public; one row a block of a spine that is made of areas: the geounits that contain it, root first, and their shares.
BLOCKS = StructType(
    [
        StructField("block", StringType(), nullable=False),
        StructField("path", ArrayType(StringType(), containsNull=False), nullable=False),
        StructField("shares", ArrayType(StringType(), containsNull=False), nullable=False),
    ]
)

#: public; one row a geounit of a spine that is made of areas: its exact share of the budget, as text; "0/1" where
#: it is not measured.
SHARES = StructType([GEOCODE, PARENT, StructField("share", StringType(), nullable=False)])

#: restricted; one row a geounit, empty geounits too.
HISTOGRAMS = StructType([GEOCODE, PARENT, _integers("cells"), _longs("counts")])

#: public; one row a geounit and declared invariant (`total`, `units`, `vacant`). A `group_total` is the total of all
#: geounits that share the spine's `total_key` with this one, whose own total is not known.
INVARIANTS = StructType([GEOCODE, PARENT, StructField("name", StringType(), nullable=False), _longs("values")])

#: public; one row a geounit and bound, derived from invariants only. `member` is the geounit itself, or, in a `flow`
#: row, the descendant whose total is invariant: its class bounds followed by its total. In a `group_total` row it is
#: the key of the group of geounits that have the total together.
BOUNDS = StructType(
    [
        GEOCODE,
        PARENT,
        StructField("name", StringType(), nullable=False),
        StructField("member", StringType(), nullable=False),
        _longs("lower"),
        _longs("upper"),
    ]
)

#: public, written once; one row a geounit and query. `rows` null means every answer of the query.
MEASUREMENTS = StructType(
    [
        GEOCODE,
        PARENT,
        StructField("query", StringType(), nullable=False),
        _integers("rows", nullable=True),
        _longs("values"),
        StructField("variance", DoubleType(), nullable=False),
    ]
)

#: public; one row a geounit: integer, nonnegative, summing to the parent cell by cell.
ESTIMATES = HISTOGRAMS

#: public; one row a family.
DIAGNOSTICS = StructType(
    [
        StructField("geolevel", StringType(), nullable=False),
        StructField("family", StringType(), nullable=False),
        StructField("children", LongType(), nullable=False),
        StructField("variables", LongType(), nullable=False),
        StructField("status", StringType(), nullable=False),
        StructField("solver", StringType(), nullable=False),
        StructField("passes", LongType(), nullable=False),
        StructField("primal_residual", DoubleType(), nullable=False),
        StructField("gap", DoubleType(), nullable=False),
        StructField("iterations", LongType(), nullable=False),
        StructField("attempts", LongType(), nullable=False),
        StructField("rounding", StringType(), nullable=False),
        StructField("rounding_gap", DoubleType(), nullable=False),
        StructField("relaxed", BooleanType(), nullable=False),
        StructField("message", StringType(), nullable=False),
        StructField("problem", BinaryType(), nullable=True),
    ]
)

#: restricted; one row a family: how long its estimation took.
SECONDS = StructType(
    [StructField("family", StringType(), nullable=False), StructField("seconds", DoubleType(), nullable=False)]
)

#: What one estimation job writes: estimates and diagnostics side by side, told apart by `record`. `seconds` is the time
#: that a family took; it is never published, since the same measurements must publish the same bytes.
ESTIMATION_OUTPUT = StructType(
    [
        StructField("record", StringType(), nullable=False),
        GEOCODE,
        PARENT,
        _integers("cells", nullable=True),
        _longs("counts", nullable=True),
        StructField("diagnostics", DIAGNOSTICS, nullable=True),
        StructField("seconds", DoubleType(), nullable=True),
    ]
)

#: Every table with geolevels, by name: its schema and whether it is restricted.
LEVEL_TABLES = {
    "histograms": (HISTOGRAMS, True),
    "geounits": (GEOUNITS, False),
    "shares": (SHARES, False),
    "invariants": (INVARIANTS, False),
    "bounds": (BOUNDS, False),
    "measurements": (MEASUREMENTS, False),
    "estimates": (ESTIMATES, False),
    "census_estimates": (ESTIMATES, False),
    "diagnostics": (DIAGNOSTICS, False),
}

#: The long form in which everything that belongs to a family travels to the task that works on it.
FAMILY_ROWS = StructType(
    [
        StructField("file", IntegerType(), nullable=False),
        StructField("rank", LongType(), nullable=False),
        StructField("family", StringType(), nullable=False),
        StructField("kind", IntegerType(), nullable=False),
        StructField("name", StringType(), nullable=False),
        StructField("geocode", StringType(), nullable=False),
        StructField("member", StringType(), nullable=False),
        _integers("integers", nullable=True),
        _longs("longs", nullable=True),
        _longs("longs_upper", nullable=True),
        StructField("variance", DoubleType(), nullable=True),
    ]
)
