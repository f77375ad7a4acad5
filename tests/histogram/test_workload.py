"""Workloads find queries by name."""

import pytest

from das_spark.errors import QueryError
from das_spark.histogram import Attribute, Schema, Workload

SCHEMA = Schema("people", (Attribute("sex", ("male", "female")), Attribute("age", ("young", "old"))))


def test_queries_are_found_by_name():
    workload = Workload((SCHEMA.query("sex"), SCHEMA.query("detailed")))
    assert workload.names == ("sex", "detailed")
    assert workload.by_name("detailed").rows == 4
    with pytest.raises(QueryError, match=r"did you mean 'sex'\?"):
        workload.by_name("sec")


def test_a_query_may_stand_only_once():
    with pytest.raises(QueryError, match=r"'sex \* age' twice"):
        Workload((SCHEMA.query("sex * age"), SCHEMA.query("age * sex")))


def test_queries_of_different_schemas_do_not_mix():
    other = Schema("other", (Attribute("race", ("white", "black", "other")),))
    with pytest.raises(QueryError, match="different schemas"):
        Workload((SCHEMA.query("sex"), other.query("race")))
