import traceback
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import EstimationError, TaskError
from das_spark.spark import families, tables

SCHEMA = pa.schema([("family", pa.string()), ("rank", pa.int64()), ("value", pa.int64())])


@given(sizes=st.lists(st.integers(1, 5), max_size=8), cuts=st.lists(st.integers(1, 6), max_size=20))
def test_families_are_cut_whole_whatever_the_batches_are(sizes, cuts):
    rank = np.repeat(np.arange(len(sizes)), sizes)
    whole = pa.table({"family": [f"f{r}" for r in rank], "rank": rank, "value": np.arange(len(rank))}, schema=SCHEMA)
    batches, start = [], 0
    for cut in [*cuts, max(len(rank), 1)]:
        batches += whole.slice(start, cut).to_batches()
        start += cut
    found = list(families.families_of(iter(batches)))
    assert [table.num_rows for table in found] == sizes
    assert [value for table in found for value in table.column("value").to_pylist()] == list(range(len(rank)))
    assert all(len(set(table.column("family").to_pylist())) == 1 for table in found)


def test_lists_survive_the_way_to_numpy_and_back():
    column = pa.chunked_array([pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64()))])
    values, offsets = families.flat_lists(column, np.int64)
    assert values.tolist() == [1, 2, 3]
    assert offsets.tolist() == [0, 2, 2, 2, 3]
    assert families.list_array(values, offsets, pa.int64()).to_pylist() == [[1, 2], [], [], [3]]


def test_errors_of_libraries_get_out_without_their_text():
    def fails(_):
        raise ValueError("31337 people")

    with pytest.raises(TaskError, match=r"ValueError in test_families\.py, line \d+, at the family of 0100") as caught:
        families.WithoutValues(fails)(SimpleNamespace(geocode="0100"))
    assert "31337" not in "".join(traceback.format_exception(caught.value))


def test_errors_of_ours_get_out_as_they_are():
    def refuses(_):
        raise EstimationError("no solution")

    with pytest.raises(EstimationError, match="no solution"):
        families.WithoutValues(refuses)(SimpleNamespace(geocode="0100"))


@pytest.mark.spark
def test_families_are_dealt_by_descending_cost(spark):
    costs = spark.createDataFrame([("a", 1), ("b", 9), ("c", 5), ("d", 5)], "family string, cost long")
    rows = {row["family"]: (row["file"], row["rank"]) for row in families.placed(costs, 2).collect()}
    assert rows == {"b": (0, 0), "c": (1, 1), "d": (0, 2), "a": (1, 3)}


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_a_family_meets_its_rows_sorted_and_together_in_any_partitioning(spark, partitions):
    children = spark.createDataFrame(
        [(f"{f}{i}", f, [i], [10 * i]) for f in "abcde" for i in range(4)], tables.HISTOGRAMS
    ).repartition(3)
    parents = spark.createDataFrame([(f, "", [0, 7], [1, 2]) for f in "abcde"], tables.ESTIMATES)
    rows = families.family_rows(children, family="parent", kind=families.HISTOGRAM, sources=families.CELLS).unionByName(
        families.family_rows(parents, family="geocode", kind=families.PARENT, sources=families.CELLS)
    )
    costs = spark.createDataFrame([(f, 1) for f in "abcde"], "family string, cost long")

    def describe(family):
        parent, child = family.get(families.PARENT), family.get(families.HISTOGRAM)
        text = f"{parent.integers.tolist()} {child.geocodes} {child.integers.tolist()} {child.longs.tolist()}"
        return [pa.RecordBatch.from_pydict({"family": [family.geocode], "text": [text]})]

    found = families.map_families(
        rows, families.placed(costs, partitions), partitions, describe, "family string, text string"
    )
    expected = {(f, f"[0, 7] {tuple(f'{f}{i}' for i in range(4))} [0, 1, 2, 3] [0, 10, 20, 30]") for f in "abcde"}
    assert {tuple(row) for row in found.collect()} == expected
