"""The quickstart as Airflow runs it: a measurement is killed, the task cleared, and the run goes on as the same run."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("database")]

ROOT = Path(__file__).parents[3]
PYTHON, DAS_SPARK = (ROOT / ".venv" / "bin" / name for name in ("python", "das-spark"))
DAG, DATE, RUN = "das_spark_quickstart", "2026-11-01", "quickstart-20261101T000000"
KEY = "an open secret"
LEVELS = ("County", "Tract", "Block_Group", "Block")
KILLED = "Tract"
#: Compares the data files of two runs by folder, in the environment of the project. How rows are spread over the part
#: files of a folder is no part of a result.
COMPARE = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
from published_files import differences, published
runs = []
for root in sys.argv[2:]:
    public = pathlib.Path(root) / "public"
    tables = {name: published(public / name) for name in ("measurements", "estimates", "microdata", "tables")}
    runs.append({f"{name}/{place}": rows for name, each in tables.items() for place, rows in each.items()})
print(json.dumps({"places": list(runs[0]), "differing": differences(*runs)}))
"""
#: Minutes after which a test that waits for something gives up.
PATIENCE = 30


def test_a_setting_that_the_run_refuses_stops_the_dag_at_its_check(command, tmp_path):
    params = {"output_root": str(tmp_path), "settings": ["budget.epsilon=0"]}
    done = command("dags", "test", DAG, "2026-10-01", "-c", json.dumps(params))
    assert done.returncode != 0
    assert "it is not tried again" in done.stdout
    assert "epsilon" in done.stdout
    assert not list(tmp_path.iterdir())


def test_settings_that_change_the_stages_stop_the_dag_at_its_check(command, tmp_path):
    params = {"output_root": str(tmp_path), "settings": ["evaluation.enabled=false"]}
    done = command("dags", "test", DAG, "2026-10-02", "-c", json.dumps(params))
    assert done.returncode != 0
    assert "Change the run file instead of the params" in done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def killed(runs: Path, command: Any) -> dict[str, Any]:
    """A DAG run of which spark-submit was killed while it drew a level, cleared and run again."""
    folder = runs / RUN
    params = json.dumps({"output_root": str(runs), "test_key": KEY})
    victim = Killer(folder)
    victim.start()
    first = command("dags", "test", DAG, DATE, "-c", params)
    victim.join()
    before = {
        "output": first.stdout,
        "code": first.returncode,
        "killed": victim.killed,
        "states": states(command),
        "journal": attempts(folder),
        "files": stamps(folder / "public" / "measurements"),
        "ledger": ledger_of(runs),
    }
    cleared = command("tasks", "clear", DAG, "-t", f"measure_{KILLED}", "--downstream", "--yes")
    assert cleared.returncode == 0, cleared.stdout
    again = command("dags", "test", DAG, DATE, "-c", params)
    return {"before": before, "again": again, "states": states(command), "folder": folder}


class Killer(threading.Thread):
    """Waits until a level is being drawn, and kills spark-submit, driver and all, with SIGKILL."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.killed: list[int] = []

    def run(self) -> None:
        end = time.monotonic() + 60 * PATIENCE
        while time.monotonic() < end and not self.killed:
            if "opened" in attempts(self.folder).get(KILLED, []):
                for process in submits(str(self.folder.parent)):
                    os.kill(process, signal.SIGKILL)
                    self.killed.append(process)
            time.sleep(0.02)


def submits(root: str) -> list[int]:
    """Processes that carry out runs in a folder: the JVM of spark-submit, and the driver that it started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(root in word for word in words) and any(word.endswith("jobs/run.py") for word in words):
            found.append(int(folder.name))
    return found


def attempts(folder: Path) -> dict[str, list[str]]:
    """States of all attempts at measuring, by level, from the journal of a run."""
    found: dict[str, list[str]] = {}
    for path in sorted((folder / "restricted" / "journal").glob("*.json")):
        found.setdefault(path.name.split(".")[0], []).append(json.loads(path.read_text())["state"])
    return found


def stamps(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Inode, time of change and checksum of every data file."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_ino,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.rglob("part-*"))
    }


def ledger_of(runs: Path) -> list[dict[str, Any]]:
    (file,) = (runs / "ledgers").glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line for line in lines if "kind" not in line]  # the others are attempts


def states(command: Any) -> dict[str, str]:
    """State of every task of the DAG run."""
    runs = json.loads(tail(command("dags", "list-runs", DAG, "-o", "json").stdout))
    (run,) = [run["run_id"] for run in runs if run["logical_date"].startswith(DATE)]
    found = json.loads(tail(command("tasks", "states-for-dag-run", DAG, run, "-o", "json").stdout))
    return {each["task_id"]: each["state"] for each in found}


def tail(output: str) -> str:
    """The JSON at the end of what a command printed."""
    return output[output.index("\n[{") if "\n[{" in output else output.index("[{") :]


def test_the_dag_run_fails_at_the_killed_measurement_and_does_not_retry(killed):
    before = killed["before"]
    assert before["killed"]
    assert before["code"] != 0
    assert before["states"][f"measure_{KILLED}"] == "failed"
    assert before["states"]["estimate_County"] == "success"
    assert before["states"][f"estimate_{KILLED}"] == "upstream_failed"
    assert before["journal"]["County"] == ["promoted"]
    assert before["journal"][KILLED] == ["opened"]


def test_the_cleared_dag_run_succeeds_as_the_same_run(killed):
    assert killed["again"].returncode == 0, killed["again"].stdout[-5000:]
    assert set(killed["states"].values()) == {"success"}
    made = {path.name for path in killed["folder"].parent.iterdir()}
    assert made == {RUN, "latest", "ledgers"}


def test_what_was_measured_is_not_measured_again(killed):
    found = attempts(killed["folder"])
    assert found == {level: ["destroyed", "promoted"] if level == KILLED else ["promoted"] for level in LEVELS}
    after = stamps(killed["folder"] / "public" / "measurements")
    assert killed["before"]["files"]
    assert killed["before"]["files"].items() <= after.items()


def test_the_input_is_charged_once(killed):
    entries = ledger_of(killed["folder"].parent)
    assert len({entry["run_id"] for entry in [*killed["before"]["ledger"], *entries]}) == 1
    assert entries[-1]["completed_levels"] == list(LEVELS)


def test_the_run_is_verified_and_equals_one_that_nothing_disturbed(killed, tmp_path_factory):
    calm = tmp_path_factory.mktemp("calm")
    arguments = ["run", str(ROOT / "conf" / "quickstart.toml"), "--run-id", RUN, "--output", str(calm)]
    done = subprocess.run(
        [str(DAS_SPARK), *arguments, "--test-key", KEY], capture_output=True, text=True, check=False, cwd=calm
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((killed["folder"] / "public" / "verification.json").read_text())
    assert report["passed"] is True
    assert (killed["folder"] / "restricted" / "accuracy.html").is_file()
    compared = subprocess.run(
        [str(PYTHON), "-c", COMPARE, str(ROOT / "tests" / "cluster"), str(killed["folder"]), str(calm / RUN)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(compared.stdout)
    assert found["differing"] == []
    assert {place.partition("/")[0] for place in found["places"]} == {
        "measurements",
        "estimates",
        "microdata",
        "tables",
    }
