"""What can be known of a run before anything is read or spent, as JSON values.

`resources` and `page` are imported where they are needed: what they stand on takes longer to import than all the rest.
"""

from __future__ import annotations

from das_spark.planning.comparison import comparison_record
from das_spark.planning.gain import gain_record
from das_spark.planning.geounits import GeounitCounts, known_geounits, require_geounits
from das_spark.planning.record import joint_record, plan_record
from das_spark.planning.unused import UnusedShare, unused_levels, unused_shares
from das_spark.planning.widths import wide_columns_record

__all__ = [
    "GeounitCounts",
    "UnusedShare",
    "comparison_record",
    "gain_record",
    "joint_record",
    "known_geounits",
    "plan_record",
    "require_geounits",
    "unused_levels",
    "unused_shares",
    "wide_columns_record",
]
