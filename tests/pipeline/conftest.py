"""A census of two dozen districts, its run file, and stages of a run one by one."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from unverified import unverified

from das_spark.cli.main import main
from das_spark.config import RunPlan, load_plan, steps_of
from das_spark.core import run_levels
from das_spark.pipeline.charge import enter_run, open_ledger
from das_spark.pipeline.context import RunContext
from das_spark.pipeline.ingest import ingest
from das_spark.pipeline.input_record import fingerprint
from das_spark.pipeline.levels import RunExecutor
from das_spark.pipeline.progress import Progress
from das_spark.privacy import RunKey
from das_spark.store import RunLayout, created_at, ledger_folder, open_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Runs made up by hand are a module of this folder, not a test: put it where tests can import it.
sys.path.insert(0, str(Path(__file__).parent))

LEVELS = ("State", "County", "Enumdist")
TEST_KEY = "an open secret"

RUN_FILE = """
config_version = 1
[run]
name = "tiny"
product = "e2e_1940"
[input]
reader = "tidy_counts"
dataset = "tiny"
path = "{census}"
[output]
root = "{root}"
microdata = ["parquet"]
[geography]
levels = ["State", "County", "Enumdist"]
[budget]
epsilon = "4"
[budget.geolevels]
State = "1/4"
County = "1/4"
Enumdist = "1/2"
[budget.queries]
hhgq = "1/2"
detailed = "1/2"
[evaluation]
enabled = false
"""


def census_tables(seed: int = 1940) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Two states, the second with one county only: persons by cell and units by class of 25 districts, some empty."""
    numbers = np.random.default_rng(seed)
    counties = ("010010", "010020", "010030", "020010")
    districts = [f"{county}{district:04d}" for county in counties for district in range(6)]
    districts.append("0200200000")  # the only district of its county
    persons: dict[str, list[Any]] = {name: [] for name in ("geocode", "hhgq", "age18plus", "hispanic", "race", "count")}
    units: dict[str, list[Any]] = {name: [] for name in ("geocode", "hhgq", "units", "vacant")}
    for place, geocode in enumerate(districts):
        homes = np.zeros(8, dtype=int)
        if place % 5 != 4:  # the others are empty
            homes[0] = numbers.integers(1, 9)
            homes[1 + place % 7] = place % 3
        for level, number in enumerate(homes):
            units["geocode"].append(geocode)
            units["hhgq"].append(level)
            units["units"].append(int(number))
            units["vacant"].append(int(level == 0) * (place % 4))
            if number:
                people = int(number * numbers.integers(1, 6))
                cells = numbers.choice(24, 3, replace=False)
                for cell, count in zip(cells, numbers.multinomial(people, [0.6, 0.3, 0.1]), strict=True):
                    if count:
                        row = (geocode, level, cell // 12, cell // 6 % 2, cell % 6, int(count))
                        for name, value in zip(persons, row, strict=True):
                            persons[name].append(value)
    return persons, units


def write_census(
    folder: Path, persons: dict[str, list[Any]] | None = None, units: dict[str, list[Any]] | None = None
) -> Path:
    """Write tables as Parquet; those not given are the tiny census."""
    folder.mkdir(parents=True, exist_ok=True)
    own_persons, own_units = census_tables()
    pq.write_table(pa.table(persons or own_persons), folder / "persons.parquet")
    pq.write_table(pa.table(units or own_units), folder / "units.parquet")
    return folder


@dataclass
class Workshop:
    """Everything that a test of the pipeline needs to make runs in a folder of its own."""

    folder: Path
    spark: SparkSession | None = None

    @property
    def root(self) -> Path:
        return self.folder / "runs"

    @property
    def census(self) -> Path:
        return self.folder / "census"

    def run_file(self, more: str = "", *, change: tuple[str, str] | None = None) -> Path:
        if not self.census.exists():
            write_census(self.census)
        path = self.folder / "run.toml"
        text = RUN_FILE.format(census=self.census, root=self.root) + more
        path.write_text(text.replace(*change) if change else text)
        return path

    def plan(self, *settings: str) -> RunPlan:
        return load_plan(self.run_file(), settings=settings)

    def layout(self, run_id: str) -> RunLayout:
        return RunLayout.at(self.root, run_id)

    def context(self, run_id: str, *settings: str, key: RunKey | None = None) -> RunContext:
        """A run opened, for stages to be called one by one."""
        plan, layout = self.plan(*settings), self.layout(run_id)
        open_run(layout, plan.config_hash, ledger=str(ledger_folder(plan, layout)))
        given, progress = key or RunKey.insecure(TEST_KEY), Progress(lambda _: None, run_id)
        assert self.spark is not None
        ledger = open_ledger(plan, layout, progress, insecure=given.is_insecure)
        return RunContext(plan, layout, self.spark, given, progress, created_at(layout), ledger=ledger)

    def ingested(self, run_id: str, calm: RunLayout, *settings: str, key: RunKey | None = None) -> RunContext:
        """A run opened with the ingested tables of another one in it: ingestion is not what is tested."""
        context = self.context(run_id, *settings, key=key)
        for mine, other in ((context.layout.restricted, calm.restricted), (context.layout.public, calm.public)):
            for table in ("leaves", "histograms", "geounits", "invariants", "bounds"):
                if other.table(table).exists():
                    shutil.copytree(other.table(table), mine.table(table))
        shutil.copy(calm.restricted.input_record, context.layout.restricted.input_record)
        return context

    @property
    def ledger_file(self) -> Path:
        return self.root / "ledgers" / "tiny.privacy-ledger.jsonl"

    def ledger(self) -> list[str]:
        """Lines of the ledger that are of runs, in order."""
        lines = self.ledger_file.read_text().splitlines() if self.ledger_file.exists() else []
        return [line for line in lines if "kind" not in json.loads(line)]


def all_levels(context: RunContext) -> None:
    """Ingest, charge, then measure and estimate every level; no microdata, no verification."""
    ingest(context, fingerprint(context.plan.input)[0])
    enter_run(context.required_ledger())
    run_levels(steps_of(context.plan), RunExecutor(context))


def plain(value: Any) -> Any:
    """A value that can be sorted and compared bit by bit."""
    if isinstance(value, float):
        return value.hex()
    return tuple(value) if isinstance(value, list) else value


def rows_of(folder: Path, *, empty: bool = False) -> list[dict[str, Any]]:
    """The rows of all part files in a folder, which must have one unless it may be empty."""
    parts = sorted(folder.glob("part-*"))
    assert parts or empty, folder
    return [row for part in parts for row in pq.ParquetFile(part).read().to_pylist()]


def level_rows(
    public: Path, tables: tuple[str, ...] = ("measurements", "estimates"), levels: tuple[str, ...] = LEVELS
) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every level of some tables, sorted; read without Spark. Floats are compared by their bits."""
    found = {}
    for table in tables:
        for level in levels:
            folder = public / table / f"level={level}"
            assert (folder / "_SUCCESS").is_file(), folder
            rows = [tuple(plain(value) for value in row.values()) for row in rows_of(folder, empty=True)]
            found[f"{table}/{level}"] = sorted(rows, key=repr)
    return found


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of every data file below a folder, by path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("part-*"))
        if path.is_file()
    }


class DriverDied(BaseException):
    """Stands for SIGKILL where a real one would cost a JVM: nothing in the product may catch it."""


@contextmanager
def dying(
    place: Any, name: str, when: str = "before", nth: int = 1, where: Callable[..., bool] = lambda *_, **__: True
) -> Iterator[None]:
    """Let the driver die before or after the nth call of a function whose arguments satisfy `where`.

    The test fails where the driver comes to the end of the block alive.
    """
    original, calls = getattr(place, name), 0

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += where(*args, **kwargs)
        fatal = calls == nth and where(*args, **kwargs)
        if fatal and when == "before":
            raise DriverDied
        result = original(*args, **kwargs)
        if fatal:
            raise DriverDied
        return result

    setattr(place, name, wrapper)
    try:
        with pytest.raises(DriverDied):
            yield
    finally:
        setattr(place, name, original)


@pytest.fixture
def workshop(tmp_path: Path, spark: SparkSession) -> Workshop:
    """A folder of runs with the shared session."""
    return Workshop(tmp_path, spark)


@pytest.fixture
def dry_workshop(tmp_path: Path) -> Workshop:
    """The same without Spark."""
    return Workshop(tmp_path)


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> RunLayout:
    """Every level of the tiny census under the test key, in a run that nothing disturbs."""
    context = Workshop(tmp_path_factory.mktemp("calm"), spark).context("calm")
    all_levels(context)
    return context.layout


@pytest.fixture(scope="session")
def reference(calm: RunLayout) -> dict[str, list[tuple[Any, ...]]]:
    """Its measurements and estimates."""
    return level_rows(calm.public.path)


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Workshop:
    """A whole run that keeps every noisy answer, and its measurements in a folder of their own: "whole" and nmf/.

    It is not verified, whichever test asks for it first.
    """
    workshop = Workshop(tmp_path_factory.mktemp("measured"), spark)
    arguments = ["run", str(workshop.run_file()), "--run-id", "whole", "--test-key", TEST_KEY]
    with unverified():
        assert main([*arguments, "--set", 'measurement.rows="all"']) == 0
    assert main(["measurements", str(workshop.layout("whole").folder), "--out", str(workshop.folder / "nmf")]) == 0
    return workshop


@pytest.fixture(scope="session")
def tools() -> type[Tools]:
    """The functions of this module, for tests that are imported on their own."""
    return Tools


class Tools:
    """Functions by name."""

    Workshop = Workshop
    LEVELS = LEVELS
    TEST_KEY = TEST_KEY
    RUN_FILE = RUN_FILE
    census_tables = staticmethod(census_tables)
    write_census = staticmethod(write_census)
    all_levels = staticmethod(all_levels)
    charge = staticmethod(lambda context: enter_run(context.required_ledger()))
    rows_of = staticmethod(rows_of)
    level_rows = staticmethod(level_rows)
    checksums = staticmethod(checksums)
    dying = staticmethod(dying)
