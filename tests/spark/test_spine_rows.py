"""What is found county by county: every county once, in order, and the first one that is refused is named."""

from __future__ import annotations

import pytest

from das_spark.errors import GeographyError
from das_spark.spark.spine import COUNTY, by_county, of_counties

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BLOCKS = [f"44{county:03d}0001001100{block}" for block in range(3) for county in (7, 1, 5, 3)]


@pytest.fixture(scope="module")
def held(spark):
    return by_county(spark.createDataFrame([(code,) for code in BLOCKS], "geocode string"))


def test_a_task_sees_every_county_once_and_whole(held):
    def blocks(rows):
        return [f"{part}: {' '.join(rows.column('geocode').to_pylist())}" for part in ("first", "second")]

    found = of_counties(held, blocks)
    own = [" ".join(code for code in sorted(BLOCKS) if code.startswith(f"4400{county}")) for county in (1, 3, 5, 7)]
    assert found == [f"{part}: {codes}" for codes in own for part in ("first", "second")]


def test_the_first_county_that_is_refused_is_named_with_its_hint(held):
    def refused(rows):
        county = rows.column(COUNTY)[0].as_py()
        if county > "44001":
            raise GeographyError(f"{rows.num_rows} blocks", hint=f"of {county}")
        return ["good"]

    with pytest.raises(GeographyError, match=r"county 44003: 3 blocks \(and 2 counties more\)") as caught:
        of_counties(held, refused)
    assert caught.value.hint == "of 44003"
