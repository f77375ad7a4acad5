"""Block assignment files: all of a state, of the same blocks, with notes about what they do not say."""

from __future__ import annotations

import pytest

from das_spark.errors import InputError
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import GEOGRAPHY_READERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def read(spark, tmp_path, assignment):
    def run(**other):
        return GEOGRAPHY_READERS["block_assignment"].read(spark, str(assignment.write(tmp_path / "ri", **other)))

    return run


def test_every_place_and_subdivision_counts_as_functioning_and_the_notes_say_so(read, contents):
    found = read()
    rows = contents(found).values()
    assert {(row["placefp"] != "99999", row["placefs"]) for row in rows} == {(True, "A"), (False, "9")}
    assert {row["cousubfs"] for row in rows} == {"A"}
    assert len(found.notes) == 1
    assert "counts as functioning" in found.notes[0]


def test_a_state_without_areas_or_districts_has_a_note(read, contents):
    found = read(AIANNH=None, SDSEC=None)
    assert {row["aiannhce"] for row in contents(found).values()} == {"9999"}
    assert [note.split(":")[0] for note in found.notes[1:]] == [
        "no file AIANNH of state 44",
        "no file SDSEC of state 44",
    ]


@pytest.mark.parametrize(("kind", "column"), [("INCPLACE_CDP", "placefp"), ("MCD", "cousubfp")])
def test_a_missing_entity_column_is_named(read, kind, column):
    with pytest.raises(InputError, match=rf"no file BlockAssign_ST44_\*_{kind}.txt, so no column '{column}'"):
        read(**{kind: None})


def test_a_file_without_its_column_is_named(read):
    with pytest.raises(InputError, match=r"BlockAssign_\*_AIANNH.txt: no column AIANNHCE"):
        read(AIANNH=["BLOCKID|AIANNHFP", "440010001001000|"])


def test_a_block_that_stands_twice_is_named(read, assignment):
    lines = assignment.lines("SDUNI")
    with pytest.raises(BadInputError) as caught:
        read(SDUNI=[*lines, lines[1]])
    (problem,) = caught.value.problems
    assert problem.expected == "each block once"
    assert problem.file.endswith("SDUNI.txt")
    assert (problem.rows, problem.examples, problem.geounits) == (2, (2, 5), ("4400100010011000",))


def test_files_of_other_blocks_are_refused(read, assignment):
    lines = assignment.lines("AIANNH")
    with pytest.raises(BadInputError, match=r"AIANNH.txt, BLOCKID: expected every block of INCPLACE_CDP; not so in 1"):
        read(AIANNH=lines[:-1])
    with pytest.raises(BadInputError, match=r"INCPLACE_CDP\.txt, BLOCKID: expected every block of all the other files"):
        read(AIANNH=[*lines, "440010002002001|"])


@pytest.mark.parametrize(
    ("kind", "line", "words"),
    [
        ("AIANNH", "440010001001000|4990", "AIANNHCE: expected a code that is assigned"),
        ("INCPLACE_CDP", "440010001001000|5900", "PLACEFP: expected 5 digits"),
        ("SDUNI", "44001000100100|00030", "BLOCKID: expected 15 digits"),
        ("MCD", "440010001001000|003|05140", "COUNTYFP: expected the county that BLOCKID names"),
    ],
)
def test_a_wrong_row_is_named(read, assignment, kind, line, words):
    lines = assignment.lines(kind)
    with pytest.raises(BadInputError, match=words) as caught:
        read(**{kind: [lines[0], line, *lines[2:]]})
    assert caught.value.problems[0].examples == (2,)


def test_a_folder_of_other_files_is_refused(spark, tmp_path):
    (tmp_path / "x.txt").write_text("BLOCKID\n")
    with pytest.raises(InputError, match="no block assignment file"):
        GEOGRAPHY_READERS["block_assignment"].read(spark, str(tmp_path))


@pytest.mark.real_data
def test_rhode_island_has_its_blocks_and_entities(spark, census_data):
    found = GEOGRAPHY_READERS["block_assignment"].read(spark, str(census_data / "official" / "BlockAssign_ST44_RI"))
    assert found.blocks.count() == 25_649
    assert found.blocks.where("aiannhce = '2415'").count() == 25
    assert found.blocks.select("cousubfp").where("cousubfp != '00000'").distinct().count() == 39
