"""Two roles at a store: one reads the input and draws; the other estimates, and may read nothing that is confidential.

The policies are those of `jobs/roles`. Who may ask what is decided by a proxy before the server of S3.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import servers
from faulty_proxy import Faults, faulty_proxy
from roles import Asked, Roles

from das_spark.cli.main import main
from das_spark.pipeline import run_stages
from das_spark.places import place_of
from das_spark.store import read_lines

POLICIES = Path(__file__).parents[2] / "jobs" / "roles"
BUCKETS = ("input", "restricted", "work", "public")
#: The other stages estimate, or write what is made of estimates.
OF_MEASURING = ("spine", "ingest", "published", "measure", "verify", "evaluate")
PLACES = {
    "input.path": "s3://census-input/census",
    "output.public": "s3://census-public/runs",
    "output.restricted": "s3://census-restricted/runs",
    "output.work": "s3://census-work/runs",
    "ledger.path": "s3://census-restricted/ledgers",
}


@dataclass
class Played:
    """Carries out commands, each under a role."""

    roles: Roles
    command: Callable[[str, list[str]], int]


@pytest.fixture
def played(workshop, tmp_path):
    with ExitStack() as opened:
        server = opened.enter_context(servers.s3_server(tmp_path / "s3"))
        workshop.run_file()
        with servers.reached(server.environment):
            for bucket in BUCKETS:
                servers.make_bucket_of_s3(server, f"census-{bucket}")
            for file in workshop.census.iterdir():
                place = place_of(f"{PLACES['input.path']}/{file.name}")
                place.system.write(str(place), file.read_bytes())
        roles = Roles.read({name: POLICIES / f"{name}.json" for name in ("measuring", "estimating")})
        port = opened.enter_context(faulty_proxy(server.port, Faults(1, {}), roles))
        environment = servers.s3_environment(f"http://127.0.0.1:{port}")
        settings = [word for key, value in PLACES.items() for word in ("--set", f"{key}={value}")]

        def command(role: str, arguments: list[str]) -> int:
            with servers.reached({**environment, "AWS_ACCESS_KEY_ID": role}, workshop.spark):
                return main([arguments[0], str(workshop.run_file()), *arguments[1:], *settings])

        yield Played(roles, command), server


@pytest.mark.spark
@pytest.mark.whole_run
@pytest.mark.verified
@pytest.mark.slow
def test_each_stage_needs_no_more_than_its_role_has(played, workshop, tools, tmp_path, capsys):
    (played, server), known = played, ["--run-id", "mine", "--test-key", tools.TEST_KEY]
    assert played.command("measuring", ["plan", "stages"]) == 0
    stages = capsys.readouterr().out.split("\n")[:-1]
    assert stages[1:3] == ["measure State", "estimate State"]

    for number, stage in enumerate(stages):
        resume = ["--resume"] if number else []
        if stage == "measure County":  # the negative control: estimating may not draw
            assert played.command("estimating", ["run", *known, "--until", stage, "--resume"]) == 1
            said = capsys.readouterr().err
            assert "may this user read and write there?" in said, "the places are tried by whoever measures"
            assert "Traceback" not in said
            with servers.reached(server.environment):
                assert journal() == {"State.1.json", "State.1-2.json", "State.1-3.json"}
            refused = {asked for (role, asked), given in played.roles.asked.items() if not given}
            assert refused
            assert all("/.tried-" in asked.resource for asked in refused), refused
            played.roles.asked.clear()
        role = "measuring" if stage.startswith(OF_MEASURING) else "estimating"
        assert played.command(role, ["run", *known, "--until", stage, *resume]) == 0, (stage, capsys.readouterr().err)
        refused = [each for each, given in played.roles.asked.items() if not given]
        assert refused == [], "neither is anything asked for in vain"

    with servers.reached(server.environment):
        far = servers.fetched(place_of(f"{PLACES['output.public']}/mine"), tmp_path / "far")
        (ledger,) = place_of(PLACES["ledger.path"]).iterdir()
        lines = [json.loads(line) for line in read_lines(ledger).splitlines()]
    assert len({line["run_id"] for line in lines if "kind" not in line}) == 1
    assert json.loads((far / "verification.json").read_text())["passed"]
    run_stages(workshop.plan(), run_id="mine", test_key=tools.TEST_KEY, spark=workshop.spark)
    assert tools.checksums(far) == tools.checksums(workshop.layout("mine").folder / "public")


def journal() -> set[str]:
    """Names of the files of the journal."""
    return {path.name for path in place_of(f"{PLACES['output.restricted']}/mine/journal").iterdir()}


@pytest.mark.parametrize(
    "confidential",
    [
        "census-input/census/persons.parquet",
        "census-restricted/runs/mine/leaves/part-00000.parquet",
        "census-restricted/runs/mine/histograms/level=State/part-00000.parquet",
        "census-restricted/runs/mine/staging/measurements/level=State.attempt=1/part-00000.parquet",
        "census-restricted/runs/mine/.staging/0123456789abcdef/leaves/part-00000.parquet",
        "census-restricted/runs/mine/input_problems.jsonl/00000001",
        "census-restricted/runs/mine/accuracy.json",
    ],
)
def test_the_estimating_role_may_neither_read_nor_write_what_is_confidential(confidential):
    policies = {role: json.loads((POLICIES / f"{role}.json").read_text()) for role in ("measuring", "estimating")}
    roles = Roles(policies)
    for action in ("GetObject", "PutObject", "DeleteObject"):
        assert roles.refuse("estimating", [Asked(f"s3:{action}", confidential)])
    assert not roles.refuse("measuring", [Asked("s3:GetObject", confidential)])
    for action in ("PutObject", "DeleteObject"):
        assert roles.refuse("estimating", [Asked(f"s3:{action}", "census-restricted/ledgers/x/00000001")])
        assert roles.refuse("measuring", [Asked("s3:PutObject", "census-input/census/persons.parquet")])
    assert roles.refuse("measuring", [Asked("s3:DeleteObject", "census-restricted/ledgers/x/00000001")])
