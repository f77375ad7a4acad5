"""One pass over the families of a level: whatever the partitioning, a family meets its rows, and the core works on it.

That Spark and the executor of one process give the same numbers for every product stands in test_executor.py.
"""

import io
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from collected import collected, families, stored, writing
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from das_spark.core import UNMEASURED, LevelPlan, MeasurementPlan, TopDown
from das_spark.estimation import FamilyPlan, FamilyStatus
from das_spark.histogram import Attribute, Schema
from das_spark.privacy import DiscreteLaplace, RunKey, StreamDomain, cumulative_table
from das_spark.spark.family_rows import FamilySpread
from das_spark.spark.level_pass import (
    EstimationTask,
    MeasurementTask,
    PublicLevel,
    estimates,
    measurements,
)
from das_spark.spark.lists import together

# What tests give to workers travels by value: they cannot import `collected`.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = Schema("small", (Attribute("hhgq", ("household", "a", "b")), Attribute("age", ("young", "old"))))
QUERIES = {name: SCHEMA.query(name) for name in ("hhgq", "detailed", "total")} | {"class": SCHEMA.query("hhgq")}
PARENTS = {"01": {0: 6, 1: 6, 3: 3}, "02": {2: 4}, "03": {}}
CHILDREN = {"01": ("0101", "0102", "0103"), "02": ("0201",), "03": ("0301", "0302")}
PEOPLE = {"0101": {0: 5, 3: 2}, "0102": {}, "0103": {1: 7, 5: 1}, "0201": {2: 4}, "0301": {}, "0302": {}}
PLAN = FamilyPlan(geolevel="County", solvers=("piqp", "osqp"), classes=SCHEMA.query("hhgq"))
LAW = DiscreteLaplace(Fraction(7, 2))
ROWS = pa.schema([("family", pa.string()), ("rank", pa.int64()), ("value", pa.int64())])


@given(sizes=st.lists(st.integers(1, 5), max_size=8), cuts=st.lists(st.integers(1, 6), max_size=20))
def test_families_are_cut_whole_whatever_the_batches_are(sizes, cuts):
    rank = np.repeat(np.arange(len(sizes)), sizes)
    rows = pa.table({"family": [f"f{r}" for r in rank], "rank": rank, "value": np.arange(len(rank))}, schema=ROWS)
    batches, start = [], 0
    for cut in [*cuts, max(len(rank), 1)]:
        batches += rows.slice(start, cut).to_batches()
        start += cut
    found = [table for _, table in together(batches, "rank")]
    assert [table.num_rows for table in found] == sizes
    assert [value for table in found for value in table.column("value").to_pylist()] == list(range(len(rank)))
    assert all(len(set(table.column("family").to_pylist())) == 1 for table in found)


@pytest.mark.spark
def test_an_error_of_a_library_gets_out_of_a_task_without_its_text_and_names_the_family(spark):
    def quotes(family):
        raise ValueError("31337 people")

    spread = FamilySpread(families(["01"], span=(0, None), at_top=True), 1, 1)
    report = measurements(spark, histograms({"01": {0: 3}}), None, quotes, spread, writing())
    with pytest.raises(PySparkException) as caught:
        report.collect()
    assert "ValueError in test_level_pass.py" in str(caught.value)
    assert "at the family of 01" in str(caught.value)
    assert "31337" not in str(caught.value)


def histograms(content, parent=lambda code: "", files=1):
    rows = [(code, parent(code), list(cells), list(cells.values())) for code, cells in content.items()]
    return stored(rows, "histograms", files)


def noise(*, lazy, shares=("",)):
    key = RunKey.insecure("k")
    return MeasurementPlan(
        queries={name: QUERIES[name] for name in ("hhgq", "detailed")},
        mechanisms={
            share: {name: (cumulative_table(LAW), float(place)) for name in ("hhgq", "detailed")}
            for place, share in enumerate(shares, 1)
        },
        streams={name: key.derive(StreamDomain("p", "person", "County", 0, name)) for name in ("hhgq", "detailed")},
        lazy=lazy,
    )


def measured(spark, *, lazy=True, partitions=2, parents=PARENTS, top=False, shares=None, people=PEOPLE, of=PEOPLE):
    """Noisy answers of some people; the families are those of the geounits `of`."""
    task = MeasurementTask(noise(lazy=lazy, shares=sorted(set((shares or {"": ""}).values()))))
    given_shares = None
    if shares is not None:
        given_shares = stored([(code, code[:2], share) for code, share in shares.items()], "shares")
    report = measurements(
        spark,
        histograms(people, lambda code: "" if top else code[:2], files=3),
        histograms(parents) if parents else None,
        task,
        FamilySpread(families(of, span=(0, None if top else 2), at_top=top), 2, partitions),
        writing(),
        shares=given_shares,
    )
    return collected(report).get("measurements", [])


@pytest.mark.spark
def test_families_go_to_files_by_descending_children_in_turn(spark):
    """Three children, two and one; the last family, a single child, is not measured."""
    files = {row["geocode"]: row["file"] for row in measured(spark)}
    assert files == {"0101": "part-0", "0102": "part-0", "0103": "part-0", "0301": "part-1", "0302": "part-1"}
    files = {row["geocode"]: row["file"] for row in measured(spark, lazy=False)}
    assert files["0201"] == "part-0"


@pytest.mark.spark
def test_rows_of_families_come_together_in_any_partitioning(spark):
    once = measured(spark, partitions=1)
    assert [(row["geocode"], row["query"]) for row in once[:4]] == [
        *((code, "detailed") for code in CHILDREN["01"]),
        ("0101", "hhgq"),
    ]
    assert {row["parent"] for row in once} == {"01", "03"}
    for partitions in (2, 7):
        assert sorted(map(str, measured(spark, partitions=partitions))) == sorted(map(str, once))


@pytest.mark.spark
def test_without_estimates_above_every_child_is_measured_on_all_rows(spark):
    rows = measured(spark, parents=None)
    assert {row["geocode"] for row in rows} == set(PEOPLE)
    assert all(row["rows"] is None and row["parent"] == row["geocode"][:2] for row in rows)
    top = measured(spark, parents=None, top=True)
    assert {row["parent"] for row in top} == {""}
    assert {(row["geocode"], row["query"]): row["values"] for row in top} == {
        (row["geocode"], row["query"]): row["values"] for row in rows
    }


@pytest.mark.spark
def test_shares_of_the_budget_reach_their_geounits(spark):
    shares = {code: ("1/3", "2/3")[place % 2] for place, code in enumerate(sorted(PEOPLE))}
    for row in measured(spark, lazy=False, shares=shares):
        assert row["variance"] == {"1/3": 1.0, "2/3": 2.0}[shares[row["geocode"]]]
    shares = {code: UNMEASURED if code[:2] == "01" else "1/3" for code in PEOPLE}
    assert {row["geocode"][:2] for row in measured(spark, lazy=False, shares=shares)} == {"02", "03"}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"people": {code: person for code, person in PEOPLE.items() if code != "0102"}},
            "01: 2 children, expected 3",
        ),
        (
            {"people": {code: person for code, person in PEOPLE.items() if code[:2] != "02"}},
            "02: 0 children, expected 1",
        ),
        ({"of": [code for code in PEOPLE if code != "0302"]}, "family 03: 2 children, expected 1"),
        ({"parents": {code: parent for code, parent in PARENTS.items() if code != "03"}}, "03: no row of estimates"),
        ({"shares": {code: "1/2" for code in PEOPLE if code != "0103"}}, "0103: no row of shares"),
    ],
)
def test_a_family_of_which_something_was_lost_is_refused_by_name(spark, change, message):
    with pytest.raises(PySparkException, match=message):
        measured(spark, lazy=False, **change)


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [1, 2])
def test_families_of_which_there_is_no_row_at_all_are_refused(spark, partitions):
    people = {code: person for code, person in PEOPLE.items() if code[:2] != "03"}
    with pytest.raises(PySparkException, match="of 1 families of the level there is no row"):
        measured(spark, lazy=False, parents=None, people=people, partitions=partitions)


@pytest.mark.spark
def test_shares_of_other_geounits_are_refused(spark):
    shares = {code: "1/2" for code in PEOPLE} | {"0104": "1/2"}
    with pytest.raises(PySparkException, match="family 01: shares of other geounits"):
        measured(spark, lazy=False, shares=shares)


@pytest.mark.spark
def test_a_geounit_that_stands_twice_is_refused(spark):
    twice = stored([(code, "01", [], []) for code in ("0101", "0101", "0103")], "histograms")
    spread = FamilySpread(families(CHILDREN["01"]), 1, 1)
    with pytest.raises(PySparkException, match="family 01: 3 children, expected 3 that differ"):
        measurements(spark, twice, None, MeasurementTask(noise(lazy=False)), spread, writing()).collect()


def noisy(code, query, rows):
    """Some answers, the same in every call."""
    generator = np.random.default_rng([int(code), len(query)])
    return generator.integers(-2, 6, len(rows)).tolist()


@pytest.fixture(scope="module")
def level():
    """Geounits, answers and bounds of three families: ordinary, a single child, nobody to divide."""
    geounits, answers, bounds = [], [], []
    for parent, children in CHILDREN.items():
        support = np.array(sorted(PARENTS[parent]), dtype=np.int64)
        for code in children:
            geounits.append((code, parent, 0))
            for query in ("hhgq", "detailed") if len(children) > 1 else ():
                rows = QUERIES[query].restrict(support).rows.tolist()
                answers.append((code, parent, query, rows, noisy(code, query, rows), 2.5))
            if parent == "01":
                bounds.append((code, parent, "class", code, [1, 0, 0], [9, 9, 0]))
    return geounits, answers, bounds


def public(geounits, answers, bounds, files=2):
    return PublicLevel(
        stored(geounits, "geounits", files), stored(answers, "measurements", files), stored(bounds, "bounds")
    )


class Watching(TopDown):
    """Notes what it is given in the message of the diagnostics."""

    def estimate(self, families, plan):
        return [
            self.noted(each, family) for each, family in zip(super().estimate(families, plan), families, strict=True)
        ]

    @staticmethod
    def noted(found, family):
        problem = family.problem
        flows = problem.flows
        message = repr(
            [
                problem.children,
                [measurement.query.name for measurement in problem.measurements],
                [bound.lower.tolist() for bound in problem.bounds],
                None if flows is None else [flows.child.tolist(), flows.total.tolist(), flows.upper.tolist()],
            ]
        )
        diagnostics = replace(found.result.diagnostics, message=message)
        return replace(found, result=replace(found.result, diagnostics=diagnostics))


def estimated(spark, level, parents=PARENTS, partitions=2, estimator=None, files=2):
    task = EstimationTask(LevelPlan(SCHEMA.size, QUERIES, PLAN, estimator or TopDown()))
    own = families([code for code, *_ in level[0]], span=(0, 2 if parents else None), at_top=not parents)
    above = histograms(parents) if parents else None
    found = collected(
        estimates(spark, public(*level, files=files), above, task, FamilySpread(own, 7, partitions), writing())
    )
    for rows in found.values():
        for row in rows:
            del row["file"]
    assert {row["family"] for row in found["seconds"]} == {row["family"] for row in found["diagnostics"]}
    kept = {row["geocode"]: row for row in found["estimates"]}
    return kept, {row["family"]: row for row in found["diagnostics"]}


@pytest.mark.spark
def test_children_sum_to_their_parent_in_every_cell(spark, level):
    found, _ = estimated(spark, level)
    assert {code for children in CHILDREN.values() for code in children} == set(found)
    for parent, children in CHILDREN.items():
        summed = {}
        for code in children:
            assert found[code]["parent"] == parent
            assert found[code]["cells"] == sorted(found[code]["cells"])
            for cell, count in zip(found[code]["cells"], found[code]["counts"], strict=True):
                assert count > 0
                summed[cell] = summed.get(cell, 0) + count
        assert summed == PARENTS[parent]


@pytest.mark.spark
def test_an_estimator_is_given_the_answers_bounds_and_flows_of_its_family(level, spark):
    geounits, answers, bounds = level
    rows = [("0101", "01", "flow", "010101", [0, 1, 0, 4], [4, 4, 0, 4])]
    rows += [("0103", "01", "flow", "010301", [0, 0, 0, 2], [2, 2, 0, 2])]
    _, diagnostics = estimated(spark, (geounits, answers, [*bounds, *rows]), estimator=Watching())
    flows = [[0, 2], [4, 2], [[4, 4, 0], [2, 2, 0]]]
    expected = [CHILDREN["01"], ["detailed", "hhgq"], [[[1, 0, 0]] * 3], flows]
    assert diagnostics["01"]["message"] == repr(expected)
    assert diagnostics["03"]["message"] == repr([CHILDREN["03"], ["detailed", "hhgq"], [], None])


@pytest.mark.spark
def test_every_family_has_one_row_of_diagnostics_with_its_kind(spark, level):
    _, diagnostics = estimated(spark, level)
    status = {family: row["status"] for family, row in diagnostics.items()}
    assert status == {"01": "optimal", "02": "only_child", "03": "empty_parent"}
    for family, row in diagnostics.items():
        assert row["geolevel"] == "County"
        assert row["children"] == len(CHILDREN[family])
        assert row["problem"] is None
        assert row["gap"] <= PLAN.gap_tolerance
        assert not row["relaxed"]


@pytest.mark.spark
def test_partitions_files_and_the_order_of_rows_change_nothing(spark, level):
    expected = estimated(spark, level)
    assert estimated(spark, level, partitions=7, files=1) == expected
    turned = [list(reversed(rows)) for rows in level]
    assert estimated(spark, turned, partitions=1, files=3) == expected


@pytest.mark.spark
def test_at_the_top_every_geounit_is_a_family_of_its_own(spark):
    values = {"01": [9, 2, 4, 0, 1, -1], "02": [-3, 5, 0, 0, 2, 2]}
    answers = [(code, "", "detailed", None, numbers, 3.0) for code, numbers in values.items()]
    bounds = [("01", "", "total", "01", [12], [12]), ("02", "", "total", "02", [4], [4])]
    top = [("01", "", 2), ("02", "", 1)]
    found, diagnostics = estimated(spark, (top, answers, bounds), None)
    assert {code: sum(row["counts"]) for code, row in found.items()} == {"01": 12, "02": 4}
    assert all(row["parent"] == "" for row in found.values())
    assert set(diagnostics) == {"01", "02"}


@pytest.mark.spark
def test_an_infeasible_family_is_a_row_with_its_saved_problem_and_stops_nobody_else(level, spark):
    geounits, answers, _ = level
    impossible = [(code, "01", "class", code, [9, 0, 0], [9, 9, 9]) for code in CHILDREN["01"]]
    found, diagnostics = estimated(spark, (geounits, answers, impossible))
    row = diagnostics["01"]
    assert row["status"] == str(FamilyStatus.INFEASIBLE)
    assert row["message"]
    saved = np.load(io.BytesIO(row["problem"]))
    assert saved["children"].tolist() == list(CHILDREN["01"])
    assert dict(zip(saved["parent_cells"].tolist(), saved["parent_counts"].tolist(), strict=True)) == PARENTS["01"]
    assert saved["lower class"].tolist() == [[9, 0, 0]] * 3
    assert diagnostics["02"]["problem"] is None
    assert set(found) >= {"0201", "0301", "0302"}
