"""Measurement files in the published form: what each row says, and which cells an independent reader finds in it.

`published_measurements.json` states the rows as published. The reader here knows that file and nothing of the project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations, pairwise, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.pipeline import estimate_from, levels, open_source, reestimate
from das_spark.products import PRODUCTS
from das_spark.spark.noisy_rows import binning, sides, zero_sides
from das_spark.store import RunLayout, record_of

pytestmark = pytest.mark.slow

FIXTURE = json.loads((Path(__file__).parent / "published_measurements.json").read_text())
RACES = FIXTURE["code_book"]["cenrace"]["races"]
RACE_SETS = [races for size in range(1, 7) for races in combinations(RACES, size)]
#: Words of every code of every attribute.
CODES = FIXTURE["code_book"] | {"cenrace": ["-".join(races) for races in RACE_SETS]}
SUFFIX = 4
#: Attributes and rows of each dataset, under the name of the product that is published like it.
DATASETS = {
    name: (dataset["attributes"], dataset["DPQuery"] + dataset["Constraint"])
    for name, dataset in FIXTURE["datasets"].items()
}
ROWS = [(name, row) for name, (_, rows) in DATASETS.items() for row in rows]
IDS = [f"{name} {row['query_name']}" for name, row in ROWS]

Row = dict[str, Any]


def groups_of(attribute: str, text: str) -> list[list[int]]:
    """The codes that each answer along an attribute counts, from what its column says."""
    every = list(range(len(CODES[attribute])))
    if text == "*":
        return [every]
    if text in (attribute, "detailed"):
        return [[code] for code in every]
    recode = FIXTURE["recodes"][text]
    assert recode["of"] == attribute
    return recode["groups"]


def answers_of(attributes: list[str], columns: list[str], shape: list[int]) -> list[set[int]]:
    """The cells that each value of a row counts: flat, the last attribute fastest."""
    grouped = [groups_of(attribute, text) for attribute, text in zip(attributes, columns, strict=True)]
    assert [len(groups) for groups in grouped] == shape
    sizes = [len(CODES[attribute]) for attribute in attributes]
    strides = [prod(sizes[place + 1 :]) for place in range(len(sizes))]
    return [
        {sum(code * stride for code, stride in zip(codes, strides, strict=True)) for codes in product(*chosen)}
        for chosen in product(*grouped)
    ]


def own_spelling(name: str, query_name: str) -> str:
    """How a product of ours spells what a row answers."""
    stem, kind = query_name[:-SUFFIX], query_name[-SUFFIX:]
    spelled = {side.query_name: side.query for side in sides(PRODUCTS[name].class_query, ())}
    zeros = zero_sides(PRODUCTS[name].schema, PRODUCTS[name].structural_zeros)
    spelled |= {side.query_name: side.query for side in zeros}
    return spelled[stem] if kind == "_con" else stem


@pytest.mark.parametrize("name", DATASETS)
def test_the_code_book_is_that_of_the_product_and_every_query_is_in_the_fixture(name):
    ours, (attributes, rows) = PRODUCTS[name], DATASETS[name]
    assert {attribute.name: list(attribute.levels) for attribute in ours.schema.attributes} == {
        a: CODES[a] for a in attributes
    }
    strategies = ours.strategies.values()
    asked = {item.query for strategy in strategies for level in strategy.budget.levels for item in level.queries}
    named = {row["query_name"] for row in rows}
    known = {side.query_name for side in sides(ours.class_query, ())}
    known |= {zero.name for zero in ours.structural_zeros}
    assert named == {f"{query}_dpq" for query in asked} | {f"{each}_con" for each in known}


@pytest.mark.parametrize(("name", "row"), ROWS, ids=IDS)
def test_each_query_is_written_as_published_and_its_values_are_the_right_cells(name, row):
    schema = PRODUCTS[name].schema
    found = binning(schema, own_spelling(name, row["query_name"]))
    assert (list(found.bins), list(found.shape)) == (row["columns"], row["query_shape"])
    answers = answers_of(DATASETS[name][0], list(found.bins), list(found.shape))
    own = found.query.row_of(np.arange(schema.size))
    assert [set(np.flatnonzero(own == place).tolist()) for place in range(found.size)] == answers


@pytest.mark.parametrize(("name", "row"), ROWS, ids=IDS)
def test_the_columns_of_a_row_joined_are_its_query(name, row):
    """As the released program for least squares finds the query of a constraint."""
    schema = PRODUCTS[name].schema
    found = binning(schema, own_spelling(name, row["query_name"]))
    named = [text for text in found.bins if text != "*"]
    if row["query_name"] != "detailed_dpq":
        assert schema.query(" * ".join(named) or "total") == found.query
    if row["query_name"].endswith("_dpq"):
        assert schema.query(row["query_name"][:-SUFFIX]) == found.query


LEVELS = ("US", "State", "County")
COUNTIES = ("01001", "01003", "72001")
ATTRIBUTES, _ = DATASETS["pl94_2020_person"]
SHAPE = tuple(len(CODES[attribute]) for attribute in ATTRIBUTES)
#: So large that noise is 0 but for a probability below 1e-9: what is read can be compared with the truth.
RHO = "10000000000"
CONF = """
config_version = 1
[run]
product = "pl94_2020_person"
[input]
reader = "tidy_counts"
path = "{census}"
[output]
root = "{root}"
microdata = ["parquet"]
tables = []
[measurement]
rows = "all"
[budget]
strategy = "to_county"
rho = "{rho}"
[evaluation]
enabled = false
"""


def people() -> dict[str, np.ndarray]:
    """Who lives in each county: households everywhere, and each type of group quarters somewhere."""
    numbers = np.random.default_rng(94)
    found = {}
    for place, county in enumerate(COUNTIES):
        cells = np.zeros(SHAPE, dtype=np.int64)
        cells[0] = numbers.integers(0, 3, SHAPE[1:])
        for kind in range(1 + place, 8, 3):
            cells[kind, 1, :, :5] = numbers.integers(1, 9, (2, 5))
        found[county] = cells
    return found


def facilities(cells: np.ndarray) -> list[int]:
    """One of each type where somebody lives, and a housing unit for every second person of a household."""
    return [int(cells[0].sum()) // 2, *(int(cells[kind].any()) for kind in range(1, 8))]


def write_census(folder: Path) -> Path:
    folder.mkdir()
    persons: dict[str, list[Any]] = {name: [] for name in ("geocode", *ATTRIBUTES, "count")}
    units: dict[str, list[Any]] = {name: [] for name in ("geocode", "hhgq", "units", "vacant")}
    for county, cells in people().items():
        for codes in np.argwhere(cells):
            row = (county, *map(int, codes), int(cells[tuple(codes)]))
            for name, value in zip(persons, row, strict=True):
                persons[name].append(value)
        for kind, number in enumerate(facilities(cells)):
            for name, value in zip(units, (county, kind, number, 0), strict=True):
                units[name].append(value)
    pq.write_table(pa.table(persons), folder / "persons.parquet")
    pq.write_table(pa.table(units), folder / "units.parquet")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory, spark) -> Path:
    """A folder with a run of the nation, almost without noise, and its measurements published."""
    assert spark is not None
    place = tmp_path_factory.mktemp("published")
    conf = place / "run.toml"
    conf.write_text(CONF.format(census=write_census(place / "census"), root=place / "runs", rho=RHO))
    assert main(["run", str(conf), "--run-id", "clear", "--test-key", "an open secret"]) == 0
    assert main(["measurements", str(place / "runs" / "clear"), "--out", str(place / "nmf")]) == 0
    return place


def published(folder: Path, kind: str) -> Iterator[tuple[str, Row]]:
    """Level and row of every row of a kind, read as others do: by folder and column names alone."""
    for level in LEVELS:
        parts = sorted((folder / "nmf" / "pl94_2020_person" / f"{level}.parquet" / kind).glob("part-*"))
        assert parts
        for part in parts:
            yield from ((level, row) for row in pq.ParquetFile(part).read().to_pylist())


def truth(geocode: str) -> np.ndarray:
    return sum(cells for county, cells in people().items() if county.startswith(geocode)).ravel()


spark_run = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long]


class TestFolder:
    """What `das-spark measurements` writes."""

    pytestmark = spark_run

    def test_rows_are_as_published(self, folder):
        seen = set()
        for kind in ("DPQuery", "Constraint"):
            rows = {row["query_name"]: row for row in FIXTURE["datasets"]["pl94_2020_person"][kind]}
            for _, row in published(folder, kind):
                wanted = rows[row["query_name"]]
                assert [row[attribute] for attribute in ATTRIBUTES] == wanted["columns"]
                assert row["query_shape"] == wanted["query_shape"]
                assert len(row["value"]) == prod(wanted["query_shape"])
                assert row["sign"] == wanted.get("sign")
                assert kind == "DPQuery" or row["variance"] == 0
                seen.add(row["query_name"])
        assert seen == {row["query_name"] for row in DATASETS["pl94_2020_person"][1]}

    def test_what_was_measured_counts_the_right_cells(self, folder):
        for _, row in published(folder, "DPQuery"):
            answers = answers_of(ATTRIBUTES, [row[attribute] for attribute in ATTRIBUTES], row["query_shape"])
            people_ = truth(row["geocode"])
            assert row["value"] == [int(people_[sorted(cells)].sum()) for cells in answers], row["query_name"]

    def test_constraints_bound_the_right_cells(self, folder):
        for level, row in published(folder, "Constraint"):
            answers = answers_of(ATTRIBUTES, [row[attribute] for attribute in ATTRIBUTES], row["query_shape"])
            people_ = truth(row["geocode"])
            counted = [int(people_[sorted(cells)].sum()) for cells in answers]
            if row["sign"] == "=":
                assert row["value"] == counted, (level, row["query_name"])
            else:
                low, high = (row["value"], counted) if row["sign"] == ">=" else (counted, row["value"])
                assert all(one <= other for one, other in zip(low, high, strict=True))

    def test_upper_bounds_pin_the_types_of_which_there_is_no_facility_and_no_others(self, folder):
        """What the released program for least squares takes from them: cells that are zero."""
        pinned = {}
        schema = PRODUCTS["pl94_2020_person"].schema
        for _, row in published(folder, "Constraint"):
            if row["query_name"] == "hhgq_total_ub_con":
                joined = schema.query(" * ".join(row[attribute] for attribute in ATTRIBUTES if row[attribute] != "*"))
                zeros = [place for place, most in enumerate(row["value"]) if most == 0]
                cells = np.isin(joined.row_of(np.arange(schema.size)), zeros).reshape(SHAPE)
                pinned[row["geocode"]] = [kind for kind in range(8) if cells[kind].all()]
                assert cells.sum() == len(pinned[row["geocode"]]) * prod(SHAPE[1:])
        for geocode, kinds in pinned.items():
            there = sum(np.array(facilities(c)) for county, c in people().items() if county.startswith(geocode))
            assert kinds == np.flatnonzero(there == 0).tolist()
        assert len(pinned[COUNTIES[0]]) > len(pinned[""]) == 0

    def test_geocodes_nest_by_prefix_up_to_the_empty_one_and_constraints_name_all(self, folder):
        for kind in ("DPQuery", "Constraint"):
            found = {
                level: {row["geocode"] for each, row in published(folder, kind) if each == level} for level in LEVELS
            }
            assert found["US"] == {""}
            for above, below in pairwise(LEVELS):
                (length,) = {len(geocode) for geocode in found[above]}
                assert {geocode[:length] for geocode in found[below]} == found[above]
            assert found["County"] == set(COUNTIES)


def imported(folder: Path, root: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> RunLayout:
    """A run that took the tables of a folder over, and has not estimated yet."""
    monkeypatch.setattr(levels, "estimate", lambda *_: None)
    monkeypatch.setattr(reestimate, "publish_results", lambda *_: None)
    estimate_from(open_source(None, folder, [f"output.root={json.dumps(str(root))}"]), run_id="again", spark=spark)
    return RunLayout.at(root, "again")


def in_the_earlier_form(source: Path, target: Path) -> Path:
    """The same measurements as we published them before: "detailed" in each kept column, the nation "0", no zeros."""
    target.mkdir()
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir()
        elif "pl94_2020_person" in path.parts and path.name.startswith("part-"):
            table = pq.ParquetFile(path).read()
            rows = [row for row in table.to_pylist() if row["query_name"] != "nurse_nva_0_con"]
            for row in rows:
                row |= {name: "detailed" for name in ATTRIBUTES if row[name] == name}
                row["geocode"] = row["geocode"] or "0"
            pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), copy)
        else:
            copy.write_bytes(path.read_bytes())
    record = json.loads((target / "measurements.json").read_text())
    files = [record_of(path, str(path.relative_to(target))) for path in sorted(target.rglob("part-*"))]
    record["files"] = [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in files]
    for attribute in record["schema"]:
        attribute["recodes"].pop("gqNursingTotal", None)
    (target / "measurements.json").write_text(json.dumps(record))
    return target


class TestRead:
    """What `das-spark estimate --from-measurements` makes of it."""

    pytestmark = spark_run
    TABLES = ("geounits", "invariants", "bounds", "measurements")

    @pytest.mark.parametrize("earlier", [False, True], ids=["published", "earlier"])
    def test_both_forms_become_the_tables_of_the_run_bit_for_bit(
        self, folder, earlier, tmp_path, spark, tools, monkeypatch
    ):
        source = in_the_earlier_form(folder / "nmf", tmp_path / "nmf") if earlier else folder / "nmf"
        again = imported(source, tmp_path / "runs", spark, monkeypatch)
        first = RunLayout.at(folder / "runs", "clear")
        mine, theirs = (tools.level_rows(each.public.path, self.TABLES, LEVELS) for each in (again, first))
        assert mine == theirs
        assert len(mine["measurements/US"]) == 10
