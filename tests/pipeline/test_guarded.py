"""A run that a program in Python begins is guarded like one of the command line: core files, and who may write."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
#: A notebook with the widest umask and no limit of core files, which looks at its processes and files line by line.
PROGRAM = """
import json, os, resource, stat, sys
from pathlib import Path

import das_spark
from das_spark.privacy import RunKey

resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
os.umask(0)
root, limits, children, written, original = Path(sys.argv[1]), [], set(), set(), RunKey.from_system


def soft(process):
    lines = Path(f"/proc/{process}/limits").read_text().splitlines()
    return next(line.split()[4] for line in lines if line.startswith("Max core file size"))


def below(process):
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in file.read_text().split():
            yield child
            yield from below(child)


def made():
    limits.append(resource.getrlimit(resource.RLIMIT_CORE)[0])
    return original()


def look(line):
    for child in below(os.getpid()):
        try:
            children.add((Path(f"/proc/{child}/comm").read_text().strip(), soft(child)))
        except (OSError, StopIteration):
            pass  # it has ended
    for folder, folders, files in os.walk(root):
        for path in (Path(folder), *(Path(folder, name) for name in files)):
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if not stat.S_ISLNK(mode) and mode & 0o002:
                written.add(f"{path.relative_to(root)} {oct(mode)}")


RunKey.from_system = made
before = soft(os.getpid())
formats = ['output.microdata=["parquet", "text"]', 'output.tables=["parquet", "csv"]']
das_spark.protect("quickstart", settings=[f"output.root={root}/runs", *formats], run_id="mine", progress=look)
look("")
print(json.dumps([before, limits, sorted(children), sorted(written), os.umask(0)]))
"""


@pytest.fixture
def seen(tmp_path):
    """What the notebook has seen: a run under a real key."""

    environment = os.environ | {"PYTHONPATH": str(ROOT), "DAS_SPARK_ENV": "test"}
    (tmp_path / "mine").mkdir(mode=0o755)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "mine")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_CORE)[1] == 0, reason="the system forbids all core files")
def test_a_run_from_python_leaves_no_core_file_and_nothing_that_everybody_may_write(seen, tmp_path):
    before, limits, children, written, umask = seen
    assert before != "0"
    assert limits == [0], "when the key was made"
    assert {limit for _, limit in children} == {"0"}, "JVM and workers"
    assert any(name.startswith("java") for name, _ in children)
    assert written == [], "at any time of the run"
    assert umask == 0, "the mask is the caller's"
    public = tmp_path / "mine" / "runs" / "mine" / "public"
    assert list(public.rglob("part-*"))
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in public.rglob("*") if path.is_file())
