import numpy as np
import pyarrow as pa

from das_spark.spark.lists import flat_lists, list_array


def test_lists_survive_the_way_to_numpy_and_back():
    column = pa.chunked_array([pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64()))])
    values, offsets = flat_lists(column, np.int64)
    assert values.tolist() == [1, 2, 3]
    assert offsets.tolist() == [0, 2, 2, 2, 3]
    assert list_array(values, offsets, pa.int64()).to_pylist() == [[1, 2], [], [], [3]]
