"""Two sums of weights of the records of a geounit: equal where files and estimates hold the same, and else not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from das_spark.io.record_weights import RecordWeights
from das_spark.products import PRODUCTS, TOLD, microdata_codes

PRODUCT = PRODUCTS["e2e_2018"]
CODES = microdata_codes(PRODUCT)
SIZE = PRODUCT.schema.size
WEIGHTS = RecordWeights(CODES, by_kind=True, key=bytes(range(32)))
CELLS = st.dictionaries(st.integers(0, SIZE - 1), st.integers(1, 1 << 20), max_size=8)


def sums_of(cells: dict[int, int], weights: RecordWeights = WEIGHTS) -> list[int]:
    """Both sums over the cells of a geounit."""
    of_cells, there = weights.of_cells(np.array(list(cells), dtype=np.int64))
    assert there.all()
    return (np.array(list(cells.values()), dtype=np.int64) @ of_cells).tolist()


def found(records: list[tuple[str, str, int | None, int]], weights: RecordWeights = WEIGHTS):
    """Geocode -> count and sums of records by codes, over all batches of them."""
    columns = zip(*records, strict=True) if records else [()] * 4
    kinds = (pa.string(), pa.string(), pa.int32(), pa.int64())
    made = weights.found(*(pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)))
    sums: dict[str, list[int]] = {}
    for row in made.to_pylist():
        own = sums.setdefault(row["geocode"], [0, 0, 0])
        for place, name in enumerate(("count", "one", "other")):
            own[place] += row[name]
    return sums


def records_of(geocode: str, cells: dict[int, int]) -> list[tuple[str, str, int | None, int]]:
    numbers = np.array(list(cells), dtype=np.int64)
    named = zip(CODES.codes_of(numbers), CODES.classes_of(numbers).tolist(), cells.values(), strict=True)
    return [(geocode, text, kind, count) for text, kind, count in named]


@given(st.dictionaries(st.sampled_from(["11", "12", "21"]), CELLS, max_size=3))
def test_records_of_the_cells_have_their_sums(histograms):
    sums = found([row for code, cells in histograms.items() for row in records_of(code, cells)])
    for code, cells in histograms.items():
        assert sums.get(code, [0, 0, 0]) == [sum(cells.values()), *sums_of(cells)]


@given(CELLS.filter(bool), st.data())
def test_another_record_has_other_sums(cells, data):
    cell = data.draw(st.sampled_from(sorted(cells)))
    other_cell = data.draw(st.integers(0, SIZE - 1).filter(lambda each: each != cell))
    moved = {**cells, cell: cells[cell] - 1, other_cell: cells.get(other_cell, 0) + 1}
    sides = [set(), set()]
    for each, side in ((cells, sides[0]), (moved, sides[1])):
        side.update((text, kind, count) for _, text, kind, count in records_of("", each) if count)
    sums = found(records_of("11", moved))["11"][1:]
    assert (sums == sums_of(cells)) == (sides[0] == sides[1])


def test_the_class_of_a_unit_counts_where_units_are_known():
    text, kind = CODES.codes_of(np.array([0]))[0], int(CODES.classes_of(np.array([0]))[0])
    elsewhere = found([("11", text, kind + 1, 5)])["11"]
    assert elsewhere != found([("11", text, kind, 5)])["11"]
    without = replace(WEIGHTS, by_kind=False)
    assert found([("11", text, None, 5)], without) == found([("11", text, kind + 1, 5)], without)
    assert found([("11", text, None, 5)], without)["11"] == [5, *sums_of({0: 5}, without)]


def test_cells_that_cannot_be_have_no_weights():
    cells = np.array([0, TOLD, TOLD - 1, SIZE, SIZE + 9, SIZE - 1])
    weights, there = WEIGHTS.of_cells(cells)
    assert there.tolist() == [True, False, False, False, False, True]
    assert not weights[~there].any()
    assert weights[there].all()
    assert WEIGHTS.of_cells(cells[:3], beside=True)[1].tolist() == [True, True, False]


def test_weights_are_others_under_another_key():
    one, other = (RecordWeights.drawn(CODES, by_kind=True) for _ in range(2))
    text = CODES.codes_of(np.array([0]))[0]
    assert found([("11", text, 0, 1)], one) != found([("11", text, 0, 1)], other)


def test_weights_have_no_bit_that_is_usual():
    sums = [found([("11", f"{number}", 0, 1)])["11"][1:] for number in range(400)]
    bits = (np.array(sums)[:, :, None] >> np.arange(32)) & 1
    assert not bits[:, :, 31].any()
    # 62 means of 400 fair coins: one is further off than 0.2 (8 standard deviations) once in 1e13 such tests.
    assert (np.abs(bits[:, :, :31].mean(axis=0) - 0.5) < 0.2).all()
