"""What another product has published of the units that microdata of households list or tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import functions as F

from das_spark.products import product

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.histogram import Query
    from das_spark.products import Product

#: Columns: vacant units by kind (array of bigint); records of the last level that are told apart (bigint).
VACANT: Final = "vacant_kinds"
DIVIDED: Final = "divided"


def told_apart(published: DataFrame, held: Product) -> DataFrame | None:
    """Reduce published histograms to what the microdata of a product take from them.

    Args:
        published: Columns geocode, cells and counts, of the product that `held` is held to.
        held: The product whose microdata are written or read.

    Returns:
        Columns geocode, `VACANT` and `DIVIDED`; None where the product tells nothing apart.
    """
    of = held.published
    if of is None or (held.vacant_kinds == 1 and held.first_divided is None):
        return None
    schema = product(of.product).schema
    vacant = _answers(schema.query(of.vacancies)) if of.vacancies else []
    divided = _answers(schema.query(of.divided)) if of.divided else [F.lit(0).cast("bigint")]
    return published.select("geocode", F.array(*vacant).alias(VACANT), divided[0].alias(DIVIDED))


def _answers(query: Query) -> list[Column]:
    """The answers of a query of a few cells to histograms in columns cells and counts."""
    row_of = query.row_of(np.arange(query.size))

    def answer(row: int) -> Column:
        inside = np.flatnonzero(row_of == row).tolist()

        def more(sofar: Column, each: Column) -> Column:
            return sofar + F.when(each["cells"].isin(*inside), each["counts"]).otherwise(F.lit(0).cast("bigint"))

        return F.aggregate(F.arrays_zip("cells", "counts"), F.lit(0).cast("bigint"), more)

    return [answer(row) for row in range(query.rows)]
