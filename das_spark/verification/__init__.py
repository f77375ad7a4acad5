"""What is judged of a run along its spine: rules on whole families, of Arrow columns and numpy alone.

Nothing here knows Spark, which brings rows that belong together to a task (`das_spark.spark.verify_families`), or the
code that estimates.
"""

from das_spark.verification.bounds import (
    ADDED,
    CLASS,
    FLOW,
    LOWER,
    SUMS,
    UNITS,
    UPPER,
    BoundColumns,
    BoundsNotLooser,
    sums_above,
)
from das_spark.verification.columns import RULES
from das_spark.verification.diagnostics import DiagnosticColumns
from das_spark.verification.families import (
    COLUMNS,
    NAMED,
    NOWHERE,
    Families,
    FamilyRule,
    Found,
    Judges,
    Key,
    Tallies,
    starts,
)
from das_spark.verification.geounits import (
    GeounitColumns,
    GeounitsPresent,
    GroupTotals,
    InvariantColumns,
    InvariantTotals,
    keys,
    rule_name,
)
from das_spark.verification.histograms import (
    RELAXED,
    UNKNOWN,
    BoundsKept,
    ChildrenSum,
    GroupBoundsKept,
    HistogramsPossible,
)
from das_spark.verification.measurements import TOGETHER, MeasuredQuery, MeasurementColumns, together
from das_spark.verification.medians import MEDIANS_EQUAL, MediansEqual
from das_spark.verification.noise import POSSIBLE, WIDE, NoiseDiffers
from das_spark.verification.published import PublishedKept, PublishedSums, PublishedWhole
from das_spark.verification.spine import PATH_ROWS, CensusSums, MeasuredHaveShare, SpinePaths, paths_of, share_of
from das_spark.verification.tables import (
    PACKED,
    TABLES_EQUAL,
    TOTALS_EQUAL,
    ComparedTables,
    TablesEqual,
    ends_of,
    packed_of,
    unpacked,
)

__all__ = [
    "ADDED",
    "CLASS",
    "COLUMNS",
    "FLOW",
    "LOWER",
    "MEDIANS_EQUAL",
    "NAMED",
    "NOWHERE",
    "PACKED",
    "PATH_ROWS",
    "POSSIBLE",
    "RELAXED",
    "RULES",
    "SUMS",
    "TABLES_EQUAL",
    "TOGETHER",
    "TOTALS_EQUAL",
    "UNITS",
    "UNKNOWN",
    "UPPER",
    "WIDE",
    "BoundColumns",
    "BoundsKept",
    "BoundsNotLooser",
    "CensusSums",
    "ChildrenSum",
    "ComparedTables",
    "DiagnosticColumns",
    "Families",
    "FamilyRule",
    "Found",
    "GeounitColumns",
    "GeounitsPresent",
    "GroupBoundsKept",
    "GroupTotals",
    "HistogramsPossible",
    "InvariantColumns",
    "InvariantTotals",
    "Judges",
    "Key",
    "MeasuredHaveShare",
    "MeasuredQuery",
    "MeasurementColumns",
    "MediansEqual",
    "NoiseDiffers",
    "PublishedKept",
    "PublishedSums",
    "PublishedWhole",
    "SpinePaths",
    "TablesEqual",
    "Tallies",
    "ends_of",
    "keys",
    "packed_of",
    "paths_of",
    "rule_name",
    "share_of",
    "starts",
    "sums_above",
    "together",
    "unpacked",
]
