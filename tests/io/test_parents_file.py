"""Tables of parents as CSV and Parquet."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.errors import InputError
from das_spark.geography import Geolevel
from das_spark.io.parents_file import read_parents

LEVELS = (Geolevel("A", 2, letters=True, code=2), Geolevel("B", 6, letters=True, code=4))


def test_codes_stay_texts_with_their_zeros(tmp_path):
    path = tmp_path / "parents.csv"
    path.write_text("name,parent,child\nx,01,0001\ny,01,1\nz,2, 7 \n")
    found = read_parents(str(path), LEVELS, LEVELS[1])
    assert found == {"0001": "010001", "1": "011...", "7": "2.7..."}


def test_parquet_may_hold_numbers_and_levels(tmp_path):
    path = tmp_path / "parents.parquet"
    pq.write_table(pa.table({"child": [7, 1], "parent": [1, None], "level": ["B", "A"]}), path)
    assert read_parents(str(path), LEVELS, LEVELS[1]) == {"7": "1.7..."}


def test_a_missing_column_and_a_wrong_tree_name_the_file(tmp_path):
    path = tmp_path / "parents.csv"
    path.write_text("child,above\n1,2\n")
    with pytest.raises(InputError, match=r"parents.csv: no column 'parent'"):
        read_parents(str(path), LEVELS, LEVELS[1])
    path.write_text("child,parent\n1,2\n1,3\n123456,3\n")
    with pytest.raises(InputError) as found:
        read_parents(str(path), LEVELS, LEVELS[1])
    lines = str(found.value).splitlines()
    assert "parents.csv: with two parents: 1" in lines[0]
    assert "parents.csv: with more than the 4 characters of B: 123456" in lines[1]
