"""Persons and housing units in one run: drivers and executors are killed in either part, and before both."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from outcomes import TABLE
from published_files import differences, published
from scenarios import PATIENCE, Scenario, draws, half_written, kill_group, kill_one
from standalone import ROOT, wait_until

from das_spark.cli.main import main
from das_spark.privacy import Ledger

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.verified]

CONF = ROOT / "conf" / "pl94_2020.toml"
PARTS = ("person", "unit")


@pytest.fixture(scope="module")
def population(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 10,000 people of a synthetic state, as CEF records."""
    place = tmp_path_factory.mktemp("joint") / "population"
    assert main(["simulate", "--like", "2020-state", "--share", "1/1000", "--layout", "cef", "--out", str(place)]) == 0
    return place


def joint(scenario: Scenario, population: Path) -> Scenario:
    """The scenario with a joint run. Its population is a copy."""
    census = shutil.copytree(population, scenario.folder / "population")
    settings = {"input.reader": "cef_2020", "input.path": census, "output.root": scenario.folder / "runs"}
    settings |= {"privacy.acknowledge": '["unit_conflicts_from_people"]'}
    settings["input.dataset"] = "people"
    settings |= {"output.microdata": '["parquet"]', "budget.strategy": "state", "evaluation.enabled": "false"}
    scenario.run_file = CONF
    scenario.options = tuple(f"--set={key}={value}" for key, value in settings.items())
    return scenario


def results(scenario: Scenario) -> dict[str, Any]:
    """What the parts and the joint run have published."""
    found = {}
    for name in ("run", *(f"run-{part}" for part in PARTS)):
        root = scenario.folder / "runs" / name
        public = root / "public" if (root / "public").is_dir() else root
        hashes = [json.loads(path.read_text())["config_hash"] for path in public.glob("run.json") if public != root]
        replaced = {str(scenario.folder): "FOLDER"} | dict.fromkeys(hashes, "HASH")
        found |= {f"{name}/{file}": content for file, content in published(public, replaced).items()}
    return found


def wait_for_stages(scenario: Scenario, process: subprocess.Popen[bytes], number: int) -> None:
    """Wait until the driver has ended, or skipped, so many stages of both parts."""

    def there() -> bool:
        assert process.poll() is None, scenario.said()[-4000:]
        return len(scenario.stages()) >= number

    wait_until(there, f"{number} stages", PATIENCE)


def stage(names: list[str], number: int) -> str:
    """A stage and its part; the ingests of both parts come first."""
    part = PARTS[number] if number < len(PARTS) else PARTS[number > names.index("verify")]
    return f"{names[number]} of {part}"


def differing_lines(one: str, other: str) -> list[str]:
    """Lines that differ, but for the one that lists what the ledger knew of the input when it was written.

    The part that is done first knows of no other run; a driver that goes on with the second part says it again.
    """
    pairs = zip(one.splitlines(), other.splitlines(), strict=True)
    return [line for line, same in pairs if line != same and " on this input. Under test keys" not in line]


def test_drivers_and_executors_are_killed_in_the_parts_of_a_joint_run(cluster, tmp_path, population):
    calm = joint(Scenario(cluster, tmp_path / "calm"), population)
    calm.finish()
    seconds = calm.stages()
    names = [name for name, _ in seconds]
    assert names.count("verify") == len(PARTS)
    assert names[: len(PARTS)] == ["ingest"] * len(PARTS), "every part reads before any part draws"
    scenario = joint(Scenario(cluster, tmp_path / "disturbed"), population)
    dice = random.Random(1790)
    # In the second ingest, in two stages of the first part, and in two of the second.
    for number in (1, 4, 9, names.index("verify") + 3, len(names) - 3):
        process = scenario.start()
        wait_for_stages(scenario, process, number)
        if number % 2:
            kill_one(cluster, "executor", dice)
            TABLE.append(("executor killed, joint run", stage(names, number), "went on, byte-equal"))
            number += 1  # noqa: PLW2901 - the driver dies a stage later
            wait_for_stages(scenario, process, number)
        kill_group(process)
        TABLE.append(("driver killed, joint run", stage(names, number), "resumed by the same command, byte-equal"))
    scenario.finish()
    disturbed, undisturbed = results(scenario), results(calm)
    statement = "run-person/privacy_statement.md"
    assert set(differences(disturbed, undisturbed)) <= {statement}
    assert differing_lines(disturbed[statement], undisturbed[statement]) == []
    assert len(undisturbed) > 50
    for part in PARTS:
        assert half_written(scenario.folder / "runs" / f"run-{part}") == []
        assert draws(scenario.folder / "runs" / f"run-{part}")
    (ledger,) = (scenario.folder / "runs" / "ledgers").iterdir()
    runs = {entry.run_id for entry in Ledger.from_json_lines(ledger.read_text()).entries}
    assert len(runs) == len(PARTS), "each part is charged once"
    cluster.wait_for_workers(2)
