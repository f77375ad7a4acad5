"""Recodes of a product on columns of Spark: the same cells as on arrays, for every code that a file may hold."""

from __future__ import annotations

import numpy as np
import pytest
from chispa.dataframe_comparer import assert_df_equality
from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError
from das_spark.io.cef import PERSON
from das_spark.products import PRODUCTS, CodedField, code_ranges
from das_spark.spark.readers.base import Target, level_in_cell

PRODUCT = PRODUCTS["pl94_2020_person"]


@pytest.fixture
def target():
    return Target.of("cef_2020", PRODUCT, PRODUCT.spine())


@pytest.mark.spark
def test_spark_and_arrays_recode_alike(spark, target):
    numbers = np.random.default_rng(17)
    codes = {}
    for coded in target.recodes.attributes.values():
        allowed = [code for low, high in code_ranges(PERSON.codes[coded.name], "") for code in range(low, high + 1)]
        codes[coded.name] = numbers.choice(allowed, 2_000)
    names = list(codes)
    rows = [tuple(int(code) for code in row) for row in zip(*codes.values(), strict=True)]
    frame = spark.createDataFrame(rows, ", ".join(f"{name} long" for name in names))
    expected = spark.createDataFrame([(int(cell),) for cell in target.cells(codes)], "cell int")
    assert_df_equality(frame.select(target.cell(F.col).alias("cell")), expected, ignore_nullable=True)
    fields = set(names[:2])
    parts = [target.cell(F.col, fields), target.cell(F.col, set(names) - fields)]
    assert_df_equality(frame.select((parts[0] + parts[1]).alias("cell")), expected, ignore_nullable=True)


@pytest.mark.spark
def test_a_blank_field_has_its_level_and_an_unknown_code_none(spark, target):
    rows = [(None, 30, 1, 1), (301, 30, 1, 1), (1_000, 30, 1, 1)]
    frame = spark.createDataFrame(rows, "QGQTYP long, QAGE long, CENHISP long, CENRACE long")
    cells = frame.select(target.cell(F.col).alias("cell"))
    found = cells.select("cell", level_in_cell(PRODUCT.schema, "hhgq").alias("hhgq"))
    expected = spark.createDataFrame([(126, 0), (3 * 252 + 126, 3), (None, None)], "cell int, hhgq long")
    assert_df_equality(found, expected, ignore_nullable=True)


def test_recodes_that_leave_out_a_code_of_a_file_are_refused(target):
    with pytest.raises(ConfigurationError, match="field QAGE: no level for the codes from 18"):
        target.require_codes("cef_2020", PERSON.codes, [CodedField("QAGE", ("0-17", "20-115"))])
    with pytest.raises(ConfigurationError, match="field SEX: there is none") as caught:
        target.require_codes("cef_2020", PERSON.codes, [CodedField("SEX", ("1", "2"))])
    assert "QSEX" in caught.value.hint
