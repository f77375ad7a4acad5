"""Whole runs that lie on a Hadoop file system, a `viewfs` mount: made on a disk, and gone from it in the end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import das_spark
from das_spark.cli.main import main
from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.pipeline import require_begun, run_stages
from das_spark.spark import hadoop_gateway

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.verified]

MAIN = "import sys; from das_spark.cli.main import main; sys.exit(main(sys.argv[1:]))"
#: The same, killed at the second level, with its measurements public and no estimates of them.
KILLED = f"""
import os, signal
from das_spark.pipeline import levels
kept = levels.estimate
def estimate(context, geolevel):
    if geolevel == "County":
        os.kill(os.getpid(), signal.SIGKILL)
    kept(context, geolevel)
levels.estimate = estimate
{MAIN}
"""
CORE_SITE = """<configuration><property>
<name>fs.viewfs.mounttable.cluster.link./runs</name><value>{far}</value>
</property></configuration>
"""


@pytest.fixture
def far(tmp_path) -> Path:
    """The folder behind the mount."""
    folder = tmp_path / "far"
    folder.mkdir()
    return folder


@pytest.fixture
def address(far, monkeypatch) -> str:
    mount = {"spark.hadoop.fs.viewfs.mounttable.cluster.link./runs": far.as_uri()}
    monkeypatch.setattr(hadoop_gateway, "_spark_properties", lambda jvm: mount)
    return "viewfs://cluster/runs"


def tree(folder: Path) -> set[str]:
    """All files but those that a driver leaves on a disk alone, or at a home alone; Spark's own by their folders."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    found = {re.sub(r"^(restricted/.*)/part-.*", r"\1", name) for name in found}
    return {name for name in found if not name.endswith((".crc", "run.lock", "inventory.json"))}


@pytest.mark.slow
def test_a_run_lies_there_as_it_would_on_a_disk(workshop, tools, address, far, capsys):
    """The same files with the same rows; read, shown and verified by its address; nothing stays where it was made."""
    made = workshop.folder / "made"
    settings = [f"output.root={address}", f"output.work={made}"]
    there = run_stages(workshop.plan(*settings), run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert there.finished
    assert str(there.paths["manifest"]) == f"{address}/mine/public/manifest.json"
    assert [path.name for path in made.iterdir()] == ["ledgers"]
    run_stages(workshop.plan(), run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    on_disk = workshop.layout("mine").folder
    assert tools.checksums(far / "mine" / "public") == tools.checksums(on_disk / "public")
    assert tree(far / "mine") == tree(on_disk)
    assert (far / "mine" / "restricted").stat().st_mode & 0o777 == 0o700
    assert not list(far.rglob("*.crc"))
    public = [path for path in (far / "mine" / "public").rglob("*") if path.is_file()]
    assert len({path.stat().st_mtime for path in public}) == 1, "times of change tell how long stages took"

    run = das_spark.open_run(f"{address}/mine")
    assert run.verified
    assert run.estimates("County").arrow() == das_spark.open_run(on_disk).estimates("County").arrow()
    workshop.spark.conf.set("fs.viewfs.mounttable.cluster.link./runs", far.as_uri())  # as its property file would
    assert run.estimates("County").spark(workshop.spark).count() == run.estimates("County").arrow().num_rows
    workshop.spark.conf.unset("fs.viewfs.mounttable.cluster.link./runs")
    assert main(["show", f"{address}/mine"]) == 0
    assert main(["show", f"{address}/mine", "--restricted"]) == 0
    assert "finished and verified" in capsys.readouterr().out
    assert das_spark.verify(f"{address}/mine/public", spark=workshop.spark).passed
    (far / "mine" / "public" / "estimates" / "level=State" / "part-00000.parquet").unlink()
    assert not das_spark.verify(f"{address}/mine", spark=workshop.spark).passed
    assert json.loads((far / "mine" / "public" / "verification.json").read_text())["passed"], "the run stays as it is"
    assert main(["show", f"{address}/mine", "--retention"]) == 1


@pytest.mark.slow
def test_a_run_goes_on_in_another_folder_stage_by_stage(workshop, tools, address, far):
    """As tasks of a scheduler on machines without a common disk; the ledger alone lies where all of them see it."""
    (workshop.folder / "ledgers").mkdir()
    for number, until in enumerate(("ingest", "measure County", "estimate County", None)):
        made = workshop.folder / f"disk-{number}"
        settings = [f"output.root={address}", f"output.work={made}", f"ledger.path={workshop.folder / 'ledgers'}"]
        plan = workshop.plan(*settings)
        if number:
            require_begun(plan, "mine")
        else:
            with pytest.raises(PrivacyGuardError, match="there is no run mine to resume"):
                require_begun(plan, "mine")
        run_stages(plan, run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark, until=until)
        assert not (far / "mine" / "restricted" / "run.lock").exists()
        shutil.rmtree(made)
    run_stages(workshop.plan(), run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert tools.checksums(far / "mine" / "public") == tools.checksums(workshop.layout("mine").folder / "public")
    (ledger,) = (workshop.folder / "ledgers").glob("*.jsonl")
    entries = [json.loads(line) for line in ledger.read_text().splitlines() if "kind" not in json.loads(line)]
    assert len({entry["run_id"] for entry in entries}) == 1, "charged once"


@pytest.mark.slow
@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("same_disk", [True, False])
def test_a_run_that_was_killed_goes_on(workshop, tools, far, tmp_path, same_disk):
    """In its folder of itself, and on another disk when the lock of the dead driver is removed; to the same bytes."""
    (tmp_path / "hadoop").mkdir()
    (tmp_path / "hadoop" / "core-site.xml").write_text(CORE_SITE.format(far=far.as_uri()))
    (tmp_path / "ledgers").mkdir()
    ledger = f"ledger.path={tmp_path / 'ledgers'}"
    work = [f"output.work={tmp_path / name}" for name in (("one", "one") if same_disk else ("one", "other"))]
    began, goes_on = (
        ["run", str(workshop.run_file()), "--run-id", "mine", "--test-key", tools.TEST_KEY]
        + [part for each in ("output.root=viewfs://cluster/runs", made, ledger) for part in ("--set", each)]
        for made in work
    )
    environment = {**os.environ, "HADOOP_CONF_DIR": str(tmp_path / "hadoop")}
    died = subprocess.run([sys.executable, "-c", KILLED, *began], env=environment, check=False, cwd=tmp_path)
    assert died.returncode == -signal.SIGKILL
    assert (far / "mine" / "public" / "measurements" / "level=County" / "_SUCCESS").is_file()
    assert not (far / "mine" / "public" / "estimates" / "level=County").exists()
    command = [sys.executable, "-c", MAIN, *goes_on, "--resume"]
    if not same_disk:
        refused = subprocess.run(command, env=environment, check=False, cwd=tmp_path, capture_output=True, text=True)
        assert refused.returncode == OutputError.exit_code
        assert "remove viewfs://cluster/runs/mine/restricted/run.lock" in " ".join(refused.stderr.split())
        (far / "mine" / "restricted" / "run.lock").unlink()
    subprocess.run(command, env=environment, check=True, cwd=tmp_path)
    run_stages(workshop.plan(), run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert tools.checksums(far / "mine" / "public") == tools.checksums(workshop.layout("mine").folder / "public")
    assert json.loads((far / "mine" / "public" / "verification.json").read_text())["passed"]


@pytest.mark.slow
def test_the_public_side_alone_may_lie_there(workshop, tools, address, far):
    plan = workshop.plan(f"output.public={address}")
    run_stages(plan, run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    made = workshop.layout("mine").folder
    assert tools.checksums(far / "mine") == tools.checksums(made / "public")
    assert (made / "restricted" / "manifest.json").is_file()
    assert {path.name for path in far.iterdir()} == {"mine"}
    assert not (far / "mine" / "restricted").exists()

    output = ["--output", address, "--set", f"output.work={workshop.folder / 'again'}"]
    assert main(["estimate", str(made), "--run-id", "again", *output]) == 0
    assert (far / "again" / "restricted" / "manifest.json").is_file()
    estimates = [folder / "estimates" for folder in (far / "again" / "public", made / "public")]
    assert tools.checksums(estimates[0]) == tools.checksums(estimates[1])


def test_an_address_that_cannot_be_reached_is_refused_before_anything_is_made(workshop, tools):
    plan = workshop.plan("output.root=viewfs://nowhere/runs", f"output.work={workshop.folder / 'made'}")
    with pytest.raises(OutputError, match="viewfs://nowhere: cannot be opened"):
        run_stages(plan, run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert not workshop.ledger()
    assert not (workshop.folder / "made" / "mine").exists()
