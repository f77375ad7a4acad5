"""The geographic reference file: simulated ones are read, faults are named with file, rows, field and fix."""

from __future__ import annotations

from fractions import Fraction

import pytest

from das_spark.errors import InputError
from das_spark.io.population_files import simulate
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import GEOGRAPHY_READERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def refused(spark, tmp_path, grfc):
    def run(rows=None, header=None) -> BadInputError:
        file = grfc.write(tmp_path / "geography.txt", rows, header)
        with pytest.raises(InputError) as caught:
            GEOGRAPHY_READERS["grfc"].read(spark, str(file))
        assert "geography.txt" in str(caught.value)
        return caught.value

    return run


def test_a_missing_column_is_named(refused, grfc):
    error = refused(header=tuple(name for name in grfc.HEADER if name != "PLACEFS"))
    assert "no column PLACEFS" in str(error)
    assert "GRF-C" in error.hint


def test_a_block_in_two_tracts_is_named(refused, grfc):
    rows = grfc.rows()
    rows[2]["OIDTABBLK"] = rows[0]["OIDTABBLK"]
    (problem,) = refused(rows).problems
    assert problem.field == "OIDTABBLK"
    assert problem.rows == 2
    assert problem.examples == (2, 4)
    assert problem.geounits == ("4400100010011000", "4400100020022000")
    assert "one block, in one tract" in str(problem)


def test_a_block_that_stands_twice_is_named(refused, grfc):
    rows = grfc.rows()
    (problem,) = refused([*rows, rows[1]]).problems
    assert (problem.rows, problem.examples, problem.geounits) == (2, (3, 5), ("4400100010011001",))
    assert "each block once" in str(problem)


@pytest.mark.parametrize(
    ("field", "code", "words"),
    [
        ("AIANNHCE", "4995", "4990-4999"),
        ("AIANNHCE", "0000", "0000"),
        ("AIANNHCE", "24", "4 digits"),
        ("COUSUBFP", "5140", "5 digits, as text with leading zeros"),
        ("PLACEFS", "AB", "one capital letter or digit"),
        ("TABTRACTCE", "12", "the digits of state"),
        ("TABBLKGRPCE", "3", "first digit of the block"),
    ],
)
def test_a_wrong_code_is_named_by_field_and_row_but_not_by_value(refused, grfc, field, code, words):
    rows = grfc.rows()
    rows[1][field] = code
    (problem,) = refused(rows).problems
    assert field in problem.field
    assert words in problem.expected
    assert (problem.rows, problem.examples) == (1, (3,))


def test_a_short_row_is_named(refused, tmp_path, grfc, spark):
    file = grfc.write(tmp_path / "geography.txt")
    file.write_text(file.read_text() + "1|44|001\n")
    with pytest.raises(BadInputError, match="15 columns, as in the first line; not so in 1 row"):
        GEOGRAPHY_READERS["grfc"].read(spark, str(file))


def test_blank_codes_say_that_a_block_lies_nowhere(spark, tmp_path, grfc, contents):
    rows = grfc.rows()
    rows[1] |= dict.fromkeys(("AIANNHCE", "PLACEFP", "PLACEFS", "SDUNILEA"), " ")
    found = contents(GEOGRAPHY_READERS["grfc"].read(spark, str(grfc.write(tmp_path / "geography.txt", rows))))
    block = found["4400100010011001"]
    assert (block["aiannhce"], block["placefp"], block["placefs"], block["sdunilea"]) == ("9999", "99999", "9", "99999")


def test_a_file_of_names_alone_has_no_block(spark, tmp_path, grfc):
    (tmp_path / "geography.txt").write_text("|".join(grfc.HEADER) + "\n")
    with pytest.raises(InputError, match="no block, so no geounit exists"):
        GEOGRAPHY_READERS["grfc"].read(spark, str(tmp_path / "geography.txt"))


@pytest.mark.parametrize("product", ["", "dhc_2020"])
def test_the_file_of_a_simulated_population_is_read_and_so_is_its_table(spark, tmp_path, contents, product):
    share = Fraction(1, 20_000)
    summary = simulate(tmp_path / "population", "2020", share, "cef", product=product)
    simulate(tmp_path / "tidy", "2020", share, "tidy", product=product)
    found = GEOGRAPHY_READERS["grfc"].read(spark, str(tmp_path / "population" / "geography.txt"))
    blocks = contents(found)
    assert len(blocks) == summary.geounits
    assert any(block["placefp"] != "99999" for block in blocks.values())
    assert contents(GEOGRAPHY_READERS["tidy"].read(spark, str(tmp_path / "tidy" / "areas.parquet"))) == blocks
