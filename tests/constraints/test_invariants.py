"""Declared invariants and how the privacy statement spells them."""

from __future__ import annotations

import pytest

from das_spark.constraints import Invariants
from das_spark.errors import ConfigurationError, GeographyError
from das_spark.geography import Geolevel, Spine

LEVELS = ("National", "State", "County", "Enumdist")


def test_totals_are_exact_at_their_level_and_above() -> None:
    assert Invariants("State", units=True).total_levels(LEVELS) == ("National", "State")
    assert Invariants("National", units=True).total_levels(LEVELS) == ("National",)
    assert Invariants(None, units=True).total_levels(LEVELS) == ()


def test_a_level_that_the_run_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="State"):
        Invariants("State", units=True).total_levels(("County", "Block"))
    with pytest.raises(ConfigurationError):
        Invariants("", units=True)


@pytest.mark.parametrize(
    ("invariants", "names"),
    [
        (Invariants("State", units=True), ("total", "units", "vacant")),
        (Invariants("State", units=False), ("total",)),
        (Invariants(None, units=True), ("units", "vacant")),
        (Invariants(None, units=False), ()),
        (Invariants("State", units=True, vacant=False), ("total", "units")),
        (Invariants(None, units=False, vacant=False), ()),
    ],
)
def test_every_declared_invariant_has_one_sentence(invariants: Invariants, names: tuple[str, ...]) -> None:
    assert invariants.names == names
    sentences = invariants.describe(("Household", "Military quarters"), "Enumdist")
    assert len(sentences) == max(1, len(names))
    assert all(sentence.endswith(".") for sentence in sentences)


def test_the_sentences_name_level_classes_and_vacant_units() -> None:
    text = " ".join(Invariants("State", units=True).describe(("Household", "Military quarters"), "Enumdist"))
    for word in ("State", "above", "Household; Military quarters", "Enumdist", "vacant"):
        assert word in text
    assert "No number is published exactly" in Invariants(None, units=False).describe()[0]


def test_vacant_units_that_are_not_told_apart_are_not_said_to_be_exact() -> None:
    classes = ("Housing unit (occupied or vacant)", "Juvenile facilities", "Military quarters")
    _, text = Invariants("State", units=True, vacant=False).describe(classes, "Block")
    assert text.startswith("The number of housing units, occupied plus vacant,")
    assert "facilities of group quarters of each type (Juvenile facilities; Military quarters)" in text
    assert "in every geounit of the lowest geolevel, Block, are published exactly" in text
    assert text.endswith("how many of the housing units are vacant is not.")
    assert "number of vacant" not in text


def test_where_geounits_are_parts_only_the_areas_are_said_to_be_exact() -> None:
    sentence = Invariants("State", units=False).describe(in_parts=True)[0]
    for words in ("State", "in parts", "totals of parts are not"):
        assert words in sentence
    assert "parts" not in Invariants("State", units=False).describe()[0]


def test_the_total_key_holds_at_the_level_that_ends_with_its_digits() -> None:
    levels = (Geolevel("US", 0), Geolevel("State", 3), Geolevel("County", 6))
    spine = Spine(levels, total_key=(2, 2))
    assert [spine.total_key_at(name) for name in ("US", "State", "County", None)] == [None, (2, 2), None, None]
    assert Spine(levels[1:], total_key=(2, 2)).total_key_at("State") == (2, 2)
    assert Spine(levels).total_key_at("State") is None


@pytest.mark.parametrize("key", [(2, 5), (1, 3), (4, 3), (3, 2), (4, 0), (0, 4)])
def test_a_total_key_that_no_level_has_with_all_its_geounits_in_one_place_is_refused(key: tuple[int, int]) -> None:
    levels = (Geolevel("US", 0), Geolevel("State", 3), Geolevel("County", 6))
    with pytest.raises(GeographyError, match="total_key"):
        Spine(levels, total_key=key)
