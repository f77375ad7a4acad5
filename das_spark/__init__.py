"""das_spark: the disclosure avoidance system of a national census on PySpark with open solvers."""

__version__ = "0.1.0"
