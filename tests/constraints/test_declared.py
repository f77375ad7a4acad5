"""Invariants, structural zeros and added constraints: what they mean, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from das_spark.constraints import AddedConstraint, Invariants, Sense, StructuralZero
from das_spark.errors import ConfigurationError, GeographyError, QueryError
from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products import PRODUCTS

SCHEMA = Schema("toy", (Attribute("hhgq", ("a", "b", "c")), Attribute("age", ("young", "old"))))


def constraint(**changes: Any) -> AddedConstraint:
    values = {"name": "barracks", "geolevel": "County", "query": "hhgq", "sense": "<=", "right": (5, 6, 7)}
    return AddedConstraint(**{**values, **changes})


def test_one_right_hand_side_for_each_answer() -> None:
    each = constraint()
    assert each.resolve(SCHEMA).rows == 3
    assert each.right_hand_sides(3).tolist() == [5, 6, 7]
    assert each.sense is Sense.AT_MOST


def test_a_single_right_hand_side_serves_all_answers() -> None:
    each = constraint(right=(9,), query="hhgq * age")
    assert each.right_hand_sides(each.resolve(SCHEMA).rows).tolist() == [9] * 6


def test_an_unknown_query_is_refused() -> None:
    with pytest.raises(QueryError):
        constraint(query="hhgg").resolve(SCHEMA)


def test_a_wrong_number_of_right_hand_sides_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="barracks"):
        constraint(right=(1, 2)).resolve(SCHEMA)
    with pytest.raises(ConfigurationError, match="barracks"):
        constraint(right=(1, 2)).right_hand_sides(3)


@pytest.mark.parametrize(
    "changes",
    [
        {"right": ()},
        {"right": (1, -1, 0)},
        {"right": (1.0, 2, 3)},
        {"right": (True, 2, 3)},
        {"right": (2**63,)},
        {"sense": "<"},
        {"name": ""},
        {"geolevel": " "},
        {"query": ""},
    ],
)
def test_what_is_no_public_whole_number_rule_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        constraint(**changes)


def test_the_mask_holds_exactly_the_selected_cells() -> None:
    mask = StructuralZero("no_young_c", (("hhgq", (2,)), ("age", (0,)))).mask(SCHEMA)
    assert mask.dtype == np.bool_
    assert np.flatnonzero(mask).tolist() == [4]


def test_attributes_left_out_are_all_selected() -> None:
    mask = StructuralZero("only_a", (("hhgq", (1, 2)),)).mask(SCHEMA)
    assert np.flatnonzero(mask).tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("selection", [(("hhqg", (0,)),), (("hhgq", (3,)),)])
def test_a_selection_outside_the_schema_is_refused(selection: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
    with pytest.raises(QueryError):
        StructuralZero("wrong", selection).mask(SCHEMA)


def test_the_query_names_the_recode_whose_only_group_are_the_levels() -> None:
    recodes = (Recode("ends", (("a", (0,)), ("c", (2,)))), Recode("bc", (("b or c", (1, 2)),)))
    schema = Schema("toy", (Attribute("hhgq", ("a", "b", "c"), recodes), SCHEMA.attributes[1]))
    zero = StructuralZero("only_a", (("hhgq", (2, 1)),))
    assert zero.query(schema) == "bc"
    with pytest.raises(QueryError, match="'only_c': no recode of 'hhgq' selects its levels"):
        StructuralZero("only_c", (("hhgq", (2,)),)).query(schema)


@pytest.mark.parametrize("name", [name for name, product in PRODUCTS.items() if product.structural_zeros])
def test_zeros_of_every_product_can_be_spelled_and_mean_their_cells(name: str) -> None:
    schema = PRODUCTS[name].schema
    for zero in PRODUCTS[name].structural_zeros:
        counted = schema.query(zero.query(schema)).row_of(np.arange(schema.size))
        assert np.array_equal(counted == 0, zero.mask(schema))


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
