"""Spark and Sail publish the same bytes, and verification finds the same of them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Files that say when and as what a run was made.
OF_A_RUN = {
    "run.json",
    "manifest.json",
    "privacy_ledger.json",
    "privacy_statement.md",
    "_about.txt",
    "metadata",
    "0_metadata",
}


def published(folder: Path, engine: str, *arguments: str) -> dict[str, bytes]:
    """What a run has published, by path."""
    command = [
        str(Path(sys.prefix) / "bin" / "das-spark"),
        "run",
        *arguments,
        "--run-id",
        "run",
        "--test-key",
        "engines",
    ]
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    subprocess.run(
        [*command, "--set", f"output.root={folder / engine}"],
        env=ours | {"DAS_SPARK_ENGINE": engine},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    public = folder / engine / "run" / "public"
    files = [path for path in public.rglob("*") if path.is_file() and path.name not in OF_A_RUN]
    found = {str(path.relative_to(public)): path.read_bytes() for path in files}
    # Both runs have the same report, but for the checksum of a manifest that says when its run began.
    manifest = hashlib.sha256((public / "manifest.json").read_bytes()).hexdigest()
    found["verification.json"] = found["verification.json"].replace(manifest.encode(), b"")
    return found


def assert_same(tmp_path: Path, *arguments: str) -> None:
    one, other = (published(tmp_path, engine, *arguments) for engine in ("spark", "sail"))
    assert sorted(one) == sorted(other)
    assert [name for name, content in one.items() if content != other[name]] == []
    assert len(one) > 100
    assert b'"passed": true' in one["verification.json"]


@pytest.mark.whole_run
@pytest.mark.spark
@pytest.mark.verified
@pytest.mark.slow
@pytest.mark.usefixtures("sail_usable")
def test_a_run_of_persons_and_units_has_the_same_bytes(tmp_path):
    assert_same(tmp_path, "conf/quickstart.toml")


@pytest.mark.whole_run
@pytest.mark.spark
@pytest.mark.verified
@pytest.mark.usefixtures("sail_usable")
@pytest.mark.real_data
@pytest.mark.slow
def test_a_state_to_the_tract_has_the_same_bytes(tmp_path, census_data):
    persons, units = (census_data / f"il_2020_tract_{name}.parquet" for name in ("person_cells", "pl94_full"))
    settings = ("--set", f"input.persons={persons}", "--set", f"input.geography={units}")
    assert_same(tmp_path, "conf/pl94_2020_to_tract.toml", *settings)
