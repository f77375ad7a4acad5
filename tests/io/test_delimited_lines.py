"""Lines of delimited fields: named by the first line of every file, or by their order, and cut as plain Python does."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError
from das_spark.io.delimited_lines import LineFields
from das_spark.io.input_fields import Names, Rows
from das_spark.io.listed_files import ROW
from das_spark.io.text_lines import LINE

HEAD = "STATE|BLOCK|NAME"


def rows_of(lines, faults):
    places = {ROW: pa.array(np.arange(1, 1 + len(lines)))}
    return Rows(Names("t", (), "t"), pa.RecordBatch.from_pydict({LINE: pa.array(lines, pa.string()), **places}), faults)


@given(st.lists(st.lists(st.text("ab ñ\"'", max_size=3), min_size=2, max_size=4), max_size=6), st.booleans())
def test_fields_are_those_of_plain_python(lines, named):
    faults = {}
    cut = LineFields(("one", "", "three"), named=named).cut(
        rows_of(["|".join(line) for line in lines], faults), ["three"]
    )
    expected = [(place, line) for place, line in enumerate(lines, 1) if len(line) == 3 and not (named and place == 1)]
    assert cut.column("three").to_pylist() == [line[2].strip(" ") for _, line in expected]
    assert cut.numbers.tolist() == [place for place, _ in expected]
    broken = [place for place, line in enumerate(lines, 1) if len(line) != 3 and not (named and place == 1)]
    ((_, fault),) = faults.items()
    assert (fault.rows, fault.examples) == (len(broken), broken)


def opened(tmp_path, *texts, wanted=("BLOCK",)):
    files = []
    for number, text in enumerate(texts):
        files.append(str(tmp_path / f"{number}.txt"))
        (tmp_path / f"{number}.txt").write_bytes(text)
    return LineFields.of(files, wanted, file="census", kind="the files of the census")


def test_names_are_those_of_the_first_line(tmp_path):
    assert opened(tmp_path, f"{HEAD}\r\n1|2|3\n".encode()).names == ("STATE", "BLOCK", "NAME")
    assert opened(tmp_path, f"\ufeff{HEAD}".encode()).names == ("STATE", "BLOCK", "NAME")
    assert opened(tmp_path, b" STATE | BLOCK|Espa\xf1a\n").names[:2] == ("STATE", "BLOCK")
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(HEAD.encode()))
    assert LineFields.of([str(packed)], ["NAME"], file="a", kind="k").names == ("STATE", "BLOCK", "NAME")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((b"",), "census: the file is empty"),
        ((b"STATE|NAME\n",), "census: no column BLOCK"),
        ((HEAD.encode(), b"STATE|NAME|BLOCK\n"), "1.txt: has other columns than .*0.txt"),
        ((HEAD.encode(), b"1|2|3\n"), "census: no column BLOCK"),
    ],
)
def test_files_without_the_same_names_are_refused(tmp_path, texts, said):
    with pytest.raises(InputError, match=said):
        opened(tmp_path, *texts)
