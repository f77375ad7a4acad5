"""A rule that no division of the parent can keep: the run fails by name, or, when told to, relaxes that family openly.

Two of the districts of the first county hold one class of units each. The rule asks for five Chinese in each district.
The county can keep the rule's sum with ten Chinese who all live in households; then the barracks can have none.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from local_system import at_least, run_system
from pyarrow import parquet
from run_files import census_files, run_file
from small_census import CLASSES, SHAPE, made_of

import das_spark
from das_spark.cli.main import main

pytestmark = [pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

CHINESE = 3
FEWEST = 5
RULE = f"""
[[constraints]]
name = "some Chinese everywhere"
geolevel = "Enumdist"
query = "race"
sense = ">="
right = [0, 0, 0, {FEWEST}, 0, 0]
"""
FAILSAFE = '[measurement]\nrows = "all"\n[estimation]\nfailsafe = true\n'
#: Three levels are enough, and a third faster.
LEVELS = """
[geography]
levels = ["State", "County", "Enumdist"]
[budget.geolevels]
State = "1/3"
County = "1/3"
Enumdist = "1/3"
"""
EPSILON = 100
FAMILY = "010001"
KEY = "failsafe"


@pytest.fixture(scope="module")
def population():
    """Two counties; every district has Chinese in its households, and the barracks have none at all."""
    people = {"010001": [{0: (60, 200)}, {4: (2, 90)}], "010002": [{0: (40, 120)}, {0: (50, 160)}]}
    census = made_of(people, {"State": 2, "County": 6, "Enumdist": 10})
    counts = census.counts.reshape(-1, *SHAPE)
    counts[:, 1:, :, :, 0] += counts[:, 1:, :, :, CHINESE]
    counts[:, 1:, :, :, CHINESE] = 0
    counts[[0, 2, 3], 0, 1, 0, CHINESE] += 20
    return census


@pytest.fixture(scope="module")
def files(tmp_path_factory, population):
    folder = tmp_path_factory.mktemp("failsafe")
    return folder, census_files(folder, population)


@pytest.mark.spark
def test_without_the_failsafe_the_run_fails_by_name_and_saves_the_problem(spark, files, capsys):
    folder, place = files
    path = run_file(folder, place, epsilon=EPSILON, more=LEVELS + RULE)
    assert main(["run", str(path), "--run-id", "refused", "--test-key", KEY]) == 1
    assert f"{FAMILY} (infeasible" in capsys.readouterr().err.replace("\n", " ")
    saved = sorted((folder / "runs" / "refused" / "public").rglob("*.npz"))
    assert [each.name for each in saved] == [f"Enumdist.{FAMILY}.npz"]
    with np.load(saved[0]) as content:
        assert content["children"].tolist() == [f"{FAMILY}0001", f"{FAMILY}0002"]
        assert content["lower added:some Chinese everywhere"].tolist() == [[0, 0, 0, FEWEST, 0, 0]] * 2


@pytest.fixture(scope="module")
def relaxed(spark, files):
    folder, place = files
    path = run_file(folder, place, epsilon=EPSILON, more=LEVELS + RULE + FAILSAFE)
    return das_spark.run(path, run_id="relaxed", test_key=KEY, spark=spark).layout.public


def read(layout, table, level):
    """Rows of a level of a public table."""
    parts = sorted(layout.level(table, level).glob("*.parquet"))
    return [row for part in parts for row in parquet.ParquetFile(part).read().to_pylist()]


def dense(row):
    """One estimate by attribute."""
    found = np.zeros(SHAPE, dtype=np.int64)
    found.ravel()[row["cells"]] = row["counts"]
    return found


def test_the_system_in_memory_does_the_same(population):
    rule = at_least("some Chinese everywhere", "race", (0, 0, 0, FEWEST, 0, 0))
    ends = {}
    for failsafe in (False, True):
        settings = ("estimation.failsafe=true", "measurement.rows=all") if failsafe else ()
        run = run_system(population, EPSILON, KEY, *settings, rule=rule)
        ends[failsafe] = {family: status for (level, family), status in run.ends.items() if level == "Enumdist"}
        assert run.executor.failed == (() if failsafe else (f"Enumdist/{FAMILY}",))
    assert ends == {
        False: {FAMILY: "infeasible", "010002": "optimal"},
        True: {FAMILY: "relaxed", "010002": "optimal"},
    }


@pytest.mark.spark
def test_with_the_failsafe_the_run_finishes_and_names_the_family(relaxed):
    manifest = json.loads(relaxed.manifest.read_text())
    assert manifest["relaxed"] == [f"Enumdist/{FAMILY}"]
    assert any("relaxed" in notice for notice in manifest["notices"])
    rows = read(relaxed, "diagnostics", "Enumdist")
    status = {row["family"]: row["status"] for row in rows}
    assert status == {FAMILY: "relaxed", "010002": "optimal"}


@pytest.mark.spark
def test_verification_passes_and_notes_that_consistency_is_relaxed(relaxed):
    report = json.loads(relaxed.verification.read_text())
    assert report["passed"]
    assert report["relaxed"] == [f"Enumdist/{FAMILY}"]
    (check,) = [
        check
        for check in report["checks"]
        if check["name"] == "children sum to parents" and check["geolevel"] == "Enumdist"
    ]
    assert check["note"] == "consistency relaxed"
    others = [check for check in report["checks"] if check["geolevel"] in ("State", "County")]
    assert others
    assert not any(other["note"] for other in others)


@pytest.mark.spark
def test_the_relaxed_family_keeps_every_bound_and_the_margin_over_the_class(relaxed, population):
    (parent,) = [row for row in read(relaxed, "estimates", "County") if row["geocode"] == FAMILY]
    children = {row["geocode"]: dense(row) for row in read(relaxed, "estimates", "Enumdist") if row["parent"] == FAMILY}
    summed = sum(children.values())
    assert (summed != dense(parent)).any(), "nothing had to be relaxed"
    np.testing.assert_array_equal(summed.sum(axis=0), dense(parent).sum(axis=0))
    for number, found in enumerate(children[code] for code in sorted(children)):
        by_class = found.sum(axis=(1, 2, 3))
        assert found[..., CHINESE].sum() >= FEWEST
        assert by_class.shape == (CLASSES,)
        assert (by_class >= population.units[number]).all()
        assert not by_class[population.units[number] == 0].any()
