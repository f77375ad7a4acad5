"""Rows of answers that are put together, against the rows that they were made of; and what the rule says of them."""

from __future__ import annotations

from copy import deepcopy
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from family_streams import failing
from hypothesis import given
from hypothesis import strategies as st

from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Attribute, Schema
from das_spark.verification import MeasuredQuery, MeasurementColumns
from das_spark.verification.measurements import together

SCHEMA = Schema("small", (Attribute("kind", ("household", "group")), Attribute("age", ("young", "old", "oldest"))))
SPINE = Spine((Geolevel("County", 1), Geolevel("Tract", 2)))
ASKED = {
    "County": {"detailed": MeasuredQuery(SCHEMA.query("detailed"), {"": 2.0})},
    "Tract": {name: MeasuredQuery(SCHEMA.query(name), {"": 3.0, "1/2": 5.0}) for name in ("detailed", "kind")},
}
Row = dict[str, Any]
#: The cells of the county: answers 1 and 5 of `detailed`, both of `kind`.
CELLS = [1, 5]
RULE = MeasurementColumns(SPINE.names, ASKED, frozenset({"Tract"}), shared=False)


def census() -> dict[str, list[Row]]:
    places = [("County", "1", ""), *(("Tract", f"1{number}", "1") for number in range(3))]
    keys = [{"level": level, "geocode": code, "parent": parent} for level, code, parent in places]
    answers = [{**keys[0], "query": "detailed", "rows": None, "values": [0] * SCHEMA.size, "variance": 2.0}]
    for key in keys[1:]:
        answers.append({**key, "query": "detailed", "rows": CELLS, "values": [4, 1], "variance": 3.0})
        answers.append({**key, "query": "kind", "rows": [0, 1], "values": [4, -1], "variance": 3.0})
    return {
        "geounits": [{**key, "children": 3 if key["level"] == "County" else 0} for key in keys],
        "estimates": [{**key, "cells": CELLS, "counts": [3, 3]} for key in keys],
        "measurements": answers,
    }


def test_the_answers_that_the_parent_touches_pass():
    assert failing(RULE, census(), SPINE) == {}


@pytest.mark.parametrize(
    ("column", "other", "told"),
    [
        ("query", "age", "geocode or query"),
        ("geocode", "19", "geocode or query"),
        ("parent", "2", "parent"),
        ("rows", [1, 4], "rows"),
        ("rows", None, "rows"),
        ("rows", [1], "rows"),
        ("rows", [1, 4, 5], "rows"),
        ("values", [4], "values"),
        ("values", [4, 1, 0], "values"),
        ("variance", 3.0000001, "variance"),
        ("variance", None, "variance"),
    ],
)
def test_another_value_of_a_tract_is_named_with_its_column(column, other, told):
    tables = census()
    row = next(
        measurement
        for measurement in tables["measurements"]
        if measurement["geocode"] == "11" and measurement["query"] == "detailed"
    )
    row[column] = other
    names = failing(RULE, tables, SPINE)["Tract"]
    assert f"{'19' if column == 'geocode' else '11'} {told}" in names
    assert not [name for name in names if name.startswith(("10", "12"))]


@pytest.mark.parametrize("several", [0, 2])
def test_an_answer_that_is_missing_or_there_twice_is_named(several):
    tables = census()
    for number, row in enumerate(tables["measurements"]):
        changed = {**tables, "measurements": [*tables["measurements"]]}
        changed["measurements"][number : number + 1] = [row] * several
        assert failing(RULE, changed, SPINE) == {row["level"]: [f"{row['geocode']} geocode or query"]}


def test_a_geounit_alone_in_its_family_has_no_answers():
    tables = census()
    alone = {**tables, "geounits": [geounit for geounit in tables["geounits"] if geounit["geocode"] in ("1", "10")]}
    alone["geounits"][0] = {**alone["geounits"][0], "children": 1}
    told = failing(RULE, alone, SPINE)["Tract"]
    assert told == [f"1{number} geocode or query" for number in range(3)]
    alone["measurements"] = alone["measurements"][:1]
    assert failing(RULE, alone, SPINE) == {}


def test_the_variance_is_that_of_the_share_of_each_geounit():
    tables = census()
    tables["shares"] = [
        {**{name: geounit[name] for name in ("level", "geocode", "parent")}, "share": share}
        for geounit, share in zip(tables["geounits"], ("", "", "1/2", "0/1"), strict=True)
    ]
    shared = MeasurementColumns(SPINE.names, ASKED, frozenset({"Tract"}), shared=True)
    wrong = failing(shared, tables, SPINE)["Tract"]
    assert wrong == ["11 variance", "12 geocode or query"]
    right = deepcopy(tables)
    right["measurements"] = [measurement for measurement in right["measurements"] if measurement["geocode"] != "12"]
    for measurement in right["measurements"]:
        if measurement["geocode"] == "11":
            measurement["variance"] = 5.0
    assert failing(shared, right, SPINE) == {}


ANSWER = st.tuples(
    st.sampled_from("AB"),
    st.sampled_from(["x", "y"]),
    st.sampled_from([None, (), (0,), (2,), (0, 2), (1, 2)]),
    st.integers(0, 2),
    st.integers(-9, 9),
)


@given(st.lists(ANSWER, max_size=12))
def test_rows_are_put_together_where_they_are_alike_and_nothing_is_lost(answers):
    answers.sort(key=lambda each: each[:2])
    rows = [
        {
            "family": family,
            "query": query,
            "rows": kept,
            "values": [first + each for each in range(len(kept) if kept is not None else width)],
            "geocode": f"{family}{number}",
            "odd": number % 3 == 0,
            "variance": float(number),
        }
        for number, (family, query, kept, width, first) in enumerate(answers)
    ]
    kinds = pa.schema(
        [
            *((name, pa.string()) for name in ("family", "query")),
            ("rows", pa.list_(pa.int32())),
            ("values", pa.list_(pa.int64())),
            ("geocode", pa.string()),
            ("odd", pa.bool_()),
            ("variance", pa.float64()),
        ]
    )

    def shape(row):
        return row["family"], row["query"], row["rows"], len(row["values"])

    expected = []
    for (family, query, kept, width), alike in groupby(rows, shape):
        own = list(alike)
        expected.append(
            {
                "family": family,
                "query": query,
                "rows": None if kept is None else list(kept),
                "width": width,
                "geounits": [each["geocode"] for each in own],
                "odd": [each["odd"] for each in own],
                "variances": [each["variance"] for each in own],
                "values": [sum(each["values"][place] for each in own) for place in range(width)],
            }
        )
    assert together(pa.RecordBatch.from_pylist(rows, kinds)).to_pylist() == expected


def test_a_null_among_values_or_rows_is_named_wherever_it_stands():
    for column, told in (("values", "values"), ("rows", "rows")):
        for number, place in ((1, 0), (1, 1), (3, 0), (5, 0), (5, 1)):
            tables = census()
            row = tables["measurements"][number]
            row[column] = [None if at == place else each for at, each in enumerate(row[column])]
            assert failing(RULE, tables, SPINE) == {"Tract": [f"{row['geocode']} {told}"]}
    # Of `kind` the first answer has the number that a null would be read as.
    tables = census()
    tables["measurements"][4]["rows"] = [None, 1]
    assert failing(RULE, tables, SPINE) == {"Tract": ["11 rows"]}
