"""From geographic files to a folder: notes, what is released, and nothing left behind by a failure."""

from __future__ import annotations

from fractions import Fraction

import pytest

from das_spark.errors import GeographyError, OutputError
from das_spark.geography import PL94_PERSON, PL94_UNIT, LevelShares, SpineSettings
from das_spark.pipeline.spines import SpineRequest, make_spine
from das_spark.spark.census import read_spine

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LEVELS = ("State", "County", "Tract", "Block_Group", "Block")
SHARES = LevelShares.of({level: Fraction(1, 5) for level in LEVELS})
HEADER = "geocode,aiannhce,cousubfp,cousubfs,placefp,placefs,sdunilea,sdseclea,sdelmlea"


@pytest.fixture
def geography(tmp_path):
    path = tmp_path / "blocks.csv"
    rows = [f"44001000100{group}{group}00{number},,05140,A,,,00030,," for group in (1, 2) for number in range(5)]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return str(path)


def test_a_spine_is_made_written_and_leaves_no_rows_on_disk(spark, tmp_path, geography):
    before = spark.sparkContext._jsc.getPersistentRDDs().size()
    record = make_spine(spark, SpineRequest(geography, "tidy", PL94_PERSON, SHARES, "zcdp"), tmp_path / "spine")
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == before
    assert read_spine(spark, tmp_path / "spine").record == record
    assert [level.geounits for level in record.levels] == [1, 1, 1, 1, 10]
    assert "no file says which blocks have group quarters" in record.notes[0]


@pytest.mark.parametrize("settings", [PL94_UNIT, SpineSettings("census")])
def test_where_quarters_do_not_matter_nothing_is_said_of_them(spark, tmp_path, geography, settings):
    assert make_spine(spark, SpineRequest(geography, "tidy", settings, SHARES, "zcdp"), tmp_path / "spine").notes == ()


def test_a_failure_leaves_nothing_behind(spark, tmp_path, geography):
    before = spark.sparkContext._jsc.getPersistentRDDs().size()
    crosswalk = tmp_path / "crosswalk.csv"
    crosswalk.write_text("geocode,primitive\n4400100010011000,one\n")
    request = SpineRequest(geography, "tidy", PL94_PERSON, SHARES, "zcdp", crosswalk=str(crosswalk))
    with pytest.raises(GeographyError, match="takes no crosswalk"):
        make_spine(spark, request, tmp_path / "spine")
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == before
    assert not (tmp_path / "spine").exists()


def test_a_full_folder_is_refused_before_anything_is_read(spark, tmp_path):
    (tmp_path / "spine").mkdir()
    (tmp_path / "spine" / "mine").touch()
    request = SpineRequest(str(tmp_path / "nowhere"), "tidy", PL94_PERSON, SHARES, "zcdp")
    with pytest.raises(OutputError, match="there is something already"):
        make_spine(spark, request, tmp_path / "spine")
