"""Maps: how geounits and areas join, which class a region has, and what is said where nothing joins."""

from __future__ import annotations

from math import cos, radians

import numpy as np
import pytest

from das_spark.errors import InputError
from das_spark.evaluation import Area, Boundaries, GeounitErrors, map_of
from das_spark.evaluation.error_map import MOST_TILES, present_map
from das_spark.report import Figure, Report, page

SQUARE = ((0.0, 60.0), (1.0, 60.0), (1.0, 61.0), (0.0, 61.0), (0.0, 60.0))


def errors(level, codes, error=None, truth=None):
    n = len(codes)
    return GeounitErrors(
        level,
        tuple(codes),
        np.full(n, 100) if truth is None else np.array(truth),
        np.arange(n, dtype=float) if error is None else np.array(error, dtype=float),
    )


def boundaries(*codes, name="GEOID", key=""):
    return Boundaries(
        "areas.json", tuple(Area({name: code, "NAME": f"n{code}"}, (SQUARE,)) for code in codes), True, key
    )


LEVELS = [errors("County", ["01001", "01003"]), errors("Tract", ["01001000100", "01001000200", "01003000100"])]


def regions(section):
    (first, second) = [block for block in section.blocks if isinstance(block, Figure)]
    return first.panels[0].series[0], second.panels[0].series[0]


def test_the_geolevel_of_which_most_geounits_join_is_drawn():
    found = map_of(LEVELS, boundaries("01001000100", "01001000200", "01003"), "people")
    assert found.errors.geolevel == "Tract"
    assert [bool(shape) for shape in found.rings] == [True, True, False]
    assert "2 of 3 geounits of Tract have a boundary in areas.json (by its property GEOID); 1 other" in found.note
    assert found.aspect == pytest.approx(1 / cos(radians(60.4)))


@pytest.mark.parametrize(("code", "name"), [("1001", "GEOID20"), ("0500000US01001", "GEO_ID"), ("01001", "geocode")])
def test_codes_join_without_leading_zeros_and_with_a_prefix(code, name):
    found = map_of(LEVELS[:1], boundaries(code, name=name), "people")
    assert bool(found.rings[0])
    assert not found.rings[1]


def test_nothing_that_joins_is_an_error_with_keys_of_both_sides():
    with pytest.raises(InputError) as caught:
        map_of(LEVELS, boundaries("44", "45"), "people")
    assert "GEOID is 44, 45" in str(caught.value)
    assert "County 01001, 01003; Tract 01001000100" in str(caught.value)
    assert "--boundary-key NAME: NAME" in caught.value.hint


def test_a_property_that_is_not_there_is_an_error_that_names_those_that_are():
    with pytest.raises(InputError, match="GISJOIN") as caught:
        map_of(LEVELS, boundaries("01001", key="GISJOIN"), "people")
    assert "GEOID, NAME" in caught.value.hint
    with pytest.raises(InputError, match="GEOID or GEOID20"):
        map_of(LEVELS, boundaries("01001", name="FIPS"), "people")


def test_without_boundaries_there_are_tiles_of_the_lowest_level_that_is_not_too_long():
    many = errors("Block", [f"{at:05}" for at in range(MOST_TILES + 1)])
    found = map_of([*LEVELS, many], None, "people")
    assert found.errors.geolevel == "Tract"
    places = {shape[0][0] for shape in found.rings}
    assert len(places) == 3, "no two tiles lie on one another"
    assert map_of([errors("State", ["1"]), many], None, "people") is None


def test_classes_hold_about_as_many_geounits_each_and_percentages_are_of_those_who_live_there():
    codes = [f"{at:03}" for at in range(100)]
    level = errors("Tract", codes, error=np.arange(100), truth=[0, *range(1, 100)])
    section = present_map(map_of([level], None, "people"))
    counts, shares = regions(section)
    assert list(counts.edges) == [20, 40, 59, 79]
    classes = np.searchsorted(counts.edges, counts.values, side="right")
    assert np.bincount(classes).tolist() == [20, 20, 19, 20, 21]
    assert counts.labels == ("below 20 people", "20 to 40", "40 to 59", "59 to 79", "79 people or more")
    assert np.isnan(shares.values[0]), "nobody lives there"
    assert shares.values[1:] == [100.0] * 99
    assert counts.texts[7] == "007: 7 people"


def test_the_page_draws_every_region_once_and_says_its_error():
    found = map_of(LEVELS[:1], boundaries("01001", "01003"), "people")
    text = page(Report("Map", (present_map(found),)))
    assert text.count("<title>01003: 1 people</title>") == 1
    assert text.count('class="broad"><svg') == 2
    assert 'class="narrow"' not in text


def test_neighbours_still_meet_when_points_that_fall_together_are_left_out():
    left = tuple((0.0, y) for y in np.linspace(0, 1, 5000)) + tuple((1 - 1e-7, y) for y in np.linspace(1, 0, 5000))
    right = tuple((1.0, y) for y in np.linspace(0, 1, 5000)) + tuple((2.0, y) for y in np.linspace(1, 0, 5000))
    areas = Boundaries("a", (Area({"id": "01"}, (left,)), Area({"id": "02"}, (right,))), True)
    section = present_map(map_of([errors("County", ["01", "02"])], areas, "people"))
    (one,), (other,) = regions(section)[0].rings
    assert max(one[0]) == min(other[0])
    assert len(one[0]) < 1000
