"""The product with the sparse matrix, against sums written as loops; laws of sums; refusal of what cannot be summed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError, QueryError
from das_spark.products import PRODUCTS
from das_spark.tabulation import Table, TableColumn, housing_tables, incidence, redistricting_tables, sums, tabulate

SCHEMA = PRODUCTS["e2e_2018"].schema
TABLES = redistricting_tables(SCHEMA)
MATRIX = incidence(TABLES)
CELLS = {column.name: set(np.flatnonzero(column.mask(SCHEMA))) for table in TABLES for column in table.columns}

COUNTS = st.integers(min_value=0, max_value=2**40)
HISTOGRAM = st.lists(st.tuples(st.integers(0, SCHEMA.size - 1), COUNTS), max_size=12)


def arrays(histograms) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    flat = [pair for histogram in histograms for pair in histogram]
    offsets = np.cumsum([0, *map(len, histograms)])
    cells = np.array([cell for cell, _ in flat], dtype=np.int32)
    return cells, offsets, np.array([count for _, count in flat], dtype=np.int64)


@given(st.lists(HISTOGRAM, max_size=4))
def test_every_value_is_the_sum_of_the_cells_of_its_column(histograms):
    found = tabulate(MATRIX, *arrays(histograms))
    assert found.shape == (len(histograms), len(MATRIX.names))
    assert found.dtype == np.int64
    for row, histogram in zip(found, histograms, strict=True):
        wanted = [sum(count for cell, count in histogram if cell in CELLS[name]) for name in MATRIX.names]
        assert row.tolist() == wanted


@given(HISTOGRAM, HISTOGRAM)
def test_the_table_of_a_sum_is_the_sum_of_the_tables(one, other):
    apart = tabulate(MATRIX, *arrays([one, other]))
    together = tabulate(MATRIX, *arrays([one + other]))
    assert (apart.sum(axis=0) == together[0]).all()


@given(st.lists(HISTOGRAM, min_size=1, max_size=3))
def test_headings_are_the_sums_of_their_lines(histograms):
    for table in TABLES:
        found = tabulate(incidence([table]), *arrays(histograms))
        for place in range(len(table.columns)):
            if parts := table.parts(place):
                assert (found[:, list(parts)].sum(axis=1) == found[:, place]).all()


def test_sums_beyond_what_floats_hold_are_exact():
    large = 2**62 + 1
    found = tabulate(MATRIX, np.array([0, 1]), np.array([0, 2]), np.array([large, 2]))
    assert found[0, MATRIX.names.index("P0010001")] == large + 2
    assert found[0, MATRIX.names.index("P0010003")] == large


def test_geounits_without_people_have_rows_of_zeros():
    none = np.zeros(0, dtype=np.int64)
    assert tabulate(MATRIX, none, np.zeros(4, dtype=np.int64), none).tolist() == [[0] * len(MATRIX.names)] * 3
    assert tabulate(MATRIX, none, np.zeros(1, dtype=np.int64), none).shape == (0, len(MATRIX.names))


@pytest.mark.parametrize(
    ("cells", "offsets", "counts"),
    [
        ([SCHEMA.size], [0, 1], [1]),
        ([-1], [0, 1], [1]),
        ([0, 1], [0, 1], [1, 1]),
        ([0], [0, 1], [1, 2]),
        ([0, 1], [1, 2], [1, 2]),
        ([0, 1], [0, 2, 1, 2], [1, 2]),
        ([], [], []),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused_without_a_count(cells, offsets, counts):
    with pytest.raises(InputError):
        tabulate(MATRIX, np.array(cells, dtype=int), np.array(offsets, dtype=int), np.array(counts, dtype=int))


def test_the_matrix_of_several_tables_has_their_columns_one_behind_the_other():
    assert MATRIX.names == tuple(name for table in TABLES for name in table.names)
    ones = incidence([TABLES[4]])
    assert not ones.counted(np.arange(63 * 4)).any()  # nobody in a household is counted in P5


@pytest.mark.parametrize("at_once", [1, 10**3, 1 << 22])
def test_rows_of_the_matrix_are_the_masks_of_the_columns_in_parts_of_any_size(monkeypatch, at_once):
    monkeypatch.setattr(sums, "_AT_ONCE", at_once)
    cells = np.random.default_rng(3).integers(0, SCHEMA.size, 40)
    masks = np.array([column.mask(SCHEMA)[cells] for table in TABLES for column in table.columns]).T
    assert (MATRIX.counted(cells) == masks).all()
    assert (MATRIX.rows(cells).toarray() == masks).all()
    assert MATRIX.rows(cells[:0]).shape == (0, len(MATRIX.names))


def test_a_cell_that_several_selections_of_a_column_leave_counts_once():
    quarters, minors = (("hhgq", (1, 2)),), (("votingage", (0,)),)
    columns = (
        TableColumn("A", "everybody", 0, ((),)),
        TableColumn("B", "in institutions, or under 18", 1, (quarters, minors)),
        TableColumn("C", "Hispanics", 1, ((("hispanic", (1,)),),)),
    )
    matrix = incidence([Table("T", "three", "everybody", SCHEMA, columns)])
    codes = SCHEMA.unravel(np.arange(SCHEMA.size))
    wanted = [np.full(SCHEMA.size, True), np.isin(codes[:, 0], (1, 2)) | (codes[:, 1] == 0), codes[:, 2] == 1]
    assert (matrix.counted(np.arange(SCHEMA.size)) == np.array(wanted).T).all()


def tallied(*races: int) -> tuple:
    return tuple((("cenrace", (race, 6)),) for race in races)


#: Everybody tallied by two races, one of which is within the other column; a union of them counts a cell once.
TALLIES = Table(
    "T",
    "races tallied",
    "races",
    SCHEMA,
    (
        TableColumn("A", "tallied", 0, (*tallied(0, 1), (("hispanic", (1,)),)), tallies=True),
        TableColumn("B", "two races", 1, tallied(0, 1), tallies=True),
        TableColumn("C", "one race", 2, tallied(0)),
        TableColumn("D", "either", 2, tallied(0, 1)),
    ),
)


@given(st.lists(HISTOGRAM, max_size=3))
def test_a_cell_of_several_selections_that_are_tallied_counts_once_for_each(histograms):
    found = tabulate(incidence([TALLIES]), *arrays(histograms))
    for row, histogram in zip(found.tolist(), histograms, strict=True):
        wanted = [0] * 4
        for cell, count in histogram:
            _, _, hispanic, race = SCHEMA.unravel(np.array([cell]))[0]
            times = [race in (each, 6) for each in (0, 1)]
            for place, number in enumerate((sum(times) + (hispanic == 1), sum(times), times[0], any(times))):
                wanted[place] += count * int(number)
        assert row == wanted


def test_how_many_times_a_cell_counts_is_the_same_by_cells_and_by_levels():
    every = np.arange(SCHEMA.size)
    matrix = incidence([*TABLES, TALLIES])
    times = np.array([column.times(SCHEMA) for table in (*TABLES, TALLIES) for column in table.columns]).T
    assert (matrix.counted(every) == times).all()
    assert (matrix.rows(every).toarray() == times).all()
    assert matrix.rows(every[:0]).shape == (0, times.shape[1])
    assert times.max() == 3
    masks = np.array([column.mask(SCHEMA) for table in (*TABLES, TALLIES) for column in table.columns]).T
    assert ((times > 0) == masks).all()


def test_a_column_tallies_at_most_as_many_selections_as_a_byte_counts():
    def of(number: int) -> Table:
        return Table("T", "many", "all", SCHEMA, (TableColumn("A", "all", 0, ((),) * number, tallies=True),))

    found = tabulate(incidence([of(255)]), np.array([3]), np.array([0, 1]), np.array([2**40]))
    assert found.tolist() == [[255 * 2**40]]
    with pytest.raises(QueryError, match="tallies"):
        incidence([of(256)])


def test_tables_of_two_schemas_or_one_table_twice_are_refused(housing):
    with pytest.raises(QueryError, match="one schema"):
        incidence([TABLES[0], *housing_tables(housing)])
    with pytest.raises(QueryError, match="different column names"):
        incidence([TABLES[0], TABLES[0]])
    with pytest.raises(QueryError):
        incidence([])
