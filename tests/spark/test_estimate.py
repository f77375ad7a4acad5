import io

import numpy as np
import pytest

from das_spark.estimation import FamilyPlan, FamilyStatus, estimate_family
from das_spark.histogram import Attribute, Schema
from das_spark.spark import estimate, families, tables
from das_spark.spark.estimate import EstimationTask, saved_problem
from das_spark.spark.families import Spread

pytestmark = pytest.mark.spark

SCHEMA = Schema("small", (Attribute("hhgq", ("household", "a", "b")), Attribute("age", ("young", "old"))))
QUERIES = {name: SCHEMA.query(name) for name in ("hhgq", "detailed", "total")} | {"class": SCHEMA.query("hhgq")}
PARENTS = {"01": {0: 6, 1: 6, 3: 3}, "02": {2: 4}, "03": {}}
CHILDREN = {"01": ("0101", "0102", "0103"), "02": ("0201",), "03": ("0301", "0302")}
PLAN = FamilyPlan(geolevel="County", solvers=("piqp", "osqp"), class_query="hhgq")


def task(plan=PLAN):
    return EstimationTask(size=SCHEMA.size, plan=plan, queries=QUERIES)


def noisy(code, query, rows):
    """Some answers, the same in every call."""
    generator = np.random.default_rng([int(code), len(query)])
    return generator.integers(-2, 6, len(rows)).tolist()


@pytest.fixture(scope="module")
def level(spark):
    """Tables of a level with three families: ordinary, an only child, nobody to divide."""
    geounits, measured, bounds = [], [], []
    for parent, children in CHILDREN.items():
        support = np.array(sorted(PARENTS[parent]), dtype=np.int64)
        for code in children:
            geounits.append((code, parent, 0))
            for query in ("hhgq", "detailed") if len(children) > 1 else ():
                rows = QUERIES[query].restrict(support).rows.tolist()
                measured.append((code, parent, query, rows, noisy(code, query, rows), 2.5))
            if parent == "01":
                bounds.append((code, parent, "class", code, [1, 0, 0], [9, 9, 0]))
    return {
        "geounits": spark.createDataFrame(geounits, tables.GEOUNITS).repartition(3),
        "measurements": spark.createDataFrame(measured, tables.MEASUREMENTS).repartition(3),
        "bounds": spark.createDataFrame(bounds, tables.BOUNDS).repartition(2),
        "parents": frame(spark, PARENTS),
    }


def frame(spark, content):
    rows = [(code, "", list(cells), list(cells.values())) for code, cells in content.items()]
    return spark.createDataFrame(rows, tables.ESTIMATES)


def run(level, partitions=2, plan=PLAN):
    rows = estimate.estimates(*level.values(), task(plan), Spread(7, partitions)).collect()
    kinds = {kind: [row for row in rows if row["record"] == kind] for kind in ("estimate", "diagnostics")}
    assert len(rows) == sum(map(len, kinds.values()))
    found = {row["geocode"]: row for row in kinds["estimate"]}
    return found, {row["diagnostics"]["family"]: row["diagnostics"] for row in kinds["diagnostics"]}


def test_children_sum_to_their_parent_in_every_cell(level):
    found, _ = run(level)
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


def test_a_family_that_travelled_through_spark_is_estimated_like_one_that_did_not(level):
    found, diagnostics = run(level)
    problem = task().problem(family_of(level, "01"))
    assert problem.children == CHILDREN["01"]
    assert [each.query.name for each in problem.measurements] == ["detailed", "hhgq"]
    assert problem.bounds[0].lower.tolist() == [[1, 0, 0]] * 3
    result = estimate_family(problem, PLAN)
    for position, code in enumerate(problem.children):
        dense = dict(zip(found[code]["cells"], found[code]["counts"], strict=True))
        expected = {int(c): int(n) for c, n in zip(result.cells, result.counts[position], strict=True) if n}
        assert dense == expected
    assert diagnostics["01"]["gap"] == result.diagnostics.gap


def family_of(level, code):
    """The rows of one family, decoded as a worker does."""
    caught = []
    rows = families.family_rows(level["geounits"], family="parent", kind=families.HISTOGRAM)
    for name, kind, sources in (
        ("measurements", families.MEASUREMENT, estimate._MEASURED),
        ("bounds", families.BOUND, estimate._BOUNDED),
    ):
        rows = rows.unionByName(families.family_rows(level[name], family="parent", kind=kind, sources=sources))
    parents = families.family_rows(level["parents"], family="geocode", kind=families.PARENT, sources=families.CELLS)
    chosen = rows.unionByName(parents).where(f"family = '{code}'").selectExpr("0 AS file", "0L AS rank", "*")
    order = ["rank", "kind", "name", "geocode", "member"]
    names = [field.name for field in tables.FAMILY_ROWS.fields]
    table = chosen.select(*names).sort(*order).toArrow()
    caught += [families.as_family(each) for each in families.families_of(iter(table.to_batches()))]
    (family,) = caught
    return family


def test_every_family_has_one_row_of_diagnostics_with_its_kind(level):
    _, diagnostics = run(level)
    status = {family: row["status"] for family, row in diagnostics.items()}
    assert status == {"01": "optimal", "02": "only_child", "03": "empty_parent"}
    for family, row in diagnostics.items():
        assert row["geolevel"] == "County"
        assert row["children"] == len(CHILDREN[family])
        assert row["problem"] is None
        assert row["gap"] <= PLAN.gap_tolerance
        assert not row["relaxed"]


@pytest.mark.parametrize("partitions", [1, 7])
def test_partitions_change_nothing(level, partitions):
    assert run(level, partitions) == run(level, 2)


def test_at_the_top_every_geounit_is_a_family_of_its_own(spark):
    geounits = spark.createDataFrame([("01", "", 2), ("02", "", 1)], tables.GEOUNITS)
    values = {"01": [9, 2, 4, 0, 1, -1], "02": [-3, 5, 0, 0, 2, 2]}
    measured = [(code, "", "detailed", None, numbers, 3.0) for code, numbers in values.items()]
    bounds = [("01", "", "total", "01", [12], [12]), ("02", "", "total", "02", [4], [4])]
    level = {
        "geounits": geounits,
        "measurements": spark.createDataFrame(measured, tables.MEASUREMENTS),
        "bounds": spark.createDataFrame(bounds, tables.BOUNDS),
        "parents": None,
    }
    found, diagnostics = run(level)
    assert {code: sum(row["counts"]) for code, row in found.items()} == {"01": 12, "02": 4}
    assert all(row["parent"] == "" for row in found.values())
    assert set(diagnostics) == {"01", "02"}


def test_an_infeasible_family_is_a_row_with_its_saved_problem_and_stops_nobody_else(level, spark):
    impossible = [("0101", "01", "class", "0101", [9, 0, 0], [9, 9, 9])]
    impossible += [(code, "01", "class", code, [9, 0, 0], [9, 9, 9]) for code in ("0102", "0103")]
    found, diagnostics = run({**level, "bounds": spark.createDataFrame(impossible, tables.BOUNDS)})
    row = diagnostics["01"]
    assert row["status"] == str(FamilyStatus.INFEASIBLE)
    assert row["message"]
    saved = np.load(io.BytesIO(row["problem"]))
    assert saved["children"].tolist() == list(CHILDREN["01"])
    assert dict(zip(saved["parent_cells"].tolist(), saved["parent_counts"].tolist(), strict=True)) == PARENTS["01"]
    assert saved["lower class"].tolist() == [[9, 0, 0]] * 3
    assert diagnostics["02"]["problem"] is None
    assert set(found) >= {"0201", "0301", "0302"}


def test_flows_reach_the_problem_by_child_with_their_totals(level, spark):
    rows = [("0101", "01", "flow", "010101", [0, 1, 0, 4], [4, 4, 0, 4])]
    rows += [("0103", "01", "flow", "010301", [0, 0, 0, 2], [2, 2, 0, 2])]
    flowing = {**level, "bounds": level["bounds"].unionByName(spark.createDataFrame(rows, tables.BOUNDS))}
    problem = task().problem(family_of(flowing, "01"))
    assert problem.flows is not None
    assert problem.flows.child.tolist() == [0, 2]
    assert problem.flows.total.tolist() == [4, 2]
    assert problem.flows.lower.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert problem.flows.upper.tolist() == [[4, 4, 0], [2, 2, 0]]
    assert [bound.name for bound in problem.bounds] == ["class"]
    saved = np.load(io.BytesIO(saved_problem(problem)))
    assert saved["flow upper"].tolist() == [[4, 4, 0], [2, 2, 0]]


def test_the_result_does_not_depend_on_the_order_of_rows(level):
    turned = {name: frame.orderBy(*reversed(frame.columns)) for name, frame in level.items()}
    assert run(turned) == run(level)
