from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from das_spark.histogram import Attribute, Schema
from das_spark.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    GeounitAddresses,
    RunKey,
    StreamDomain,
    cumulative_table,
    sample,
)
from das_spark.spark import measure, tables
from das_spark.spark.families import Spread
from das_spark.spark.measure import MeasurementTask

pytestmark = pytest.mark.spark

SCHEMA = Schema("small", (Attribute("hhgq", ("household", "a", "b")), Attribute("age", ("young", "old"))))
LAW = DiscreteLaplace(Fraction(7, 2))
WIDE = cumulative_table(DiscreteLaplace(Fraction(1000)))
QUERIES = {name: SCHEMA.query(name) for name in ("hhgq", "detailed")}
CHILDREN = {
    "0101": {0: 5, 3: 2},
    "0102": {},
    "0103": {1: 7, 5: 1},
    "0201": {2: 4},
}
PARENTS = {"01": {0: 6, 1: 6, 3: 3}, "02": {2: 4}}


def _frame(spark, content, parent):
    rows = [(code, parent(code), list(cells), list(cells.values())) for code, cells in content.items()]
    return spark.createDataFrame(rows, tables.HISTOGRAMS)


def _task(lazy, key="k"):
    run_key = RunKey.insecure(key)
    streams = {name: run_key.derive(StreamDomain("p", "person", "County", 0, name)) for name in QUERIES}
    return MeasurementTask(
        size=SCHEMA.size,
        queries=QUERIES,
        mechanisms={"": {name: (cumulative_table(LAW), LAW.variance()) for name in QUERIES}},
        streams=streams,
        lazy=lazy,
    )


def _measured(spark, lazy, partitions=2, top=False, key="k"):
    histograms = _frame(spark, CHILDREN, lambda code: "" if top else code[:2])
    parents = None if top else _frame(spark, PARENTS, lambda code: "")
    rows = measure.measurements(histograms, parents, _task(lazy, key), Spread(7, partitions)).collect()
    return {(row["geocode"], row["query"]): (row["rows"], row["values"], row["variance"]) for row in rows}


def _expected(code, name, rows):
    dense = np.zeros(6, dtype=np.int64)
    for cell, count in CHILDREN[code].items():
        dense[cell] = count
    stream = RunKey.insecure("k").derive(StreamDomain("p", "person", "County", 0, name))
    noise = sample(cumulative_table(LAW), stream, GeounitAddresses.of([code]), np.asarray(rows))[0]
    return (QUERIES[name].answer_dense(dense)[rows] + noise).tolist()


def test_all_rows_are_whole_answers_plus_the_noise_of_their_address(spark):
    found = _measured(spark, lazy=False)
    assert len(found) == len(CHILDREN) * len(QUERIES)
    for (code, name), (rows, values, variance) in found.items():
        assert rows is None
        assert values == _expected(code, name, np.arange(QUERIES[name].rows))
        assert variance == LAW.variance()


def test_lazy_rows_equal_the_same_rows_of_all_rows(spark):
    lazy, whole = _measured(spark, lazy=True), _measured(spark, lazy=False)
    assert {code for code, _ in lazy} == {"0101", "0102", "0103"}, "an only child need not be measured"
    for key, (rows, values, _) in lazy.items():
        assert values == [whole[key][1][row] for row in rows]


def test_aggregates_are_answered_on_the_whole_histogram_not_on_the_support(spark):
    # Cell 5 (class b, old) of 0103 is outside the support, whose classes are 0 and 1: class b is left out whole,
    # while class 0 and 1 keep every confidential person of theirs.
    rows, values, _ = _measured(spark, lazy=True)["0103", "hhgq"]
    assert rows == [0, 1]
    assert values == _expected("0103", "hhgq", np.array([0, 1]))


def test_top_level_is_measured_whole(spark):
    found = _measured(spark, lazy=True, top=True)
    assert len(found) == len(CHILDREN) * len(QUERIES)
    assert all(rows is None for rows, _, _ in found.values())


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_partitioning_changes_no_draw(spark, partitions):
    assert _measured(spark, lazy=True, partitions=partitions) == _measured(spark, lazy=True, partitions=3)


def test_two_actions_on_a_lazy_frame_draw_the_same_and_another_key_draws_otherwise(spark):
    assert _measured(spark, lazy=True) == _measured(spark, lazy=True)
    assert _measured(spark, lazy=True, key="other") != _measured(spark, lazy=True)


def _shared(spark, shares, lazy=False):
    """Measurements where each child has the share of the budget that `shares` says, and its law by that."""
    laws = {
        share: DiscreteGaussian(Fraction(4) / Fraction(share)) for share in set(shares.values()) - {measure.UNMEASURED}
    }
    task = replace(
        _task(lazy),
        mechanisms={
            share: {name: (cumulative_table(law), law.variance()) for name in QUERIES} for share, law in laws.items()
        },
    )
    told = spark.createDataFrame([(code, code[:2], share) for code, share in shares.items()], tables.SHARES)
    histograms, parents = _frame(spark, CHILDREN, lambda code: code[:2]), _frame(spark, PARENTS, lambda code: "")
    rows = measure.measurements(histograms, parents, task, Spread(3, 2), told).collect()
    return laws, {(row["geocode"], row["query"]): (row["values"], row["variance"]) for row in rows}


def test_geounits_with_other_shares_have_other_noise_and_say_so(spark):
    codes = sorted(CHILDREN)
    shares = {code: ("1/3", "2/3")[place % 2] for place, code in enumerate(codes)}
    laws, found = _shared(spark, shares)
    stream = {name: RunKey.insecure("k").derive(StreamDomain("p", "person", "County", 0, name)) for name in QUERIES}
    for (code, name), (values, variance) in found.items():
        law = laws[shares[code]]
        dense = np.zeros(6, dtype=np.int64)
        for cell, count in CHILDREN[code].items():
            dense[cell] = count
        rows = np.arange(QUERIES[name].rows)
        noise = sample(cumulative_table(law), stream[name], GeounitAddresses.of([code]), rows)[0]
        assert values == (QUERIES[name].answer_dense(dense) + noise).tolist()
        assert variance == law.variance()
    assert len({variance for _, variance in found.values()}) == 2


def test_families_whose_children_have_no_share_are_not_measured(spark):
    first = sorted(CHILDREN)[0][:2]
    shares = {code: measure.UNMEASURED if code[:2] == first else "1" for code in CHILDREN}
    _, found = _shared(spark, shares)
    assert {code for code, _ in found} == {code for code in CHILDREN if code[:2] != first} != set(CHILDREN)


def test_children_of_a_parent_where_nobody_lives_are_measured_without_answers(spark):
    histograms = _frame(spark, {"0301": {}, "0302": {}}, lambda code: code[:2])
    parents = _frame(spark, {"03": {}}, lambda code: "")
    rows = measure.measurements(histograms, parents, _task(lazy=True), Spread(1, 1)).collect()
    assert {(row["geocode"], len(row["values"])) for row in rows} == {("0301", 0), ("0302", 0)}


def test_geocodes_that_end_alike_get_noise_of_their_own(spark):
    # Block groups of a spine with geocodes of 19 digits: once, only the last 16 of them were an address.
    codes = [f"{state}0150010000000000" for state in ("104", "111")]
    histograms = _frame(spark, {code: {0: 5} for code in codes}, lambda code: "0")
    task = replace(_task(lazy=False), mechanisms={"": {name: (WIDE, 1.0) for name in QUERIES}})
    rows = measure.measurements(
        histograms, _frame(spark, {"0": {0: 10}}, lambda code: ""), task, Spread(1, 1)
    ).collect()
    first, second = ([row["values"] for row in rows if row["geocode"] == code] for code in codes)
    assert first != second, "equal noise: the difference of the answers is the difference of the truths"


@pytest.mark.parametrize(("codes", "shared"), [(["01", "02", "1" * 200], []), (["01", "02", "01"], [("01", 2)])])
def test_a_level_in_which_two_geounits_have_one_address_is_found(spark, codes, shared):
    frame = spark.createDataFrame([(code,) for code in codes], "geocode string")
    assert [tuple(row) for row in measure.shared_addresses(frame).collect()] == shared


def test_the_check_of_a_level_looks_at_addresses_and_not_at_geocodes(spark, monkeypatch):
    """The numbering of before, in which geocodes that differ met, is found out over a whole level."""
    codes = [f"{state}{block:016d}" for state in ("104", "111") for block in range(3)]
    frame = spark.createDataFrame([(code,) for code in codes], "geocode string")
    assert measure.shared_addresses(frame).count() == 0
    monkeypatch.setattr(measure, "geounit_key", last_digits)
    assert {tuple(row) for row in measure.shared_addresses(frame).collect()} == {
        (f"104{block:016d}", 2) for block in range(3)
    }


def last_digits(geocode):
    """What went wrong once: of a geocode of more than 18 digits the last 16 alone were an address."""
    return (geocode if len(geocode) <= 18 else geocode[-16:]).encode()
