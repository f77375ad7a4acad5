"""Canaries: rare counts and the real keys of whole runs, looked for in everything that these runs leave behind.

Looked through are standard output and error, Spark's event logs, its local folders with shuffle, spill and broadcast
files (those that it deletes again, too), the folders of temporary files of JVM and Python, both roots of the runs, the
ledger, and core files. Compression is off, spilling is forced, and the same search finds the counts where encryption
is off (and planted keys anywhere). What would not be found: see `canaries.py`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from canaries import (
    CANARIES,
    OPEN,
    SPILLING,
    Net,
    all_keys,
    cores,
    counts_in,
    key_forms,
    planted_run_file,
    telling_rows,
)

from das_spark.privacy import RunKey

ROOT = Path(__file__).parents[2]
PATIENCE = 900.0
TEST_KEY = "an open secret of the control"
KEY_BYTES = 32

#: All logs on. Encryption as the shipped properties say.
WATCHED = SPILLING | {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}


@dataclass
class Watched:
    """What some commands left behind.

    Attributes:
        folder: Everything.
        codes: Exit codes, one a command.
        keys: The keys that were drawn from the system.
    """

    folder: Path
    codes: list[int]
    keys: list[RunKey]
    caught: int

    @property
    def restricted(self) -> list[Path]:
        return [path for path in self.folder.rglob("restricted") if path.is_dir()]

    def outside(self) -> Iterator[Path]:
        """Files that are neither input nor restricted output."""
        closed = [*self.restricted, *self.folder.glob("census*"), *self.folder.glob("wrong*")]
        for path in self.folder.rglob("*"):
            ledger = path.name.endswith(".privacy-ledger.jsonl")
            if path.is_file() and (ledger or not any(path.is_relative_to(each) for each in closed)):
                yield path


def watched(folder: Path, tools: Any, settings: dict[str, str], commands: list[list[str]], umask: int) -> Watched:
    """Carry out commands in a process of its own, in a folder of their own."""
    from das_spark.spark.session import properties

    shipped = properties(ROOT / "conf" / "spark" / "test.conf")
    lines = shipped | WATCHED | {"spark.eventLog.dir": (folder / "events").as_uri()} | settings
    for name in ("conf/spark", "local", "tmp", "events"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "events").chmod(0o700)
    text = "".join(f"{key} {value}\n" for key, value in lines.items())
    (folder / "conf" / "spark" / "watched.conf").write_text(text)
    reader, writer = os.pipe()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environment |= {
        "DAS_SPARK_ENV": "watched",
        "SPARK_MASTER": "local[2]",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "TMPDIR": str(folder / "tmp"),
        "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={folder / 'tmp'}",
        "PYTHONPATH": str(ROOT),
    }
    with Net([folder / "local", folder / "tmp"], folder / "net") as net, (folder / "printed.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("watched_run.py")), str(writer)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[writer],
            umask=umask,
        )
        os.close(writer)
        process.communicate(json.dumps(commands).encode(), timeout=PATIENCE)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    printed = (folder / "printed.log").read_text(errors="replace")
    found = re.search(r"^exit codes (\[.*\])$", printed, re.MULTILINE)
    assert found, printed
    keys = [RunKey(told[start : start + KEY_BYTES]) for start in range(0, len(told), KEY_BYTES)]
    return Watched(folder, json.loads(found.group(1)), keys, len(net.seen))


@pytest.fixture(scope="module")
def real(tmp_path_factory, tools) -> Watched:
    """A whole run under a real key and the widest umask, then runs that fail."""
    folder = tmp_path_factory.mktemp("real")
    whole = ["run", str(planted_run_file(tools, folder, "whole"))]
    commands = [[*whole, "--run-id", "whole"], ["faulty", *whole, "--run-id", "fault"]]
    for column in ("race", "count", "geocode"):
        commands.append(["run", str(planted_run_file(tools, folder, column, wrong=column)), "--run-id", column])
    return watched(folder, tools, {}, commands, umask=0o000)


@pytest.fixture(scope="module")
def control(tmp_path_factory, tools) -> Watched:
    """The same run without encryption, which needs a test key: here the search must find something."""
    folder = tmp_path_factory.mktemp("control")
    command = ["run", str(planted_run_file(tools, folder, "whole")), "--run-id", "whole", "--test-key", TEST_KEY]
    return watched(folder, tools, OPEN, [command], umask=0o022)


@pytest.fixture(scope="module")
def plan(real) -> Any:
    from das_spark.config import load_plan

    return load_plan(real.folder / "whole.toml")


pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long]


def test_the_runs_went_as_they_should(real, control):
    assert real.codes == [0, 1, 1, 1, 1]
    assert control.codes == [0]
    assert len(real.keys) == len(real.codes)
    printed = (real.folder / "printed.log").read_text()
    assert "ZeroDivisionError in watched_run.py" in printed
    assert {path.parent.name for path in real.folder.glob("runs/*/restricted")} >= {"whole", "fault"}


def test_the_search_finds_counts_where_nothing_is_encrypted(control):
    spilled = [path for path in (control.folder / "net").iterdir() if counts_in(path.read_bytes())]
    assert len(spilled) > 2, "shuffle and spill files were neither made nor kept: the search proves nothing"


def test_the_search_finds_keys_where_nothing_is_encrypted(control, plan):
    wanted = all_keys(RunKey.insecure(TEST_KEY), plan, attempt=0)
    found = [path for path in (control.folder / "net").iterdir() if any(form in path.read_bytes() for form in wanted)]
    assert found, "closures of measure tasks are sent by files there: the search proves nothing"


def test_no_count_stands_in_the_clear_outside_the_restricted_root(real):
    assert real.caught > 50
    assert [str(path) for path in real.outside() if counts_in(path.read_bytes())] == []


def test_the_restricted_root_does_hold_the_counts(real):
    (restricted,) = (path for path in real.restricted if path.parent.name == "whole")
    assert telling_rows(restricted), "what the other searches do not find stands here"


def test_no_published_row_tells_the_counts(real):
    for public in real.folder.glob("runs/*/public"):
        assert telling_rows(public) == []


def test_no_key_is_left_anywhere(real, plan):
    wanted = [form for key in real.keys for form in all_keys(key, plan)]
    found = [
        str(path)
        for path in real.folder.rglob("*")
        if path.is_file() and any(form in path.read_bytes() for form in wanted)
    ]
    assert found == []


@pytest.mark.parametrize("form", range(4))
def test_a_planted_key_would_be_found(real, plan, tmp_path, form):
    wanted = all_keys(real.keys[0], plan)
    leak = b"before " + key_forms(real.keys[0]._reveal())[form] + b" after"
    assert any(each in leak for each in wanted)


@pytest.mark.parametrize(
    "leak", [b"count 176,543.", b"(176543)", (176_543).to_bytes(8, "little"), b"\0\0\0\0\0\2\xb1\x9f"]
)
def test_a_planted_count_would_be_found(leak):
    assert counts_in(b"x" + leak + b"\n") == {176_543}


def test_a_planted_row_would_be_found(tmp_path):
    pq.write_table(pa.table({"values": [[1, CANARIES[0], CANARIES[2]]]}), tmp_path / "part-0")
    assert telling_rows(tmp_path) == [str(tmp_path / "part-0")]
    pq.write_table(pa.table({"values": [[1, CANARIES[0]], [CANARIES[2]]]}), tmp_path / "part-0")
    assert telling_rows(tmp_path) == []


def test_no_core_file_is_left(real, control):
    assert cores(real.folder) == cores(control.folder) == []


def test_what_is_restricted_is_closed_and_what_is_public_can_be_read(real, control):
    for each, public_mode in ((real, 0o664), (control, 0o644)):
        for folder in each.restricted:
            modes = {path: path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}
            assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
        public = each.folder / "runs" / "whole" / "public"
        shut = [str(path) for path in public.rglob("part-*") if path.stat().st_mode & 0o777 & ~public_mode]
        assert shut == [], "more than the umask allows, or writable by anybody"
        assert all(path.stat().st_mode & 0o044 == 0o044 for path in public.rglob("part-*")), "published, yet unreadable"
        for ledger in each.folder.rglob("*.privacy-ledger.jsonl"):
            assert ledger.stat().st_mode & 0o777 == 0o600
