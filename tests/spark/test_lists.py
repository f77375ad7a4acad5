from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from das_spark.spark.lists import flat_lists, list_array, whole_groups

SCHEMA = pa.schema([("name", pa.string()), ("number", pa.int32()), ("row", pa.int64())])


def test_lists_survive_the_way_to_numpy_and_back():
    column = pa.chunked_array([pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64()))])
    values, offsets = flat_lists(column, np.int64)
    assert values.tolist() == [1, 2, 3]
    assert offsets.tolist() == [0, 2, 2, 2, 3]
    assert list_array(values, offsets, pa.int64()).to_pylist() == [[1, 2], [], [], [3]]


@given(
    groups=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    cuts=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    rows=st.integers(1, 9),
    size=st.sampled_from([1, 40, 1 << 40]),
)
def test_a_stream_is_cut_into_tables_of_whole_groups(groups, cuts, rows, size):
    # Neighbours differ in one of two keys; a name may be missing.
    keys = [
        (None if number == 1 else f"n{number // 3}", number)
        for number, count in enumerate(groups)
        for _ in range(count)
    ]
    every = pa.RecordBatch.from_pylist(
        [{"name": name, "number": number, "row": row} for row, (name, number) in enumerate(keys)], schema=SCHEMA
    )
    batches, begin, turn = [], 0, 0
    while begin < every.num_rows:
        count = max(cuts[turn % len(cuts)], turn % 2)  # empty batches, too
        batches.append(every.slice(begin, count))
        begin, turn = begin + count, turn + 1
    found = list(whole_groups(batches, ("name", "number"), rows, size))
    assert [row for table in found for row in table["row"].to_pylist()] == list(range(every.num_rows))
    of_tables = [list(zip(table["name"].to_pylist(), table["number"].to_pylist(), strict=True)) for table in found]
    for one, two in pairwise(of_tables):
        assert not set(one) & set(two)
    for table in of_tables:
        assert table
        assert sum(key != table[-1] for key in table) < rows  # without its last group it would be too small
    if size > 1 << 20:
        assert all(len(table) >= rows for table in of_tables[:-1])
