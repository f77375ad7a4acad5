"""What is judged of a run along its spine: rules on whole families, of Arrow columns and numpy alone.

Nothing here knows Spark, which brings rows that belong together to a task (`das_spark.spark.verify_families`), or the
code that estimates.
"""

from das_spark.verification.bounds import (
    ADDED,
    CLASS,
    FLOW,
    LOWER,
    UNITS,
    UPPER,
    BoundColumns,
    BoundsNotLooser,
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
    format_note,
    starts,
)
from das_spark.verification.family_rows import (
    ChildRows,
    DiagnosedRows,
    FamilyRows,
    FlowRows,
    KeyedRows,
    LeafRows,
    MeasuredRows,
    ParentRows,
    PathRows,
    SumRows,
    family_keys,
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
from das_spark.verification.measurements import MeasuredQuery, MeasurementColumns
from das_spark.verification.medians import MEDIANS_EQUAL, MediansEqual
from das_spark.verification.noise import POSSIBLE, WIDE, NoiseDiffers
from das_spark.verification.parcels import PARCELS, TableRows, opened_parcels, parcels_of
from das_spark.verification.published import PublishedKept, PublishedSums, PublishedWhole
from das_spark.verification.records import POPULATIONS, UNITS_EQUAL, CellWeights, RecordsEqual, UnitsEqual
from das_spark.verification.spine import CensusSums, MeasuredHaveShare, SpinePaths, share_of
from das_spark.verification.tables import (
    TABLES_EQUAL,
    TOTALS_EQUAL,
    ComparedTables,
    TablesEqual,
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
    "PARCELS",
    "POPULATIONS",
    "POSSIBLE",
    "RELAXED",
    "RULES",
    "TABLES_EQUAL",
    "TOTALS_EQUAL",
    "UNITS",
    "UNITS_EQUAL",
    "UNKNOWN",
    "UPPER",
    "WIDE",
    "BoundColumns",
    "BoundsKept",
    "BoundsNotLooser",
    "CellWeights",
    "CensusSums",
    "ChildRows",
    "ChildrenSum",
    "ComparedTables",
    "DiagnosedRows",
    "DiagnosticColumns",
    "Families",
    "FamilyRows",
    "FamilyRule",
    "FlowRows",
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
    "KeyedRows",
    "LeafRows",
    "MeasuredHaveShare",
    "MeasuredQuery",
    "MeasuredRows",
    "MeasurementColumns",
    "MediansEqual",
    "NoiseDiffers",
    "ParentRows",
    "PathRows",
    "PublishedKept",
    "PublishedSums",
    "PublishedWhole",
    "RecordsEqual",
    "SpinePaths",
    "SumRows",
    "TableRows",
    "TablesEqual",
    "Tallies",
    "UnitsEqual",
    "ends_of",
    "family_keys",
    "format_note",
    "keys",
    "opened_parcels",
    "parcels_of",
    "rule_name",
    "share_of",
    "starts",
    "unpacked",
]
