"""A small spine measured and estimated in memory: rules that must hold, and noise with an address."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from das_spark.core import measure_family
from das_spark.errors import EstimationError
from das_spark.histogram import Attribute, Schema
from das_spark.privacy import RunKey
from das_spark.studies.occupancy_releases import Layer, SpineMechanism, SpineQuery, noise_of, release

SCHEMA = Schema("small", (Attribute("a", ("x", "y", "z")), Attribute("b", ("u", "v"))))
SHARES = dict.fromkeys(("Top", "Middle", "Leaf"), Fraction(1, 3))
KEY = RunKey.insecure("top down")


def mechanism(total=Fraction(3)):
    queries = (
        SpineQuery("cells", SCHEMA.query("detailed"), Fraction(1, 2)),
        SpineQuery("margin", SCHEMA.query("a"), Fraction(1, 2)),
    )
    return SpineMechanism("record", SCHEMA, queries, total, SHARES)


def spine(*, bounded=True):
    """One top, three in the middle of which the second ends there, seven leaves."""
    random = np.random.default_rng(5)
    middle_of_leaf = np.array([0, 0, 0, 2, 2, 2, 2])
    leaf = random.poisson(4, (7, SCHEMA.size))
    middle = random.poisson(9, (3, SCHEMA.size))
    for place in (0, 2):
        middle[place] = leaf[middle_of_leaf == place].sum(axis=0)
    truths = (middle.sum(axis=0, keepdims=True), middle, leaf)
    parents = (np.zeros(1, int), np.zeros(3, int), middle_of_leaf)
    room = (np.array([0]), np.array([0, 6, 0]), np.array([0, 1, 9, 2, 0, 3, 4]))
    most = [truth.sum(axis=1) + vacant for truth, vacant in zip(truths, room, strict=True)]
    most[1][[0, 2]] = [most[2][:3].sum(), most[2][3:].sum()]
    most[0] = most[1].sum(keepdims=True)
    return [
        Layer(name, parent, truth, np.zeros(len(truth), int), bound if bounded else None)
        for name, parent, truth, bound in zip(SHARES, parents, truths, most, strict=True)
    ]


def test_a_release_keeps_every_rule():
    layers = spine()
    found = release(layers, mechanism(), KEY)
    for depth, (layer, counts) in enumerate(zip(layers, found, strict=True)):
        assert counts.dtype == np.int64
        assert (counts >= 0).all()
        assert (counts.sum(axis=1) <= layer.most).all()
        for parent, children in layer.families() if depth else ():
            assert (counts[children].sum(axis=0) == found[depth - 1][parent]).all()
    assert not np.array_equal(found[2], layers[2].truth)


def test_without_bounds_some_geounit_is_over_them():
    layers = spine()
    found = release(spine(bounded=False), mechanism(), KEY)
    assert any((counts.sum(axis=1) > layer.most).any() for layer, counts in zip(layers, found, strict=True))


def test_a_huge_budget_gives_the_truth():
    layers = spine()
    for layer, counts in zip(layers, release(layers, mechanism(Fraction(10_000)), KEY), strict=True):
        assert (counts == layer.truth).all()


def test_the_same_key_gives_the_same_release_and_another_key_another():
    first, again = (release(spine(), mechanism(), KEY) for _ in range(2))
    other = release(spine(), mechanism(), RunKey.insecure("another"))
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    assert not np.array_equal(first[2], other[2])


def test_families_are_the_runs_of_equal_parents():
    leaf = spine()[2]
    assert list(leaf.families()) == [(0, slice(0, 3)), (2, slice(3, 7))]


def test_noise_has_an_address_however_geounits_fall_into_families():
    layers, spent = spine(), mechanism()
    layer = layers[2]
    together = [each.values for each in noise_of(layer, spent, KEY)]
    apart = noise_of(replace(layer, parent=np.arange(7)), spent, KEY)
    assert all(np.array_equal(one, each.values) for one, each in zip(together, apart, strict=True))
    plan = spent.measurement_plan(layer.name, KEY)
    for _, children in layer.families():
        found = measure_family(layer.confidential(children), None, plan)
        for query, one, drawn in zip(spent.queries, found, together, strict=True):
            assert np.array_equal(one.values - query.query.answer_dense(layer.truth[children]), drawn[children])


def test_bounds_that_contradict_each_other_are_an_error_that_names_the_geolevel():
    layers = spine()
    tight = replace(layers[2], most=np.zeros(7, int))
    with pytest.raises(EstimationError, match="level Leaf"):
        release([*layers[:2], tight], mechanism(), KEY)
