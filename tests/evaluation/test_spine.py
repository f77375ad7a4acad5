"""A spine beside the census spine: figures by hand, budgets that add up, text that is read again, the page."""

from __future__ import annotations

import io
import json
import re
from dataclasses import fields, replace
from fractions import Fraction
from xml.etree import ElementTree

import numpy as np
import pytest
from made_spine import made_report
from rich.console import Console

from das_spark.errors import GeographyError, InputError
from das_spark.evaluation import SpineLevelRow, SpineReport, present_spine, share_path
from das_spark.geography import EntityComparison
from das_spark.report import page, print_report


def test_shares_are_read_exactly():
    path = share_path(["104/4099", "3995/4099", "0"], 7)
    assert path.shares == (Fraction(104, 4099), Fraction(3995, 4099), 0)
    assert path.blocks == 7


@pytest.mark.parametrize(
    ("shares", "message"),
    [(["1/2", "a/b"], "not fractions"), (["1/0"], "not fractions"), (["1/2"], "sum to 1"), (["2", "-1"], "sum to 1")],
)
def test_what_is_no_path_is_refused(shares, message):
    with pytest.raises(GeographyError, match=message):
        share_path(shares, 1)


def test_the_mean_fan_out_is_over_geounits():
    assert SpineLevelRow("County", Fraction(1, 2), 4, 10, 5).mean_fan_out == 2.5


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


def test_deviations_are_written_the_same_after_reading():
    draw = np.random.default_rng(1)
    whole = [draw.integers(1, 99, 50) for _ in range(3)]
    real = [draw.exponential(10, 50), np.append(draw.exponential(1e-3, 49), np.inf)]
    entities = EntityComparison("place", np.array([f"{n:02d}" for n in range(50)]), *whole, *real)
    report = replace(made_report(), categories=(entities,))
    again = SpineReport.from_json(report.to_json())
    assert again.to_json() == report.to_json()
    for field in fields(EntityComparison):
        if field.name not in ("category", "names"):
            np.testing.assert_allclose(getattr(again.category("place"), field.name), getattr(entities, field.name))


def test_the_mean_fan_out_is_written_where_there_are_children():
    levels = json.loads(made_report().to_json())["after"]
    assert [level["mean_fan_out"] for level in levels] == [2.0, None]


def tables(report):
    return {table.name: table for table in present_spine(report).tables("page")}


def figures(report):
    return re.findall(r'(?<=class="broad">)<svg.*?</svg>', page(present_spine(report)), flags=re.DOTALL)


def test_every_figure_is_drawn():
    assert len(figures(made_report())) == 4
    for figure in figures(made_report()):
        ElementTree.fromstring(figure)
    text = page(present_spine(made_report()))
    assert "rho = 1/3" in text
    assert text == page(present_spine(made_report()))


def test_tables_show_levels_budget_and_entities():
    text = page(present_spine(made_report()))
    for words in ("Where the budget went", "0.6250", "4400003", "product: pl94_2020_person", "AIAN area"):
        assert words in text
    assert "<quarters>" not in text


def test_the_terminal_shows_the_same_numbers():
    out = Console(file=io.StringIO(), width=200)
    print_report(present_spine(made_report()), out)
    text = out.file.getvalue()
    for words in ("0.6250", "note: nothing is known of <quarters>", "AIAN area", "1/2"):
        assert words in text
    assert "4400003" not in text, "entities are many"


def test_a_report_without_entities_still_makes_a_page():
    assert len(figures(replace(made_report(), categories=made_report().categories[1:]))) == 2


def levels(*names):
    return tuple(SpineLevelRow(name, Fraction(1, len(names)), 1, 1, 1) for name in names)


def test_levels_of_both_spines_stand_in_one_order():
    census = levels("US", "State", "County", "Tract", "Block_Group", "Block")
    other = levels("US", "State", "County", "Prim", "Tract_Subset", "Block_Group", "Block")
    expected = ["US", "State", "County", "Tract", "Prim", "Tract_Subset", "Block_Group", "Block"]
    paths = (share_path(["1/7"] * 7, 1),)
    report = replace(made_report(), before=census, after=other, paths=paths)
    assert [row[0] for row in tables(report)["levels"].rows] == expected


def test_many_points_are_thinned_and_both_ends_stay():
    size = 15_000
    draw = np.exp(np.random.default_rng(1).normal(size=size))
    ones = np.ones(size, dtype=np.int64)
    many = EntityComparison("place", np.arange(size).astype(np.str_), ones, ones, ones, draw, draw)
    report = present_spine(replace(made_report(), categories=(many,)))
    (points,) = [
        one
        for section in report.sections
        for block in section.blocks
        if getattr(block, "caption", "").startswith("Standard deviation")
        for one in block.panels[0].series[:1]
    ]
    assert len(points.x) == 1500
    assert (min(points.x), max(points.x)) == (np.sqrt(draw.min()), np.sqrt(draw.max()))
