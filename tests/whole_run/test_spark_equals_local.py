"""A whole run on Spark against the same core in memory: the same numbers at every level."""

from __future__ import annotations

import pyarrow as pa
import pytest
from local_system import run_system
from pyarrow import parquet
from run_files import census_files, run_file

import das_spark

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.verified]

KEY = "spark equals local"
EPSILON = 3


@pytest.fixture(scope="module")
def layout(spark, tmp_path_factory, census):
    folder = tmp_path_factory.mktemp("equal")
    path = run_file(folder, census_files(folder, census), epsilon=EPSILON)
    return das_spark.run(path, run_id="first", test_key=KEY, spark=spark).layout


@pytest.fixture(scope="module")
def local(census):
    return run_system(census, EPSILON, KEY)


def written(layout, table: str, level: str) -> pa.Table:
    """One level of a public table, as the files hold it."""
    parts = sorted(layout.public.level(table, level).glob("*.parquet"))
    return pa.concat_tables([parquet.ParquetFile(part).read() for part in parts])


def kept(layout, level: str) -> dict:
    """Noisy answers of a level as the files hold them: geocode and query -> rows, values and variance."""
    rows = written(layout, "measurements", level).to_pylist()
    return {(row["geocode"], row["query"]): (row["rows"], row["values"], row["variance"]) for row in rows}


def drawn(run, level: str) -> dict:
    """The same of a run in memory."""
    found = {}
    for answers in (each for every in run.executor.measurements[level].values() for each in every):
        rows = None if answers.rows is None else answers.rows.tolist()
        for code, values, variance in zip(answers.geocodes, answers.values, answers.variance, strict=True):
            found[code, answers.query] = (rows, values.tolist(), variance)
    return found


def test_measurements_are_the_same_at_every_level(layout, local, census):
    for level in census.levels:
        assert kept(layout, level) == drawn(local, level), level


def test_estimates_are_the_same_at_every_level(layout, local, census):
    for level in census.levels:
        rows = written(layout, "estimates", level).to_pylist()
        found = {row["geocode"]: (row["cells"], row["counts"]) for row in rows}
        own = local.executor.estimates[level].items()
        assert found == {code: (each.cells.tolist(), each.counts.tolist()) for code, each in own}, level


def test_another_key_gives_other_measurements(local, census):
    other = run_system(census, EPSILON, KEY + "!")
    for level in census.levels:
        assert drawn(other, level) != drawn(local, level), level


def test_families_end_alike(layout, local, census):
    for level in census.levels:
        rows = written(layout, "diagnostics", level).to_pylist()
        found = {row["family"]: (row["status"], row["gap"], row["rounding"]) for row in rows}
        own = local.executor.diagnostics[level].items()
        assert found == {family: (str(each.status), each.gap, each.rounding) for family, each in own}
