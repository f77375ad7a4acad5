"""Files of areas, seen without Spark; what makes each unusable is tried through the commands in the pipeline."""

from __future__ import annotations

import pytest

from das_spark.errors import InputError
from das_spark.geography import Geolevel, Spine
from das_spark.io.area_files import look_at_areas, require_areas

BLOCK_SPINE = Spine((Geolevel("Block", 16),))
BLOCKS = ("4400700010011000", "4400700010012001")


def written(path, codes, head="geocode,area"):
    file = path / "areas.csv"
    file.write_text("\n".join([head, *(f"{code},a{place}" for place, code in enumerate(codes))]) + "\n")
    return file


def test_geocodes_of_leaves_and_of_census_blocks_are_taken(tmp_path):
    look_at_areas(written(tmp_path, BLOCKS), BLOCK_SPINE)
    look_at_areas(written(tmp_path, ["440070001001000", BLOCKS[1]]), BLOCK_SPINE)
    look_at_areas(written(tmp_path, []), BLOCK_SPINE)
    look_at_areas(written(tmp_path, BLOCKS, head="\ufeffGEOCODE,AREA"), BLOCK_SPINE)


def test_a_census_block_and_its_geocode_are_one_geounit(tmp_path):
    with pytest.raises(InputError, match=f"geocode {BLOCKS[0]} stands twice"):
        look_at_areas(written(tmp_path, [BLOCKS[0], "440070001001000"]), BLOCK_SPINE)


@pytest.mark.parametrize("codes", [["7000100110"], ["44007"], ["44007000100110000"], [""], ["x" * 16]])
def test_codes_of_other_lengths_are_counted(tmp_path, codes):
    with pytest.raises(InputError, match=r"expected geocodes of 16 digits .* not so in 1 of 3 rows") as caught:
        look_at_areas(written(tmp_path, [*BLOCKS, *codes]), BLOCK_SPINE)
    assert "leading zeros" in caught.value.hint


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv: no such file"):
        require_areas(tmp_path / "none.csv")


def test_a_row_with_too_many_fields_is_named(tmp_path):
    file = written(tmp_path, BLOCKS)
    file.write_text(file.read_text() + "4400700010013001,a,b\n")
    with pytest.raises(InputError, match=r"areas\.csv: expected as many fields as the header; not so in record 3"):
        look_at_areas(file, BLOCK_SPINE)


@pytest.mark.parametrize("head", ["geocode", "area,area"])
def test_the_first_two_columns_are_geocode_and_area(tmp_path, head):
    with pytest.raises(InputError, match="columns"):
        look_at_areas(written(tmp_path, [], head), BLOCK_SPINE)
