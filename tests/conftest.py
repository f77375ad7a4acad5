"""What every test may ask for: one small Spark session, and the folder of public census data."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The same examples on every run: a failure in CI is a failure at home.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=60)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))  # for helpers that several folders import
DATA_VARIABLE = "DAS_SPARK_DATA"

#: Files that take minutes: begun first, so that no process of the tests is left alone with one of them at the end.
LONGEST = (
    "tests/documents/test_run_files.py",
    "tests/documents/test_worked_examples.py",
    "tests/documents/test_readme_commands.py",
    "tests/cluster/test_standalone.py",
    "tests/pipeline/test_faults.py",
    "tests/docs/test_site.py",
)
# Workers run the interpreter of the tests, whatever `python3` is on the PATH.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turn", type=int, help="Leave out most tests marked `slow` or `long`: another number, others.")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say whose turn it is, so that the same tests can be run again."""
    turn = config.getoption("turn")
    return None if turn is None else f"turn: {turn} (--turn {turn} chooses the same slow and long tests)"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first; the others stay in their order. Leave out what is not in turn."""
    places = {str(ROOT / name): place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(str(item.path), len(LONGEST)))
    turn = config.getoption("turn")
    if turn is None:
        return
    from turns import Divided, in_turn

    divided = [
        Divided(_unit(item), item.nodeid, long=item.get_closest_marker("long") is not None)
        for item in items
        if item.get_closest_marker("slow") or item.get_closest_marker("long")
    ]
    left_out = {test.name for test in divided} - in_turn(divided, turn)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


def _unit(item: pytest.Item) -> str:
    """What has its turn together with a test: what its marker says, else its file."""
    marker = item.get_closest_marker("unit")
    return str(item.path) if marker is None else str(marker.args[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Leave the verification of runs out, which takes as long as the rest of them, but of tests marked `verified`."""
    if item.get_closest_marker("spark") is None or item.get_closest_marker("verified") is not None:
        return (yield)
    from unverified import unverified

    with unverified():
        return (yield)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests: starting a JVM for each would take minutes."""
    from pyspark.sql import SparkSession

    from das_spark.spark.session import properties

    scratch = tmp_path_factory.mktemp("spark")
    settings = properties(ROOT / "conf" / "spark" / "test.conf") | {
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        # One session has the stages of all tests: what Spark forgets first, skipped stages, belongs to the last run.
        "spark.ui.retainedStages": "20000",
    }
    builder = SparkSession.builder.appName("das_spark tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def census_data() -> Path:
    """The folder of public census files; conf/README.md names the public source of each."""
    place = os.environ.get(DATA_VARIABLE)
    if not place:
        pytest.skip(f"{DATA_VARIABLE} is not set: it names the folder of public census data")
    return Path(place)
