"""Programs in the working folder that have the names of modules are not executed by any process that a run starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
#: Modules of Python, of what it needs to start, and of packages that runs import.
NAMES = (
    *("abc", "calendar", "contextlib", "ctypes", "encodings", "fcntl", "functools", "gc", "importlib", "io", "json"),
    *(
        "linecache",
        "operator",
        "os",
        "pickle",
        "random",
        "re",
        "secrets",
        "select",
        "shutil",
        "signal",
        "site",
        "socket",
    ),
    *("stat", "struct", "subprocess", "tempfile", "threading", "token", "types", "typing", "warnings", "zipimport"),
    *("numpy", "pandas", "pyarrow", "pyspark", "py4j", "numba", "scipy", "das_spark"),
    *("sitecustomize", "usercustomize", "helper"),
)
PLANTED = "with open({marker!r}, 'a') as file:\n    file.write(__name__ + ' ')\n"
RUN_FILE = """
config_version = 1
[run]
name = "mine"
product = "mine.py:PRODUCT"
[input]
reader = "tidy_records"
dataset = "mine"
persons = "persons.parquet"
geography = "places.parquet"
[output]
root = "runs"
[budget]
strategy = "main"
[invariants]
units = false
"""
PRODUCT = """
from das_spark.products import product_from

PRODUCT = product_from({
    "name": "own",
    "geolevels": [{"name": "A", "length": 1}, {"name": "B", "length": 2}],
    "attributes": [{"name": "ward", "levels": ["a", "b", "c"]}],
    "strategies": [{"name": "main", "framework": "zcdp", "total": "1", "geolevels": {"A": "1/2", "B": "1/2"},
                    "queries": {"detailed": "1"}}],
})
"""


@pytest.fixture
def hostile(tmp_path):
    """A folder with a run file, its input, the product that it names, and programs that leave a mark."""
    folder = tmp_path / "here"
    folder.mkdir()
    text = PLANTED.format(marker=str(tmp_path / "executed"))
    for name in NAMES:
        (folder / f"{name}.py").write_text(text)
    (folder / "mine.py").write_text(PRODUCT)
    (folder / "run.toml").write_text(RUN_FILE)
    pq.write_table(pa.table({"geocode": ["11", "12", "21"], "ward": [0, 1, 2]}), folder / "persons.parquet")
    pq.write_table(pa.table({"geocode": ["11", "12", "21", "22"]}), folder / "places.parquet")
    return folder


def executed(folder: Path) -> set[str]:
    marker = folder.parent / "executed"
    return set(marker.read_text().split()) if marker.is_file() else set()


def carried_out(folder: Path, command: list[str], **variables: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    done = subprocess.run(command, cwd=folder, env=environment | variables, capture_output=True, text=True, check=False)
    assert executed(folder) == set()
    assert done.returncode == 0, done.stderr
    assert (folder / "runs" / "tried" / "public" / "manifest.json").is_file()


def test_the_marks_can_be_seen(hostile):
    subprocess.run([sys.executable, "-c", "import calendar"], cwd=hostile, check=False, capture_output=True)
    assert "calendar" in executed(hostile)


def test_a_run_executes_nothing_of_the_working_folder_but_the_product_that_it_names(hostile):
    program = str(Path(sys.executable).with_name("das-spark"))
    arguments = [program, "run", "run.toml", "--run-id", "tried", "--test-key", "x"]
    carried_out(hostile, arguments)


def test_a_run_of_the_script_executes_nothing_of_the_working_folder(hostile):
    command = [str(ROOT / "spark-submit.sh"), "run.toml", "--run-id", "tried", "--test-key", "x"]
    carried_out(hostile, command)


def test_tasks_of_a_session_that_a_program_has_started_by_itself_execute_nothing_of_the_working_folder(hostile):
    """The program is where Python looks first; its session has none of our properties."""
    program = hostile.parent / "program" / "own.py"
    program.parent.mkdir()
    program.write_text(
        "import das_spark\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[2]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        "das_spark.protect('run.toml', run_id='tried', test_key='x', spark=spark)\n"
    )
    carried_out(hostile, [sys.executable, str(program)], PYSPARK_PYTHON=sys.executable)
