"""The cluster on which runs meet faults, what they come to undisturbed, and the table of faults at the end.

Lets tests of this folder import its modules, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from outcomes import EAGER, Calm, calm_of, table_of_faults
from scenarios import Scenario
from standalone import ROOT, StandaloneCluster, standalone_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """One cluster for all scenarios; its executors import das_spark from the checkout. Its table is printed last."""
    folder = tmp_path_factory.mktemp("faults") / "cluster"
    environment = ROOT / ".venv" / "bin" / "python"
    assert environment.exists()
    with standalone_cluster(folder, python_path=str(ROOT), settings=EAGER) as found:
        yield found
    text = table_of_faults()
    print(f"\n{text}\n")
    if target := os.environ.get("DAS_SPARK_FAULT_TABLE"):
        Path(target).write_text(text + "\n")


@pytest.fixture(scope="session")
def calm(cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory) -> Calm:
    """The run of the tiny census that nothing disturbs."""
    found = calm_of(Scenario(cluster, tmp_path_factory.mktemp("calm")))
    assert found.stages[0] == "ingest"
    assert found.stages[-1] == "verify"
    assert len(found.stages) >= 9
    return found


@pytest.fixture
def scenario(cluster: StandaloneCluster, tmp_path: Path) -> Iterator[Scenario]:
    """A run of the tiny census, to be disturbed."""
    yield Scenario(cluster, tmp_path)
    cluster.wait_for_workers(2)
