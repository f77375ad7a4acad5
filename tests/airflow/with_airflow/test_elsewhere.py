"""The quickstart as Airflow runs it where nothing of the run is on a disk: output and ledger lie in a store."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("database")]

ROOT = Path(__file__).parents[3]
PYTHON, DAS_SPARK = (ROOT / ".venv" / "bin" / name for name in ("python", "das-spark"))
DAG, DATE, RUN = "das_spark_quickstart", "2026-12-01", "quickstart-20261201T000000"
KEY = "an open secret"
ADDRESS = "s3://das-spark"
#: Fetches what lies below an address, and compares a run there with one on a disk, in the environment of the project.
COMPARE = """
import json, pathlib, sys
tests, address, folder, calm = sys.argv[1:]
sys.path[:0] = [tests, f"{tests}/cluster"]
import servers
from das_spark.places import place_of
from das_spark.store import read_lines
from published_files import differences, published
far = servers.fetched(place_of(address), pathlib.Path(folder))
run = pathlib.Path(calm).name
runs = [
    {f"{name}/{place}": rows for name in ("measurements", "estimates", "microdata", "tables")
     for place, rows in published(root / "public" / name).items()}
    for root in (far / "runs" / run, pathlib.Path(calm))
]
(ledger,) = place_of(f"{address}/ledgers").iterdir()
lines = [json.loads(line) for line in read_lines(ledger).splitlines()]
report = json.loads((far / "runs" / run / "public" / "verification.json").read_text())
print(json.dumps({
    "places": sorted({place.partition("/")[0] for place in runs[0]}),
    "differing": differences(*runs),
    "top": sorted(path.name for path in far.iterdir()),
    "runs": sorted(path.name for path in (far / "runs").iterdir()),
    "charged": len({line["run_id"] for line in lines if "kind" not in line}),
    "passed": report["passed"],
}))
"""


@pytest.fixture
def store() -> Iterator[dict[str, str]]:
    """The variables by which a server of S3 is found; it is one of the project's environment."""
    command = [str(PYTHON), str(ROOT / "tests" / "servers.py"), "s3"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        found = {}
        for line in process.stdout:
            if not line.startswith("export "):
                break
            name, _, value = shlex.split(line)[1].partition("=")
            found[name] = value
        try:
            yield found
        finally:
            process.send_signal(signal.SIGTERM)


def test_a_dag_run_lies_in_a_store_and_equals_a_run_on_a_disk(command, store, tmp_path):
    params = {"output_root": f"{ADDRESS}/runs", "settings": [f'ledger.path="{ADDRESS}/ledgers"'], "test_key": KEY}
    done = command("dags", "test", DAG, DATE, "-c", json.dumps(params), **store)
    said = [line for line in done.stdout.splitlines() if "No tasks to run" not in line]
    assert done.returncode == 0, "\n".join(said)[-20000:]
    arguments = ["run", str(ROOT / "conf" / "quickstart.toml"), "--run-id", RUN, "--output", str(tmp_path / "calm")]
    calm = subprocess.run(
        [str(DAS_SPARK), *arguments, "--test-key", KEY], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert calm.returncode == 0, calm.stderr
    compared = subprocess.run(
        [str(PYTHON), "-c", COMPARE, str(ROOT / "tests"), ADDRESS, str(tmp_path / "far"), str(tmp_path / "calm" / RUN)],
        env={**os.environ, **store, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert compared.returncode == 0, compared.stderr
    assert json.loads(compared.stdout) == {
        "places": ["estimates", "measurements", "microdata", "tables"],
        "differing": [],
        "top": ["ledgers", "runs"],
        "runs": [RUN],
        "charged": 1,
        "passed": True,
    }
