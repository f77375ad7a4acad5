"""Reconstructions against all solutions of small schemas, found by trying every one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import every_solution, histogram, schema, table, values_of

from das_spark.attack.reconstruction import Likely, Outcome, PublishedColumns, reconstruct
from das_spark.histogram import Histogram
from das_spark.products import PRODUCTS, product
from das_spark.tabulation import Line, Table, incidence

PAIR = schema(2, 3)
NONE = np.zeros(6, dtype=bool)
MARGINS = (table(PAIR, {"a0": (0,)}, {"a0": (1,)}), table(PAIR, *({"a1": (n,)} for n in range(3)), name="U"))


def nobody(size: int) -> Histogram:
    return Histogram.from_pairs(size, [], [])


def columns(tables, impossible) -> PublishedColumns:
    return PublishedColumns.of(tables, impossible)


def from_tables(tables, impossible, records, near=None, whole=None):
    size = records.size
    published = columns(tables, impossible)
    likely = Likely(near or nobody(size), whole or nobody(size))
    return reconstruct(published, values_of(published.matrix, records), likely)


def agrees_with_every_solution(tables, impossible, records) -> None:
    """What is found is a solution; it is the only one if it is said so; and the farthest is as far as it is said."""
    matrix = incidence(tables)
    values = values_of(matrix, records)
    solutions = every_solution(tables, impossible, values)
    found = from_tables(tables, impossible, records)
    dense = tuple(found.records.dense().tolist())
    assert dense in solutions
    farthest = max(sum(abs(a - b) for a, b in zip(dense, other, strict=True)) for other in solutions)
    assert (found.distance, found.exact) == (farthest, True)
    assert found.outcome is (Outcome.ONE if len(solutions) == 1 else Outcome.SEVERAL)


@given(st.lists(st.integers(0, 2), min_size=6, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_margins_of_two_attributes(counts, zeros):
    impossible = np.array([zero and not count for zero, count in zip(zeros, counts, strict=True)])
    agrees_with_every_solution(MARGINS, impossible, histogram(counts))


@st.composite
def tables_of_any_lines(draw):
    """Tables of a schema of eight cells: unions of selections and tallies, too."""
    of = schema(2, 2, 2)
    selection = st.fixed_dictionaries({}, optional={f"a{axis}": st.sampled_from([(0,), (1,)]) for axis in range(3)})
    lines = draw(st.lists(selection | st.lists(selection, min_size=2, max_size=2).map(tuple), max_size=4))
    lines = [line for line in lines if not (isinstance(line, tuple) and heavier(of, line))]
    return of, (table(of, *lines),)


def heavier(of, line) -> bool:
    """Whether a tally counts a cell more often than the total does: no table may."""
    return bool((sum(of.select(**dict(each)).astype(int) for each in line) > 1).any())


@given(tables_of_any_lines(), st.lists(st.integers(0, 1), min_size=8, max_size=8))
def test_tables_of_any_lines(made, counts):
    of, tables = made
    agrees_with_every_solution(tables, np.zeros(of.size, dtype=bool), histogram(counts))


def test_tallies_that_count_a_cell_twice():
    of = schema(4)
    tally = table(of, ({"a0": (1, 3)}, {"a0": (2,)}))
    # A record of level 3 counts once in each of two columns of which none tells it from level 1 but the second.
    more = table(of, {"a0": (3,)}, name="U")
    for counts in ([1, 1, 0, 1], [0, 2, 1, 0], [1, 0, 2, 2]):
        agrees_with_every_solution((tally, more), np.zeros(4, dtype=bool), histogram(counts))


def test_cells_that_no_column_tells_apart_are_spread_like_the_area_near_by():
    of = schema(1, 4)
    total = (table(of),)
    none = np.zeros(4, dtype=bool)
    records = histogram([0, 0, 0, 8])
    near, whole = histogram([0, 1, 0, 3]), histogram([5, 0, 0, 0])
    found = from_tables(total, none, records, near, whole)
    assert found.records.dense().tolist() == [0, 2, 0, 6]
    # All eight records can be in a cell where the first solution has none.
    assert (found.distance, found.outcome, found.variables) == (16, Outcome.SEVERAL, 1)
    found = from_tables(total, none, records, None, whole)
    assert found.records.dense().tolist() == [8, 0, 0, 0]
    found = from_tables(total, none, records)
    assert found.records.dense().tolist() == [2, 2, 2, 2]
    # Of four cells with two records each all others can be in one: six of eight.
    assert found.distance == 12


def test_of_several_solutions_the_likeliest_near_by():
    records = histogram([1, 0, 0, 0, 1, 0])
    for near in ([9, 0, 0, 0, 9, 0], [0, 9, 0, 9, 0, 0]):
        found = from_tables(MARGINS, NONE, records, histogram(near))
        assert found.records.dense().tolist() == [count // 9 for count in near]


def test_what_nothing_meets_is_said():
    published = columns(MARGINS, NONE)
    names = list(published.matrix.names)
    values = np.zeros(len(names), dtype=np.int64)
    likely = Likely(nobody(6), nobody(6))
    values[names.index("T0001")] = 1  # a total, and nobody under it
    assert reconstruct(published, values, likely).outcome is Outcome.INFEASIBLE
    records = values_of(published.matrix, histogram([1, 1, 0, 0, 0, 1]))
    records[names.index("U0002")] += 1  # the margins have different sums
    found = reconstruct(published, records, likely)
    assert (found.outcome, found.records.total) == (Outcome.INFEASIBLE, 0)
    assert reconstruct(published, -records, likely).outcome is Outcome.INFEASIBLE


def test_a_parity_that_bounds_do_not_see_is_infeasible():
    # Every pair of three cells has one record: half a record each meets that, and no whole ones do.
    of = schema(3)
    lines = [{"a0": (n, (n + 1) % 3)} for n in range(3)]
    universe = Histogram.from_dense(np.array([1, 1, 1]))
    published = columns((table(of, *lines),), np.zeros(3, dtype=bool))
    values = values_of(published.matrix, universe)
    values[:] = [2, 1, 1, 1]
    assert reconstruct(published, values, Likely(nobody(3), nobody(3))).outcome is Outcome.INFEASIBLE


def test_cells_that_no_column_counts_are_left_out():
    of = schema(2, 2)
    everybody = table(of, {"a1": (0,)})
    some = Table.of(name="T", title="T", universe="some", schema=of, prefix="T", lines=[Line(0, "Total", {"a0": (1,)})])
    found = from_tables((some,), np.zeros(4, dtype=bool), histogram([3, 3, 2, 0]), histogram([0, 0, 9, 0]))
    assert found.records.dense().tolist() == [0, 0, 2, 0]
    assert from_tables((everybody,), np.zeros(4, dtype=bool), histogram([3, 3, 2, 0])).records.total == 8


def test_nobody():
    found = from_tables(MARGINS, NONE, histogram([0] * 6))
    assert (found.records.total, found.outcome, found.distance) == (0, Outcome.ONE, 0)


def tables_of_leaves(of) -> list[Table]:
    census = of.census(of.spine())
    return [each for each in of.tables_on(of.spine()) if census.leaf.name in each.levels(census)]


@pytest.fixture(scope="module")
def redistricting():
    made = product("e2e_2018")
    return made, PublishedColumns.of(tables_of_leaves(made), made.zero_cells())


@given(people=st.dictionaries(st.integers(0, 251), st.integers(1, 9), max_size=20))
def test_redistricting_tables_of_a_block_without_group_quarters_have_one_solution(redistricting, people):
    made, published = redistricting
    records = Histogram.from_pairs(made.schema.size, list(people), list(people.values()))
    likely = Likely(nobody(made.schema.size), nobody(made.schema.size))
    found = reconstruct(published, values_of(published.matrix, records), likely)
    assert found.records == records
    assert (found.outcome, found.free) == (Outcome.ONE, 0)


@given(people=st.dictionaries(st.integers(0, 2015), st.integers(1, 9), max_size=12))
def test_a_reconstruction_meets_every_column_and_has_no_structural_zero(redistricting, people):
    made, published = redistricting
    possible = {cell: count for cell, count in people.items() if not published.impossible[cell]}
    records = Histogram.from_pairs(made.schema.size, list(possible), list(possible.values()))
    likely = Likely(records, records)
    values = values_of(published.matrix, records)
    found = reconstruct(published, values, likely)
    assert values_of(published.matrix, found.records).tolist() == values.tolist()
    assert not published.impossible[found.records.cells].any()
    away = np.abs(found.records.dense() - records.dense()).sum()
    assert away <= found.distance or not found.exact


def test_where_the_nodes_run_out_what_is_known_is_said():
    of = schema(3, 4, 4)
    pairs = [
        {f"a{one}": (i,), f"a{two}": (j,)}
        for one, two in ((0, 1), (0, 2), (1, 2))
        for i in range(of.shape[one])
        for j in range(of.shape[two])
    ]
    published = columns((table(of, *pairs),), np.zeros(of.size, dtype=bool))
    likely = Likely(nobody(of.size), nobody(of.size))
    undecided = 0
    for seed in range(4):
        records = histogram(np.random.default_rng(seed).integers(0, 5, of.size))
        values = values_of(published.matrix, records)
        few, many = (reconstruct(published, values, likely, nodes) for nodes in (1, 10_000))
        assert many.exact
        for found in (few, many):
            assert values_of(published.matrix, found.records).tolist() == values.tolist()
            # What is said to be reached is reached from the other one's solution, too.
            away = int(np.abs(few.records.dense() - many.records.dense()).sum())
            assert found.distance <= many.distance + away
        undecided += not few.exact
    assert undecided


@pytest.mark.parametrize("made", [each for each in PRODUCTS.values() if tables_of_leaves(each)], ids=lambda of: of.name)
def test_tables_of_every_product_that_has_some_are_met(made):
    tables = tables_of_leaves(made)
    published = PublishedColumns.of(tables, made.zero_cells())
    possible = np.flatnonzero(~made.zero_cells())
    cells = np.random.default_rng(7).choice(possible, 6)
    records = Histogram.from_pairs(made.schema.size, cells, np.ones(6, dtype=np.int64))
    values = values_of(published.matrix, records)
    found = reconstruct(published, values, Likely(records, records))
    assert found.outcome in (Outcome.ONE, Outcome.SEVERAL)
    assert values_of(published.matrix, found.records).tolist() == values.tolist()
    assert not published.impossible[found.records.cells].any()
