"""Recodes of files: every code a file may hold stands for one level, in arrays and in messages."""

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.io.cef import HOUSEHOLD_CODES
from das_spark.io.cef import PERSON_CODES as PERSON_CODES_2020
from das_spark.io.cef import UNIT_CODES as UNIT_CODES_2020
from das_spark.io.ipums_1940 import HOUSEHOLD
from das_spark.io.ipums_1940 import PERSON as PERSON_1940
from das_spark.io.pl94_tables import PERSON_CODES, UNIT_CODES
from das_spark.products import PRODUCTS, CodedField, FileRecodes

#: Reader -> codes of its fields where persons are counted, and where units are.
FORMATS = {
    "cef_2020": {"person": PERSON_CODES_2020, "unit": UNIT_CODES_2020, "household": HOUSEHOLD_CODES},
    "ipums_1940": {"person": HOUSEHOLD.codes | PERSON_1940.codes},
    "pl94_summary": {"person": PERSON_CODES, "unit": UNIT_CODES},
    "simulated": {"unit": {"OCCUPIED": "0-1"}},
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_recodes_of_a_product_leave_out_no_code_of_a_file(name):
    made = PRODUCTS[name]
    for reader, recodes in made.file_recodes.items():
        allowed = FORMATS[reader][made.record]
        assert [coded.missing(allowed[coded.name]) for coded in recodes.attributes.values()] == [()] * len(
            made.schema.attributes
        )


def test_levels_of_codes():
    age = CodedField("AGE", ("0-17", "18-64", "65-115,999"))
    assert age.level_of(np.array([0, 17, 18, 64, 65, 115, 116, 999])).tolist() == [0, 0, 1, 1, 2, 2, -1, 2]
    assert age.missing("0-115,999") == ()
    assert age.missing("0-120,blank") == ("blank", "116")
    assert age.first is None
    assert CodedField.numbered("RACE", 3, 1).first == 1
    assert CodedField("QGQTYP", ("blank", "101-106")).blank_level == 0


@pytest.mark.parametrize("levels", [("0-5", "5"), ("x",), ("5-3",), ("blank", "1,blank")])
def test_codes_that_are_none_or_stand_for_two_levels_are_refused(levels):
    with pytest.raises(ConfigurationError, match="field AGE"):
        CodedField("AGE", levels)


def test_recodes_fit_the_schema():
    schema = PRODUCTS["e2e_1940"].schema
    own = {attribute.name: CodedField.numbered(attribute.name, attribute.size) for attribute in schema.attributes}
    FileRecodes(own).check(schema, 8, "test")
    with pytest.raises(ConfigurationError, match=r"test: recodes of other attributes .*\(race\)"):
        FileRecodes({name: each for name, each in own.items() if name != "race"}).check(schema, 8, "test")
    with pytest.raises(ConfigurationError, match="test, attribute race: 3 levels, expected 6"):
        FileRecodes(own | {"race": CodedField.numbered("race", 3)}).check(schema, 8, "test")
    with pytest.raises(ConfigurationError, match="test, unit_class: 2 levels, expected 8"):
        FileRecodes(own, CodedField("hhgq", ("0", "1"))).check(schema, 8, "test")
