"""Made-up entities: codes in their ranges, that follow from the geocode, and lie across the spine."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from das_spark.geography import BlockTable
from das_spark.geography.blocks import aian_category
from das_spark.simulation import LIKES
from das_spark.simulation.entities_2020 import entities


@pytest.fixture(scope="module")
def geocodes():
    kind = LIKES["2020-state"]
    share = Fraction(1, 4)
    return kind.make(kind.parts(share)[0], 1, share).geocodes


def _county(geocodes, codes, prefix):
    rows = np.flatnonzero(np.char.startswith(geocodes, prefix))
    columns = {name.lower(): values[rows] for name, values in codes.items()}
    return BlockTable(geocode16=geocodes[rows], gq=np.zeros((rows.size, 7), dtype=bool), **columns)


def test_every_code_has_the_form_that_spines_ask_for(geocodes):
    codes = entities(geocodes)
    for prefix in np.unique([code[:5] for code in geocodes.tolist()]):
        assert len(_county(geocodes, codes, prefix))
    assert (aian_category(codes["AIANNHCE"]) >= -1).all()


def test_a_code_follows_from_the_geocode_alone(geocodes):
    codes, some = entities(geocodes), entities(geocodes[100:200][::-1])
    assert all(np.array_equal(values[100:200][::-1], some[name]) for name, values in codes.items())


@pytest.mark.parametrize("name", ["PLACEFP", "AIANNHCE"])
def test_entities_cut_tracts_and_reach_beyond_them(geocodes, name):
    codes = entities(geocodes)[name]
    tract = np.array([code[:11] for code in geocodes.tolist()])
    inside = ~np.isin(codes, ["9999", "99999"])
    assert 0 < inside.mean() < 1
    cut = [each for each in np.unique(tract[inside]) if len(set(codes[tract == each])) > 1]
    assert cut
    assert max(np.unique(tract[codes == each]).size for each in np.unique(codes[inside])[:50]) > 1


def test_a_block_has_a_unified_district_or_the_other_two(geocodes):
    codes = entities(geocodes)
    unified, secondary, elementary = (codes[name] != "99999" for name in ("SDUNILEA", "SDSECLEA", "SDELMLEA"))
    assert (unified ^ secondary).all()
    assert (secondary == elementary).all()
    assert unified.any()


def test_areas_of_alaska_hawaii_and_oklahoma_are_of_their_categories():
    for state, low, high in (("02", 6000, 7999), ("15", 5000, 5499), ("40", 5500, 5899), ("44", 1, 4799)):
        (code,) = entities(np.array([f"{state}00100010011001"]))["AIANNHCE"]
        assert low <= int(code) <= high
