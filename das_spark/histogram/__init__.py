"""What is counted: attributes, schemas, sparse histograms, and queries as Kronecker products that are never made.

A `Schema` orders `Attribute` axes; `Schema.query` turns ``"age18plus * hispanic * race"`` into a `Query`; a `Query`
answers a `Histogram` exactly. This room knows numpy and nothing of privacy, places, files or Spark.
"""

from das_spark.histogram.attribute import Attribute, Recode
from das_spark.histogram.histogram import Histogram
from das_spark.histogram.query import Neighbours, Query, Restriction
from das_spark.histogram.schema import Schema
from das_spark.histogram.workload import Workload

__all__ = ["Attribute", "Histogram", "Neighbours", "Query", "Recode", "Restriction", "Schema", "Workload"]
