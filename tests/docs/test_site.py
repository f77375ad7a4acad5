"""The documentation site: built as `jobs/docs/build` builds it, tutorials carried out, and its pages read once more."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer

sys.path.insert(0, str(Path(__file__).parents[2] / "jobs" / "docs"))
sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline"))

from browser import opened
from documents.pages import documents

import das_spark
from das_spark.cli.main import app
from das_spark.features import intervals

ROOT = Path(__file__).parents[2]
make_site = pytest.importorskip("make_site", reason="the extra docs is not installed")
references, tutorials = make_site.references, make_site.tutorials

#: Attributes that make a browser load something by itself.
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
#: Kinds of links of a page's head that load nothing.
NOT_LOADED = {"next", "prev", "canonical"}


class Page(HTMLParser):
    """What a built page links to, what it loads, and where it can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for name, value in given.items():
            if (tag, name) in LOADED and given.get("rel") not in NOT_LOADED:
                self.loaded.append(value)


def dead_links(pages: Mapping[Path, Page]) -> list[str]:
    """Links of built pages to files that are not there, or to places that these have not."""
    dead = []
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lost = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places
            if not target.is_file() or lost:
                dead.append(f"{path.name}: {link}")
    return dead


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([ROOT / "jobs" / "docs" / "build", "--out", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def pages(built) -> dict[Path, Page]:
    # The page that a server shows for what is not there has addresses as a server sees them.
    paths = (path for path in sorted(built.rglob("*.html")) if path.name != "404.html")
    return {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in paths}


def html_of(built: Path, place: str) -> Path:
    """The built page of a place in the site."""
    folder, name = Path(place).parent, Path(place).name
    return built / folder / ("index.html" if name == "README.md" else f"{name.removesuffix('.md')}.html")


def text_of(built: Path, place: str) -> str:
    """The words of a page, without its tags."""
    return re.sub(r"<[^>]+>", "", html_of(built, place).read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.whole_run
def test_every_page_of_the_repository_and_of_the_contents_is_there(built, tmp_path):
    places = make_site.Pages(tmp_path)
    listed = [page for page in documents() if page.endswith(".md")]
    assert "README.md" in listed
    wanted = {*listed, *make_site.pages_of(make_site.CONTENTS)}
    assert [page for page in wanted if not html_of(built, places.place_of(page)).is_file()] == []


@pytest.mark.slow
@pytest.mark.whole_run
def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(built, pages):
    assert len(pages) > 40
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert dead_links(pages) == []
    loaded = {link for page in pages.values() for link in page.loaded}
    assert any(link.endswith(".css") for link in loaded)
    assert {link for link in loaded if urlsplit(link).netloc} == set()
    styles = [path.read_text(encoding="utf-8") for path in built.rglob("*.css")]
    assert [found for text in styles for found in re.findall(r"url\(['\"]?(?:https?:)?//[^)]*\)|@import", text)] == []


def test_a_dead_link_of_a_built_page_is_found(tmp_path):
    texts = {"a.html": '<a href="b.html#here">x</a><a href="#top">', "b.html": '<h1 id="there"><img src="gone.png">'}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found = dead_links({tmp_path / name: Page(text) for name, text in texts.items()})
    assert found == ["a.html: b.html#here", "a.html: #top", "b.html: gone.png"]


@pytest.mark.parametrize("link", ["gone.md", "other.md#nowhere", "#nowhere", "folder/gone.toml"])
def test_a_dead_link_in_the_repository_fails_the_build(tmp_path, monkeypatch, link):
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "README.md").write_text(f"# Page\n\n[other](other.md#some-thing) [a file](run.toml) [it]({link})\n")
    (repository / "other.md").write_text("# Other\n\n## Some thing\n")
    (repository / "run.toml").write_text("a = 1\n")
    monkeypatch.setattr(make_site, "ROOT", repository)
    monkeypatch.setattr(make_site, "CONTENTS", {"Page": "README.md", "Other": "other.md"})
    monkeypatch.setattr(references, "pages", dict)
    monkeypatch.setattr(tutorials, "TITLES", {})
    from mkdocs.exceptions import Abort

    with pytest.raises(Abort):
        make_site.make_site(tmp_path / "site")
    (repository / "README.md").write_text("# Page\n\n[other](other.md#some-thing) [a file](run.toml)\n")
    make_site.make_site(tmp_path / "site")
    assert "a = 1" in text_of(tmp_path / "site", "run.toml.md").replace("\n", "")


def test_links_in_code_stay_as_they_are():
    text = "[a](b.md) `[a](b.md)`\n\n```\n[a](b.md)\n```\n\n````text\n```\n[a](b.md)\n```\n````\n[a](b.md)\n"
    assert make_site.outside_code(text, lambda part: part.replace("b.md", "c")).count("(c)") == 2


@pytest.mark.slow
@pytest.mark.whole_run
def test_the_reference_names_every_command_every_error_and_the_whole_interface(built):
    commands = text_of(built, "reference/commands.md")
    assert [
        command for command in named_commands(typer.main.get_command(app), "das-spark") if command not in commands
    ] == []
    assert "&amp;lt;" not in commands  # words such as <path>, in code
    errors = text_of(built, "reference/errors.md")
    every = [vars(das_spark.errors)[name] for name in vars(das_spark.errors) if name.endswith("Error")]
    assert len(every) > 10
    assert [kind for kind in every if kind.code not in errors or kind.__name__ not in errors] == []
    # One that is raised in the package, with its hint.
    assert "das-spark evaluate RUN makes a report of accuracy" in errors
    places = Page(html_of(built, "reference/python/das_spark.md").read_text(encoding="utf-8")).places
    assert {f"das_spark.{name}" for name in das_spark.__all__} <= places
    opened_run = Page(html_of(built, "reference/python/results.md").read_text(encoding="utf-8")).places
    methods = ("estimates", "measurements", "table", "beside", "accuracy", "microdata")
    assert {f"das_spark.results.OpenedRun.{method}" for method in methods} <= opened_run
    of_intervals = Page(html_of(built, "reference/python/features.intervals.md").read_text(encoding="utf-8")).places
    assert {f"das_spark.features.intervals.{name}" for name in intervals.__all__} <= of_intervals


def named_commands(command, name: str) -> Iterator[str]:
    yield name
    for each, below in getattr(command, "commands", {}).items():
        yield from named_commands(below, f"{name} {each}")


@pytest.mark.slow
@pytest.mark.whole_run
@pytest.mark.parametrize(
    ("name", "figures"), [(name, 2 - (number != 1)) for number, name in enumerate(tutorials.TITLES)]
)
def test_a_tutorial_was_carried_out_and_shows_its_results(built, pages, name, figures):
    notebook = json.loads((built / "tutorials" / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 8
    assert [cell for cell in cells if not cell["execution_count"]] == []
    results = [output for cell in cells for output in cell["outputs"]]
    assert [result for result in results if result["output_type"] == "error"] == []
    assert sum("image/png" in result.get("data", {}) for result in results) == figures
    page = html_of(built, f"tutorials/{name}.md")
    shown = pages[page.resolve()].loaded
    assert sum(link.startswith(f"{name}-") for link in shown) == figures
    # No colours for terminals, and no folder of this machine.
    text = page.read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert "das_spark-docs-" not in text


@pytest.mark.slow
@pytest.mark.whole_run
def test_a_cell_that_fails_fails_the_tutorial(tmp_path, monkeypatch):
    (tmp_path / "bad.md").write_text("# Bad\n\n```bash\nfalse\ntrue\n```\n\n```python\n1\n```\n\n```python\n2\n```\n")
    monkeypatch.setattr(tutorials, "FOLDER", tmp_path)
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError):
        tutorials.page_of("bad", tmp_path)


@pytest.mark.slow
@pytest.mark.whole_run
def test_a_browser_opens_the_site_from_a_disk_and_searches_in_it(built, tmp_path):
    search = "const field = document.querySelector('[data-md-component=search-query]'); field.focus();"
    search += "field.value = 'intervals'; field.dispatchEvent(new Event('input', {bubbles: true}));"
    search += "field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));"
    with opened(tmp_path) as browser:
        for width in (1400, 400):
            browser.open(built / "tutorials" / "protect_a_census.html", width)
            assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
        assert browser.run("return [...document.images].every((image) => image.complete && image.naturalWidth > 0)")
        assert {urlsplit(address).scheme for address in browser.requested()} <= {"file", "data", "blob"}
        browser.run(search)
        found: list[str] = []
        end = time.monotonic() + 60
        while not found and time.monotonic() < end:
            time.sleep(0.2)
            found = browser.run("return [...document.querySelectorAll('.md-search-result__item a')].map((a) => a.href)")
        assert any("interval" in address for address in found)
