"""Structural zeros as masks of cells."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.constraints import StructuralZero
from das_spark.errors import QueryError
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products import PRODUCTS

SCHEMA = Schema("toy", (Attribute("hhgq", ("a", "b", "c")), Attribute("age", ("young", "old"))))


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
