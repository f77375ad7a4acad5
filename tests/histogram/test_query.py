"""Queries against a dense Kronecker matrix, which is the definition that the code never makes."""

import pickle
import tracemalloc
from functools import reduce
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError, QueryError
from das_spark.histogram import Attribute, Histogram, Query, Schema

LARGE_SHAPE = (8, 2, 2, 63, 744)  # 1.5 million cells


def matrix_of(query):
    """The oracle: numpy.kron of the 0/1 matrices of the factors."""
    return reduce(np.kron, [factor_matrix(factor) for factor in query.factors])


def factor_matrix(factor):
    return (np.arange(factor.max() + 1)[:, None] == factor[None, :]).astype(np.int64)


def query_of(*factors):
    arrays = tuple(np.array(factor) for factor in factors)
    return Query("test", tuple(len(factor) for factor in arrays), arrays)


@st.composite
def factors(draw, size):
    raw = draw(st.lists(st.integers(-1, size - 1), min_size=size, max_size=size))
    if max(raw) < 0:
        return np.zeros(size, dtype=np.int64)
    kinds = st.sampled_from(["raw", "raw", "kept", "summed"])
    match draw(kinds):
        case "kept":
            return np.arange(size)
        case "summed":
            return np.zeros(size, dtype=np.int64)
    used = sorted(set(raw) - {-1})
    order = draw(st.permutations(range(len(used))))
    return np.array([order[used.index(group)] if group >= 0 else -1 for group in raw])


@st.composite
def shapes(draw):
    return tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))


@st.composite
def queries(draw, shape=None):
    shape = draw(shapes()) if shape is None else shape
    return query_of(*(draw(factors(size)) for size in shape))


def vectors(size, low=-50, high=50):
    return st.lists(st.integers(low, high), min_size=size, max_size=size).map(np.array)


@given(queries())
def test_row_of_every_cell_is_the_row_of_the_one_in_its_column(query):
    matrix = matrix_of(query)
    assert matrix.shape == (query.rows, query.size)
    expected = np.where(matrix.any(axis=0), matrix.argmax(axis=0), -1)
    np.testing.assert_array_equal(query.row_of(np.arange(query.size)), expected)


@given(st.data())
def test_sparse_and_dense_answers_equal_the_dense_matrix(data):
    query = data.draw(queries())
    dense = data.draw(vectors(query.size, low=0))
    expected = matrix_of(query) @ dense
    sparse = Histogram.from_dense(dense)
    np.testing.assert_array_equal(query.answer(sparse.cells, sparse.counts), expected)
    np.testing.assert_array_equal(query.answer_dense(dense), expected)


@given(st.data())
def test_stacks_of_histograms_are_answered_one_by_one(data):
    query = data.draw(queries())
    stack = np.stack([data.draw(vectors(query.size)) for _ in range(6)]).reshape(2, 3, query.size)
    np.testing.assert_array_equal(query.answer_dense(stack), stack @ matrix_of(query).T)


@given(st.data())
def test_answers_are_linear(data):
    query = data.draw(queries())
    left, right = data.draw(vectors(query.size)), data.draw(vectors(query.size))
    combined = query.answer_dense(3 * left - 2 * right)
    np.testing.assert_array_equal(combined, 3 * query.answer_dense(left) - 2 * query.answer_dense(right))


@given(st.data())
def test_a_restriction_gives_the_full_answers_on_the_rows_it_touches(data):
    query = data.draw(queries())
    support = data.draw(st.lists(st.integers(0, query.size - 1), unique=True))
    cells = np.array(support, dtype=np.int64)
    counts = data.draw(vectors(len(support), low=1))
    restriction = query.restrict(cells)
    counted = restriction.index >= 0
    restricted = np.zeros(len(restriction.rows), dtype=np.int64)
    np.add.at(restricted, restriction.index[counted], counts[counted])
    full = query.answer(cells, counts)
    np.testing.assert_array_equal(full[restriction.rows], restricted)
    np.testing.assert_array_equal(np.flatnonzero(full), restriction.rows)  # counts are positive
    assert (np.diff(restriction.rows) > 0).all()


@given(queries())
def test_a_partition_has_one_one_in_every_column(query):
    assert query.is_partition == bool((matrix_of(query).sum(axis=0) == 1).all())


@given(queries())
def test_one_record_that_moves_changes_the_answers_by_two_at_most_in_either_norm(query):
    """What mechanisms provide for, always."""
    matrix = matrix_of(query)
    changes = [matrix[:, new] - matrix[:, old] for old, new in permutations(range(query.size), 2)]
    worst = 2 if query.rows > 1 else int(not query.is_partition)
    assert max((abs(change).sum() for change in changes), default=0) == worst
    assert max((change @ change for change in changes), default=0) == worst


@given(st.data())
def test_an_attribute_is_involved_just_when_changing_it_alone_can_change_an_answer(data):
    query = data.draw(queries())
    axis = data.draw(st.integers(0, len(query.shape) - 1))
    columns = np.moveaxis(matrix_of(query).reshape(query.rows, *query.shape), axis + 1, 1)
    assert query.involves(axis) == bool((columns != columns[:, :1]).any())


@given(queries())
def test_queries_survive_pickling(query):
    copy = pickle.loads(pickle.dumps(query))
    assert copy == query
    assert hash(copy) == hash(query)
    assert copy.name == query.name
    np.testing.assert_array_equal(copy.row_of(np.arange(copy.size)), query.row_of(np.arange(query.size)))


def test_equality_looks_at_shape_and_factors_not_at_the_name():
    first = Query("one", (2, 3), (np.arange(2), np.zeros(3, dtype=np.int64)))
    same = Query("two", (2, 3), (np.arange(2), np.zeros(3, dtype=np.int64)))
    other = Query("one", (2, 3), (np.zeros(2, dtype=np.int64), np.arange(3)))
    assert first == same
    assert first != other
    assert first != "one"


def test_answers_are_exact_beyond_the_integers_of_floats():
    query = query_of([0, 0, 1])
    large = 2**53
    answers = query.answer(np.array([0, 1, 2]), np.array([large, 1, 2 * large + 1]))
    assert answers.tolist() == [large + 1, 2 * large + 1]
    assert query.answer_dense(np.array([large, 1, 2 * large + 1])).tolist() == [large + 1, 2 * large + 1]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32])
def test_small_integers_do_not_overflow(kind):
    stack = np.full((2, 6), 127, dtype=kind)
    query = Query("test", (2, 3), (np.zeros(2, dtype=np.int64), np.array([0, 0, 1])))
    assert query.answer_dense(stack).tolist() == [[508, 254], [508, 254]]
    assert query.answer(np.arange(6, dtype=kind), stack[0]).tolist() == [508, 254]


def test_booleans_are_counted():
    assert query_of([0, 0, 1]).answer_dense(np.array([True, True, True])).tolist() == [2, 1]


def test_floats_stay_floats():
    assert query_of([0, 0, 1]).answer_dense(np.array([0.5, 0.25, 1.0])).tolist() == [0.75, 1.0]


def test_results_never_share_memory_with_what_was_given():
    query = query_of([0, 1, 2])
    values = np.array([1.0, 2.0, 3.0])
    query.answer_dense(values)[0] = 9.0
    assert values[0] == 1.0


def test_factors_cannot_be_changed_behind_the_back_of_a_query():
    factor = np.array([0, 1])
    query = query_of(factor)
    factor[0] = 1
    assert query.factors[0].tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        query.factors[0][0] = 1


def test_an_empty_histogram_answers_zero():
    nothing = np.array([], dtype=np.int64)
    query = query_of([0, 1], [0, 0])
    assert query.answer(nothing, nothing).tolist() == [0, 0]
    assert query.restrict(nothing).rows.tolist() == []


@pytest.mark.parametrize(
    ("shape", "factor", "message"),
    [
        ((2,), [0, 2], "without a gap"),
        ((2,), [-1, -1], "without a gap"),
        ((2,), [0, -2], "without a gap"),
        ((3,), [0, 1], "3 levels"),
        ((2, 2), [0, 1], "1 factors for 2"),
    ],
)
def test_factors_that_are_no_grouping_are_refused(shape, factor, message):
    with pytest.raises(QueryError, match=message):
        Query("test", shape, (np.array(factor),))


def test_arrays_of_a_wrong_length_are_refused_with_both_lengths():
    query = query_of([0, 0, 1])
    with pytest.raises(InputError, match=r"needs 3 cells .* shape \(2, 4\)"):
        query.answer_dense(np.zeros((2, 4)))


def test_a_sparse_answer_takes_memory_for_the_occupied_cells_only():
    attributes = (
        Attribute(f"axis{i}", tuple(f"level {code}" for code in range(size))) for i, size in enumerate(LARGE_SHAPE)
    )
    schema = Schema("large", tuple(attributes))
    assert schema.size == 1_499_904
    query, detailed = schema.query("axis0 * axis3"), schema.query("detailed")
    cells = np.arange(0, schema.size, 1_501)
    counts = np.ones(len(cells), dtype=np.int64)
    tracemalloc.start()
    answers = query.answer(cells, counts)
    touched = detailed.restrict(cells).rows
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answers.sum() == len(cells)
    assert len(touched) == len(cells)
    assert peak < schema.size / 4  # bytes: a dense array would take eight a cell


def _coarser_oracle(finer, coarser):
    """By looking at every cell."""
    cells = np.arange(finer.size)
    mine, theirs = finer.row_of(cells), coarser.row_of(cells)
    if (theirs[mine < 0] >= 0).any():
        return None
    found = np.full(finer.rows, -1, dtype=np.int64)
    for row in range(finer.rows):
        seen = np.unique(theirs[mine == row])
        if len(seen) > 1:
            return None
        found[row] = seen[0]
    return found


def test_answers_of_a_finer_query_are_parts_of_those_of_a_coarser_one():
    random = np.random.default_rng(7)
    compared = 0
    for _ in range(400):
        shape = tuple(random.integers(1, 4, 3))

        def factor(size, from_group=None):
            groups = random.integers(-1, 2, size) if from_group is None else random.integers(-1, 2, 5)[from_group]
            groups = np.where(np.ones(size, bool) if from_group is None else from_group >= 0, groups, -1)
            if (groups < 0).all():
                return np.zeros(size, dtype=np.int64) if from_group is None else None
            return np.unique(np.append(groups, -1), return_inverse=True)[1][:-1] - 1

        fine = [factor(size) for size in shape]
        coarse = [factor(size, each) for size, each in zip(shape, fine, strict=True)]
        if any(each is None for each in coarse):
            continue
        finer, coarser = Query("fine", shape, tuple(fine)), Query("coarse", shape, tuple(coarse))
        for one, other in ((finer, coarser), (coarser, finer), (finer, finer)):
            expected, found = _coarser_oracle(one, other), one.answers_in(other)
            if found is None:
                assert expected is None or (other.row_of(np.arange(other.size)) < 0).any()
                continue
            compared += 1
            assert expected is not None
            assert found.tolist() == expected.tolist()
    assert compared > 200


@given(st.data())
def test_uncut_answers_lie_in_one_answer_of_the_other_or_in_none(data):
    shape = data.draw(shapes())
    query, other = (data.draw(queries(shape)) for _ in range(2))
    found = query.uncut_by(other)
    groups = [
        [set(theirs[mine == group].tolist()) for group in range(mine.max() + 1)]
        for mine, theirs in zip(query.factors, other.factors, strict=True)
    ]
    wanted = [row for row, each in enumerate(product(*groups)) if all(len(inside) == 1 for inside in each)]
    if not wanted:
        assert found is None
        return
    uncut, rows = found
    assert rows.tolist() == wanted
    assert np.array_equal(matrix_of(uncut), matrix_of(query)[wanted])
    theirs = other.row_of(np.arange(other.size))
    for row in matrix_of(uncut):
        assert len(set(theirs[row > 0].tolist())) == 1
