"""Group quarters and crosswalks by block."""

from __future__ import annotations

import pytest
from dataframes import assert_rows

from das_spark.errors import InputError
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import read_crosswalk, read_quarters

pytestmark = [pytest.mark.spark, pytest.mark.slow]
BLOCK, GEOCODE = "440010001001000", "4400100010011000"


@pytest.mark.parametrize("prefix", ["gq", "units_"])
def test_a_number_above_zero_is_a_facility(spark, tmp_path, prefix):
    names = ",".join(f"{prefix}{number}" for number in range(1, 8))
    (tmp_path / "units.csv").write_text(f"geoid,{names}\n{BLOCK},0,3,,0,0,0,1\n")
    expected = [(GEOCODE, [False, True, False, False, False, False, True])]
    assert_rows(read_quarters(spark, str(tmp_path / "units.csv")), expected)


def test_wrong_tables_of_quarters_are_refused(spark, tmp_path):
    file = tmp_path / "units.csv"
    names = ",".join(f"gq{number}" for number in range(1, 8))
    file.write_text(f"geoid,gq1\n{BLOCK},0\n")
    with pytest.raises(InputError, match="no columns gq1 to gq7"):
        read_quarters(spark, str(file))
    file.write_text(f"geoid,{names}\n{BLOCK},0,-1,0,0,0,x,1\n4400,0,0,0,0,0,0,0\n")
    with pytest.raises(BadInputError) as caught:
        read_quarters(spark, str(file))
    assert [problem.field for problem in caught.value.problems] == ["geoid", "gq2", "gq6"]
    file.write_text(f"geoid,{names}\n" + f"{BLOCK},0,0,0,0,0,0,1\n" * 2)
    with pytest.raises(BadInputError, match="each block once"):
        read_quarters(spark, str(file))


def test_a_crosswalk_names_primitive_geounits(spark, tmp_path):
    file = tmp_path / "crosswalk.csv"
    file.write_text(f"block,prim\n{BLOCK},one\n")
    assert_rows(read_crosswalk(spark, str(file)), [(GEOCODE, "one")])
    file.write_text(f"block,prim\n{BLOCK},\n")
    with pytest.raises(BadInputError, match="prim: expected the name of a primitive geounit"):
        read_crosswalk(spark, str(file))
    file.write_text(f"block,other\n{BLOCK},x\n")
    with pytest.raises(InputError, match="no column 'primitive'"):
        read_crosswalk(spark, str(file))
