"""What the README shows is so: versions, output of the quick start, the table of commands, links.

Its commands, and those of all other documents, are carried out by the tests in `documents/`.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer
from documents.pages import blocks, shown_files

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
COMMAND_PAGE = (ROOT / "das_spark" / "cli" / "README.md").read_text(encoding="utf-8")
QUICKSTART = ROOT / "conf" / "quickstart.toml"


def test_the_readme_shows_a_product_of_its_own_and_a_run_of_it():
    files = shown_files("README.md")
    assert set(files) == {"islands.toml", "islands_run.toml"}
    assert len(files["islands.toml"].splitlines()) < 40
    product = product_from(tomllib.loads(files["islands.toml"]))
    assert [level.name for level in product.geolevels] == ["Country", "Island"]
    used = [block.text for block in blocks("README.md") if all(name in block.text for name in files)]
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


def shown_output() -> str:
    """What the README says that the quick start prints."""
    found = re.search(r"^```\n(Spark .*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def shown_table(title: str) -> dict[str, str]:
    """The rows of a table of that output, without its head and the dots of what is left out."""
    _, rows = re.split(rf"^{title}\n.*\n", shown_output(), maxsplit=1, flags=re.MULTILINE)
    shown = [row for row in rows.split("\n\n")[0].splitlines() if row != "..."]
    return dict(re.split(" {2,}", row, maxsplit=1) for row in shown)


def test_the_quick_start_has_the_stages_that_the_readme_shows():
    shown = re.findall(r"^(.+?): (?:\d+ families, )?[\d.]+ s, \d+ jobs? of Spark$", shown_output(), flags=re.MULTILINE)
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
