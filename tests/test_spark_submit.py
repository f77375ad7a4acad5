"""`spark-submit.sh`: it starts from any folder and beside any other Spark, and refuses what it would have to guess."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def submit(folder: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a checkout; both streams in stdout."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.run(
        [str(folder / "spark-submit.sh"), *arguments],
        env=ours | changes,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"DAS_SPARK_ENV": "nowhere"}, "nowhere.conf; DAS_SPARK_ENV names"),
        ({"DAS_SPARK_ARCHIVE": "/nowhere/environment.tar.gz"}, "which DAS_SPARK_ARCHIVE names"),
    ],
)
def test_what_is_named_must_be_there(changes, said):
    done = submit(ROOT, "conf/quickstart.toml", SPARK_MASTER="spark://127.0.0.1:1", **changes)
    assert done.returncode != 0
    assert said in done.stdout


@pytest.mark.spark
def test_it_starts_from_a_folder_with_a_blank_beside_another_spark(tmp_path):
    folder = tmp_path / "a checkout"
    folder.mkdir()
    shutil.copy2(ROOT / "spark-submit.sh", folder)
    for name in ("jobs", "conf", "das_spark"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    done = submit(folder, "conf/nowhere.toml", SPARK_HOME=str(tmp_path / "spark-3"))
    # The driver was reached, and it is what refuses.
    assert done.returncode == 2, done.stdout
    assert "no such run file" in done.stdout
