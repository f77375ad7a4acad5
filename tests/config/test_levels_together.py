"""One sentence says which levels were in the pass upwards; plan, manifest and statement have it from here."""

from __future__ import annotations

from pathlib import Path

import pytest

from das_spark.config import levels_together, load_plan
from das_spark.core import ESTIMATORS, Needs

CONF = Path(__file__).parents[2] / "conf" / "e2e_1940.toml"
BLUE = "estimation.estimator=blue_down"
PASS = (
    "The measurements of National, State and County are combined in a pass upwards before the first estimate, so that "
    "each of these geolevels is estimated from its own measurements and those of all below it in the pass"
)
WHOLE = f"{PASS.replace('State and County', 'State, County and Enumdist')}."
APART = "; Enumdist, the lowest geolevel, is left out of the pass: it is measured after County is estimated"


def sentence(*settings: str) -> str:
    return levels_together(load_plan(CONF, settings=settings, files=False))


def test_it_names_the_levels_of_the_pass_and_the_one_that_is_left_out():
    lazily = ", without the answers that the estimates of County cannot touch,"
    assert sentence(BLUE) == f"{PASS}{APART}{lazily} and estimated as by TopDown."


def test_where_every_row_is_kept_the_pass_begins_at_the_lowest_level():
    assert sentence(BLUE, "measurement.rows=all") == WHOLE


def test_a_pass_through_all_levels_leaves_none_out(monkeypatch: pytest.MonkeyPatch):
    class Everything:
        needs = Needs(upward="all")

    monkeypatch.setitem(ESTIMATORS, "everything", Everything())
    assert sentence("estimation.estimator=everything") == WHOLE


def test_where_each_level_is_estimated_by_itself_nothing_is_said():
    assert sentence() == ""
