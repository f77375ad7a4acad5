"""Two small products on one village: persons by home, age and sex; and the same with origin, held to the first."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

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
