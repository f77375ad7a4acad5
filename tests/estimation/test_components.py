"""Components against dense matrices: Gram matrices, products, inverses and variances, on any schema and workload."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.estimation import Decomposition, variances
from das_spark.estimation.roots import gram, inverse_root
from das_spark.histogram import NO_GROUP, Attribute, Query, Recode, Schema
from das_spark.products import PRODUCTS


def dense(query: Query, cells: np.ndarray) -> np.ndarray:
    """The matrix of a query on some cells."""
    rows = query.row_of(cells.astype(np.int32))
    matrix = np.zeros((query.rows, len(cells)))
    counted = rows != NO_GROUP
    matrix[rows[counted], np.flatnonzero(counted)] = 1
    return matrix


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Schema, list[Query], np.ndarray, Query | None]:
    """A schema of up to three attributes with recodes, a workload, structural zeros, and a class query or none."""
    attributes = []
    for number in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 5))
        groups = st.lists(st.integers(-1, 2), min_size=size, max_size=size).filter(lambda each: max(each) >= 0)
        recodes = []
        for place, codes in enumerate(draw(st.lists(groups, max_size=2))):
            used = sorted(set(codes) - {-1})
            members = [tuple(np.flatnonzero(np.array(codes) == group).tolist()) for group in used]
            labelled = tuple((f"g{rank}", own) for rank, own in enumerate(members))
            recodes.append(Recode(f"r{number}x{place}", labelled))
        attributes.append(Attribute(f"a{number}", tuple(f"l{level}" for level in range(size)), tuple(recodes)))
    schema = Schema("any", tuple(attributes))
    names = [[None, attribute.name, *(recode.name for recode in attribute.recodes)] for attribute in attributes]
    chosen = draw(st.lists(st.tuples(*(st.sampled_from(name) for name in names)), min_size=1, max_size=4))
    queries = [schema.query(" * ".join(filter(None, each)) or "total") for each in chosen]
    queries.append(schema.query("detailed"))
    zeros = np.flatnonzero(draw(st.lists(st.booleans(), min_size=schema.size, max_size=schema.size)))
    zeros = zeros if draw(st.booleans()) else zeros[:0]
    classes = schema.query("a0") if draw(st.booleans()) else None
    return schema, list(dict.fromkeys(queries)), zeros.astype(np.int32), classes


@given(workload=workloads(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_sums_of_gram_matrices_and_their_inverses_are_the_dense_ones(workload, seed):
    schema, queries, zeros, classes = workload
    generator = np.random.default_rng(seed)
    algebra = Decomposition.of(queries, zeros, classes)
    assert sum(component.multiplicity * len(component.sites) for component in algebra.components) == schema.size
    first = np.unique(algebra.site, return_index=True)[1]
    live = (generator.random(algebra.sites) < 0.8) & ~algebra.zero[first]
    frame = algebra.frame(live)
    weights = generator.uniform(0.1, 2.0, (2, len(queries)))
    parts = list(zip(*map(algebra.root, queries), strict=True))
    whole = [
        frame.restricted(tuple(np.vstack([w**0.5 * r for w, r in zip(row, roots, strict=True)]) for roots in parts))
        for row in weights
    ]
    blocks = tuple(np.array(pair) for pair in zip(*whole, strict=True))
    if not len(frame.cells):
        return
    x = generator.normal(size=(2, len(frame.cells)))
    np.testing.assert_allclose(frame.synthesize(frame.analyze(x)), x, atol=1e-12)
    for place, row in enumerate(weights):
        matrix = sum(w * dense(q, frame.cells).T @ dense(q, frame.cells) for w, q in zip(row, queries, strict=True))
        own = tuple(block[place : place + 1] for block in blocks)
        np.testing.assert_allclose(frame.dense(own), matrix, atol=1e-10)
        inverse = tuple(inverse_root(block) for block in own)
        np.testing.assert_allclose(frame.dense(inverse), np.linalg.inv(matrix), atol=1e-8)
        grams = tuple(gram(block) for block in own)
        np.testing.assert_allclose(frame.apply(grams, x[:1])[0], matrix @ x[0], atol=1e-9)
        np.testing.assert_allclose(frame.apply_roots(own, x[:1])[0], matrix @ x[0], atol=1e-9)
        np.testing.assert_allclose(by_averages(frame, grams, x[0]), matrix @ x[0], atol=1e-9)
        statistics = (generator.random((3, len(frame.cells))) < 0.5).astype(float)
        found = variances(own, frame.traces(statistics))[0]
        expected = np.einsum("si,ij,sj->s", statistics, matrix, statistics)
        np.testing.assert_allclose(found, expected, atol=1e-9)


def by_averages(frame, blocks, x):
    """The product as the compiled loops make it, written as loops."""
    averages, found = frame.averages, np.zeros(len(x))
    (matrices,) = averages.of(blocks)
    for number, widths in enumerate(averages.widths):
        means = []
        for site, width in enumerate(widths):
            own = averages.site == site
            summed = np.bincount(averages.place[number][own], x[own], minlength=width)
            means.append(summed * averages.shares[number, site])
        for site, width in enumerate(widths):
            own = averages.site == site
            terms = [f * mean for f, mean in zip(matrices[number, site], means, strict=True) if f != 0.0]
            found[own] += sum(terms, np.zeros(width))[averages.place[number][own]]
    return found


def test_persons_of_2020_have_four_components_of_sixteen_sites():
    product = PRODUCTS["pl94_2020_person"]
    queries = [product.schema.query(query.query) for query in product.strategies["us"].budget.levels[1].queries]
    zeros = np.flatnonzero(product.zero_cells()).astype(np.int32)
    algebra = Decomposition.of(queries, zeros, product.schema.query(product.class_query))
    assert [len(component.sites) for component in algebra.components] == [16] * 4
    assert [component.multiplicity for component in algebra.components] == [1, 62, 1, 62]
    assert [len(np.unique(atom)) for atom in algebra.atoms] == [8, 2, 1, 1]
    households = np.zeros(16, dtype=bool)
    households[:2] = True
    assert sum(len(position) ** 2 for position in algebra.frame(households).positions) == 16


def test_levels_that_no_recode_separates_are_twins_whatever_their_names():
    recode = Recode("broad", (("one", (0, 2)), ("other", (1, 3, 4))))
    schema = Schema("s", (Attribute("kind", tuple("abcde"), (recode,)),))
    nothing = np.zeros(0, dtype=np.int32)
    assert Decomposition.of([schema.query("detailed")], nothing).atoms[0].tolist() == [0] * 5
    assert Decomposition.of([schema.query("broad")], nothing).atoms[0].tolist() == [0, 1, 0, 1, 1]
    split = Decomposition.of([schema.query("broad")], np.array([2], dtype=np.int32))
    assert split.atoms[0].tolist() == [0, 1, 2, 1, 1]
    assert Decomposition.of([schema.query("total")], nothing, schema.query("kind")).atoms[0].tolist() == [0, 1, 2, 3, 4]


def test_a_wrong_gram_matrix_is_found(monkeypatch):
    """The comparison with dense matrices is one: with a number off by a thousandth it fails."""
    product = PRODUCTS["e2e_1940"]
    queries = [product.schema.query(name) for name in ("hhgq", "detailed")]
    algebra = Decomposition.of(queries, np.zeros(0, dtype=np.int32))
    right = algebra.root(queries[0])
    wrong = (right[0] * 1.001, *right[1:])
    frame = algebra.frame(np.ones(algebra.sites, dtype=bool))
    matrix = dense(queries[0], frame.cells)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(frame.dense(tuple(each[None] for each in wrong)), matrix.T @ matrix, atol=1e-10)
