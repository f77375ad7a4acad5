"""What a report compares: everything once, the total first."""

import pytest

from das_spark.errors import QueryError
from das_spark.evaluation import compared_queries, demographic_groups
from das_spark.evaluation.tallies import total_of
from das_spark.histogram import Attribute, Schema

SCHEMA = Schema(
    "persons", (Attribute("hhgq", ("a", "b", "c")), Attribute("hispanic", ("no", "yes")), Attribute("race", ("x", "y")))
)


def test_the_total_comes_first_and_the_detailed_query_last_each_once():
    found = compared_queries(SCHEMA, ["hhgq", "hispanic * hhgq", "detailed"], "hispanic * race")
    names = [query.name for query in found]
    assert names[0] == "total"
    assert names[-1] == "detailed"
    assert sorted(names) == sorted(
        ["total", "hhgq", "hispanic", "race", "hispanic * race", "hhgq * hispanic", "detailed"]
    )
    assert [query.rows for query in found] == sorted(query.rows for query in found)
    assert found[0] == total_of(found[-1])


def test_one_query_under_two_names_is_compared_once_under_the_first():
    units = Schema("units", (Attribute("h1", ("vacant", "occupied")),))
    assert [query.name for query in compared_queries(units, ["h1"], "detailed")] == ["total", "detailed"]


def test_groups_are_origin_by_race_as_far_as_there_are_any():
    assert demographic_groups(SCHEMA).name == "hispanic * race"
    assert demographic_groups(Schema("units", (Attribute("h1", ("vacant", "occupied")),))) is None


def test_a_measured_query_of_another_schema_is_refused():
    with pytest.raises(QueryError, match="tenure"):
        compared_queries(SCHEMA, ["tenure"], "race")
