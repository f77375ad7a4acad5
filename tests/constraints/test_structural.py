"""Structural zeros as masks of cells."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.constraints import StructuralZero
from das_spark.errors import QueryError
from das_spark.histogram import Attribute, Schema

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
