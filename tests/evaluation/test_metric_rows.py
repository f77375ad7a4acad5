"""Lines by population in the report: they survive the file, add up over sizes and runs, and spread."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from das_spark.errors import InputError
from das_spark.evaluation import (
    AccuracyReport,
    Criterion,
    Entry,
    QueryErrors,
    frequencies_of,
    pool,
    present_accuracy,
    report_from_json,
    spread,
)
from das_spark.evaluation.accuracy import headline_spreads
from das_spark.evaluation.metric_rows import CriterionPart, ErrorPart
from das_spark.evaluation.tallies import BLOCK, FIFTIES, PARTS
from das_spark.report import page, table_records


def accuracy_page(*of):
    """The page, cells of all tables alike."""
    return page(present_accuracy(*of)).replace(' class="text"', "").replace("\n<td>", "<td>")


def criterion(name, query, bins, parts):
    sums = [CriterionPart(place, geounits, within, 1, PARTS // 10) for place, geounits, within in parts]
    return Criterion("Block", name, query, bins, tuple(sums))


def line_of(lines, **wanted):
    """The first line with these fields."""
    return next(line for line in lines if all(getattr(line, name) == value for name, value in wanted.items()))


def report(run="a", shift=0, query="race"):
    invented, wrong = frequencies_of(np.array([1, 2]), 6), frequencies_of(shift + np.array([0, -5]), 1)
    parts = (ErrorPart(0, 4, 0, invented), ErrorPart(2, 3, 100, wrong))
    errors = (
        QueryErrors("Block", "total", 1, BLOCK, parts),
        QueryErrors("Block", "total", 1, FIFTIES, (parts[0],)),
        QueryErrors("Block", query, 2, BLOCK, parts),
    )
    criteria = (
        criterion("total", "total", FIFTIES, [(0, 5, 3)]),
        criterion("largest group", "race", BLOCK, [(0, 4, 4), (2, 3, 1 + shift)]),
        criterion("largest group", "race", FIFTIES, [(0, 4, 4), (9, 5, 2), (10, 20, 18 + shift), (50, 10, 10)]),
    )
    entries = (Entry("Block", "total", frequencies_of(np.array([1, 2, 0, -5]), 6)),)
    return AccuracyReport("pl94", (run,), entries, (), errors, criteria, "race")  # fmt: skip


def test_lines_survive_the_file_and_stand_on_a_line_each():
    text = report().to_json()
    assert report_from_json(text).to_json() == text
    content = json.loads(text)
    first = content["queries"][0]
    assert [part["population"] for part in first["by_population"]] == ["0", "10 to 99"]
    assert first["by_population"][0]["figures"]["one_minus_tvd"] is None
    assert first["figures"]["one_minus_tvd"] == pytest.approx(1 - 8 / 200)
    assert first["figures"]["absolute_quantiles_of_wrong"][-1] == 5
    assert [row["population"] for row in content["criteria"][2]["figures"]][:3] == [
        "all",
        "all with 500 or more",
        "0 to 49",
    ]
    assert {"share_within", "one_minus_tvd", "l1", "population", "undefined"} <= set(content["definitions"])
    assert sum(line.startswith(' {"place": "Block"') for line in text.splitlines()) == 7


def test_a_report_of_the_first_version_is_still_read():
    content = json.loads(report().to_json()) | {"schema_version": 1}
    for name in ("queries", "criteria", "groups", "counted", "spread"):
        content.pop(name)
    old = report_from_json(json.dumps(content))
    assert (old.errors, old.criteria, old.counted) == ((), (), "people")
    assert pool([old, old]).entry("Block", "total").figures.n == 8


@pytest.mark.parametrize("change", [{"bins": "sixties"}, {"by_population": [{"bin": 0}]}, {"answers": None, "bins": 3}])
def test_lines_that_cannot_be_read_are_refused(change):
    content = json.loads(report().to_json())
    content["queries"][0] |= change
    with pytest.raises(InputError):
        report_from_json(json.dumps(content))


def test_figures_above_a_size_are_of_the_classes_from_there():
    line = line_of(report().criteria, name="largest group", bins=FIFTIES)
    above = line.at_least(500)
    assert (above.geounits, above.within, above.undefined) == (30, 28, 2)
    assert above.numbers()["mean_difference"] == pytest.approx(0.2 / 28)
    assert line.all_classes.numbers()["share_within"] == pytest.approx(34 / 39)
    with pytest.raises(InputError, match="begins at 510"):
        line.at_least(510)


def test_classes_that_know_no_five_hundred_tell_of_all_and_of_each():
    line = line_of(report().criteria, name="largest group", bins=BLOCK)
    assert [label for label, _ in line.rows()] == ["all", "0", "10 to 99"]


def test_runs_are_pooled_class_by_class():
    both = pool([report("a"), report("b", shift=1)])
    line = line_of(both.errors, query="race")
    assert [(part.bin, part.geounits, part.counted) for part in line.parts] == [(0, 8, 0), (2, 6, 200)]
    assert line.all_classes.frequencies.total == 8
    assert line.all_classes.one_minus_tvd == pytest.approx(1 - (6 + 5 + 5) / 400)
    largest = line_of(both.criteria, name="largest group", bins=FIFTIES)
    assert (largest.at_least(500).within, largest.at_least(500).geounits) == (57, 60)
    assert both.groups == "race"


def test_a_class_that_only_one_run_has_is_pooled_and_has_no_spread():
    first, second = report("a"), report("b")
    fewer = tuple(replace(line, parts=line.parts[:1]) for line in second.errors)
    second = replace(second, errors=fewer)
    assert len(line_of(pool([first, second]).errors, query="race").parts) == 2
    populations = {one.population for one in spread([first, second]) if one.measure == "race" and one.bins == "block"}
    assert populations == {"all", "0"}


def test_queries_that_one_run_does_not_compare_are_left_out_and_it_is_said():
    both = pool([report("a"), report("b", query="age")])
    assert {line.query for line in both.errors} == {"total"}
    assert any("not every run" in note for note in both.notes)
    assert pool([report("a"), report("b")]).notes == ()


def test_every_figure_of_a_class_has_a_spread_and_the_first_shown_are_few():
    reports = [report("a"), report("b", shift=1)]
    spreads = spread(reports)
    found = {(one.measure, one.bins, one.population, one.figure): one for one in spreads}
    within = found["largest group: race", "fifties", "all with 500 or more", "share_within"]
    assert within.values == pytest.approx((28 / 30, 29 / 30))
    assert within.standard_deviation == pytest.approx(1 / 30 / 2**0.5)
    assert found["race", "block", "all", "l1"].values == (8, 8)
    assert ("total", "block", "0", "one_minus_tvd") not in found, "NaN in every run"
    written = json.loads(
        pool(reports).to_json(table_records(present_accuracy(pool(reports), spreads).tables("json"))),
        parse_constant=pytest.fail,
    )["spread"]
    assert [(one["measure"], one["figure"], one["mean"]) for one in written] == [
        (one.measure, one.figure, None if one.mean != one.mean else one.mean) for one in spreads
    ]
    shown = headline_spreads(reports[0], spreads)
    assert {one.population for one in shown} == {"", "all", "all with 500 or more"}
    assert {one.figure for one in shown if one.bins} == {"share_within"}


def test_the_page_shows_queries_and_criteria_with_their_sample_sizes():
    text = accuracy_page(report())
    assert text.count("<figcaption>") == text.count('class="broad"><svg') == 5
    assert ">Block: mean error by population</p>" in text
    assert "Groups: race" in text
    assert "<td>all with 500 or more</td><td>30</td><td>28</td><td>93.33%</td><td>2</td>" in text
    assert "Block: by population of the geounit" in text
    assert "<td>10 to 99</td><td>3</td><td>2</td>" in text
    assert "nan" not in text.replace("provenance", "")


def test_the_page_of_several_runs_shows_the_spread_of_the_criterion():
    reports = [report("a"), report("b", shift=1)]
    text = accuracy_page(pool(reports), spread(reports))
    assert "<td>largest group: race</td><td>all with 500 or more</td><td>share_within</td>" in text
    assert "<td>race</td><td>all</td><td>one_minus_tvd</td>" in text
    assert text.count("<td>total</td><td>all</td><td>one_minus_tvd</td>") == 1


def test_a_report_on_units_says_so_everywhere():
    units = replace(report(), counted="housing units")
    assert "people" not in units.to_json()
    assert "people" not in accuracy_page(units)
    assert "housing units" in accuracy_page(units)
