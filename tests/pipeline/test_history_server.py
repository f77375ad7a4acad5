"""The steps of the README with Spark's event log and history server: safe to leave behind, and to look at."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from das_spark.privacy import RunKey, StreamDomain

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PATIENCE = 180.0


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", **more}


@pytest.fixture(scope="module")
def observed(tmp_path_factory, tools):
    """A whole run in a process of its own, under properties that turn the event log on."""
    workshop = tools.Workshop(tmp_path_factory.mktemp("observed"))
    events = workshop.folder / "spark-events"
    events.mkdir(mode=0o700)
    text = (ROOT / "conf" / "spark" / "test.conf").read_text()
    text = re.sub(r"^(spark\.eventLog\.enabled).*", r"\1 true", text, flags=re.MULTILINE)
    conf = workshop.folder / "conf" / "spark" / "observed.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text(f"{text}\nspark.eventLog.dir {events.as_uri()}\n")
    arguments = [sys.executable, str(ROOT / "jobs" / "run.py"), "run", str(workshop.run_file())]
    arguments += ["--run-id", "seen", "--test-key", tools.TEST_KEY]
    done = subprocess.run(
        arguments, cwd=workshop.folder, env=environment(DAS_SPARK_ENV="observed"), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return workshop, events


@pytest.fixture(scope="module")
def server(observed, tmp_path_factory):
    """The history server on a free port of this machine."""
    _, events = observed
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"-Dspark.history.fs.logDirectory={events.as_uri()} -Dspark.history.ui.port={port}"
    command = Path(sys.executable).with_name("spark-class")
    with (tmp_path_factory.mktemp("server") / "log").open("w") as log:
        process = subprocess.Popen(
            [str(command), "org.apache.spark.deploy.history.HistoryServer"],
            env=environment(SPARK_HISTORY_OPTS=options),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield port
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE)


def asked(port: int, path: str):
    """An answer of the server's REST interface, once it has read the logs."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=10) as answer:
                if found := json.load(answer):
                    return found
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(0.5)
    pytest.fail(f"no answer for {path}")


def test_the_server_lists_the_application_and_its_stages(observed, server):
    workshop, _ = observed
    (application,) = asked(server, "applications")
    log = (workshop.layout("seen").restricted.log).read_text().splitlines()
    assert application["id"] == json.loads(log[-1])["application"], "the same name as in the log of the run"
    assert application["attempts"][0]["completed"]
    groups = {job.get("jobGroup") for job in asked(server, f"applications/{application['id']}/jobs")}
    assert {"seen/ingest", "seen/measure County", "seen/verify"} <= groups


def test_the_server_listens_to_this_machine_alone(server):
    asked(server, "version")
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    listening = {row[1].rpartition(":")[0] for row in rows if row[3] == "0A" and row[1].endswith(f":{server:04X}")}
    assert listening <= {"0100007F", "0000000000000000FFFF00000100007F"}
    assert listening


def test_the_event_log_is_closed_to_others_and_holds_no_key(observed, tools):
    workshop, events = observed
    assert stat.S_IMODE(events.stat().st_mode) == 0o700
    content = b"".join(path.read_bytes() for path in events.rglob("*") if path.is_file())
    assert b"SparkListenerApplicationEnd" in content
    plan, key = workshop.plan(), RunKey.insecure(tools.TEST_KEY)
    raw = [key._reveal()]
    for level in plan.budget.levels:
        for query in level.queries:
            domain = StreamDomain(plan.product.name, plan.product.record, level.geolevel, 0, query.query)
            raw.append(key.derive(domain)._reveal())
    forms = [tools.TEST_KEY.encode(), *raw, *(each.hex().encode() for each in raw)]
    assert not any(form in content for form in forms)
