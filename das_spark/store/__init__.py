"""Where the tables and records of a run lie, and how they come to be there: the only package that builds their paths.

`tables` declares every table once. This package knows nothing of Spark.
"""
