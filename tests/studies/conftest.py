"""The command of the studies, registered as by an installation; the study of occupancy at the size of tests."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from das_spark.studies.occupancy import OccupancySettings
from das_spark.studies.occupancy_report import OccupancyResult, occupancy_experiment

TESTS = Path(__file__).parents[1]
# Runs made up by hand are a module of those tests.
sys.path.insert(0, str(TESTS / "pipeline"))


@pytest.fixture(scope="session")
def project() -> dict[str, object]:
    """What `pyproject.toml` says of the project."""
    return tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="session")
def installed(project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The entry points of `pyproject.toml`, whatever the environment was installed from."""
    folder = tmp_path_factory.mktemp("installed")
    metadata = folder / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(autouse=True)
def _registered(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(installed)


@pytest.fixture(scope="session")
def occupancy_result() -> OccupancyResult:
    """Two states of 62 counties, of which the smallest are followed to the block."""
    return occupancy_experiment(OccupancySettings(seed=11, states=2, counties=62, follow_up_to=1_500))
