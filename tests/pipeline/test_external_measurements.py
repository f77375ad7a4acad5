"""Measurement files in the Bureau's published layout, written here as others write them, read into a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.products import PRODUCTS
from das_spark.store import RunLayout

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.slow, pytest.mark.verified]

PRODUCT = PRODUCTS["pl94_2020_person"]
SCHEMA = PRODUCT.schema
BUDGET = PRODUCT.strategies["to_county"].budget
ATTRIBUTES = [attribute.name for attribute in SCHEMA.attributes]
LEVELS = ("US", "State", "County")
COUNTIES = ("01001", "01003", "72001")
PLACES = {"US": ("",), "State": ("01", "72"), "County": COUNTIES}
FAILED, WRONG = 1, 2
#: How each query is binned as published, and each constraint.
FACTS = json.loads((Path(__file__).parent / "published_measurements.json").read_text())["datasets"][PRODUCT.name]
BINS = {
    each["query_name"].removesuffix("_dpq"): tuple(each["columns"]) for each in FACTS["DPQuery"] + FACTS["Constraint"]
}

CONF = """
config_version = 1
[run]
product = "pl94_2020_person"
[input]
reader = "tidy_counts"
path = "there-is-none"
[output]
microdata = ["parquet"]
tables = []
[budget]
strategy = "to_county"
[invariants]
total_at = "US"
units = false
"""

Row = dict[str, Any]
Rows = dict[tuple[str, str], list[Row]]


def truth(place: str) -> np.ndarray:
    """People of the counties of a place, in the shape of the schema."""
    people = np.zeros(SCHEMA.shape, dtype=np.int64)
    for number, county in enumerate(COUNTIES):
        if county.startswith(place):
            people[0, 0, :, 0] += [30 + number, 10]
            people[0, 1, :, :4] += np.arange(8).reshape(2, 4) * (5 + number)
            people[4, 1, 0, 1] += 12
    return people


def shape_of(bins: tuple[str, ...]) -> list[int]:
    sizes = {"*": 1, "hhinstlevels": 3, "gqNursingTotal": 1, "nonvoting": 1}
    return [sizes.get(text, size) for text, size in zip(bins, SCHEMA.shape, strict=True)]


def noisy(place: str, bins: tuple[str, ...], variance: float, numbers: np.random.Generator) -> list[int]:
    """Sums of the truth along the axes, with noise of the declared variance, whatever its distribution."""
    people = truth(place)
    if bins[0] == "hhinstlevels":
        people = np.stack([people[:1].sum(0), people[1:5].sum(0), people[5:].sum(0)])
    summed = people.sum(axis=tuple(axis for axis, text in enumerate(bins) if text == "*"), keepdims=True)
    noise = np.rint(numbers.normal(0, variance**0.5, summed.size)).astype(np.int64)
    return (summed.ravel() + noise).tolist()


def row(geocode: str, name: str, bins: tuple[str, ...], value: list[int], **more: Any) -> Row:
    binned = dict(zip(ATTRIBUTES, bins, strict=True))
    return {"geocode": geocode, "query_name": name, **binned, "query_shape": shape_of(bins), "value": value, **more}


def dataset() -> Rows:
    """The rows of a whole dataset by level and kind."""
    numbers = np.random.default_rng(2020)
    rows: Rows = {}
    for level in LEVELS:
        measured, constrained = [], []
        for place in PLACES[level]:
            geocode = place or "the nation"
            for item in BUDGET.level(level).queries:
                bins = BINS[item.query]
                variance = float(1 / BUDGET.spent(level, item.query))
                value = noisy(place, bins, variance, numbers)
                measured.append(row(geocode, f"{item.query}_dpq", bins, value, variance=variance, plb=0.5))
            facilities = [0, 0, 0, 0, sum(county.startswith(place) for county in COUNTIES), 0, 0, 0]
            most = [1_000_000] + [99_999 * number for number in facilities[1:]]
            sides = (("hhgq_total_lb_con", facilities, ">="), ("hhgq_total_ub_con", most, "<="))
            for name, value, sign in sides:
                constrained.append(row(geocode, name, BINS[name], value, variance=0.0, plb=0.0, sign=sign))
            zero = row(geocode, "nurse_nva_0_con", BINS["nurse_nva_0_con"], [0], variance=0.0, plb=0.0, sign="=")
            constrained.append(zero)
            if level == "US":
                total = [int(truth("").sum())]
                constrained.append(row(geocode, "total_con", BINS["total"], total, variance=0.0, plb=0.0, sign="="))
        rows[level, "DPQuery"], rows[level, "Constraint"] = measured, constrained
    return rows


def write(folder: Path, rows: Rows) -> Path:
    """Write as published files are: partitions by State and County, integers of several widths, floats of 32 bits."""
    place = folder / "US_Person_PL_PROD"
    for (level, kind), every in rows.items():
        parts: dict[str, list[Row]] = {}
        for each in every:
            code = each["geocode"]
            names = ["", f"State=0{code[:2]}", f"State=0{code[:2]}/County={code}"]
            parts.setdefault(names[LEVELS.index(level)], []).append(each)
        for number, (partition, chosen) in enumerate(sorted(parts.items())):
            target = place / f"{level}.parquet" / kind / partition
            target.mkdir(parents=True)
            table = pa.Table.from_pylist(chosen)
            widths = {"variance": pa.float32(), "value": pa.list_((pa.int32(), pa.int64())[number % 2])}
            widths["query_shape"] = pa.list_((pa.int64(), pa.int16())[number % 2])
            for name, kind_of in widths.items():
                if name in table.column_names:
                    index = table.schema.get_field_index(name)
                    table = table.set_column(index, name, table.column(name).cast(kind_of))
            pq.write_table(table, target / f"part-{number:05d}-abc.snappy.parquet")
            (target / "_SUCCESS").touch()
    return folder


@pytest.fixture(scope="module")
def conf(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("conf") / "others.toml"
    path.write_text(CONF)
    return path


def arguments(folder: Path, conf: Path, output: Path, *more: str) -> list[str]:
    given = ["--from-measurements", str(folder), "--conf", str(conf), "--output", str(output), "--run-id", "others"]
    return ["estimate", *given, *more]


@pytest.fixture(scope="module")
def estimated(tmp_path_factory, conf, spark) -> RunLayout:
    """A whole run from such files."""
    assert spark is not None
    folder = tmp_path_factory.mktemp("others")
    assert main(arguments(write(folder / "nmf", dataset()), conf, folder / "runs")) == 0
    return RunLayout.at(folder / "runs", "others")


def read(layout: RunLayout, table: str, level: str) -> list[Row]:
    parts = sorted(layout.public.level(table, level).glob("part-*"))
    return [each for part in parts for each in pq.ParquetFile(part).read().to_pylist()]


def test_files_of_others_become_the_measurements_of_a_run(estimated):
    for level in LEVELS:
        wanted = {}
        for each in dataset()[level, "DPQuery"]:
            name = each["query_name"].removesuffix("_dpq")
            exact = BUDGET.mechanism(level, name).variance()
            wanted["0" if level == "US" else each["geocode"], name] = (each["value"], exact)
        rows = read(estimated, "measurements", level)
        assert {(each["geocode"], each["query"]): (each["values"], each["variance"]) for each in rows} == wanted
        assert all(each["rows"] is None for each in rows)


def test_geounits_nest_by_the_prefixes_of_their_geocodes(estimated):
    found = {
        (each["geocode"], each["parent"], each["children"])
        for level in LEVELS
        for each in read(estimated, "geounits", level)
    }
    states, counties = {("01", "0", 2), ("72", "0", 1)}, {(code, code[:2], 0) for code in COUNTIES}
    assert found == {("0", "", 2)} | states | counties


def test_bounds_are_the_tighter_of_their_own_and_the_sums_below(estimated):
    bounds = {
        (level, each["geocode"], each["name"]): each for level in LEVELS for each in read(estimated, "bounds", level)
    }
    total = [int(truth("").sum())]
    assert (bounds["US", "0", "total"]["lower"], bounds["US", "0", "total"]["upper"]) == (total, total)
    assert {key for key in bounds if key[2] == "total"} == {("US", "0", "total")}
    # A million people in households of each county, at most; the nation's own million is the tighter bound.
    assert bounds["US", "0", "class"]["upper"] == [1_000_000, 0, 0, 0, 3 * 99_999, 0, 0, 0]
    assert bounds["State", "01", "class"]["lower"] == [0, 0, 0, 0, 2, 0, 0, 0]
    (invariant,) = read(estimated, "invariants", "US")
    assert (invariant["name"], invariant["values"]) == ("total", total)


def test_the_estimates_are_near_the_truth_and_verified(estimated):
    (nation,) = read(estimated, "estimates", "US")
    assert sum(nation["counts"]) == truth("").sum()
    assert json.loads(estimated.public.verification.read_text())["passed"] is True
    assert [path.name for path in (estimated.public.path / "microdata").iterdir() if path.is_dir()] == [
        "person.parquet"
    ]


def test_the_statement_claims_nothing_of_the_randomness_of_others(estimated):
    statement = estimated.public.privacy_statement.read_text()
    assert "published by others (dataset `US_Person_PL_PROD`)" in statement
    assert "cannot say how" in statement
    assert "AES" not in statement
    config = json.loads(estimated.public.manifest.read_text())["config"]
    assert config["origin"]["kind"] == "others"


def each_row(kind: str, change: Callable[[Row], Row | None], level: str = "State") -> Callable[[Rows], None]:
    def apply(rows: Rows) -> None:
        rows[level, kind] = [kept for each in rows[level, kind] if (kept := change(dict(each))) is not None]

    return apply


def renamed(old: str, new: str) -> Callable[[Row], Row | None]:
    return lambda each: each | {"query_name": each["query_name"].replace(old, new)}


def recoded(state: str) -> Callable[[Row], Row | None]:
    return lambda each: each | {"geocode": each["geocode"].replace("72", state)}


def noisier(name: str) -> Callable[[Row], Row | None]:
    return lambda each: each | {"variance": each["variance"] * (1.01 if each["query_name"] == name else 1)}


def without(name: str) -> Callable[[Row], Row | None]:
    return lambda each: None if each["query_name"] == name else each


def of_other_cells(each: Row) -> Row:
    return each | ({"hhgq": "hhgq"} if each["query_name"] == "nurse_nva_0_con" else {})


#: Faults that are found together: change -> what is said of it.
FAULTS = [
    {lambda rows: rows.pop(("State", "DPQuery")): "geolevel State are missing"},
    {each_row("DPQuery", lambda each: each | {"relgq": "*"}): "with relgq"},
    {
        each_row("DPQuery", without("cenrace_dpq")): "query 'cenrace' are missing",
        each_row("DPQuery", noisier("hispanic_dpq"), "County"): "follows from the budget",
        each_row("Constraint", without("hhgq_total_ub_con")): "on both sides, and at every geolevel",
        each_row("Constraint", without("total_con"), "US"): "exact totals of none",
        each_row("Constraint", renamed("lb", "xb"), "County"): "the product knows no such constraint",
    },
    {
        each_row("Constraint", lambda each: each | {"value": [v + 1 for v in each["value"]]}): "structural zero",
        each_row("Constraint", lambda each: each | {"sign": "<="}, "County"): "its sign is '<=', expected '>='",
        each_row("Constraint", of_other_cells, "US"): "nurse_nva_0_con: its binning is ['hhgq', 'nonvoting', '*', '*']",
    },
    {
        each_row("DPQuery", lambda each: each | {"geocode": "0" + each["geocode"]}): "optimized spine are not handled",
        each_row("Constraint", recoded("44")): "constraints of 44, which has no measurements",
    },
    {each_row("DPQuery", recoded("44")): "geounits in 72, which has no measurements"},
]


@pytest.mark.parametrize("faults", FAULTS, ids=[" and ".join(fault.values()) for fault in FAULTS])
def test_what_is_not_handled_is_refused_and_nothing_is_written(tmp_path, conf, spark, capsys, faults):
    assert spark is not None
    rows = dataset()
    for change in faults:
        change(rows)
    assert main(arguments(write(tmp_path / "nmf", rows), conf, tmp_path / "runs")) == FAILED
    said = capsys.readouterr().err
    assert [needle for needle in faults.values() if needle not in said] == [], said
    assert not (tmp_path / "runs").exists()


def test_units_must_not_be_declared_and_the_folder_must_hold_one_dataset(tmp_path, conf, capsys):
    assert main(arguments(tmp_path, conf, tmp_path / "runs", "--set", "invariants.units=true")) == WRONG
    assert "invariants.units = false" in capsys.readouterr().err
    assert main(arguments(tmp_path, conf, tmp_path / "runs")) == FAILED
    assert "US.parquet" in capsys.readouterr().err
    for name in ("US_Person_PL_PROD", "PR_Person_PL_PROD"):
        (tmp_path / name / "State.parquet").mkdir(parents=True)
    assert main(arguments(tmp_path, conf, tmp_path / "runs")) == FAILED
    assert "several datasets" in capsys.readouterr().err
