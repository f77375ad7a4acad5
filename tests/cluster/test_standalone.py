"""A run submitted to a real cluster with the packed environment publishes the same bytes as a run in local mode."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from outcomes import EAGER
from published_files import differences, published
from scenarios import pipeline_tools
from standalone import ROOT, marked_processes, pack_environment, standalone_cluster

from das_spark.config import load_plan
from das_spark.pipeline import run_stages

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.verified]

CONF = ROOT / "conf" / "quickstart.toml"
KEY = "an open secret"
PATIENCE = 900.0


def on_a_cluster(folder: Path, root: Path, conf: Path, until: str | None, *, packed: bool) -> set[str]:
    """Submit a run as an operator does; returns every command line that was seen meanwhile."""
    # Without an archive the executors run this checkout, and nothing large is sent.
    with standalone_cluster(
        folder, python_path="" if packed else str(ROOT), settings={} if packed else EAGER
    ) as cluster:
        for name in ("daemons.conf", "driver.conf"):
            assert stat.S_IMODE((folder / "conf" / name).stat().st_mode) == 0o600
        archive = pack_environment(folder / "environment.tar.gz") if packed else None
        arguments = [str(conf), "--run-id", "one", "--test-key", KEY, "--output", str(root)]
        arguments += [] if until is None else ["--until", until]
        process = cluster.submit(arguments, archive)
        ended, seen, recovery = threading.Event(), set[str](), set[bytes]()

        def watch() -> None:
            while not ended.wait(0.5):
                seen.update(cluster.processes().values())
                for path in (folder / "master").glob("*"):
                    with suppress(OSError):
                        recovery.add(path.read_bytes())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            code = process.wait(PATIENCE)
        finally:
            ended.set()
            watcher.join()
        assert code == 0, (folder / "submit.log").read_text()[-4000:]
        assert not [line for line in seen if cluster.secret in line], "the secret is an argument of a process"
        assert len(recovery) >= 3, "two workers and an application"
        assert not [content for content in recovery if cluster.secret.encode() in content], (
            "the master keeps the secret"
        )
    assert marked_processes(folder) == {}
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("census", "until", "tables", "files"),
    [
        pytest.param("tiny", "measure County", 10, 12, id="levels of a tiny census"),
        pytest.param("quickstart", None, 30, 50, id="all with the packed environment"),
    ],
)
def test_a_run_on_a_cluster_publishes_what_local_mode_does(tmp_path, spark, census, until, tables, files):
    packed = census == "quickstart"
    conf = CONF if packed else pipeline_tools().Workshop(tmp_path).run_file()
    root, seen = tmp_path / "runs", on_a_cluster(tmp_path / "cluster", tmp_path / "runs", conf, until, packed=packed)
    remote = tmp_path / "remote"
    root.rename(remote)  # the same root again: it stands in the configuration
    plan = load_plan(conf, settings=[f"output.root={root}"])
    run_stages(plan, run_id="one", test_key=KEY, spark=spark, until=until)
    ours, theirs = published(root / "one" / "public"), published(remote / "one" / "public")
    assert differences(ours, theirs) == []
    assert len(ours) > files
    assert sum(isinstance(content, list) for content in ours.values()) > tables
    executors = {line for line in seen if "CoarseGrainedExecutorBackend" in line}
    assert {match.group(1) for line in executors if (match := re.search(r"--cores (\d+)", line))} == {"1"}
    assert packed == any(line.startswith("./environment/bin/python -m das_spark.spark.python_daemon") for line in seen)
    work = sorted((tmp_path / "cluster" / "work").glob("worker-*/app-*/*/stderr"))
    assert len({path.parts[-4] for path in work}) == 2, "both workers had an executor"
    assert all("Finished task" in path.read_text() for path in work), "both executors had tasks"


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("estimates/level=County", lambda content: content[:-1]),
        ("privacy_statement.md", lambda content: content + " "),
        ("tables", lambda _: "new"),
    ],
)
def test_the_comparison_sees_planted_differences(place, change):
    one = {"estimates/level=County": ["a", "b"], "privacy_statement.md": "claimed"}
    assert differences(one, dict(one)) == []
    assert differences(one, one | {place: change(one.get(place))}) == [place]


def test_times_and_tokens_are_all_that_is_left_out_of_texts(tmp_path):
    for name, more in (("a", "x"), ("b", "y")):
        (tmp_path / name).mkdir()
        text = {"created": f"2026-01-0{1 + (name == 'b')}T00:00:00+00:00", "run_id": f"one#0123456{name}"}
        (tmp_path / name / "same.json").write_text(json.dumps(text))
        (tmp_path / name / "other.txt").write_text(more)
    assert differences(published(tmp_path / "a"), published(tmp_path / "b")) == ["other.txt"]


def test_a_script_without_its_archive_name_says_how_it_is_used():
    script = [str(ROOT / ".venv" / "bin" / "python"), str(ROOT / "jobs" / "pack_environment.py")]
    done = subprocess.run([*script, "environment.rar"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage:" in done.stderr


def test_a_property_file_that_is_not_there_is_named_before_anything_starts(tmp_path):
    environment = os.environ | {"DAS_SPARK_ENV": str(tmp_path / "none.conf"), "PYTHONPATH": str(ROOT)}
    submit = [str(ROOT / "spark-submit.sh"), str(CONF)]
    done = subprocess.run(submit, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"there is no {tmp_path / 'none.conf'}" in done.stderr
