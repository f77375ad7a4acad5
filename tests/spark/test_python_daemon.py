import subprocess
import sys

import pyarrow as pa
import pytest

from das_spark.spark import python_daemon
from das_spark.spark.python_daemon import leave_archives


@pytest.fixture
def installed(tmp_path):
    """A folder of packages with pyspark in it, and the archives that Spark keeps there."""
    archives = tmp_path / "site" / "pyspark" / "python" / "lib"
    archives.mkdir(parents=True)
    (tmp_path / "site" / "pyspark" / "__init__.py").touch()
    return tmp_path / "site", [str(archives / name) for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip")]


def test_archives_of_an_installed_pyspark_are_left(monkeypatch, installed):
    site, archives = installed
    monkeypatch.setattr(sys, "path", ["", *archives, "/else/where.zip", str(site)])
    monkeypatch.setattr(sys, "path_importer_cache", {archives[0]: object(), str(site): object()})
    leave_archives()
    assert sys.path == ["", "/else/where.zip", str(site)]
    assert list(sys.path_importer_cache) == [str(site)]


def test_archives_of_a_spark_of_its_own_stay(monkeypatch, installed, tmp_path):
    site, archives = installed
    of_a_cluster = str(tmp_path / "opt" / "spark" / "python" / "lib" / "pyspark.zip")
    monkeypatch.setattr(sys, "path", [of_a_cluster, *archives])
    leave_archives()
    assert sys.path == [of_a_cluster, *archives], "without the folder of packages there is nothing else to import"
    sys.path.append(str(site))
    leave_archives()
    assert sys.path == [of_a_cluster, str(site)]


@pytest.mark.spark
def test_workers_have_what_tasks_import_and_leave_it_to_no_collector(spark):
    def told(batches):
        import gc
        import sys

        list(batches)
        missing = [name for name in python_daemon.OF_TASKS if name not in sys.modules]
        zipped = [folder for folder in sys.path if folder.endswith("pyspark.zip")]
        yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()], "odd": [missing + zipped]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(told, "frozen long, odd array<string>").collect()
    assert row["odd"] == []
    assert row["frozen"] > 100_000


def test_it_imports_nothing_of_the_driver():
    """Workers need neither the command line nor pydantic: both would be imported on every machine of a cluster."""
    code = (
        "import sys; from importlib import import_module; from das_spark.spark import python_daemon as d; "
        "[import_module(name) for name in d.OF_TASKS]; "
        "print([name for name in ('pydantic', 'typer', 'matplotlib', 'das_spark.config') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
