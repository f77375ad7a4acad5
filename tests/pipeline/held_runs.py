"""Two small products on one village: persons by home, age and sex; and the same with origin, held to the first."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.histogram import Query
from das_spark.products import _REGISTRY, Product, product_from, register

COARSE = "hamlet"
FINE = "hamlet_by_origin"
_PRODUCT = """
title = "Persons of a hamlet that nobody lives in"
default_levels = ["County", "Tract", "Block"]
unit_classes = ["House", "School"]
class_query = "home"
strata = "sex"
total_at = "County"
geolevels = [{name = "County", length = 0}, {name = "Tract", length = 1}, {name = "Block", length = 3}]
unit_bounds = {least = [1, 1], most = [30, 500], cap_when_total_known = false}
structural_zeros = [{name = "no_old_pupils", selection = {home = [1], age = [2]}, meaning = "nobody of 65 at school"}]
"""
_ATTRIBUTES = """
[[attributes]]
name = "home"
levels = ["House", "School"]
[[attributes]]
name = "age"
levels = ["0 to 17", "18 to 64", "65 and over"]
[[attributes]]
name = "sex"
levels = ["Male", "Female"]
"""
_ORIGIN = """
[[attributes]]
name = "origin"
levels = ["Here", "Near", "Far"]
"""
_REST = """
[[strategies]]
name = "usual"
title = "All levels alike"
framework = "pure_dp"
total = "3"
geolevels = {County = "1/3", Tract = "1/3", Block = "1/3"}
queries = {%s}

[microdata]
name = "hamlet"
header = "beside"
unit = []
person = [
    {name = "BLOCK", source = "geocode[0:3]", type = "CHAR3"},
    {name = "RTYPE", source = "record_type", type = "CHAR1"},
    {name = "AGE", source = "recode:age:A,B,C", type = "CHAR1"},
    {name = "SEX", source = "recode:sex:M,F", type = "CHAR1"},
]
"""
_HELD = 'published = {name = "coarse", product = "hamlet", query = "home * age * sex", of = "detailed"}\n'
RUN_FILE = """
config_version = 1
[run]
name = "{product}"
product = "{product}"
[input]
reader = "tidy_counts"
dataset = "hamlet"
path = "{census}"
{published}
[output]
root = "{root}"
[budget]
strategy = "usual"
[evaluation]
enabled = false
"""


def coarse_product() -> Product:
    """What is published first."""
    queries = '"age * sex" = "1/2", detailed = "1/2"'
    return product_from(tomllib.loads(f'name = "{COARSE}"\n{_PRODUCT}{_ATTRIBUTES}{_REST % queries}'))


def fine_product() -> Product:
    """What is held to that: not in the same order of attributes."""
    queries = '"origin" = "1/2", detailed = "1/2"'
    text = f'name = "{FINE}"\n{_HELD}{_PRODUCT}{_ORIGIN}{_ATTRIBUTES}{_REST % queries}'
    return product_from(tomllib.loads(text))


def registered(monkeypatch) -> tuple[Product, Product]:
    """Both, until the test ends."""
    found = coarse_product(), fine_product()
    for each in found:
        monkeypatch.setitem(_REGISTRY, each.name, each)  # is taken out again behind the test
        monkeypatch.delitem(_REGISTRY, each.name)
        register(each)
    return found


def answers(rows: list[dict[str, Any]], query: Query) -> dict[str, list[int]]:
    """Geocode -> answers of a query on what a table of histograms says of each geounit."""
    return {
        row["geocode"]: query.answer(np.array(row["cells"], dtype=int), np.array(row["counts"], dtype=int)).tolist()
        for row in rows
    }


def blocks() -> list[str]:
    """Geocodes of all blocks."""
    return [f"{tract}{block:02d}" for tract in (1, 2) for block in range(4)]


def write_census(folder: Path) -> Path:
    """People of all blocks but one; a school in each tract."""
    rows = [
        (block, home, age, sex, origin, 1 + (place + age + sex + origin) % 3)
        for place, block in enumerate(blocks())
        for home, age in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1))
        for sex in (0, 1)
        for origin in (0, 1, 2)
        if place != 5 and (home == 0 or place in (1, 6)) and (place + origin) % 3
    ]
    names = ("geocode", "home", "age", "sex", "origin", "count")
    folder.mkdir()
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), folder / "persons.parquet")
    units = [(block, 0 if place == 5 else 4, 1 if place in (1, 6) else 0) for place, block in enumerate(blocks())]
    columns = dict(zip(("geocode", "units_0", "units_1"), zip(*units, strict=True), strict=True))
    pq.write_table(pa.table(columns), folder / "units.parquet")
    return folder


UNITS = "hamlet_units"
HOUSEHOLDS = "hamlet_households"
_OF_UNITS = """
default_levels = ["County", "Tract", "Block"]
unit_classes = ["House"]
class_query = ""
strata = "detailed"
total_at = "{total_at}"
record = "{record}"
vacant_counted = true
structural_zeros = []
geolevels = [{{name = "County", length = 0}}, {{name = "Tract", length = 1}}, {{name = "Block", length = 3}}]
[[strategies]]
name = "usual"
title = "All levels alike"
framework = "pure_dp"
total = "3"
geolevels = {{County = "1/3", Tract = "1/3", Block = "1/3"}}
queries = {{detailed = "1"}}
[microdata]
name = "hamlet"
header = "beside"
person = []
unit = [
    {{name = "BLOCK", source = "geocode[0:3]", type = "CHAR3"}},
    {{name = "TEN", source = "recode:tenure:{codes}", type = "CHAR1"}},
]
"""
_UNITS = """
name = "hamlet_units"
title = "Units of a hamlet by tenure"
[[attributes]]
name = "tenure"
levels = ["Owned", "Rented", "Vacant"]
recodes = [{name = "lived_in", groups = {"Owned" = [0], "Rented" = [1]}}]
"""
_HOUSEHOLDS = """
name = "hamlet_households"
title = "Households of a hamlet by size and tenure"
published = {name = "tenure", product = "hamlet_units", query = "tenure", of = "lived_in"}
[[attributes]]
name = "size"
levels = ["1", "2", "3 or more"]
[[attributes]]
name = "tenure"
levels = ["Owned", "Rented"]
"""
_JOINT = """
config_version = 1
[run]
name = "hamlet"
parts = ["units.toml", "households.toml"]
[input]
reader = "tidy_counts"
dataset = "hamlet"
[output]
root = "{root}"
[budget]
strategy = "usual"
[invariants]
units = false
[evaluation]
enabled = false
"""
_PART = """
config_version = 1
[run]
product = "{product}"
[input]
reader = "tidy_counts"
path = "{census}"
"""


def registered_units(monkeypatch) -> tuple[Product, Product]:
    """Units, and households that are held to those that are lived in, until the test ends."""
    texts = (
        _UNITS.partition("[[")[0] + _OF_UNITS.format(total_at="County", record="unit", codes="O,R,V"),
        _HOUSEHOLDS.partition("[[")[0] + _OF_UNITS.format(total_at="none", record="household", codes="O,R,N"),
    )
    attributes = ("[[" + text.partition("[[")[2] for text in (_UNITS, _HOUSEHOLDS))
    found = tuple(
        product_from({"unit_bounds": None, **tomllib.loads(text + more)})
        for text, more in zip(texts, attributes, strict=True)
    )
    for each in found:
        monkeypatch.setitem(_REGISTRY, each.name, each)
        monkeypatch.delitem(_REGISTRY, each.name)
        register(each)
    return found


def write_joint(folder: Path) -> Path:
    """Units and households of all blocks, and the run file of both."""
    census = (folder / "units", folder / "households")
    units = [
        (block, tenure, (3 + place + 2 * tenure) % 5)
        for place, block in enumerate(blocks())
        for tenure in (0, 1, 2)
        if place != 5
    ]
    households = [
        (block, (place + tenure) % 3, tenure, count)
        for place, (block, tenure, count) in enumerate(units)
        if tenure < 2 and count  # vacant ones have no household
    ]
    for place, table, rows, names in (
        (census[0], "persons", units, ("geocode", "tenure", "count")),
        (census[1], "households", households, ("geocode", "size", "tenure", "count")),
    ):
        place.mkdir(parents=True)
        pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), place / f"{table}.parquet")
        pq.write_table(pa.table({"geocode": blocks()}), place / "geography.parquet")
    (folder / "units.toml").write_text(_PART.format(product=UNITS, census=census[0]))
    (folder / "households.toml").write_text(_PART.format(product=HOUSEHOLDS, census=census[1]))
    path = folder / "joint.toml"
    path.write_text(_JOINT.format(root=folder / "runs"))
    return path
