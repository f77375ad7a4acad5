"""A real Airflow with a database of its own in a temporary folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DAGS = ROOT / "jobs" / "airflow"

# Airflow reads these when it is imported, which tests do after this file.
HOME = Path(tempfile.mkdtemp(prefix="das_spark-airflow-"))
os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(DAGS),
    AIRFLOW__CORE__UNIT_TEST_MODE="False",
    # The master in the connection, as an operator gives it; two tries of a Spark task, as spark-submit.sh has it.
    AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": "local[2,2]"}),
    # A JVM for every stage of a synthetic census of a few hundred people: what it compiles for long it never needs.
    JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
)
# All but the Java that `ensure_java` found: the JAVA_HOME that it sets is none without.
for name in [name for name in os.environ if name.startswith("DAS_SPARK_") and name != "DAS_SPARK_JAVA"]:
    del os.environ[name]


def airflow(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """The command line of Airflow, both streams in stdout."""
    command = [str(Path(sys.executable).with_name("airflow")), *arguments]
    return subprocess.run(
        command, env=os.environ | changes, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


@pytest.fixture(scope="session")
def database() -> Iterator[None]:
    """Its tables."""
    done = airflow("db", "migrate")
    assert done.returncode == 0, done.stdout
    yield
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def command() -> object:
    """For tests that are imported on their own."""
    return airflow
