"""Spines in folders: what is written is read back, and whatever was cut, changed or added is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
from dataframes import assert_frames

from das_spark.errors import InputError, OutputError
from das_spark.geography import PL94_PERSON, CountySummary, FanOut, LevelShares, SpineSettings, join_counties
from das_spark.spark.census import read_spine
from das_spark.spark.spine import write_blocks
from das_spark.store import part_files
from das_spark.store.spine import RECORD, SpineRecord, read_record, require_new, write_spine

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
SHARES = LevelShares.of({level: Fraction(part, 21) for level, part in zip(LEVELS, range(1, 7), strict=True)})
SETTINGS = replace(PL94_PERSON, fanout_cutoff=3)


@pytest.fixture
def record() -> SpineRecord:
    fan_outs = (FanOut(1, 1, 1), FanOut(1, 12, 12), FanOut(12, 20, 3), FanOut(20, 100, 9))
    county = CountySummary(0, "04", "001", LEVELS[2:], 21, (3,), 18, fan_outs, (0, 2, 1), (0, 0, 1, 4))
    other = replace(county, county="003")
    national = join_counties([county, other], SHARES, SETTINGS)
    return SpineRecord.of(national, SETTINGS, SHARES, "zcdp", ["a note"], {"product": "p"})


def test_the_record_says_what_was_built(record):
    levels = {level.name: level for level in record.levels}
    assert [level.geounits for level in record.levels] == [1, 1, 2, 24, 40, 200]
    assert (levels["Tract"].children, levels["Tract"].most, levels["Tract"].bypassed) == (40, 3, 4)
    assert levels["Tract"].mean_fan_out == pytest.approx(40 / 24)
    assert (levels["Block"].children, levels["Block"].most, levels["Block"].unmeasured) == (0, 0, 8)
    assert [level.length for level in record.levels] == [0, 3, 9, 11, 12, 28]
    assert record.shares == SHARES
    assert (record.kind, record.blocks, record.denominator) == ("optimised", 200, 21)


def test_a_record_returns_from_its_text(record):
    assert SpineRecord.from_json(record.to_json(), "x") == record
    assert list(json.loads(record.to_json()))[:2] == ["format", "kind"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("format",), 2, "no record of a spine of format 1"),
        (("levels",), None, "has no 'levels'"),
        (("levels", 1, "share"), "1/3", "sum to"),
        (("levels", 1, "share"), "a third", "damaged"),
        (("levels", 5, "geounits"), -1, "geounits of level 'Block' is no whole number"),
        (("levels", 5, "geounits"), 199, "do not agree"),
        (("denominator",), 42, "do not agree"),
        (("settings", "kind"), "optimized", "no kind of spine is called"),
        (("settings", "colour"), "red", "colour"),
    ],
)
def test_a_damaged_record_is_refused_with_the_place(record, path, value, words):
    data = json.loads(record.to_json())
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    with pytest.raises(InputError, match=rf"^\[DAS200\] folder/spine.json: .*{words}"):
        SpineRecord.from_json(json.dumps(data), "folder/spine.json")


def test_what_is_no_json_is_refused():
    with pytest.raises(InputError, match="is no JSON"):
        SpineRecord.from_json("{", "spine.json")


@pytest.fixture
def blocks(spark):
    rows = [(f"{number:016d}", ["0", f"{number}"], ["1/3", "2/3"]) for number in range(200)]
    return spark.createDataFrame(rows, "block string, path array<string>, shares array<string>").repartition(2)


@pytest.fixture
def folder(blocks, record, tmp_path):
    write_spine(record, tmp_path / "spine", partial(write_blocks, blocks))
    return tmp_path / "spine"


@pytest.mark.spark
def test_a_written_spine_is_read_back(spark, folder, blocks, record):
    stored = read_spine(spark, folder)
    assert replace(stored.record, files=()) == record
    assert_frames(stored.blocks, blocks, ignore_row_order=True)
    assert {path.name for path in folder.iterdir()} == {"_SUCCESS", "blocks", RECORD}
    assert [path.name for path in folder.parent.iterdir()] == ["spine"]


@pytest.mark.spark
def test_a_folder_is_written_once_and_an_unfinished_one_again(folder, blocks, record):
    with pytest.raises(OutputError, match="there is something already"):
        write_spine(record, folder, partial(write_blocks, blocks))
    (folder / "_SUCCESS").unlink()
    with pytest.raises(InputError, match="is no finished spine"):
        read_record(folder)
    write_spine(record, folder, partial(write_blocks, blocks))
    assert read_record(folder).blocks == 200
    (folder / "_SUCCESS").unlink()
    (folder / "mine.txt").touch()
    with pytest.raises(OutputError, match="there is something already"):
        write_spine(record, folder, partial(write_blocks, blocks))


def test_half_a_record_that_a_killed_driver_left_bars_no_spine(tmp_path):
    (tmp_path / f".{RECORD}.17.tmp").touch()
    require_new(tmp_path)


@pytest.mark.spark
def test_changed_cut_missing_and_added_files_are_refused(spark, folder):
    part = part_files(folder / "blocks")[0]
    whole = part.read_bytes()
    part.write_bytes(whole[:-1])
    with pytest.raises(InputError, match=rf"{part.name}: has [\d,]+ bytes, [\d,]+ were written"):
        read_spine(spark, folder)
    part.write_bytes(whole[:-1] + b"x")
    with pytest.raises(InputError, match=f"{part.name}: was changed"):
        read_spine(spark, folder)
    part.unlink()
    with pytest.raises(InputError, match=f"{part.name}: is missing"):
        read_spine(spark, folder)
    part.write_bytes(whole)
    (folder / "blocks" / "part-9.parquet").write_bytes(whole)
    with pytest.raises(InputError, match=r"part-9\.parquet: is no part of the spine"):
        read_spine(spark, folder)
    with pytest.raises(InputError, match="no such folder of a spine"):
        read_spine(spark, folder / "nowhere")


def test_settings_of_every_kind_return(record):
    for kind in ("census", "aian", "dhc"):
        other = replace(record, settings=SpineSettings(kind))
        assert SpineRecord.from_json(other.to_json(), "x").settings == SpineSettings(kind)
