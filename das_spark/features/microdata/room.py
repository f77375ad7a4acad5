"""How much room microdata need, estimated when the input is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from das_spark.io.table_files import PARQUET
from das_spark.pipeline.features import FeatureRoom

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.pipeline.space import KnownSizes

#: Bytes of a record in Parquet, in units and without: then records that are alike lie side by side.
_RECORD_IN_UNITS: Final = 6
_RECORD: Final = 1
#: Width of a column of text of which the layout does not say it.
_WIDTH: Final = 8


def room_of_microdata(plan: RunPlan, known: KnownSizes) -> FeatureRoom:
    """Estimate the files of all formats."""
    in_units = len(plan.product.files(units=plan.invariants.units)) > 1
    records = known.people * (2 if in_units else 1)  # units are fewer than people, or about as many
    of_parquet, of_text = _RECORD_IN_UNITS if in_units else _RECORD, _text_record(plan)
    return FeatureRoom(records * sum(of_parquet if each == PARQUET else of_text for each in plan.output.microdata))


def _text_record(plan: RunPlan) -> int:
    """Bytes of a record of microdata as text, at most: the widths of its columns, and what parts them."""
    layout = plan.product.microdata
    return max(
        sum(1 + int(found[0]) if (found := re.findall(r"\d+", column.type)) else 1 + _WIDTH for column in columns)
        for columns in (layout.person, layout.unit)
    )
