"""Spark, one task of Spark, and the executor of one process carry out the same steps with the same numbers.

So it is for every product and estimator, and for one that goes upwards through all levels and gives arrays with its
estimates (a double: none that ships does either).
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from collected import SparkInMemory
from pyspark import cloudpickle

from das_spark.audit import SmallPopulation
from das_spark.audit.inputs import neighbouring_inputs
from das_spark.audit.system import LocalSystem
from das_spark.config import plan_of, steps_of
from das_spark.core import ESTIMATORS, level_steps, run_levels
from das_spark.privacy import RunKey
from das_spark.products import PRODUCTS

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline"))
import doubles
import held_runs

pytestmark = pytest.mark.spark

KEY = RunKey.insecure("executors")


def planned(product, **more):
    strategy = next(iter(PRODUCTS[product].strategies.values()))
    names = [level.geolevel for level in strategy.budget.levels]
    kept = [*names[:2], names[-1]]  # jobs of more of them take seconds each
    held = {} if PRODUCTS[product].published is None else {"published": "elsewhere"}
    tables = {
        "config_version": 1,
        "run": {"product": product},
        "input": {"reader": "tidy_counts", "path": "population", **held},
        "budget": {"strategy": strategy.name, "geolevels": dict.fromkeys(kept, f"1/{len(kept)}")},
        "geography": {"levels": kept},
        **more,
    }
    return plan_of(tables, "test", files=False)


def both(spark, plan, steps, *, partitions=2):
    """The same steps on one small population by both executors; each level in some partitions."""
    pair = neighbouring_inputs(plan)[1]
    system = LocalSystem(plan)
    ingested = system.ingest(SmallPopulation(pair.first.geocodes, pair.first.counts, pair.first.units))
    in_process = system.run(ingested, KEY)
    by_spark = SparkInMemory(spark, in_process, plan.spine, partitions=partitions)
    run_levels(steps, by_spark)
    return in_process, by_spark


def require_equal(in_process, by_spark):
    assert in_process.failed == ()
    for level in in_process.levels:
        answers = [each for every in in_process.measurements[level].values() for each in every]
        drawn = {
            (code, answer.query): (None if answer.rows is None else answer.rows.tolist(), values.tolist(), variance)
            for answer in answers
            for code, values, variance in zip(answer.geocodes, answer.values, answer.variance, strict=True)
        }
        rows = by_spark.tables["measurements", level]
        assert {(row["geocode"], row["query"]): (row["rows"], row["values"], row["variance"]) for row in rows} == drawn
        found = {row["geocode"]: (row["cells"], row["counts"]) for row in by_spark.tables["estimates", level]}
        own = in_process.estimates[level].items()
        assert found == {code: (each.cells.tolist(), each.counts.tolist()) for code, each in own}


#: Products of which every estimator is tried by default: one under zCDP, one under pure differential privacy.
USUAL = ("pl94_2020_person", "e2e_1940")


def takes(estimator, product):
    """Whether the solvers of an estimator take the cells of a product."""
    most = ESTIMATORS[estimator].needs.most_cells
    return most is None or PRODUCTS[product].schema.size <= most


@pytest.mark.parametrize(
    ("estimator", "product"),
    [
        pytest.param(
            estimator,
            product,
            marks=() if product in USUAL else pytest.mark.slow,
            id=f"{estimator}-{product}",
        )
        for estimator in ESTIMATORS
        for product in PRODUCTS
        if takes(estimator, product)
    ],
)
def test_both_executors_give_the_same_measurements_and_estimates(spark, estimator, product):
    plan = planned(product, estimation={"estimator": estimator})
    require_equal(*both(spark, plan, steps_of(plan)))


@pytest.mark.parametrize("product", USUAL)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_level_that_is_one_task_has_the_same_measurements_and_estimates(spark, estimator, product):
    plan = planned(product, estimation={"estimator": estimator})
    require_equal(*both(spark, plan, steps_of(plan), partitions=1))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_product_that_is_held_to_published_counts_is_the_same_on_both(spark, monkeypatch, estimator, partitions):
    _, fine = held_runs.registered(monkeypatch)
    plan = planned(fine.name, estimation={"estimator": estimator})
    require_equal(*both(spark, plan, steps_of(plan), partitions=partitions))


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("upward", [pytest.param("all", marks=pytest.mark.slow), "inner"])
def test_an_estimator_with_an_upward_pass_gives_the_same_on_both(spark, monkeypatch, upward, partitions):
    cloudpickle.register_pickle_by_value(doubles)
    estimator = doubles.TotalsFromAllLevels(upward)
    monkeypatch.setitem(ESTIMATORS, "top_down", estimator)
    plan = planned("e2e_1940")
    steps = steps_of(plan)
    assert steps == level_steps(plan.spine.names, estimator.needs) != level_steps(plan.spine.names, doubles.Needs())
    in_process, by_spark = both(spark, plan, steps, partitions=partitions)
    require_equal(in_process, by_spark)
    for level in in_process.levels:
        rows = by_spark.tables["estimate_arrays", level]
        found = {(row["geocode"], row["name"]): row["values"] for row in rows}
        own = in_process.arrays[level]
        assert found == {(code, name): values.tolist() for code, given in own.items() for name, values in given.items()}
        assert {name for _, name in found} == {"mean", "standard_error"}
        assert np.all([np.isfinite(values) for values in found.values()])
