"""The two engines: which of them is taken, and that nobody else reaches Sail.

`tests/run` has tests of DataFrames carried out by each.
Whole runs of both give the same bytes: `tests/whole_run/test_engines.py`.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from das_spark.errors import EnvironmentProblemError
from das_spark.process import same_numbers
from das_spark.spark import local_engine, session
from das_spark.spark.engine import _Sorted, in_tasks
from das_spark.spark.local_engine import Sail

LISTENING = "0A"


@pytest.fixture
def chosen(monkeypatch):
    """Which engine a session would be of, in an environment where nobody has asked for any."""
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_MASTER", "DAS_SPARK_ENV", "DAS_SPARK_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(local_engine, "sail_session", lambda _: "sail")
    return lambda: session._sail("tests") or "spark"


def test_spark_is_the_engine_where_nothing_is_said(chosen):
    assert chosen() == "spark"


@pytest.mark.parametrize("engine", ["spark", "sail"])
def test_an_engine_that_is_named_is_taken(chosen, monkeypatch, engine):
    monkeypatch.setenv("DAS_SPARK_ENGINE", engine)
    assert chosen() == engine


def test_an_engine_that_is_not_known_is_refused(chosen, monkeypatch):
    monkeypatch.setenv("DAS_SPARK_ENGINE", "duck")
    with pytest.raises(EnvironmentProblemError, match=r"DAS_SPARK_ENGINE is 'duck'.*known: spark, sail"):
        chosen()


def test_where_sail_cannot_be_used_the_reason_is_said(chosen, monkeypatch):
    monkeypatch.setattr(local_engine, "sail_session", lambda _: None)
    monkeypatch.setenv("DAS_SPARK_ENGINE", "sail")
    with pytest.raises(EnvironmentProblemError, match="network of its own"):
        chosen()


@pytest.fixture
def sail(sail_usable):
    started = Sail.started()
    assert started is not None
    yield started
    started.stop()


def listening(process: int | str) -> list[int]:
    """Ports on which somebody listens in the network of a process."""
    rows = [line.split() for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]]
    return [int(row[1].split(":")[1], 16) for row in rows if row[3] == LISTENING]


def test_only_who_may_enter_its_folder_can_connect_to_sail(sail):
    assert sail.is_alone()
    (port,) = listening(sail.process.pid)
    assert port not in listening("self")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert stat.S_IMODE(sail.place.parent.stat().st_mode) == 0o700
    # A network of its own has no other way out, either.
    addresses = Path(f"/proc/{sail.process.pid}/net/dev").read_text()
    assert re.findall(r"^\s*(\w+):", addresses, re.MULTILINE) == ["lo"]


def test_sail_ends_with_whoever_started_it(sail):
    assert sail.is_alone()
    sail.stop()
    assert sail.process.poll() is not None
    assert not sail.place.parent.exists()


def test_without_a_network_of_its_own_nothing_is_opened(tmp_path):
    program = (
        "from das_spark.spark import sail_server; sail_server._unshare = lambda _: False; "
        f"sail_server.main({str(tmp_path / 'sail')!r}, '1')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"not alone"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("sail_usable")
def test_a_session_of_sail_does_what_tasks_ask_of_it(tmp_path):
    """In a process of its own: a process has DataFrames of one engine."""
    program = """
import os, sys
from das_spark.spark.engine import in_sorted_tasks, in_tasks, is_sail, scan, write_parquet
from das_spark.spark.session import session
from pathlib import Path
spark = session("tests")
def where(batches):
    import pyarrow as pa
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"process": [os.getpid()], "first": [batch.column(0)[0].as_py()]})
rows = spark.createDataFrame([(3, "b"), (1, "b"), (None, "a")], "number long, level string")
(found,) = in_sorted_tasks(rows.repartition(1), ["number"], where, "process long, first long").collect()
assert is_sail(spark) and is_sail(rows)
assert found["first"] is None and found["process"] != os.getpid()
def fails(batches):
    raise ValueError("31337 people")
try:
    in_tasks(rows, fails, "id long").collect()
except Exception as error:
    assert "31337" not in str(error) and "ValueError in" in str(error), error
folder = Path(sys.argv[1]) / "table"
write_parquet(rows, folder, by="level")
assert (folder / "_SUCCESS").exists()
back = scan(spark, rows.schema, [folder / "level=a", folder / "level=b"], folder)
assert sorted(map(tuple, back.collect()), key=repr) == sorted(map(tuple, rows.collect()), key=repr)
"""
    environment = os.environ | {"DAS_SPARK_ENGINE": "sail"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_rows_are_sorted_with_nulls_first():
    batches = [pa.RecordBatch.from_pydict({"a": [2, None]}), pa.RecordBatch.from_pydict({"a": [1]})]
    found = [batch.column(0).to_pylist() for batch in _Sorted(("a",), iter)(iter(batches))]
    assert found == [[None, 1, 2]]
    assert list(_Sorted(("a",), iter)(iter([]))) == []


@pytest.mark.spark
def test_tasks_have_the_environment_in_which_numbers_are_the_same_on_every_machine(spark):
    names = list(same_numbers())

    def told(batches):
        list(batches)
        yield pa.RecordBatch.from_pydict({"name": names, "value": [os.environ.get(name) for name in names]})

    rows = in_tasks(spark.range(0, 1, 1, 1), told, "name string, value string").collect()
    assert {row["name"]: row["value"] for row in rows} == same_numbers()
