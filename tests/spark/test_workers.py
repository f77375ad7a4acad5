"""Workers say what they have and what they cannot do; a place or a version that one lacks is named."""

from __future__ import annotations

import json

import pytest

from das_spark.cli import doctor as command
from das_spark.cli.main import main
from das_spark.spark.workers import PACKAGES, WorkerReport, look_at_workers, wait_for_executor

pytestmark = pytest.mark.spark


def test_a_worker_of_this_machine_has_what_this_machine_has(spark, tmp_path):
    assert wait_for_executor(spark.sparkContext)
    (tmp_path / "persons.csv").write_text("geocode\n")
    reports = look_at_workers(spark, [str(tmp_path / "persons.csv")], [str(tmp_path / "runs")])
    here = WorkerReport.here()
    assert len(reports) == 1
    assert (reports[0].versions, reports[0].numbers, reports[0].wrong) == (here.versions, here.numbers, ())
    assert here.versions.keys() == {"python", *PACKAGES}


def test_what_a_worker_cannot_read_or_write_is_named(spark, tmp_path):
    (tmp_path / "runs").write_text("a file")
    (report,) = look_at_workers(spark, [str(tmp_path / "persons.csv")], [str(tmp_path / "runs")])
    assert report.wrong[0] == f"cannot read {tmp_path}/persons.csv: No such file or directory"
    assert report.wrong[1].startswith(f"cannot write to {tmp_path}/runs: ")


def test_doctor_says_how_a_worker_differs(monkeypatch, capsys):
    here = WorkerReport.here()
    other = WorkerReport("worker-1", {**here.versions, "python": "3.0.1"}, "0" * 16, ("cannot read s3://b/x: 403",))
    monkeypatch.setattr("das_spark.spark.workers.look_at_workers", lambda *_: [here, other])
    monkeypatch.setattr(command, "_solver_packages", lambda: ("solvers", "", "ok"))
    assert main(["doctor", "--cluster", "--json"]) == 2
    findings = {finding["what"]: finding["result"] for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert findings[here.worker] == "ok"
    python = here.versions["python"]
    assert findings["worker-1"] == (
        f"python 3.0.1, here {python}; its kernels round otherwise than those of this machine; "
        "cannot read s3://b/x: 403"
    )


def test_doctor_finds_the_places_of_a_run_file(tmp_path, capsys):
    assert main(["doctor", "--conf", "quickstart"]) == 2
    assert "--conf goes with --cluster" in capsys.readouterr().err
    settings = ["--set", f"output.root={tmp_path / 'runs'}"]
    assert main(["doctor", "--cluster", "--conf", "quickstart", *settings, "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["result"] for finding in findings if finding["what"] == "executors"] == ["ok"]
