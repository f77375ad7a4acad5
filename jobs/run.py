"""Entry script of spark-submit: the command line of das-spark, started by Spark instead of by a shell."""

from __future__ import annotations

import sys

from das_spark.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
