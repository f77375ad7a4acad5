"""A product that stands in no module: a file that a run file names, run from tidy counts to its tables."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.config import load_plan
from das_spark.features.tables.finished import tabulate_run
from das_spark.pipeline import run_stages, verify_run
from das_spark.store import PublicManifest

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

VILLAGE = """
name = "village"
title = "Persons of a village that nobody lives in"
default_levels = ["County", "Block"]
unit_classes = ["House", "School"]
class_query = "home"
strata = "age * sex"
total_at = "County"
geolevels = [{name = "County", length = 3}, {name = "Block", length = 5}]
unit_bounds = {least = [1, 1], most = [20, 500], cap_when_total_known = false}
structural_zeros = [{name = "no_old_pupils", selection = {home = [1], age = [2]}, meaning = "nobody of 65 at school"}]

[[attributes]]
name = "home"
levels = ["House", "School"]
recodes = [{name = "atSchool", groups = {"At school" = [1]}}]
[[attributes]]
name = "age"
levels = ["0 to 17", "18 to 64", "65 and over"]
recodes = [{name = "adults", groups = {"Minor" = [0], "Adult" = [1, 2]}}]
[[attributes]]
name = "sex"
levels = ["Male", "Female"]

[[strategies]]
name = "village"
title = "Two levels alike"
framework = "pure_dp"
total = "8"
geolevels = {County = "1/2", Block = "1/2"}
queries = {"adults * sex" = "1/2", detailed = "1/2"}

[file_recodes.tidy_counts]
unit_class = {name = "kind", levels = ["1", "2-3"]}
[file_recodes.tidy_counts.attributes]
home = {name = "kind", levels = ["1", "2-3"]}
age = {name = "years", levels = ["0-17", "18-64", "65-115"]}
sex = {name = "gender", levels = ["1", "2"]}

[[tables]]
name = "V1"
title = "Sex by age"
universe = "Total population"
prefix = "V001"
lines = [
    {depth = 0, label = "Total", levels = {}},
    {depth = 1, label = "Male", levels = {sex = [0]}},
    {depth = 2, label = "65 and over", levels = {sex = [0], age = [2]}},
    {depth = 1, label = "Female", levels = {sex = [1]}},
]

[microdata]
name = "village"
header = "beside"
person = [
    {name = "COUNTY", source = "geocode[0:3]", type = "CHAR3"},
    {name = "BLOCK", source = "geocode[3:5]", type = "CHAR2"},
    {name = "UNIT", source = "unit_number", type = "INT9"},
    {name = "PERSON", source = "person_number", type = "INT5"},
    {name = "AGE", source = "recode:age:A,B,C", type = "CHAR1"},
    {name = "SEX", source = "recode:sex:M,F", type = "CHAR1"},
]
unit = [
    {name = "COUNTY", source = "geocode[0:3]", type = "CHAR3"},
    {name = "BLOCK", source = "geocode[3:5]", type = "CHAR2"},
    {name = "UNIT", source = "unit_number", type = "INT9"},
    {name = "KIND", source = "recode:unit_class:H,S,V", type = "CHAR1"},
    {name = "POPULATION", source = "population", type = "INT5"},
]
"""

RUN_FILE = """
config_version = 1
[run]
name = "village"
product = "village.toml"
[input]
reader = "tidy_counts"
dataset = "village"
path = "{census}"
[output]
root = "{root}"
microdata = ["parquet", "text"]
[budget]
strategy = "village"
[evaluation]
enabled = false
"""


def _write_census(folder):
    blocks = [f"{county}{block:02d}" for county in ("001", "002") for block in range(4)]
    rows = [
        (block, kind, years, gender, 1 + (place + years + gender) % 3)
        for place, block in enumerate(blocks)
        for kind, years in ((1, 4), (1, 17), (1, 30), (1, 80), (2, 12), (3, 40))
        for gender in (1, 2)
        if place != 5  # nobody lives there
    ]
    names = ("geocode", "kind", "years", "gender", "count")
    folder.mkdir()
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), folder / "persons.parquet")
    units = [(block, kind, 0 if place == 5 else 3 - kind // 2) for place, block in enumerate(blocks) for kind in (1, 2)]
    columns = dict(zip(("geocode", "kind", "units"), zip(*units, strict=True), strict=True))
    pq.write_table(pa.table(columns), folder / "units.parquet")
    return sum(count for *_, count in rows)


def test_it_is_ingested_protected_and_published(tmp_path, spark, tools):
    people = _write_census(tmp_path / "census")
    run_file, village = tmp_path / "run.toml", tmp_path / "village.toml"
    village.write_text(VILLAGE)
    run_file.write_text(RUN_FILE.format(census=tmp_path / "census", root=tmp_path / "runs"))
    plan = load_plan(run_file)
    assert plan.product.name == "village"
    public = run_stages(plan, run_id="village", test_key=tools.TEST_KEY, spark=spark).layout.public
    assert json.loads(public.verification.read_text())["passed"]
    village.unlink()  # a run has the definition of its product in its configuration
    assert PublicManifest.load(public.manifest).config["product"]["strategies"][0]["name"] == "village"
    assert verify_run(public.path, spark).passed
    tabulate_run(public.path, tmp_path / "again", spark)
    invariants = tools.rows_of(public.level("invariants", "County"))
    assert sum(row["values"][0] for row in invariants if row["name"] == "total") == people
    lines = [line for file in public.microdata("person", "text").glob("part-*") for line in file.read_text().split()]
    assert len(lines) == people
    assert {tuple(line.split("|")[4:]) for line in lines} <= {(age, sex) for age in "ABC" for sex in "MF"}
    (table,) = (tools.rows_of(public.tables.level("V1", "parquet", "County")),)
    assert sum(row["V0010001"] for row in table) == people
    by_sex = Counter(line.split("|")[5] for line in lines)
    assert [sum(row[name] for row in table) for name in ("V0010002", "V0010004")] == [by_sex["M"], by_sex["F"]]
