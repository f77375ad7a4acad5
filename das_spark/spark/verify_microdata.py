"""Whether the microdata files say what the leaf estimates and the declared invariants say; plain Spark SQL.

The files are read back with the codes of their layout. Where the codes of a person do not tell the class of the unit
(the kinds of group quarters), the unit record with the person's unit number does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from das_spark.spark.verify import (
    Check,
    LevelTables,
    check_of,
    exploded_cells,
    present,
    small_frame,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.products.base import Product


@dataclass(frozen=True, slots=True)
class Microdata:
    """The microdata files, as read back, and how their codes relate to cells.

    Attributes:
        person: One row a person, text or Parquet columns.
        unit: One row a unit; None where no units are known.
        place: Columns that make up the geocode when joined.
        codes: Person columns that hold codes -> code of each cell.
        unit_codes: Unit columns that hold codes -> code of each class, vacant units last.
        class_of_cell: Class of each cell.
        unit_number: Name of the column with the number of the unit.
        person_number: Name of the column with the number of the person in the unit.
        population: Name of the unit column with the number of its people.
    """

    person: DataFrame
    unit: DataFrame | None
    place: tuple[str, ...]
    codes: Mapping[str, tuple[str, ...]]
    unit_codes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    class_of_cell: tuple[int, ...] = ()
    unit_number: str = "EUID"
    person_number: str = "EPNUM"
    population: str = "FINAL_POP"


def microdata_of(product: Product, person: DataFrame, unit: DataFrame | None) -> Microdata:
    """Tell from a product's layout how the codes of its files relate to cells.

    Args:
        product: Whose layout; its column sources are read here anew, not by the writer's code.
        person: The person file as read back.
        unit: The unit file; None where no units are known.
    """
    schema, layout, classes = product.schema, product.microdata, len(product.unit_classes)
    kind = schema.query(product.class_query).row_of(np.arange(schema.size))
    levels = np.unravel_index(np.arange(schema.size), schema.shape)
    axes = {attribute.name: axis for axis, attribute in enumerate(schema.attributes)}
    codes: dict[str, tuple[str, ...]] = {}
    for column in layout.person:
        source = column.source.split(":", 2)
        if source[0] == "recode":
            names = source[2].split(",")
            codes[column.name] = tuple(names[level] for level in levels[axes[source[1]]].tolist())
        elif source[0] == "record_type":
            codes[column.name] = tuple("3" if one == 0 else "5" for one in kind.tolist())
    of_units = {
        "record_type": ("2", *["4"] * (classes - 1), "2"),
        "tenure": ("9", *["0"] * classes),
        "vacancy": (*["0"] * classes, "9"),
    }
    unit_codes: dict[str, tuple[str, ...]] = {}
    for column in layout.unit:
        if column.source.startswith("recode:"):
            unit_codes[column.name] = tuple(column.source.split(":", 2)[2].split(","))
        elif column.source in of_units:
            unit_codes[column.name] = of_units[column.source]
    parts = [column for column in layout.person if column.source.startswith("geocode[")]
    parts.sort(key=lambda column: int(column.source.removeprefix("geocode[").split(":")[0]))
    sources = {column.source: column.name for column in (*layout.unit, *layout.person)}
    return Microdata(
        person,
        unit,
        tuple(column.name for column in parts),
        codes,
        unit_codes,
        tuple(kind.tolist()),
        sources["unit_number"],
        sources["person_number"],
        sources["population"],
    )


def verify_microdata(microdata: Microdata, leaf: LevelTables) -> list[Check]:
    """Check the microdata files against the leaf estimates and invariants.

    Args:
        microdata: The files.
        leaf: Tables of the lowest level.
    """
    checks = [_persons_equal_estimates(microdata, leaf)]
    if microdata.unit is not None and leaf.invariants is not None:
        checks += [
            _units_equal_invariants(microdata, leaf),
            _populations_equal_estimates(microdata, leaf),
            _persons_in_units(microdata),
            _unit_numbers(microdata),
        ]
    return checks


def _persons_equal_estimates(microdata: Microdata, leaf: LevelTables) -> Check:
    """As many person records of each combination of codes in each geounit as the estimates have people.

    Cells whose codes agree (kinds of group quarters) are told apart by the class of the person's unit.
    """
    spark, columns = leaf.estimates.sparkSession, list(microdata.codes)
    classes = np.asarray(microdata.class_of_cell, dtype=np.int64)
    table = {"cell": np.arange(len(classes)), **microdata.codes, "kind": classes}
    cells = exploded_cells(leaf.estimates).join(F.broadcast(small_frame(spark, table)), "cell")
    # Counted by the columns as they are: putting the geocode together first would cost more than the counting.
    counted = microdata.person.groupBy(*microdata.place, *columns).agg(F.count(F.lit(1)).alias("found"))
    records = _located(microdata, counted).select("geocode", *_texts(columns), "found")
    both = [_compared(cells, records, ["geocode", *columns])]
    doubtful = _doubtful(microdata)
    if microdata.unit is not None and doubtful.any():
        some = small_frame(spark, {"cell": np.flatnonzero(doubtful)})
        keys = ["geocode", *columns, "kind"]
        both.append(
            _compared(cells.join(F.broadcast(some), "cell", "left_semi"), _kinds_told(microdata, doubtful), keys)
        )
    every = both[0] if len(both) == 1 else both[0].unionByName(both[1])
    bad = every.where(F.coalesce("expected", F.lit(0)) != F.coalesce("found", F.lit(0)))
    return check_of("microdata equal estimates", leaf.name, bad, cells.count() + leaf.estimates.count())


def _compared(cells: DataFrame, records: DataFrame, keys: list[str]) -> DataFrame:
    """Expected and found numbers by keys: geocode, expected, found; null where there is none."""
    expected = cells.groupBy(*keys).agg(F.sum("count").alias("expected"))
    found = records.groupBy(*keys).agg(F.sum("found").alias("found"))
    return expected.join(found, keys, "full").select("geocode", "expected", "found")


def _kinds_told(microdata: Microdata, doubtful: np.ndarray) -> DataFrame:
    """Person records whose codes do not tell the class, counted by the class of their unit (-1 where it has none)."""
    columns, table = list(microdata.codes), _ambiguous(microdata, doubtful)
    unsure = microdata.person
    for name in columns:  # cheap, and pushed down to the file: in most layouts the record type tells nearly all
        unsure = unsure.where(F.col(name).cast("string").isin(*sorted(set(table[name]))))
    number = F.col(microdata.unit_number).cast("long").alias(microdata.unit_number)
    persons = _located(microdata, unsure).select("geocode", *_texts(columns), number)
    persons = persons.join(F.broadcast(small_frame(unsure.sparkSession, table)), columns, "left_semi")
    kinds = _unit_kinds(microdata).select("geocode", microdata.unit_number, "kind")
    told = persons.join(kinds, ["geocode", microdata.unit_number], "left")
    return told.select(
        "geocode", *columns, F.coalesce("kind", F.lit(-1)).alias("kind"), F.lit(1).cast("long").alias("found")
    )


def _units_equal_invariants(microdata: Microdata, leaf: LevelTables) -> Check:
    """As many unit records of each class in each geounit as there are units."""
    invariants = present(leaf.invariants, "invariants")
    classes = max(microdata.class_of_cell) + 1
    units = invariants.where("name = 'units'").select("geocode", F.posexplode("values").alias("kind", "expected"))
    vacant = invariants.where("name = 'vacant'").select(
        "geocode", F.lit(classes).alias("kind"), F.col("values").getItem(0).alias("expected")
    )
    expected = units.unionByName(vacant).where("expected != 0").withColumn("kind", F.col("kind").cast("long"))
    found = _unit_kinds(microdata).groupBy("geocode", "kind").agg(F.count(F.lit(1)).alias("found"))
    both = expected.join(found, ["geocode", "kind"], "full")
    bad = both.where(F.coalesce("expected", F.lit(0)) != F.coalesce("found", F.lit(0)))
    return check_of("units equal invariants", leaf.name, bad, invariants.count())


def _populations_equal_estimates(microdata: Microdata, leaf: LevelTables) -> Check:
    """The populations of the units of a class in a geounit sum to the estimate, and vacant units hold nobody."""
    spark = leaf.estimates.sparkSession
    table = {
        "cell": np.arange(len(microdata.class_of_cell)),
        "kind": np.asarray(microdata.class_of_cell, dtype=np.int64),
    }
    cells = exploded_cells(leaf.estimates).join(F.broadcast(small_frame(spark, table)), "cell")
    expected = cells.groupBy("geocode", "kind").agg(F.sum("count").alias("expected"))
    people = F.col(microdata.population).cast("long")
    vacant = F.col("kind") == max(microdata.class_of_cell) + 1
    odd = F.sum((vacant & (people != 0)).cast("long") + (people < 0).cast("long"))
    kinds = _unit_kinds(microdata).groupBy("geocode", "kind").agg(F.sum(people).alias("found"), odd.alias("odd"))
    both = expected.join(kinds, ["geocode", "kind"], "full")
    differ = F.coalesce("expected", F.lit(0)) != F.coalesce("found", F.lit(0))
    return check_of("unit populations", leaf.name, both.where(differ | (F.col("odd") > 0)), leaf.estimates.count())


def _persons_in_units(microdata: Microdata) -> Check:
    """A unit of population n holds the persons numbered 1 to n, and no person lives elsewhere."""
    records = present(microdata.unit, "unit file")
    number, order = microdata.unit_number, F.col(microdata.person_number).cast("long")
    # Two longs group several times faster than texts, and this is the largest grouping of all.
    place = F.concat(*[F.col(name).cast("string") for name in microdata.place]).try_cast("long").alias("place")
    keys = [place, F.col(number).cast("long").alias(number)]
    held = microdata.person.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("held"),
        F.min(order).alias("first"),
        F.max(order).alias("last"),
        F.sum(order).alias("sum"),
    )
    people = F.col(microdata.population).cast("long").alias("people")
    both = _located(microdata, records).select("geocode", *keys, people).join(held, ["place", number], "full")
    good = (F.col("held") == F.col("people")) & (F.col("first") == 1) & (F.col("last") == F.col("held"))
    good &= F.col("sum") * 2 == F.col("held") * (F.col("held") + 1)
    empty = F.col("held").isNull() & (F.col("people") == 0)
    bad = both.where(~F.coalesce(good | empty, empty, F.lit(False)))
    named = bad.withColumn("geocode", F.coalesce("geocode", F.col("place").cast("string")))
    return check_of("persons in units", "", named, records.count())


def _unit_numbers(microdata: Microdata) -> Check:
    """Units are numbered 0, 1, ... without gap or repetition."""
    records = present(microdata.unit, "unit file")
    numbers = _located(microdata, records).select("geocode", F.col(microdata.unit_number).cast("long").alias("n"))
    total = numbers.count()
    twice = numbers.groupBy("n").agg(F.count(F.lit(1)).alias("times"), F.min("geocode").alias("geocode"))
    bad = twice.where((F.col("times") > 1) | (F.col("n") < 0) | (F.col("n") >= total) | F.col("n").isNull())
    return check_of("unit numbers", "", bad, total)


def _unit_kinds(microdata: Microdata) -> DataFrame:
    """Unit records with geocode and kind (null for codes that no kind has)."""
    records = present(microdata.unit, "unit file")
    columns = list(microdata.unit_codes)
    kinds = len(next(iter(microdata.unit_codes.values())))
    table = small_frame(records.sparkSession, {**microdata.unit_codes, "kind": np.arange(kinds)})
    extra = [F.col(name).cast("long").alias(name) for name in (microdata.unit_number, microdata.population)]
    units = _located(microdata, records).select("geocode", *_texts(columns), *extra)
    return units.join(F.broadcast(table), columns, "left")


def _doubtful(microdata: Microdata) -> np.ndarray:
    """Cells whose codes are also those of a cell of another class, shape (cells,)."""
    codes = np.array(list(microdata.codes.values()), dtype=object).T
    keys = np.array(["\x1f".join(row) for row in codes])
    _, group = np.unique(keys, return_inverse=True)
    classes = np.asarray(microdata.class_of_cell, dtype=np.int64)
    least, most = np.full(group.max() + 1, np.iinfo(np.int64).max), np.full(group.max() + 1, -1)
    np.minimum.at(least, group, classes)
    np.maximum.at(most, group, classes)
    return np.asarray((least != most)[group])


def _ambiguous(microdata: Microdata, doubtful: np.ndarray) -> dict[str, list[str]]:
    """The combinations of person codes that do not tell the class, as a table."""
    rows = sorted({tuple(codes[cell] for codes in microdata.codes.values()) for cell in np.flatnonzero(doubtful)})
    return {name: [row[place] for row in rows] for place, name in enumerate(microdata.codes)}


def _located(microdata: Microdata, frame: DataFrame) -> DataFrame:
    return frame.withColumn("geocode", F.concat(*[F.col(name).cast("string") for name in microdata.place]))


def _texts(columns: Iterable[str]) -> list[Column]:
    return [F.col(name).cast("string").alias(name) for name in columns]
