"""The process of which Spark forks its Python workers: what every task imports is imported once, before the first fork.

Spark starts it by `spark.python.daemon.module` (conf/spark), once on every machine. With Spark's own daemon each worker
imports numpy, scipy, pandas, pyarrow and this package anew, pyspark from an archive of sources that Python compiles
again in every process, and after every task the garbage collector goes through all that was imported.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from das_spark.process import guard_process

#: Modules whose functions tasks carry out, with all that these import.
OF_TASKS: Final = (
    "pandas",
    "das_spark.spark.level_pass",
    "das_spark.spark.leaves",
    "das_spark.spark.level_sums",
    "das_spark.spark.readers",
    "das_spark.spark.microdata",
    "das_spark.io.lines",
    "das_spark.spark.tabulate",
    "das_spark.spark.verify_tables",
    "das_spark.spark.evaluate",
    "das_spark.spark.evaluate_areas",
)
#: pyspark and py4j as Spark puts them on the path: <pyspark>/python/lib/<archive of sources>.zip.
_ARCHIVES: Final = ("pyspark", "python", "lib")


def leave_archives() -> None:
    """Take Spark's archives of sources from the search path, where the package that they hold is installed itself."""
    installed = {folder for folder in sys.path if (Path(folder) / "pyspark" / "__init__.py").is_file()}
    for folder in tuple(sys.path):
        place = Path(folder)
        if place.suffix == ".zip" and place.parts[-4:-1] == _ARCHIVES and str(place.parents[3]) in installed:
            sys.path.remove(folder)
            sys.path_importer_cache.pop(folder, None)  # its index is read again before every task


def main() -> None:
    """Import what tasks import, then wait for Spark to ask for workers."""
    guard_process()
    leave_archives()
    for name in OF_TASKS:
        import_module(name)
    gc.collect()
    gc.freeze()  # workers collect after every task: what is imported is never garbage
    from pyspark.daemon import manager  # noqa: PLC0415 - found on the path that is set above

    manager()


if __name__ == "__main__":
    main()
