"""An error of ours stands alone on standard error: no page of the JVM before it, by either way to start a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]
RUN_FILE = """
config_version = 1
[run]
product = "e2e_1940"
[input]
reader = "tidy_counts"
dataset = "mine"
persons = "{folder}/persons.parquet"
units = "{folder}/units.parquet"
[output]
root = "{folder}/runs"
[budget]
strategy = "e2e_1940"
"""
GEOCODE = "0100010001"
PERSONS = {"geocode": [GEOCODE], "hhgq": [0], "age18plus": [0], "hispanic": [0], "race": [0], "count": [31337]}
UNITS = {"geocode": [GEOCODE], "hhgq": [0], "units": [1], "vacant": [0]}


def damaged(path: Path) -> None:
    """The middle of the file is overwritten; its footer is whole."""
    content = bytearray(path.read_bytes())
    content[8:120] = bytes(reversed(content[8:120]))
    path.write_bytes(content)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def misnamed(path: Path) -> None:
    path.write_text("geocode,hhgq\n0100010001,31337\n")


def impossible(path: Path) -> None:
    """More people than the units hold: an error of ours, found in tasks and by jobs."""


@pytest.mark.parametrize("spoil", [damaged, cut_off, misnamed, impossible])
@pytest.mark.parametrize("program", ["das-spark", "spark-submit.sh"])
def test_the_error_is_all_that_is_said(tmp_path, program, spoil: Callable[[Path], None]):
    pq.write_table(pa.table(PERSONS), tmp_path / "persons.parquet")
    pq.write_table(pa.table(UNITS), tmp_path / "units.parquet")
    spoil(tmp_path / "persons.parquet")
    conf = tmp_path / "run.toml"
    conf.write_text(RUN_FILE.format(folder=tmp_path))
    script = [str(ROOT / "spark-submit.sh")]
    command = script if program in script[0] else [str(Path(sys.executable).with_name("das-spark")), "run"]
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    arguments = [str(conf), "--run-id", "mine"]
    done = subprocess.run([*command, *arguments], cwd=tmp_path, env=ours, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line for line in said if line.startswith("das-spark: error: [DAS2")]
    assert len(errors) == 1, said
    assert not [line for line in said if "\tat " in line or "Exception" in line or "Traceback" in line], said
    assert "31337" not in "".join(said)
