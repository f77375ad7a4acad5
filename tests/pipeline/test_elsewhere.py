"""Whole runs that lie in a store of objects: nothing of them on a disk, and the same bytes as on one."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import servers

import das_spark
from das_spark.cli.main import main
from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.pipeline import require_begun, run_stages
from das_spark.places import place_of
from das_spark.store import RunLayout, publication, read_lines

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.verified]

MAIN = "import sys; from das_spark.cli.main import main; sys.exit(main(sys.argv[1:]))"
#: The same, killed at the second level, with its measurements published and no estimates of them.
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


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with servers.s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def address(server, workshop):
    """A folder of runs in a bucket, which driver and tasks find by their environment."""
    with servers.reached(server.environment, workshop.spark):
        yield f"{server.url}/{secrets.token_hex(4)}"


def fetched(address: str, folder: Path) -> Path:
    """What lies below an address, on a disk."""
    return servers.fetched(place_of(address), folder)


def tree(folder: Path) -> set[str]:
    """All files; what is a file of lines on a disk, and a folder in a store, by its name."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name.split(".jsonl")[0] for name in names if "run.lock" not in name}


def test_a_run_lies_there_as_it_would_on_a_disk(workshop, tools, address, tmp_path, capsys, monkeypatch):
    """The same files with the same rows; read, shown and verified by its address; nothing of it on a disk."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    plan = workshop.plan(f"output.root={address}")
    there = run_stages(plan, run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert there.finished
    assert str(there.paths["manifest"]) == f"{address}/mine/public/manifest.json"
    assert list(here.iterdir()) == []
    run_stages(workshop.plan(), run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    on_disk, far = workshop.layout("mine").folder, fetched(address, tmp_path / "far")
    assert tools.checksums(far / "mine" / "public") == tools.checksums(on_disk / "public")
    assert tree(far / "mine") == tree(on_disk)
    assert {path.name for path in far.iterdir()} == {"mine", "ledgers"}

    again = run_stages(plan, run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert again.finished, "a finished run is found where it was published"
    run = das_spark.open_run(f"{address}/mine")
    assert run.verified
    assert run.estimates("County").arrow() == das_spark.open_run(on_disk).estimates("County").arrow()
    assert run.estimates("County").spark(workshop.spark).count() == run.estimates("County").arrow().num_rows
    assert main(["show", f"{address}/mine"]) == 0
    assert main(["show", f"{address}/mine", "--restricted"]) == 0
    assert "finished and verified" in capsys.readouterr().out
    assert das_spark.verify(f"{address}/mine/public", spark=workshop.spark).passed
    assert main(["show", f"{address}/mine", "--retention", "--remove"]) == 0
    kept = {path.name for path in place_of(f"{address}/mine/restricted").iterdir()}
    assert kept == {"journal", "ledger_entry.json", "instance.json", "removed.json", "run.json"}
    place = place_of(f"{address}/mine/public/estimates/level=State/part-00000.parquet")
    place.system.remove(str(place))
    assert not das_spark.verify(f"{address}/mine", spark=workshop.spark).passed
    assert json.loads(place_of(f"{address}/mine/public/verification.json").read_text())["passed"], "it stays as it is"


@pytest.mark.slow
def test_a_run_goes_on_stage_by_stage_where_nothing_is_shared_but_the_store(workshop, tools, address):
    """As tasks of a scheduler on machines without a common disk; without invariants a table has no rows."""
    plan = workshop.plan(f"output.root={address}", f"ledger.path={address}/charged", "invariants.units=false")
    for number, until in enumerate(("ingest", "measure County", "estimate County", None)):
        if number:
            require_begun(plan, "mine")
        else:
            with pytest.raises(PrivacyGuardError, match="there is no run mine to resume"):
                require_begun(plan, "mine")
        run_stages(plan, run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark, until=until)
        layout = RunLayout.of(plan.output, "mine")
        assert not layout.restricted.lock.exists()
        assert layout.published.path.exists() is (until is None), "times of the stages would be public"
    run_stages(workshop.plan("invariants.units=false"), run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    there = das_spark.open_run(f"{address}/mine").estimates("County").arrow()
    assert there == das_spark.open_run(workshop.layout("mine").folder).estimates("County").arrow()
    (ledger,) = place_of(f"{address}/charged").iterdir()
    lines = [json.loads(line) for line in read_lines(ledger).splitlines()]
    assert len({line["run_id"] for line in lines if "kind" not in line}) == 1, "charged once"


#: What must be acknowledged of a server: that of Google Cloud Storage does not say that it encrypts.
ACKNOWLEDGED = {"s3": "", "abfs": "", "gs": "not_encrypted_at_rest"}


@pytest.mark.slow
@pytest.mark.parametrize("store", servers.SERVERS)
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(workshop, tools, store, tmp_path):
    with servers.SERVERS[store](tmp_path) as server, servers.reached(server.environment, workshop.spark):
        goes_on_to_the_same_bytes(workshop, tools, server, tmp_path)


def goes_on_to_the_same_bytes(workshop, tools, server, tmp_path):
    """Kill a run in a store between the measurements and the estimates of a level, and run it again."""
    address, acknowledged = f"{server.url}/runs", ACKNOWLEDGED[server.scheme]
    command = ["run", str(workshop.run_file()), "--run-id", "mine", "--test-key", tools.TEST_KEY]
    command += ["--set", f"output.root={address}"]
    environment, here = {**os.environ, **server.environment}, tmp_path / "here"
    here.mkdir()
    if acknowledged:
        with pytest.raises(OutputError, match="the store does not say that it encrypts"):
            run_stages(workshop.plan(f"output.root={address}"), run_id="mine", test_key=tools.TEST_KEY)
        command += ["--set", f'privacy.acknowledge=["{acknowledged}"]']
    died = subprocess.run([sys.executable, "-c", KILLED, *command], env=environment, check=False, cwd=here)
    assert died.returncode == -signal.SIGKILL
    made = place_of(f"{address}/mine/restricted/unpublished")
    assert (made / "measurements" / "level=County" / "_SUCCESS").is_file()
    assert not (made / "estimates" / "level=County").exists()
    again = [sys.executable, "-c", MAIN, *command, "--resume"]
    subprocess.run(again, env=environment, check=True, cwd=here)
    assert list(here.iterdir()) == []
    run_stages(workshop.plan(), run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    far, near = fetched(f"{address}/mine", tmp_path / "far") / "public", workshop.layout("mine").folder / "public"
    notices = json.loads((far / "manifest.json").read_text())["notices"]
    assert any("NOT KNOWN TO BE ENCRYPTED AT REST" in notice for notice in notices) is bool(acknowledged)
    if not acknowledged:  # every public file says it
        assert tools.checksums(far) == tools.checksums(near)
    ours, theirs = das_spark.open_run(f"{address}/mine"), das_spark.open_run(near)
    assert all(ours.estimates(level).arrow() == theirs.estimates(level).arrow() for level in ours.geolevels)
    assert json.loads((far / "verification.json").read_text())["passed"]


@pytest.mark.slow
def test_the_public_side_alone_may_lie_there_and_appears_as_a_whole(workshop, tools, address, tmp_path, monkeypatch):
    plan, copied = workshop.plan(f"output.public={address}", f"output.work={tmp_path / 'work'}"), []
    kept = publication._copy

    def copy(source, target, *digest):
        if len(copied) == 7:
            raise OutputError("the store cannot be reached")
        copied.append(target.name)
        kept(source, target, *digest)

    monkeypatch.setattr(publication, "_copy", copy)
    with pytest.raises(OutputError, match="cannot be reached"):
        run_stages(plan, run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert copied[0] == "run.json", "whose the root is comes first"
    with pytest.raises(OutputError, match="there is no manifest"):
        das_spark.open_run(f"{address}/mine")
    monkeypatch.setattr(publication, "_copy", kept)
    stray = place_of(f"{address}/mine/tables/stray.csv")
    stray.system.write(str(stray), b"of an attempt that was cut short")
    run_stages(plan, run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    far = fetched(f"{address}/mine", tmp_path / "far")
    assert not (far / "tables" / "stray.csv").exists()
    assert (workshop.layout("mine").restricted.path / "manifest.json").is_file()
    assert not (tmp_path / "work" / "mine" / "public").exists()
    assert not (far / "restricted").exists()
    assert das_spark.verify(f"{address}/mine", spark=workshop.spark).passed

    assert main(["estimate", f"{address}/mine", "--run-id", "again", "--output", f"{address}-2"]) == 0
    again = fetched(f"{address}-2/again/public", tmp_path / "again")
    assert tools.checksums(again / "estimates") == tools.checksums(far / "estimates")


def test_an_address_that_cannot_be_reached_is_refused_before_anything_is_made(workshop, tools, address):
    plan = workshop.plan("output.root=s3://no-such-bucket/runs")
    with pytest.raises(OutputError, match=r"s3://no-such-bucket/runs: .*bucket does not exist"):
        run_stages(plan, run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert not workshop.ledger()
