"""Records of fixed width: fields are cut and held to what they may be, as a plain loop over characters does."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from das_spark.io.input_fields import Names, Rows
from das_spark.io.line_fields import padded, records_of
from das_spark.io.listed_files import ROW
from das_spark.io.record_text import Field, Record
from das_spark.io.text_lines import LINE

RECORD = Record("thing", (Field("KIND", 0, 1, "2,4"), Field("NUMBER", 2, 5, ""), Field("CODE", 5, 7, "01-12,blank")), 8)
GOOD = "2x 1708y"


def read(lines, record=RECORD):
    faults, numbers = {}, pa.array(np.arange(1, 1 + len(lines)))
    batch = pa.RecordBatch.from_pydict({LINE: pa.array(lines, pa.string()), ROW: numbers})
    rows = Rows(Names("t", (), "t"), batch, faults)
    made = records_of(rows, record, np.ones(len(lines), dtype=np.bool_), "8 characters")
    return made, {field: fault.examples for (field, _), fault in faults.items() if fault.rows}


CHARACTERS = st.text("0124 xñ", min_size=7, max_size=9)


@given(st.lists(CHARACTERS | st.just(GOOD), max_size=8))
def test_fields_and_faults_are_those_of_a_plain_loop(lines):
    made, faults = read(lines)
    whole = [(number, line) for number, line in enumerate(lines, 1) if len(line) == RECORD.length]
    expected = {"record length": [number for number, line in enumerate(lines, 1) if len(line) != RECORD.length]}
    for field in RECORD.fields:
        texts = [line[field.start : field.end] for _, line in whole]
        pattern = re.compile(field.pattern)
        bad = [number for (number, _), text in zip(whole, texts, strict=True) if not pattern.fullmatch(text)]
        expected[field.name] = bad
        assert made.column(field.name).to_pylist() == [text if text.strip(" ") else None for text in texts]
    assert faults == {name: numbers for name, numbers in expected.items() if numbers}
    assert made.numbers.tolist() == [number for number, _ in whole]


@given(
    st.lists(st.lists(st.sampled_from(["2", " 4", "17", "", "08", "123", "1234"]), min_size=1, max_size=4), max_size=6)
)
def test_delimited_fields_become_lines_of_fixed_width(lines):
    record = Record("thing", tuple(Field(f"F{place}", 3 * place, 3 * place + 3, "") for place in range(3)), 9)
    made = padded(pa.array(["|".join(fields) for fields in lines], pa.string()), record, "|").to_pylist()
    for fields, line in zip(lines, made, strict=True):
        if len(fields) == 1:
            assert line == fields[0]
        elif len(fields) == 3 and all(len(field.strip()) <= 3 for field in fields):
            assert line == "".join(field.strip().rjust(3) for field in fields)
        else:
            assert line == ""
