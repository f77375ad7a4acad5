"""The page on clusters as an operator follows it: every command of it is carried out, or says here why it is not."""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import servers
from documents.pages import Block, commands_in_prose, plain_blocks
from documents.shared_session import Checkout
from standalone import MARK, SMALL, kill_marked, marked_processes

PAGE: Final = "jobs/README.md"
#: The run file of the walk: the smallest census, with the places that the page shows.
RUN_FILE: Final = "conf/in_places_of_their_own.toml"
PREPARE, SUBMIT, ALONE = "install -m 600", "DAS_SPARK_ENV=$HOME", "source .venv/bin/activate\nspark-submit"
DAEMONS, PACK = "source .venv/bin/activate  ", ".venv/bin/python jobs/pack_environment.py"
STAGES, VERIFY = "das-spark plan stages CONF", "das-spark verify RUN"
RESOURCES = "das-spark plan resources conf/pl94_2020_nation_simulated.toml"
#: How the blocks and commands begin that are carried out.
CARRIED_OUT: Final = ("[output]", "[ledger]", PREPARE, SUBMIT, ALONE, DAEMONS, PACK, STAGES, VERIFY, RESOURCES)
#: How the lines begin that are not -> why.
LEFT_OUT: Final = {
    "./spark-submit.sh conf/quickstart.toml": "the quick start of README.md, which a test of that page carries out",
    "python3.11 -m venv build/environment": "fetches all packages once more; the line on .venv packs the same",
    "build/environment/bin/": "the same",
}
#: Sections of which nothing is carried out -> why.
NOT_HERE: Final = {
    "YARN (not tried)": "there is no Hadoop cluster",
    "Amazon EMR, Google Dataproc, Databricks and the like (not tried)": "there are no such services",
    "Kubernetes (not tried)": "there is no such cluster",
}
#: What the page says, and what is said here.
SUBSTITUTES: Final = (
    ("$(hostname)", "127.0.0.1"),
    ("spark://host:", "spark://127.0.0.1:"),
    (":7077", ":{port}"),
    ("conf/e2e_1940.toml", RUN_FILE),
    (" --set input.path=/data/EXT1940USCB.dat.gz", ""),  # that census is an extract of IPUMS
    ("CONF", "conf/quickstart.toml"),
    ("--run-id ID", "--run-id scheduled"),
    ("verify RUN", 'verify "$DAS_RESTRICTED/$RUN"'),
)


def pieces() -> list[Block]:
    """Blocks and commands of the page, without the lines that are not carried out."""
    shown = [*plain_blocks(PAGE), *commands_in_prose(PAGE)]
    kept = [
        replace(
            block, text="".join(line for line in block.text.splitlines(True) if not line.startswith(tuple(LEFT_OUT)))
        )
        for block in shown
        if block.section not in NOT_HERE
    ]
    return [block for block in kept if block.text]


class Manual:
    """Carries out pieces of the page in a checkout, and knows which ones it has not."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.left = folder, pieces()
        self.checkout = Checkout(folder / "das_spark")
        (folder / "home").mkdir()
        self.port = servers.free_port()
        #: Of a small machine with nobody else's ports: sizes, addresses and folders alone.
        self.environment: Mapping[str, str] = {
            MARK: str(folder),
            "HOME": str(folder / "home"),
            "PYTHONPATH": str(self.checkout.folder),
            "JDK_JAVA_OPTIONS": "-XX:+UseSerialGC",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_PORT": str(self.port),
            "SPARK_MASTER_WEBUI_PORT": str(servers.free_port()),
            "SPARK_WORKER_WEBUI_PORT": str(servers.free_port()),
            "SPARK_WORKER_CORES": "1",
            "SPARK_WORKER_MEMORY": "1200m",
            "DAS_PUBLIC": str(folder / "public"),
            "DAS_RESTRICTED": str(folder / "restricted"),
            "DAS_LEDGERS": str(folder / "ledgers"),
        }

    def take(self, beginning: str) -> str:
        """Return a piece of the page as it is said here."""
        (block,) = (block for block in self.left if block.text.startswith(beginning))
        self.left.remove(block)
        text = block.text
        for said, here in SUBSTITUTES:
            text = text.replace(said, here.format(port=self.port))
        return text

    def run(self, script: str, before: str = "") -> str:
        """Carry out commands; they must succeed. Return what they print."""
        exports = "".join(f"export {name}='{value}'\n" for name, value in self.environment.items())
        return self.checkout.run(f"{exports}{before}\n{script}")

    def unpacked(self) -> list[Path]:
        """Archives that executors have unpacked; they are removed, for each has 920 MB."""
        archives = [path for path in self.checkout.folder.glob("work/app-*/*/environment") if path.is_dir()]
        for path in archives:
            assert (path / "bin" / "python").is_symlink()
            shutil.rmtree(path.resolve())
        return archives


@pytest.fixture
def manual(tmp_path: Path) -> Iterator[Manual]:
    walk = Manual(tmp_path)
    try:
        yield walk
    finally:
        kill_marked(tmp_path)
        walk.unpacked()
        (walk.checkout.folder / "environment.tar.gz").unlink(missing_ok=True)


def test_every_command_of_the_page_is_carried_out_or_left_out_with_a_reason():
    begun = [[beginning for beginning in CARRIED_OUT if block.text.startswith(beginning)] for block in pieces()]
    assert sorted(begun) == sorted([beginning] for beginning in CARRIED_OUT), begun


def test_nothing_is_left_out_or_substituted_that_the_page_does_not_have():
    shown = [*plain_blocks(PAGE), *commands_in_prose(PAGE)]
    lines = [line for block in shown if block.section not in NOT_HERE for line in block.text.splitlines()]
    assert [beginning for beginning in LEFT_OUT if not any(line.startswith(beginning) for line in lines)] == []
    assert set(NOT_HERE) <= {block.section for block in shown}
    text = "\n".join(block.text for block in pieces())
    assert [said for said, _ in SUBSTITUTES if said not in text] == []


@pytest.mark.spark
@pytest.mark.whole_run
@pytest.mark.verified
@pytest.mark.long
def test_the_page_is_followed_line_by_line(manual):
    folder, home = manual.checkout.folder, manual.folder / "home"
    # What is the same everywhere. The folder of a ledger is made by nobody else.
    (manual.folder / "ledgers").mkdir()
    quickstart = (folder / "conf" / "quickstart.toml").read_text(encoding="utf-8")
    (folder / RUN_FILE).write_text(quickstart.replace("[output]\n", manual.take("[output]")) + manual.take("[ledger]"))
    (number,) = re.findall(r"\d+ packages(?=;)", (folder / PAGE).read_text(encoding="utf-8"))
    assert number in manual.run(manual.take(PACK))
    manual.run(manual.take(PREPARE))
    copy = home / "das_spark_cluster.conf"
    # Master and worker. Executors have no das_spark but that of the archive.
    manual.run(manual.take(DAEMONS), before="unset PYTHONPATH; exec >>daemons.log 2>&1")
    daemons = folder / "spark-daemons.conf"
    assert {stat.S_IMODE(path.stat().st_mode) for path in (copy, daemons)} == {0o600}
    (secret,) = re.findall(r"^spark\.authenticate\.secret .*\n", daemons.read_text(), re.MULTILINE)
    with copy.open("a", encoding="utf-8") as file:
        file.write(secret + "".join(f"{name} {value}\n" for name, value in SMALL.items()))
    # The workers are asked, then runs submitted, by the script and without it.
    alone = manual.take(ALONE)
    asked = manual.run(alone.replace(f"run {RUN_FILE}", f"doctor --cluster --conf {RUN_FILE}"))
    assert f"1 on spark://127.0.0.1:{manual.port}" in " ".join(asked.split())
    assert len(manual.unpacked()) == 1
    for submission in (manual.take(SUBMIT), alone):
        printed = manual.run(submission)
        assert f"on spark://127.0.0.1:{manual.port}" in printed
        assert "checks passed" in printed
        assert len(manual.unpacked()) == 1
    assert len(list((manual.folder / "public").glob("*/manifest.json"))) == 2
    lines = marked_processes(manual.folder).values()
    assert sum("org.apache.spark.deploy." in line for line in lines) == 2, "both run until they are killed"
    assert not [line for line in lines if secret.split()[1] in line]
    kill_marked(manual.folder)
    # Other schedulers.
    programs = "source .venv/bin/activate"
    minutes = re.findall(r"(\d+) minutes on 2", (folder / PAGE).read_text(encoding="utf-8"))
    assert f"{minutes[0]} min" in manual.run(manual.take(RESOURCES), programs)
    names, until = manual.take(STAGES).splitlines()
    stages = manual.run(names, programs).splitlines()
    assert {"ingest", "measure County", "verify"} <= set(stages)
    manual.run(f"! {until}", programs)  # it does not exist yet
    manual.run(until.replace("measure County", stages[0]).replace(" --resume", ""), programs)
    manual.run(until, programs)
    measured = {path.parent.name for path in (folder / "runs" / "scheduled" / "public").glob("measurements/*/_SUCCESS")}
    assert "level=County" in measured
    assert measured < {f"level={stage.split()[1]}" for stage in stages if stage.startswith("measure ")}
    name = min(path.name for path in (manual.folder / "restricted").iterdir())
    assert "Verification of" in manual.run(manual.take(VERIFY), f"{programs}; RUN={name}")
    assert manual.left == []
