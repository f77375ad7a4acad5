"""Entry script of spark-submit: the command line of das-spark, started by Spark instead of by a shell."""

from __future__ import annotations

import sys

from das_spark.spark.python_daemon import leave_archives

if __name__ == "__main__":
    # Before pyspark is imported: spark-submit puts its sources first, which Python compiles again for every run.
    leave_archives()
    from das_spark.cli.main import main

    sys.exit(main(sys.argv[1:]))
