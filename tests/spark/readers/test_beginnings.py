"""How tables begin, as CSV and Parquet: what is plainly right is read, and of all else it is said what to do."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.config import InputSettings
from das_spark.errors import InputError
from das_spark.io.input_tables import columns_in
from das_spark.spark.readers import READERS

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


A, SECRET = "5300100001", 31337
PERSONS = f"geocode,hhgq,age18plus,hispanic,race,count\n{A},0,0,0,0,3\n{A},0,1,0,0,4\n"
UNITS = f"geocode,hhgq,units\n{A},0,2\n"
TABLE = pa.table({"geocode": [A], "count": [SECRET]})


@pytest.fixture
def inputs(tmp_path: Path) -> Callable[[str, bytes], InputSettings]:
    """A valid input but for its persons."""

    def make(name: str, content: bytes) -> InputSettings:
        (tmp_path / "units.csv").write_text(UNITS)
        (tmp_path / name).write_bytes(content)
        return InputSettings(reader="tidy_counts", persons=str(tmp_path / name), units=str(tmp_path / "units.csv"))

    return make


def of_parquet(folder: Path) -> bytes:
    pq.write_table(TABLE, folder / "made.parquet")
    return (folder / "made.parquet").read_bytes()


REFUSED = {
    "semicolons": ("p.csv", PERSONS.replace(",", ";").encode(), "delimited by semicolons", "commas"),
    "tabs": ("p.csv", PERSONS.replace(",", "\t").encode(), "delimited by tabs", "commas"),
    "vertical bars": ("p.csv", PERSONS.replace(",", "|").encode(), "delimited by vertical bars", "commas"),
    "UTF-16 with a mark": ("p.csv", PERSONS.encode("utf-16"), "UTF-16", "iconv -f UTF-16 -t UTF-8"),
    "UTF-16 without": ("p.csv", PERSONS.encode("utf-16-le"), "UTF-16", "iconv -f UTF-16 -t UTF-8"),
    "Latin-1": ("p.csv", PERSONS.replace("race", "añejo").encode("latin-1"), "no UTF-8", "iconv"),
    "gzip in disguise": ("p.csv", gzip.compress(PERSONS.encode()), "compressed (gzip)", "rename it to end in .gz"),
    "gzip by name alone": ("p.csv.gz", PERSONS.encode(), "ends in .gz", "copy it again"),
    "damaged gzip": ("p.csv.gz", gzip.compress(PERSONS.encode())[:15], "cannot be read", "whole"),
    "ZIP": ("p.csv", b"PK\x03\x04" + b"x" * 99, "compressed (ZIP)", "unpack it"),
    "header alone": ("p.csv", PERSONS.splitlines()[0].encode() + b"\r\n\r\n", "has no rows", ""),
    "nothing": ("p.csv", b"", "is empty; its first line must hold the names of columns", ""),
    "two of a name": ("p.csv", PERSONS.replace("race", "count").encode(), "no column 'race'", "the file has"),
    "a column twice": ("p.csv", PERSONS.replace("count", "count,count").encode(), "two columns are called 'count'", ""),
    "CSV as Parquet": ("p.parquet", PERSONS.encode(), "no Parquet file", ".csv"),
    "CSV as text": ("p.txt", PERSONS.encode(), "no Parquet file", ".csv"),
    "Parquet as CSV": ("p.csv", None, "is a Parquet file", "rename it to end in .parquet"),
    "half of Parquet": ("p.parquet", slice(200), "begins as Parquet, and does not end so", "copy it again"),
    "damaged Parquet": ("p.parquet", "footer", "cannot be read", "whole"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_its_reason_before_spark_sees_it(
    case: str, inputs: Callable, of_product: Callable, tmp_path: Path
) -> None:
    name, content, reason, todo = REFUSED[case]
    if not isinstance(content, bytes):
        whole = of_parquet(tmp_path)
        damaged = whole[:-20] + b"\xff" * 12 + whole[-8:]
        content = damaged if content == "footer" else whole[content] if content else whole
    settings = inputs(name, content)
    with pytest.raises(InputError) as caught:
        READERS["tidy_counts"].look(settings, *of_product("e2e_1940"))
    assert str(tmp_path / name) in str(caught.value)
    assert reason in str(caught.value)
    assert todo in caught.value.hint
    assert str(SECRET) not in str(caught.value) + caught.value.hint
    assert A not in str(caught.value) + caught.value.hint


READ = {
    "gzip": ("p.csv.gz", gzip.compress(PERSONS.encode())),
    "a mark of UTF-8": ("p.csv", b"\xef\xbb\xbf" + PERSONS.encode()),
    "gzip with a mark": ("p.csv.gz", gzip.compress(b"\xef\xbb\xbf" + PERSONS.encode())),
    "lines of Windows": ("p.csv", PERSONS.replace("\n", "\r\n").encode()),
    "quoted names": ("p.csv", PERSONS.replace("geocode", '"geocode"').encode()),
}


@pytest.mark.spark
@pytest.mark.parametrize("case", READ)
def test_what_is_plainly_right_is_read(
    case: str, inputs: Callable, of_product: Callable, contents: Callable, spark: SparkSession
) -> None:
    settings, given = inputs(*READ[case]), of_product("e2e_1940")
    READERS["tidy_counts"].look(settings, *given)
    counts, units = contents(READERS["tidy_counts"].read(spark, settings, *given))
    assert counts == {(A, 0): 3, (A, 12): 4}
    assert units == {A: ([2, *[0] * 7], 0)}


def test_columns_of_a_folder_are_those_of_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "year=2020").mkdir()
    pq.write_table(TABLE, tmp_path / "year=2020" / "a.parquet")
    assert columns_in(str(tmp_path)) == ("geocode", "count", "year")
    pq.write_table(TABLE.drop_columns("count"), tmp_path / "year=2020" / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet: its columns are not those of .*a\.parquet"):
        columns_in(str(tmp_path))
    (tmp_path / "year=2020" / "b.parquet").unlink()
    (tmp_path / "_delta_log").mkdir()  # which of the files are rows of the table is said there
    with pytest.raises(InputError, match="folders that are no parts of it: '_delta_log'"):
        columns_in(str(tmp_path))


@pytest.mark.parametrize("path", ["memory://nowhere/*.parquet", "nowhere/*.parquet"])
def test_patterns_are_no_paths(path: str) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        columns_in(path)
