"""Coverage of published intervals: counted by loops, pooled over runs, and shown for each kind by itself."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.evaluation import (
    MEASUREMENTS,
    REPLICATES_OF_RUN,
    TOTAL_OF,
    Coverage,
    tally_coverage,
)
from das_spark.evaluation.coverage import ALL, CLASSES, class_name, pooled_coverage, present_coverage
from das_spark.report import Figure, ReportTable

ENDS = st.integers(0, 12)
INTERVAL = st.tuples(ENDS, st.sampled_from([0.0, 5e-5, 0.5, 3.0]), ENDS, ENDS)


@given(
    st.lists(
        st.tuples(st.one_of(st.integers(0, 2_000_000), st.sampled_from(CLASSES)), INTERVAL, INTERVAL),
        min_size=1,
        max_size=9,
    )
)
def test_intervals_are_counted_by_the_class_of_their_geounit_one_by_one(rows):
    population = np.array([row[0] for row in rows])
    truth, error, low, high = (np.array([[each[n] for each in row[1:]] for row in rows]) for n in range(4))
    expected = np.zeros((len(CLASSES), 4), dtype=np.int64)
    for people, *own in rows:
        place = max(number for number, least in enumerate(CLASSES) if least <= people)
        for count, deviation, least, most in own:
            inside = least <= count <= most
            # What is said to be exact and is, is left out; what is not although it is said to be counts as missed.
            if inside and deviation < 1e-4:
                expected[place] += (0, 0, 0, 1)
            else:
                expected[place] += (1, inside, most - least, 0)
    assert (tally_coverage(truth, error, low, high, population) == expected).all()


def test_classes_of_geounits_are_named_by_their_people():
    assert [class_name(place) for place in (0, 1, 2, len(CLASSES) - 1)] == [
        "0",
        "1 to 9",
        "10 to 49",
        "1,000,000 and more",
    ]


def row(**more: object) -> Coverage:
    given: dict[str, object] = {"place": "Tract", "table": "P1", "population": 3, "level": 0.9, **more}
    numbers = {"intervals": 40, "covered": 30, "width": 200, "exact": 2}
    return Coverage(**{**numbers, **given})


ROWS = (
    row(),
    row(population=5, intervals=60, covered=60, width=100, exact=0),
    row(table=f"P1{TOTAL_OF}"),
    row(place="Block", intervals=0, covered=0, width=0),
    row(of=REPLICATES_OF_RUN, covered=10, level=0.5),
)


#: Another value of everything that tells lines apart.
KEYS = {"of": REPLICATES_OF_RUN, "place": "Block", "table": "P2", "population": 4, "level": 0.5}


def test_lines_of_one_kind_place_table_class_and_level_are_pooled_and_others_are_not():
    others = [replace(ROWS[0], **{name: value}) for name, value in KEYS.items()]
    assert len(pooled_coverage([ROWS[0], *others])) == 1 + len(others)
    (found,) = pooled_coverage([ROWS[0], replace(ROWS[0], intervals=3, covered=1, width=7, exact=5)])
    assert found == replace(ROWS[0], intervals=43, covered=31, width=207, exact=7)


@pytest.mark.parametrize("coverage", ROWS)
def test_a_line_is_written_with_its_figures_and_read_again(coverage):
    written = coverage.to_json()
    assert Coverage.of_json(written) == coverage
    if coverage.intervals:
        share = coverage.covered / coverage.intervals
        assert written["share"] == share
        assert written["standard_error"] == pytest.approx(sqrt(share * (1 - share) / coverage.intervals))
        assert written["mean_width"] == coverage.width / coverage.intervals
    else:
        assert (written["share"], written["standard_error"], written["mean_width"]) == (None, None, None)


def test_there_is_a_section_for_each_kind_that_there_is_with_its_own_level():
    sections = list(present_coverage(ROWS, "people"))
    assert [section.title for section in sections] == [
        "Coverage of intervals by the measurements",
        "Coverage of intervals of published counts",
    ]
    for section, kind, level in zip(sections, (MEASUREMENTS, REPLICATES_OF_RUN), ("90 %", "50 %"), strict=True):
        tables = [part for part in section.blocks if isinstance(part, ReportTable)]
        assert level in tables[0].title
        names = {"coverage", "coverage_by_population"}
        assert {table.name for table in tables} == (
            names if kind == MEASUREMENTS else {name.replace("coverage", "coverage_of_replicates") for name in names}
        )
    assert list(present_coverage((), "people")) == []
    assert len(list(present_coverage(ROWS[-1:], "people"))) == 1


def records(table: ReportTable) -> list[dict[str, object]]:
    return [dict(zip((column.name for column in table.columns), values, strict=True)) for values in table.rows]


def test_classes_are_summed_in_the_first_table_and_drawn_for_totals_alone():
    (section,) = present_coverage(ROWS[:4], "people")
    whole, by_size = (part for part in section.blocks if isinstance(part, ReportTable))
    found = {(record["place"], record["table"]): record for record in records(whole)}
    assert set(found) == {("Tract", "P1"), ("Tract", f"P1{TOTAL_OF}"), ("Block", "P1")}
    tract = found["Tract", "P1"]
    assert (tract["population"], tract["intervals"], tract["exact"]) == (ALL, 100, 2)
    assert (tract["share"], tract["mean_width"]) == (0.9, 3.0)
    assert [record["population"] for record in records(by_size)] == [class_name(each.population) for each in ROWS[:4]]
    (figure,) = (part for part in section.blocks if isinstance(part, Figure))
    ((curve,),) = (panel.series for panel in figure.panels)
    assert (tuple(curve.x), tuple(curve.y)) == ((CLASSES[3],), (5.0,))
