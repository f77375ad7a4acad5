"""The tabulation room: published tables, as sums over the cells of histograms, and medians."""

from das_spark.tabulation.demographic import age_label, demographic_medians, demographic_tables
from das_spark.tabulation.dhc_household import dhc_household_tables
from das_spark.tabulation.dhc_person import dhc_person_medians, dhc_person_tables
from das_spark.tabulation.dhc_unit import dhc_unit_tables
from das_spark.tabulation.household import household_tables, occupancy_tables
from das_spark.tabulation.medians import UNDEFINED, MedianColumns, MedianTable, median_tenths, medians
from das_spark.tabulation.redistricting import housing_tables, redistricting_tables
from das_spark.tabulation.sums import Incidence, incidence, tabulate
from das_spark.tabulation.table import Line, Selection, Table, TableColumn, TableShell
from das_spark.tabulation.values import Tabulation

__all__ = [
    "UNDEFINED",
    "Incidence",
    "Line",
    "MedianColumns",
    "MedianTable",
    "Selection",
    "Table",
    "TableColumn",
    "TableShell",
    "Tabulation",
    "age_label",
    "demographic_medians",
    "demographic_tables",
    "dhc_household_tables",
    "dhc_person_medians",
    "dhc_person_tables",
    "dhc_unit_tables",
    "household_tables",
    "housing_tables",
    "incidence",
    "median_tenths",
    "medians",
    "occupancy_tables",
    "redistricting_tables",
    "tabulate",
]
