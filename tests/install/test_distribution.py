"""What is handed out: the sdist and the wheel, built from the checkout and used without it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from tracked import ROOT, tracked

pytestmark = pytest.mark.slow


def tracked_files() -> set[str]:
    """Files that git knows, or would know."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout of git: there is no list of files to compare with")
    return set(tracked())


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it; with the packages at hand, so without a network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def test_the_wheel_holds_the_package_and_conf_and_nothing_else(built):
    with zipfile.ZipFile(built[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        for name in ("spark/local.conf", "quickstart.toml"):
            assert wheel.read(f"das_spark/conf/{name}") == (ROOT / "conf" / name).read_bytes()
    package = {name for name in tracked_files() if name.startswith("das_spark/")}
    conf = {f"das_spark/{name}" for name in tracked_files() if name.startswith("conf/")}
    assert names == package | conf


def test_the_sdist_holds_every_file_of_the_checkout(built):
    with tarfile.open(built[0]) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}
    assert names - {"PKG-INFO"} == {name for name in tracked_files() if not name.startswith(".") or name in names}
    assert {"pyproject.toml", "tests/run", "conf/quickstart.toml", "spark-submit.sh", ".ci/run"} <= names


def test_an_index_would_accept_both(built):
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_what_it_says_of_itself(built):
    with zipfile.ZipFile(built[1]) as wheel:
        (place,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        metadata = message_from_string(wheel.read(place).decode())
    assert metadata["Name"] == "das_spark"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_all("Project-URL") is None, "no address that nobody answers at"


@pytest.fixture(scope="module")
def unpacked(built, tmp_path_factory) -> Path:
    """The wheel as pip would lay it out."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(built[1]) as wheel:
        wheel.extractall(folder)
    return folder


def away(unpacked: Path, folder: Path, program: str) -> str:
    """Run a program in an empty folder, with the unpacked wheel in front of everything that is installed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DAS_SPARK_", "SPARK_"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_without_a_checkout_it_finds_its_spark_properties(unpacked, tmp_path):
    program = (
        "import das_spark; print(das_spark.__file__)\n"
        "from das_spark.spark.session import properties, properties_file\n"
        "print(properties_file())\n"
        "print(properties(properties_file())['spark.io.encryption.enabled'])\n"
    )
    package, file, encrypted = away(unpacked, tmp_path, program).splitlines()
    assert Path(package).is_relative_to(unpacked)
    assert Path(file) == unpacked / "das_spark" / "conf" / "spark" / "local.conf"
    assert encrypted == "true"


def test_without_a_checkout_it_finds_its_run_files(unpacked, tmp_path):
    program = (
        "from das_spark.cli.main import main; print(main(['check', 'quickstart']), main(['list', 'configurations']))"
    )
    printed = away(unpacked, tmp_path, program)
    assert printed.startswith("quickstart: no problem found")
    assert "e2e_1940" in printed
    assert printed.rstrip().endswith("0 0")
    assert list(tmp_path.iterdir()) == []
