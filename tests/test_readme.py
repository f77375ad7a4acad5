"""The README as a stranger uses it: every command of it is run, block by block, in a fresh copy of the checkout.

So are, outside the quick path, worked examples and studies, and with `--long` every run file of conf/README.md.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from das_spark import __version__, load_plan
from das_spark.cli.main import COMMANDS, app
from das_spark.cli.options import shown_paths
from das_spark.config import stages_of
from das_spark.pipeline.context import RestrictedFacts
from das_spark.pipeline.summary import summary_of
from das_spark.products import product_from
from das_spark.store import RunLayout

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
Block = tuple[str, str]


def blocks_of(text: str) -> list[Block]:
    """Kind and text of every block of commands."""
    return re.findall(r"^```(bash|python)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


BLOCKS = blocks_of(README)
#: Files that the README shows, and says the names of in their first lines: name -> text.
SHOWN_FILES = {
    name: text
    for text, name in re.findall(r"^```toml\n(# (\w+\.toml).*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
}
WORKED, RUN_FILES = (ROOT / "conf" / "README.md").read_text(encoding="utf-8").split("## Runs, one by one\n")
STUDIES = (ROOT / "das_spark" / "studies" / "README.md").read_text(encoding="utf-8")
COMMAND_PAGE = (ROOT / "das_spark" / "cli" / "README.md").read_text(encoding="utf-8")
CLONE = "git clone <this repository> das_spark && cd das_spark\n"
#: What is running this test: not run once more.
THIS = "tests/run\n"
VARIABLE = "DAS_SPARK_DATA"
#: Files that the reader is told to download: made here, in the layout of the published ones.
EXTRACT = "EXT1940USCB.dat.gz"
QUICKSTART = ROOT / "conf" / "quickstart.toml"


#: Of the README, what even the quick path runs: the quick start.
QUICK = CLONE


def name_of(block: Block) -> str:
    words = re.findall(r"das-spark \w+|[\w-]+\.(?:sh|toml)|das_spark\.\w+", block[1])
    return "+".join(dict.fromkeys(words))


def of_the_quick_path_or_slow(block: Block):
    return pytest.param(block, id=name_of(block), marks=[] if block[1].startswith(QUICK) else pytest.mark.slow)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the checkout that git would clone, with the environment of these tests."""
    folder = tmp_path_factory.mktemp("readme") / "das_spark"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(lambda each: (ROOT / each).is_file(), listed.stdout.splitlines()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    for name, text in SHOWN_FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


def execute(clone: Path, command: list[str], script: str = "") -> str:
    """Run a command in the clone, and give back what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    # Quick to start: a JVM that lives for a minute gains nothing from compiling twice.
    environment["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    done = subprocess.run(
        command,
        input=script,
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_the_readme_shows_the_test_command():
    assert ("bash", THIS) in BLOCKS
    assert sum(text.startswith(CLONE) for _, text in BLOCKS) == 1


def test_the_readme_shows_a_product_of_its_own_and_a_run_of_it():
    assert set(SHOWN_FILES) == {"islands.toml", "islands_run.toml"}
    assert len(SHOWN_FILES["islands.toml"].splitlines()) < 40
    product = product_from(tomllib.loads(SHOWN_FILES["islands.toml"]))
    assert [level.name for level in product.geolevels] == ["Country", "Island"]
    used = [text for kind, text in BLOCKS if kind == "bash" and all(name in text for name in SHOWN_FILES)]
    assert len(used) == 1
    assert all(command in used[0] for command in ("product check", "simulate --like", "spark-submit.sh"))


def test_what_is_cited_is_the_version_that_this_is():
    cited = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    assert cited["version"] == __version__
    assert f"version = {{{__version__}}}" in README
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
    assert cited["license"] == project["license"]
    assert cited["keywords"] == project["keywords"]


@pytest.mark.spark
@pytest.mark.whole_run
@pytest.mark.parametrize("block", [of_the_quick_path_or_slow(each) for each in BLOCKS if each[1] != THIS])
def test_every_command_of_the_readme_works(clone: Path, block: Block):
    works(clone, *block)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.whole_run
@pytest.mark.parametrize("block", blocks_of(WORKED) + blocks_of(STUDIES), ids=name_of)
def test_every_worked_example_works(clone: Path, block: Block):
    works(clone, *block)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.whole_run
@pytest.mark.parametrize("block", blocks_of(RUN_FILES), ids=name_of)
def test_every_command_on_the_run_files_works(clone: Path, block: Block):
    works(clone, *block)


def works(clone: Path, kind: str, text: str) -> None:
    """Carry out one block; every run in it must be verified."""
    if VARIABLE in text and VARIABLE not in os.environ:
        pytest.skip(f"{VARIABLE} is not set: it names the folder of public census data")
    if EXTRACT in text:
        share = [".venv/bin/das-spark", "simulate", "--like", "1940", "--share", "1/1000"]
        execute(clone, [*share, "--layout", "ipums", "--gzip", "--out", "extract"])
        (clone / "extract" / EXTRACT).rename(clone / EXTRACT)
    if kind == "python":
        printed = execute(clone, [".venv/bin/python", "-c", text + "\nprint(report.summary())"])
    else:
        printed = execute(clone, ["bash", "-euo", "pipefail"], text.removeprefix(CLONE))
    runs = len(re.findall(r"spark-submit\.sh|das_spark\.run\(", text))
    assert len(re.findall(r"\d+ checks passed", printed)) >= runs
    assert "failed" not in printed


def shown_output() -> str:
    """What the README says that the quick start prints."""
    found = re.search(r"^```\n(ingest: .*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def shown_table(title: str) -> dict[str, str]:
    """The rows of a table of that output, without its head and the dots of what is left out."""
    _, rows = re.split(rf"^{title}\n.*\n", shown_output(), maxsplit=1, flags=re.MULTILINE)
    shown = [row for row in rows.split("\n\n")[0].splitlines() if row != "..."]
    return dict(re.split(" {2,}", row, maxsplit=1) for row in shown)


def test_the_quick_start_has_the_stages_that_the_readme_shows():
    shown = re.findall(r"^(.+?): (?:\d+ families, )?[\d.]+ s$", shown_output(), flags=re.MULTILINE)
    assert shown == [stage.name for stage in stages_of(load_plan(QUICKSTART))]


def test_the_quick_start_ends_with_what_the_readme_shows():
    plan = load_plan(QUICKSTART)
    run_id = re.findall(r"^Run (\S+)$", shown_output(), flags=re.MULTILINE)[0]
    # What the end of a run is made of; its figures are those of no run.
    context: Any = SimpleNamespace(
        plan=plan,
        spine=plan.spine,
        layout=RunLayout.at(plan.output.root, run_id),
        is_insecure=False,
        restricted_facts=RestrictedFacts(),
        tables=SimpleNamespace(geounit_counts=lambda: dict.fromkeys(plan.spine.names, 1)),
    )
    manifest: Any = SimpleNamespace(rows={}, worst_residuals={"Block": {"gap": 0.0}}, sha256="0" * 64)
    summary = summary_of(context, manifest, "")
    figures = [name for name in shown_table(r"Run \S+") if not name.endswith("(restricted)")]
    assert figures == list(summary.figures)
    assert shown_table("Written") == dict(shown_paths(summary.paths))


def test_the_table_of_commands_is_whole():
    listed = set(re.findall(r"^\| `das-spark ([\w-]+)", COMMAND_PAGE, flags=re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    registered = project["entry-points"][COMMANDS]
    assert listed == {*typer.main.get_command(app).list_commands(None), *registered}  # type: ignore[attr-defined]


def test_links_of_the_pages_lead_somewhere():
    pages = [ROOT / "README.md", *(ROOT / "das_spark").rglob("README.md"), *(ROOT / "conf").glob("*.md")]
    pages += [
        *(ROOT / ".github").glob("*.md"),
        *(ROOT / "jobs").rglob("*.md"),
        *(ROOT / "docker").glob("*.md"),
        ROOT / "tests" / "README.md",
    ]
    assert [f"{page.relative_to(ROOT)}: {link}" for page in pages for link in dead_links(page)] == []


def dead_links(page: Path) -> list[str]:
    """Links of a page to files that are not there, or to headings that they do not have."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = [(link, place) for link, place in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text) if link or place]
    targets = [((page.parent / link) if link else page, link, place) for link, place in links]
    lost = [link for target, link, _ in targets if not target.exists()]
    return lost + [
        f"{link}#{place}" for to, link, place in targets if place and to.exists() and place not in places_of(to)
    ]


def test_a_dead_link_is_found(tmp_path):
    (tmp_path / "page.md").write_text("# One thing\n[a](page.md#one-thing) [b](page.md#two) [c](gone.md) [d](#three)\n")
    assert dead_links(tmp_path / "page.md") == ["gone.md", "page.md#two", "#three"]


def places_of(page: Path) -> set[str]:
    """The headings of a page, as links call them."""
    headings = re.findall("^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
