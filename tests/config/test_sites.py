"""An estimator that works with covariances is refused where there are none, or these are too large to hold."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from quickstart_plans import plan, refused

from das_spark.config import MeasurementOrigin, OriginKind, estimation_plan, plan_of
from das_spark.config.sites import too_many_sites
from das_spark.constraints import StructuralZero
from das_spark.core import ESTIMATORS
from das_spark.errors import ConfigurationError
from das_spark.histogram import Recode
from das_spark.products import _REGISTRY, PRODUCTS, product_from

sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline"))
import many_cells_run

MOST = ESTIMATORS["blue_down"].needs.most_sites
#: The first two levels of race together: a measured query tells all others apart; a rule, the levels of ethnicity.
PAIR = Recode("first_two", (("both", (0, 1)), *((f"race{level}", (level,)) for level in range(2, 63))))
NOBODY = StructuralZero("nobody", (("hispanic", (1,)), ("cenrace", (62,))))
FINE = {"first_two": "1/4", "detailed": "3/4"}


@pytest.fixture
def fine(monkeypatch):
    """A product in which nearly all levels can be told apart, registered."""
    made = PRODUCTS["e2e_2018"]
    *others, race = made.schema.attributes
    schema = replace(made.schema, attributes=(*others, replace(race, recodes=(*race.recodes, PAIR))))
    made = replace(made, name="fine", schema=schema, structural_zeros=(*made.structural_zeros, NOBODY))
    monkeypatch.setitem(_REGISTRY, "fine", made)
    return made


def planned(estimator: str, queries: dict[str, str]):
    tables = {
        "config_version": 1,
        "run": {"product": "fine"},
        "input": {"reader": "tidy_counts", "path": "population"},
        "budget": {"strategy": "e2e_2018", "queries": queries},
        "estimation": {"estimator": estimator},
    }
    return plan_of(tables, "test", files=False)


#: Types, sizes, ages and oldest members, which the zeros tell apart, too; relationships by age.
TOO_MANY = {
    "ddp_2010_household": "these are 2,400",
    "dhc_2020_person": "more than",
    "dhc_2020_household": "these are 15,200",
}


@pytest.mark.parametrize(("name", "said"), TOO_MANY.items())
def test_strategies_that_tell_types_or_relationships_apart_are_above_the_most(name, said):
    product = PRODUCTS[name]
    queries = next(iter(product.strategies.values())).budget.levels[0].queries
    assert said in too_many_sites(product, [product.schema.query(item.query) for item in queries], MOST)


def test_every_other_shipped_strategy_is_well_below_the_most():
    for product in [product for name, product in PRODUCTS.items() if name not in TOO_MANY]:
        for strategy in product.strategies.values():
            names = {item.query for level in strategy.budget.levels for item in level.queries}
            assert too_many_sites(product, [product.schema.query(name) for name in names], MOST // 2) == ""


@pytest.mark.usefixtures("fine")
def test_queries_that_tell_too_much_apart_are_refused_with_the_key_and_the_fix():
    said = (
        r"estimation\.estimator: 'blue_down' holds for each geounit a matrix of .* 1,984 \(8 of hhgq, 2 of votingage, "
        r"2 of hispanic, 62 of cenrace\), more than 1,024; "
        r'measure fewer queries that group levels \(budget\.queries\), or set it to "top_down"'
    )
    with pytest.raises(ConfigurationError, match=said):
        planned("blue_down", FINE)
    top_down = planned("top_down", FINE)
    origin = MeasurementOrigin(OriginKind.RUN, "first", "", "", "first#1")
    with pytest.raises(ConfigurationError, match=said):  # of measurements that exist, too
        estimation_plan(top_down, origin, ["estimation.estimator=blue_down"], source="first")
    assert planned("blue_down", {"hhgq": "1/4", "detailed": "3/4"}).queries


def test_a_product_of_more_cells_than_an_estimator_takes_is_refused_with_the_other_one():
    tables = {
        "config_version": 1,
        "run": {"product": "ddp_2010_person"},
        "input": {"reader": "tidy_counts", "path": "population"},
        "budget": {"strategy": "ddp_2010"},
        "estimation": {"estimator": "blue_down"},
    }
    said = r"'blue_down' takes 262,144 cells at most, and ddp_2010_person has 467,712; set it to \"top_down\""
    with pytest.raises(ConfigurationError, match=said):
        plan_of(tables, "test", files=False)
    tables["estimation"] = {"estimator": "top_down"}
    assert plan_of(tables, "test", files=False).product.schema.size == 467_712


def test_a_schema_of_more_than_a_million_cells_is_looked_at_at_once():
    made = product_from(many_cells_run.product(55))
    assert made.schema.size > 1_600_000
    queries = [made.schema.query(name) for name in many_cells_run.MEASURED]
    began = time.process_time()
    assert too_many_sites(made, queries, 16) == ""
    assert "16 (8 of kind, 2 of age), more than 15" in too_many_sites(made, queries, 15)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("rows", ["support", "all"])
def test_a_level_whose_queries_leave_cells_undetermined_is_refused_with_what_to_add(rows):
    conf, lowest = "establishments_like.toml", {"support": "NUTS3", "all": "Municipality"}[rows]
    rows_of = (f"measurement.rows={rows}", f"budget.level_queries.{lowest}={{total='1'}}")
    blue = "estimation.estimator=blue_down"
    said = (
        f"estimation.estimator: 'blue_down' needs counts of all cells that the measurements determine, and those of"
        f" {lowest} (total) do not determine them; add the query detailed to budget.level_queries.{lowest},"
        ' or set it to "top_down"'
    )
    assert said in refused(*rows_of, blue, name=conf)
    higher = f"budget.level_queries.{plan(name=conf).spine.names[0]}={{total='1'}}"
    assert plan(rows_of[0], higher, blue, name=conf)  # what a level does not determine follows from those below
    assert plan(*rows_of, name=conf)
    origin = MeasurementOrigin(OriginKind.RUN, "first", "", "", "first#1")
    with pytest.raises(ConfigurationError, match=f"those of {lowest}"):
        estimation_plan(plan(*rows_of, name=conf), origin, [blue], source="first")


def test_intervals_of_a_run_whose_lowest_level_leaves_cells_undetermined_are_refused():
    rows_of = ("measurement.rows=all", "budget.level_queries.Block={total='1'}")
    said = refused(*rows_of, 'output.intervals={level="0.9"}')
    assert "output.intervals: needs counts of all cells" in said
    assert "add the query detailed to budget.level_queries.Block, or leave the section out" in said
