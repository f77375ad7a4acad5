"""Everything that is a DataFrame, and the only package that imports pyspark: DataFrame in, DataFrame out, never a path.

`level_pass` is the distributed executor: `family_rows` brings the rows of each family together, which tasks read from
files by Arrow, and it lets `das_spark.core` work on them. `spine`, `ingest`, `bounds` make the tables that it reads of
what `readers` deliver; `verify*` compare what is published, independently of the code that made it; `tabulate`,
`evaluate*`, `sample` and `compare` are queries for tables and reports. `session` starts Spark, and Spark forks its
workers from `python_daemon`.
"""
