"""Noisy answers of a family: complete answers plus the noise of their address, and which of them are left out."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from das_spark.core import UNMEASURED, ConfidentialFamily, MeasurementPlan, measure_families, measure_family
from das_spark.errors import PrivacyGuardError
from das_spark.histogram import Attribute, Histogram, Schema
from das_spark.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    GeounitAddresses,
    RunKey,
    StreamDomain,
    cumulative_table,
    sample,
)

SCHEMA = Schema("small", (Attribute("hhgq", ("household", "a", "b")), Attribute("age", ("young", "old"))))
MECHANISM = DiscreteLaplace(Fraction(7, 2))
QUERIES = {name: SCHEMA.query(name) for name in ("hhgq", "detailed")}
CHILDREN = {"0101": {0: 5, 3: 2}, "0102": {}, "0103": {1: 7, 5: 1}}
SUPPORT = np.array([0, 1, 3], dtype=np.int32)


def family(codes=tuple(CHILDREN), share=""):
    return ConfidentialFamily.of(
        {code: Histogram.from_pairs(6, list(CHILDREN[code]), list(CHILDREN[code].values())) for code in codes}, share
    )


def plan(*, lazy, key=None, mechanisms=None):
    run_key = key or RunKey.insecure("k")
    return MeasurementPlan(
        queries=QUERIES,
        mechanisms={
            share: {name: (cumulative_table(mechanism), mechanism.variance()) for name in QUERIES}
            for share, mechanism in (mechanisms or {"": MECHANISM}).items()
        },
        streams={name: run_key.derive(StreamDomain("p", "person", "County", 0, name)) for name in QUERIES},
        lazy=lazy,
    )


def expected(code, name, rows, mechanism=MECHANISM):
    dense = np.zeros(6, dtype=np.int64)
    dense[list(CHILDREN[code])] = list(CHILDREN[code].values())
    stream = RunKey.insecure("k").derive(StreamDomain("p", "person", "County", 0, name))
    noise = sample(cumulative_table(mechanism), stream, GeounitAddresses.of([code]), np.asarray(rows))[0]
    return (QUERIES[name].answer_dense(dense)[rows] + noise).tolist()


def test_all_rows_are_complete_answers_plus_the_noise_of_their_address():
    found = measure_family(family(), SUPPORT, plan(lazy=False))
    assert [each.query for each in found] == ["detailed", "hhgq"]
    for each in found:
        assert each.rows is None
        assert (each.variance == MECHANISM.variance()).all()
        for code, values in zip(each.geocodes, each.values.tolist(), strict=True):
            assert values == expected(code, each.query, np.arange(QUERIES[each.query].rows))


def test_rows_that_the_support_cannot_touch_are_left_out_and_change_no_other():
    """Class b of 0103 is outside of the support and left out as a whole; the others keep everybody."""
    for each in measure_family(family(), SUPPORT, plan(lazy=True)):
        assert each.rows.tolist() == ([0, 1, 3] if each.query == "detailed" else [0, 1])
        for code, values in zip(each.geocodes, each.values.tolist(), strict=True):
            assert values == expected(code, each.query, each.rows)


def test_without_an_estimate_of_the_parent_every_row_is_measured():
    for lazy in (False, True):
        assert all(each.rows is None for each in measure_family(family(), None, plan(lazy=lazy)))


def test_a_single_child_is_measured_only_where_its_parent_has_no_estimate_or_all_rows_are_kept():
    alone = family(("0101",))
    assert measure_family(alone, SUPPORT, plan(lazy=True)) == ()
    assert measure_family(alone, SUPPORT, plan(lazy=False))
    assert measure_family(alone, None, plan(lazy=True))


def test_a_parent_where_nobody_lives_leaves_no_answer():
    found = measure_family(family(), SUPPORT[:0], plan(lazy=True))
    assert [each.values.shape for each in found] == [(3, 0), (3, 0)]


def test_children_with_other_shares_of_the_budget_have_other_noise():
    mechanisms = {share: DiscreteGaussian(Fraction(4) / Fraction(share)) for share in ("1/3", "2/3")}
    shares = ("1/3", "2/3", "1/3")
    for each in measure_family(replace(family(), shares=shares), None, plan(lazy=False, mechanisms=mechanisms)):
        for place, (code, share) in enumerate(zip(each.geocodes, shares, strict=True)):
            assert each.variance[place] == mechanisms[share].variance()
            rows = np.arange(QUERIES[each.query].rows)
            assert each.values[place].tolist() == expected(code, each.query, rows, mechanisms[share])


def test_children_whose_share_is_their_parents_are_not_measured():
    assert measure_family(family(share=UNMEASURED), None, plan(lazy=False)) == ()


def test_blind_answers_are_noise_alone_and_refused_under_a_real_key():
    blind = replace(plan(lazy=False), blind=True)
    nobody = ConfidentialFamily.of({code: Histogram.from_pairs(6, [], []) for code in CHILDREN})
    for one, other in zip(
        measure_family(family(), None, blind), measure_family(nobody, None, plan(lazy=False)), strict=True
    ):
        np.testing.assert_array_equal(one.values, other.values)
    with pytest.raises(PrivacyGuardError, match="test key"):
        replace(plan(lazy=False, key=RunKey.from_system()), blind=True)


def test_families_that_are_measured_together_have_the_answers_that_each_has_alone():
    generator = np.random.default_rng(2)
    shares = {"": MECHANISM, "1/2": DiscreteLaplace(Fraction(7)), UNMEASURED: MECHANISM}
    families, supports = [], []
    for number in range(25):
        children = {
            f"{number:02d}{child}": Histogram.from_pairs(6, *np.unique(generator.integers(0, 6, 9), return_counts=True))
            for child in range(int(generator.integers(1, 5)))
        }
        made = ConfidentialFamily.of(children)
        kinds = ("",) if number % 3 else ("", "1/2")
        made = replace(made, shares=tuple(str(generator.choice(kinds)) for _ in made.geocodes))
        families.append(made if number % 7 else replace(made, shares=(UNMEASURED,) * len(made.geocodes)))
        support = np.unique(generator.integers(0, 6, int(generator.integers(1, 6)))).astype(np.int32)
        supports.append(None if number % 11 == 5 else support)
    for lazy in (True, False):
        how = plan(lazy=lazy, mechanisms=shares)
        together = measure_families(families, supports, how)
        assert sum(not each for each in together) >= 3
        for family_, support, found in zip(families, supports, together, strict=True):
            alone = measure_family(family_, support, how)
            assert [each.query for each in found] == [each.query for each in alone]
            for one, two in zip(found, alone, strict=True):
                assert one.geocodes == two.geocodes == family_.geocodes
                assert (one.rows is None) == (two.rows is None) == (not lazy or support is None)
                assert one.rows is None or one.rows.tolist() == two.rows.tolist()
                np.testing.assert_array_equal(one.values, two.values)
                np.testing.assert_array_equal(one.variance, two.variance)


def test_a_geounit_that_stands_in_two_families_is_refused():
    with pytest.raises(PrivacyGuardError, match="stands twice"):
        measure_families([family(), family()], [SUPPORT, SUPPORT], plan(lazy=True))
