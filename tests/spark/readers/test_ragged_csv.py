"""Rows of CSV that do not fit their header are counted, never quoted: not by das_spark, and not by Spark's own logs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from das_spark.config import InputSettings
from das_spark.errors import InputError
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import READERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

A = "0100300101001001"
HEADER = "geocode,hhgq,age18plus,hispanic,race,count"
CANARY = "31337"

#: What a reader of the table did before, under the loggers of Spark; its logs show what is to be kept out of them.
CONTROL = """
import sys
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
try:
    SparkSession.builder.master("local[1]").getOrCreate().read.csv(sys.argv[1], header=True, mode="FAILFAST").collect()
except Py4JJavaError:
    print("refused")
"""
READ = """
import sys

from das_spark.config import InputSettings
from das_spark.errors import InputError
from das_spark.products import PRODUCTS
from das_spark.spark.readers import READERS
from das_spark.spark.session import session

product = PRODUCTS["e2e_1940"]
settings = InputSettings(reader="tidy_counts", persons=sys.argv[1], units=sys.argv[2])
try:
    READERS["tidy_counts"].read(session("test"), settings, product, product.spine())
except InputError as error:
    print(error)
"""


@pytest.fixture
def read(spark: SparkSession, of_product: Callable, tmp_path: Path) -> Callable:
    """Read people from CSV files of some lines each, with units for one geounit."""

    def run(*files: list[str]) -> object:
        folder = tmp_path / "persons.csv"
        folder.mkdir()
        for number, lines in enumerate(files):
            (folder / f"part-{number}.csv").write_text("\n".join(lines) + "\n")
        units = tmp_path / "units.csv"
        units.write_text(f"geocode,hhgq,units\n{A},0,2\n")
        settings = InputSettings(reader="tidy_counts", persons=str(folder), units=str(units))
        return READERS["tidy_counts"].read(spark, settings, *of_product("e2e_1940"))

    return run


def test_rows_with_too_many_or_too_few_fields_are_counted(read: Callable) -> None:
    with pytest.raises(BadInputError) as caught:
        read([HEADER, f"{A},0,0,0,0,3", f"{A},0,0,0,0,{CANARY},1", f"{A},0,0,{CANARY}"])
    assert "6 fields, as in the header" in str(caught.value)
    assert CANARY not in str(caught.value)
    (problem,) = [problem for problem in caught.value.problems if problem.field == "row"]
    assert (problem.rows, problem.examples) == (2, (2, 3))


def test_a_file_without_its_header_is_refused_and_not_quoted(read: Callable) -> None:
    with pytest.raises(InputError, match="its first line is not that of") as caught:
        read([HEADER, f"{A},0,0,0,0,3"], [f"{A},0,0,0,0,{CANARY}"])
    assert CANARY not in str(caught.value) + caught.value.hint


def test_a_table_without_a_header_is_refused_and_not_quoted(read: Callable) -> None:
    with pytest.raises(InputError, match="no column") as caught:
        read([f"{A},0,0,0,0,{CANARY}", f"{A},0,0,0,0,3"])
    assert CANARY not in str(caught.value) + caught.value.hint
    assert A not in str(caught.value) + caught.value.hint
    assert "does its first line hold their names?" in caught.value.hint


def test_a_misspelt_column_is_named_beside_those_that_are_there(read: Callable) -> None:
    with pytest.raises(InputError, match="no column 'race'") as caught:
        read([HEADER.replace("race", "rcae"), f"{A},0,0,0,0,3"])
    assert "did you mean 'rcae'?" in caught.value.hint


@pytest.mark.parametrize(("script", "quoted"), [(READ, False), (CONTROL, True)], ids=["reader", "control"])
def test_a_ragged_row_stands_in_no_log_of_spark(tmp_path: Path, script: str, quoted: bool) -> None:
    table = tmp_path / "persons.csv"
    table.write_text(f"{HEADER}\n{A},0,0,0,0,{CANARY},1\n")
    units = tmp_path / "units.csv"
    units.write_text(f"geocode,hhgq,units\n{A},0,2\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script, table, units],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert "fields, as in the header" in done.stdout or quoted
    assert (CANARY in done.stdout + done.stderr) is quoted
