"""Errors of two runs' numbers of records against their tables, read row by row."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.errors import InputError
from das_spark.products import PRODUCTS
from das_spark.spark.differences import total_errors
from das_spark.spark.finished_runs import FinishedRun
from das_spark.store import PublicManifest, RunLayout

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def first(calm, workshop) -> FinishedRun:
    """A run of which all levels are estimated."""
    return FinishedRun(calm.folder, calm.public, PublicManifest("run", "now"), workshop.plan())


@pytest.fixture
def second(calm, first, tmp_path) -> FinishedRun:
    """The same records, estimated otherwise: three times as many in every occupied cell."""
    shutil.copytree(calm.folder, tmp_path / "second")
    layout = RunLayout.at(tmp_path, "second")
    for level in first.spine.names:
        for part in layout.public.level("estimates", level).glob("part-*"):
            table = pq.ParquetFile(part).read()
            place = table.column_names.index("counts")
            field = table.schema.field(place)
            counts = [[3 * each for each in row] for row in table.column("counts").to_pylist()]
            pq.write_table(table.set_column(place, field, pa.array(counts, field.type)), part)
    return replace(first, folder=layout.folder, public=layout.public)


def totals(folder, tools) -> dict[str, int]:
    return {row["geocode"]: sum(row["counts"]) for row in tools.rows_of(folder)}


def test_sums_are_those_of_the_tables(spark, calm, first, second, tools):
    found = total_errors(spark, first, second)
    assert [each.geolevel for each in found] == list(first.spine.names)
    for each in found:
        truth = totals(calm.restricted.level("histograms", each.geolevel), tools)
        one, two = (totals(run.public.level("estimates", each.geolevel), tools) for run in (first, second))
        errors = np.array([[one[code] - truth[code], two[code] - truth[code]] for code in truth], dtype=np.float64)
        assert each.geounits == len(truth)
        assert (each.first, each.second, each.product) == (
            (errors[:, 0] ** 2).sum(),
            (errors[:, 1] ** 2).sum(),
            errors.prod(axis=1).sum(),
        )
    assert found[-1].second > 0


def test_runs_of_other_records_are_refused(spark, first, second):
    restricted = second.folder / "restricted"
    part = next(restricted.glob(f"histograms/level={first.spine.leaf.name}/part-*"))
    table = pq.ParquetFile(part).read()
    place = table.column_names.index("counts")
    field = table.schema.field(place)
    counts = [[each + 1 for each in row] for row in table.column("counts").to_pylist()]
    pq.write_table(table.set_column(place, field, pa.array(counts, field.type)), part)
    with pytest.raises(InputError, match="different confidential histograms"):
        total_errors(spark, first, second)


def test_runs_of_two_products_have_no_totals_in_common(spark, first, second):
    other = next(product for product in PRODUCTS.values() if product.name != first.product.name)
    assert total_errors(spark, first, replace(second, plan=replace(second.plan, product=other))) == ()
