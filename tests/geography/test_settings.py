"""Settings and shares: what production used, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from das_spark.errors import GeographyError
from das_spark.geography import DHC, PL94_PERSON, PL94_UNIT, PRESETS, LevelShares, SpineSettings


def test_the_presets_are_those_of_the_production_runs() -> None:
    for preset in PRESETS.values():
        assert (preset.fanout_cutoff, preset.entity_threshold, preset.bypass_cutoff) == (12, 9, 150)
        assert (preset.group_type, preset.merge, len(preset.aian_categories)) == ("orig", "none", 7)
        assert preset.target_aian_areas
    assert (PL94_PERSON.consider_gq, PL94_UNIT.consider_gq, DHC.consider_gq) == (True, False, True)
    assert (DHC.target_school_districts, DHC.target_block_groups) == (True, True)
    assert not PL94_PERSON.target_block_groups
    assert (PL94_PERSON.kind, DHC.kind) == ("optimised", "dhc")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "optimized"}, "did you mean 'optimised'"),
        ({"group_type": "odd"}, "group type"),
        ({"merge": "greedy"}, "way to merge"),
        ({"merge": "paper"}, "'optimised' only"),
        ({"kind": "optimised", "target_block_groups": True}, "'dhc'"),
        ({"target_school_districts": True}, "'dhc'"),
        ({"aian_categories": ("federal", "fed")}, "fed"),
        ({"fanout_cutoff": -1}, "fanout_cutoff"),
        ({"bypass_cutoff": 1.5}, "bypass_cutoff"),
        ({"entity_threshold": True}, "entity_threshold"),
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong, message: str) -> None:
    with pytest.raises(GeographyError, match=message):
        SpineSettings(**wrong)


def test_shares_get_their_least_common_denominator() -> None:
    shares = LevelShares.of({"State": Fraction(1, 2), "County": Fraction(1, 3), "Block": Fraction(1, 6)})
    assert (shares.numerators, shares.denominator, shares.above) == ((3, 2, 1), 6, 1)
    assert (shares.county_levels, shares.county_numerators) == (("County", "Block"), (2, 1))


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"County": 0.5, "Block": 0.5}, "'County' must be a fraction"),
        ({"County": Fraction(1, 2), "Block": Fraction(1, 3)}, "5/6"),
        ({"County": Fraction(0), "Block": Fraction(1)}, "above 0"),
        ({"County": True, "Block": Fraction(1)}, "County"),
        ({"State": Fraction(1)}, "'County'"),
        ({name: Fraction(1, 4) for name in ("US", "Region", "State", "County")}, "at most"),
    ],
)
def test_shares_that_are_no_exact_division_are_refused(shares, message: str) -> None:
    with pytest.raises(GeographyError, match=message):
        LevelShares.of(shares)
