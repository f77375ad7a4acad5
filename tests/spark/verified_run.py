"""A run of three blocks, two tracts and a county that keeps every rule, as the tables that verification reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Query
from das_spark.products import PRODUCTS
from das_spark.spark.checks import judge
from das_spark.spark.verify import RunTables, judged_families

PRODUCT = PRODUCTS["e2e_2018"]
SIZE = PRODUCT.schema.size
COUNTY, TRACTS = "44007", ("44007000100", "44007000200")
BLOCKS = ("4400700010011001", "4400700010011002", "4400700020022001")
LEVELS = ("County", "Tract", "Block")
SPINE = Spine((Geolevel("County", 5), Geolevel("Tract", 11), Geolevel("Block", 16)))
LENGTHS = {"County": (5, 0), "Tract": (11, 5), "Block": (16, 11)}
CELL = {
    name: int(PRODUCT.schema.ravel([code])[0])
    for name, code in {
        "adult": (0, 1, 0, 0),
        "child": (0, 0, 1, 5),
        "prison": (1, 1, 0, 1),
        "nursing": (3, 1, 0, 1),
        "minor in nursing": (3, 0, 0, 0),
    }.items()
}
PEOPLE = {
    BLOCKS[0]: {"adult": 3, "child": 2, "prison": 4},
    BLOCKS[1]: {},
    BLOCKS[2]: {"adult": 1, "nursing": 3, "prison": 1},
}
TOTAL = sum(sum(people.values()) for people in PEOPLE.values())
UNITS = {BLOCKS[0]: [2, 1, 0, 0, 0, 0, 0, 0], BLOCKS[1]: [0] * 8, BLOCKS[2]: [1, 1, 0, 2, 0, 0, 0, 0]}
VACANT = {BLOCKS[0]: 1, BLOCKS[1]: 3, BLOCKS[2]: 0}
CLASS_BOUNDS = ([2, 1, 0, 0, 0, 0, 0, 0], [8, 7, 0, 0, 0, 0, 0, 0])
QUERIES: dict[str, Query] = {"total": PRODUCT.schema.query("total"), "class": PRODUCT.schema.query("hhgq")}
ZEROS = PRODUCT.structural_zeros

Rows = dict[str, dict[int, int]]

_LONGS, _INTEGERS = pa.list_(pa.int64()), pa.list_(pa.int32())
KEYS = {name: pa.string() for name in ("level", "geocode", "parent")}
ESTIMATES = {**KEYS, "cells": _INTEGERS, "counts": _LONGS}
_GEOUNITS = {**KEYS, "children": pa.int64()}
_INVARIANTS = {**KEYS, "name": pa.string(), "values": _LONGS}
_BOUNDS = {**KEYS, "name": pa.string(), "member": pa.string(), "lower": _LONGS, "upper": _LONGS}


def frame(spark, rows, columns):
    """A small table; through Arrow, which needs no Python worker whenever it is scanned."""
    arrays = zip(*rows, strict=True) if rows else [()] * len(columns)
    return spark.createDataFrame(
        pa.table({n: pa.array(values, kind) for (n, kind), values in zip(columns.items(), arrays, strict=True)})
    )


@dataclass
class SmallRun:
    """The tables of the run, and how to change them."""

    spark: Any
    tables: RunTables

    def with_blocks(self, changed: Rows) -> RunTables:
        """Other histograms of some blocks."""
        return replace(
            self.tables,
            estimates=self.without_blocks().unionByName(estimates(self.spark, "Block", {**at("Block"), **changed})),
        )

    def without_blocks(self) -> Any:
        return self.tables.estimates.where("level != 'Block'")

    def blocks(self) -> Any:
        return self.tables.estimates.where("level = 'Block'")

    def with_block_rows(self, rows: Any) -> RunTables:
        """Other rows of the lowest level."""
        return replace(self.tables, estimates=self.without_blocks().unionByName(rows))

    def with_total(self, total: int) -> RunTables:
        """Another declared total."""
        rest = self.tables.invariants.where("name != 'total'")
        return replace(
            self.tables, invariants=rest.unionByName(invariants(self.spark, [("County", COUNTY, "total", [total])]))
        )

    def with_bounds(self, name: str, lower: list[int], upper: list[int]) -> RunTables:
        """One bound on the first block in the place of all others."""
        return replace(self.tables, bounds=bounds(self.spark, [("Block", BLOCKS[0], name, lower, upper)]))


def small_run(spark) -> SmallRun:
    places = [(level, code) for level in LEVELS for code in at(level)]
    geounits = [(level, code, code[: LENGTHS[level][1]], 0) for level, code in places]
    every = estimates(spark, "County", at("County"))
    for level in LEVELS[1:]:
        every = every.unionByName(estimates(spark, level, at(level)))
    units = [("Block", code, "units", values) for code, values in UNITS.items()]
    vacant = [("Block", code, "vacant", [count]) for code, count in VACANT.items()]
    limits = [("County", COUNTY, "total", [TOTAL], [TOTAL]), ("Block", BLOCKS[0], "class", *CLASS_BOUNDS)]
    tables = RunTables(
        LEVELS,
        frame(spark, geounits, _GEOUNITS),
        every,
        invariants(spark, [("County", COUNTY, "total", [TOTAL]), *units, *vacant]),
        bounds(spark, limits),
    )
    return SmallRun(spark, tables)


def at(level: str) -> Rows:
    """People by geounit of a level and cell."""
    summed: Rows = {}
    for block, people in PEOPLE.items():
        own = summed.setdefault(block[: LENGTHS[level][0]], {})
        for name, count in people.items():
            own[CELL[name]] = own.get(CELL[name], 0) + count
    return summed


def estimates(spark, level: str, rows: Rows):
    above = LENGTHS[level][1]
    table = [
        (level, code, code[:above], sorted(people), [people[cell] for cell in sorted(people)])
        for code, people in rows.items()
    ]
    return frame(spark, table, ESTIMATES)


def invariants(spark, rows):
    return frame(spark, [(level, code, "", name, values) for level, code, name, values in rows], _INVARIANTS)


def bounds(spark, rows):
    return frame(
        spark, [(level, code, "", name, code, lower, upper) for level, code, name, lower, upper in rows], _BOUNDS
    )


def leaf_frame(tables: RunTables, table: str):
    """The rows of a table at the lowest level, without the column level."""
    return getattr(tables, table).where(F.col("level") == LEVELS[-1]).drop("level")


def judged(tables: RunTables, *rules, spine: Spine = SPINE):
    """The checks of rules on families."""
    return judge(judged_families(rules, tables, spine))


def failing(checks) -> set[str]:
    return {check.name for check in checks if not check.passed}
