"""The tabulation room: published tables, as sums over the cells of histograms."""

from das_spark.tabulation.demographic import age_label, demographic_tables
from das_spark.tabulation.household import household_tables
from das_spark.tabulation.redistricting import housing_tables, redistricting_tables
from das_spark.tabulation.sums import Incidence, incidence, tabulate
from das_spark.tabulation.table import Line, Selection, Table, TableColumn

__all__ = [
    "Incidence",
    "Line",
    "Selection",
    "Table",
    "TableColumn",
    "age_label",
    "demographic_tables",
    "household_tables",
    "housing_tables",
    "incidence",
    "redistricting_tables",
    "tabulate",
]
