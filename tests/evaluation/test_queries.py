"""What a report compares: everything once, the total first."""

import numpy as np
import pytest

from das_spark.errors import QueryError
from das_spark.evaluation import compared_queries, demographic_groups, single_answers
from das_spark.evaluation.tallies import total_of
from das_spark.histogram import Attribute, Recode, Schema

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


def test_every_answer_of_an_attribute_or_recode_is_a_query_of_its_own():
    kinds = Recode("kinds", (("a or c", (0, 2)), ("b", (1,))))
    schema = Schema("homes", (Attribute("size", ("1", "2")), Attribute("type", ("a", "b", "c", "d"), (kinds,))))
    counts = np.arange(1, 9).reshape(2, 4)
    for name, wanted in (
        ("size", {"1": [10], "2": [26]}),
        ("kinds", {"a or c": [1 + 3 + 5 + 7], "b": [2 + 6]}),
    ):
        found = single_answers(schema, name)
        assert {label: query.answer_dense(counts.ravel()).tolist() for label, query in found.items()} == wanted
        assert [query.name for query in found.values()] == [f"{name}: {label}" for label in wanted]
    with pytest.raises(QueryError, match="'sizes'"):
        single_answers(schema, "sizes")
