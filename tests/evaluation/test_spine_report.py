"""The report on a spine as data: figures by hand, budgets that add up, and text that is read again."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from made_report import made_report

from das_spark.errors import InputError
from das_spark.evaluation import SpineReport


def test_figures_are_those_of_a_hand_count():
    places, nothing = made_report().figures
    assert (places.category, places.entities) == ("place", 4)
    assert (places.before.median, places.before.mean, places.before.worst) == (5, 5.5, 11)
    assert places.before.p90 == pytest.approx(9.2)
    assert (places.after.median, places.after.worst) == (3.5, 6)
    assert (places.nearer, places.same, places.farther) == (0.5, 0.25, 0.25)
    assert (places.deviation_before, places.deviation_after) == (2.5, 1.5)
    assert nothing.entities == 0
    assert np.isnan(nothing.before.median)
    assert np.isnan(nothing.nearer)


def test_what_one_level_gives_away_others_receive():
    moves = made_report().moves
    county, block = moves
    # A quarter of the blocks have their share at the county.
    assert (county.received, county.given, county.after) == (Fraction(1, 8), 0, Fraction(5, 8))
    assert (block.received, block.given, block.after) == (0, Fraction(1, 8), Fraction(3, 8))
    assert sum(move.after for move in moves) == 1


def test_a_report_is_the_same_when_it_is_read_again():
    report = made_report()
    again = SpineReport.from_json(report.to_json())
    assert again.to_json() == report.to_json()
    assert (again.before, again.after, again.paths) == (report.before, report.after, report.paths)
    assert (again.budget, again.notes, again.facts) == (report.budget, report.notes, report.facts)
    np.testing.assert_allclose(again.category("place").variance_after, report.category("place").variance_after)


def test_the_text_is_strict_json_with_every_entity():
    data = json.loads(made_report().to_json(), parse_constant=pytest.fail)
    first = dict(zip(data["entity_columns"], data["entities"]["place"][0], strict=True))
    assert first == {
        "name": "4400001",
        "blocks": 3,
        "distance_before": 1,
        "distance_after": 2,
        "deviation_before": 1.0,
        "deviation_after": 1.0,
    }
    assert data["entities"]["place"][3][-2:] == [4.0, None]
    assert data["figures"][1]["nearer"] is None


def test_an_unknown_category_is_refused():
    with pytest.raises(InputError, match="no category 'parish'"):
        made_report().category("parish")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(schema_version=9), "version 9, expected 1"),
        (lambda data: data.pop("after"), "not readable"),
        (lambda data: data["share_paths"][0].update(shares=["1/2", "1/3"]), "not readable"),
        (lambda data: data["share_paths"][0].update(shares=["half", "half"]), "not readable"),
    ],
)
def test_damaged_text_is_refused(change, message):
    data = json.loads(made_report().to_json())
    change(data)
    with pytest.raises(InputError, match=message):
        SpineReport.from_json(json.dumps(data))
