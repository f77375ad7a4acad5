"""Recodes of a product: every code of a file has a level."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.io.cef import PERSON
from das_spark.products import PRODUCTS, CodedField
from das_spark.spark.readers.base import Target

PRODUCT = PRODUCTS["pl94_2020_person"]


@pytest.fixture
def target():
    return Target.of("cef_2020", PRODUCT, PRODUCT.spine())


def test_codes_become_cells_and_an_unknown_one_none(target):
    codes = {"QGQTYP": [301, 1_000], "QAGE": [30, 30], "CENHISP": [1, 1], "CENRACE": [1, 1]}
    cells = target.cells({name: np.array(own) for name, own in codes.items()})
    assert cells.tolist() == [3 * 252 + 126, -1]


def test_recodes_that_leave_out_a_code_of_a_file_are_refused(target):
    with pytest.raises(ConfigurationError, match="field QAGE: no level for the codes from 18"):
        target.require_codes("cef_2020", PERSON.codes, [CodedField("QAGE", ("0-17", "20-115"))])
    with pytest.raises(ConfigurationError, match="field SEX: there is none") as caught:
        target.require_codes("cef_2020", PERSON.codes, [CodedField("SEX", ("1", "2"))])
    assert "QSEX" in caught.value.hint
