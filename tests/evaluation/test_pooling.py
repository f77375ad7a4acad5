"""The spread of figures over runs."""

from made_study import made_run

from das_spark.evaluation import spread


def test_figures_that_no_run_has_a_number_of_have_no_spread():
    found = spread([made_run(1), made_run(2)])
    assert {one.place for one in found} == {"County"}  # in districts nothing is compared
    assert all(value == value for one in found for value in (one.mean, one.standard_deviation, *one.values))  # noqa: PLR0124 - NaN
