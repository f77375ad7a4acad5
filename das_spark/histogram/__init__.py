"""What is counted: attributes, schemas, sparse histograms, and queries as Kronecker products that are never made.

A `Schema` orders `Attribute` axes; `Schema.query` turns ``"age18plus * hispanic * race"`` into a `Query`; a `Query`
answers a `Histogram` exactly, and says of any cells in which of its answers they count (`Query.row_of`). Nothing here
is as large as cells times answers. The package knows numpy and nothing of privacy, places, files or Spark.
"""

from das_spark.histogram.histogram import Histogram
from das_spark.histogram.query import NO_GROUP, Query, Restriction
from das_spark.histogram.schema import DETAILED, SEPARATOR, TOTAL, Attribute, Recode, Schema

__all__ = [
    "DETAILED",
    "NO_GROUP",
    "SEPARATOR",
    "TOTAL",
    "Attribute",
    "Histogram",
    "Query",
    "Recode",
    "Restriction",
    "Schema",
]
