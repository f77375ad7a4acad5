"""Residuals of a run, as tasks count them, against its tables read row by row; and leaks that are planted in them."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.attack import PARENTS, QUERIES, SIBLINGS
from das_spark.attack.own_noise import judge_noise
from das_spark.errors import InputError
from das_spark.spark.finished_runs import FinishedRun, spine_truths
from das_spark.spark.residuals import residuals_of
from das_spark.store import PublicManifest, RunLayout

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def opened(layout, workshop) -> FinishedRun:
    """A run of which all levels are measured; whether the rest was made does not matter here."""
    return FinishedRun(layout.folder, layout.public, PublicManifest("run", "now"), workshop.plan())


def noise_of(run, layout, tools):
    """Residual of each answer, by geolevel, query and geounit: read without Spark, answers by dense histograms."""
    plan, found = run.plan, defaultdict(dict)
    for level in run.spine.names:
        dense, parents = {}, {}
        for row in tools.rows_of(layout.restricted.level("histograms", level)):
            dense[row["geocode"]] = np.zeros(plan.product.schema.size, dtype=np.int64)
            dense[row["geocode"]][row["cells"]] = row["counts"]
            parents[row["geocode"]] = row["parent"]
        for row in tools.rows_of(layout.public.level("measurements", level)):
            answers = plan.queries[row["query"]].answer_dense(dense[row["geocode"]])
            kept = range(len(answers)) if row["rows"] is None else row["rows"]
            values = {at: value - int(answers[at]) for at, value in zip(kept, row["values"], strict=True)}
            found[level, row["query"]][row["geocode"], parents[row["geocode"]]] = values
    return found


def test_residuals_are_those_of_the_tables(spark, calm, workshop, tools):
    run = opened(calm, workshop)
    noise, expected = residuals_of(spark, run), noise_of(run, calm, tools)
    assert {(residual.geolevel, residual.query) for residual in noise.residuals} == set(expected)
    for residual in noise.residuals:
        geounits = expected[residual.geolevel, residual.query]
        counts = Counter(value for values in geounits.values() for value in values.values())
        assert dict(zip(residual.values.tolist(), residual.frequencies.tolist(), strict=True)) == counts
        sizes = Counter(len(values) for values in geounits.values())
        assert dict(residual.vectors[:, :2].tolist()) == sizes
        equal = Counter(tuple(values.items()) for values in geounits.values())
        assert residual.vectors[:, 2].sum() == sum(number * (number - 1) // 2 for number in equal.values())


def pairs_of(run, expected):
    """Noise of the same query in two geounits, or of two queries in one, that are compared: geolevel and where."""
    names = run.spine.names
    for (level, query), geounits in expected.items():
        above = expected[names[names.index(level) - 1], query] if level != names[0] else {}
        by_code = {code: values for (code, _), values in above.items()}
        yield from ((level, PARENTS, values, by_code.get(parent, {})) for (_, parent), values in geounits.items())
        ordered = sorted(geounits, key=lambda geounit: (geounit[1], geounit[0]))
        for one, other in pairwise(ordered):
            if one[1] == other[1]:
                yield level, SIBLINGS, geounits[one], geounits[other]
    for level in names:
        mine = {query: geounits for (place, query), geounits in expected.items() if place == level}
        for geounit in set().union(*mine.values()):
            own = {query: geounits[geounit] for query, geounits in mine.items() if geounit in geounits}
            largest, *others = sorted(own, key=lambda query: (-len(own[query]), query))
            yield from ((level, QUERIES, own[largest], own[query]) for query in others)


def test_signs_are_compared_at_the_same_answers(spark, calm, workshop, tools):
    run, compared, agreeing = opened(calm, workshop), Counter(), Counter()
    for level, between, one, other in pairs_of(run, noise_of(run, calm, tools)):
        products = [one[at] * other[at] for at in one.keys() & other.keys()]
        compared[level, between] += sum(product != 0 for product in products)
        agreeing[level, between] += sum(product > 0 for product in products)
    found = {(agreement.geolevel, agreement.between): agreement for agreement in residuals_of(spark, run).agreements}
    assert {key: each.compared for key, each in found.items() if each.compared} == +compared
    assert {key: each.agreeing for key, each in found.items() if each.agreeing} == +agreeing
    assert {between for _, between in found} == {PARENTS, QUERIES, SIBLINGS}


@pytest.fixture
def leaking(calm, workshop, tools, tmp_path):
    """A copy of the run whose lowest level was measured without noise."""
    folder = tmp_path / "leaking"
    shutil.copytree(calm.folder, folder)
    layout = RunLayout.at(tmp_path, "leaking")
    run = opened(layout, workshop)
    level = run.spine.leaf.name
    noise = noise_of(run, layout, tools)
    for part in layout.public.level("measurements", level).glob("part-*"):
        table = pq.ParquetFile(part).read()
        values = []
        for row in table.to_pylist():
            own = next(each for (code, _), each in noise[level, row["query"]].items() if code == row["geocode"])
            values.append([value - left for value, left in zip(row["values"], own.values(), strict=True)])
        place = table.column_names.index("values")
        field = table.schema.field(place)
        pq.write_table(table.set_column(place, field, pa.array(values, field.type)), part)
    return run


def test_a_level_without_noise_is_seen_and_the_sound_run_is_not_convicted(spark, calm, workshop, leaking):
    sound, bad = (judge_noise(run.plan, residuals_of(spark, run), 0.05) for run in (opened(calm, workshop), leaking))
    assert not sound.convicts
    assert {row.geolevel for row in bad.rows if row.findings} == {leaking.spine.leaf.name}


def test_a_truth_of_another_spine_is_refused(spark, calm, workshop, monkeypatch):
    run = opened(calm, workshop)
    monkeypatch.setattr("das_spark.spark.finished_runs._holder", lambda *_: FakeHolder(calm.folder))
    with pytest.raises(InputError, match="another spine"):
        spine_truths(spark, run, calm.folder)


class FakeHolder:
    """A run of another spine."""

    spine = None

    def __init__(self, folder) -> None:
        self.folder = folder
