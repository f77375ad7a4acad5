"""Make the documentation site: the pages of the repository, tutorials carried out, and references made from the code.

    python jobs/docs/make_site.py [--out FOLDER] [--without-tutorials]

Pages keep the places that they have in the repository, so that a link which works there works in the site. Linked files
that are no pages become pages that show them. Whatever leads nowhere fails the build.
"""

from __future__ import annotations

import argparse
import logging
import os
import posixpath
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mkdocs.commands.build import build
from mkdocs.config import load_config

sys.path.insert(0, str(Path(__file__).parent))

import references
import tutorials

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
CONFIGURATION: Final = HERE / "mkdocs.yml"

#: Contents of the site: title -> a page of the repository, a generated page, or such titles again.
CONTENTS: Final[Mapping[str, object]] = {
    "das_spark": "README.md",
    "Tutorials": {title: f"jobs/docs/tutorials/{name}.md" for name, title in tutorials.TITLES.items()},
    "Guides": {
        "Run files and worked examples": "conf/README.md",
        "A census of one's own": "das_spark/products/README.md",
        "Synthetic populations": "das_spark/simulation/README.md",
        "Clusters": "jobs/README.md",
        "Airflow": "jobs/airflow/README.md",
        "Containers": "docker/README.md",
        "What a run leaves": "das_spark/store/README.md",
        "Published studies": "das_spark/studies/README.md",
    },
    "Privacy": {
        "What is claimed": "das_spark/privacy/README.md",
        "Sensitivity, with proofs": "das_spark/privacy/SENSITIVITY.md",
    },
    "Reference": {
        "Keys of a run file": "conf/reference.toml",
        "Commands": "reference/commands.md",
        "The command line in short": "das_spark/cli/README.md",
        "Errors": "reference/errors.md",
        "Python": {title: f"reference/python/{name}.md" for name, title in references.MODULES.items()},
    },
    "Inside": {
        "Architecture": "das_spark/README.md",
        "Attacks": "das_spark/attack/README.md",
        "Estimation": "das_spark/estimation/README.md",
        "Evaluation": "das_spark/evaluation/README.md",
        "Geography": "das_spark/geography/README.md",
        "File formats": "das_spark/io/README.md",
        "Pipeline": "das_spark/pipeline/README.md",
        "Features": "das_spark/features/README.md",
        "Verification": "das_spark/verification/README.md",
        "Benchmarks": "tests/benchmarks/README.md",
        "Tests": "tests/README.md",
        "Tests on a cluster": "tests/cluster/README.md",
        "Tests of what is handed out": "tests/install/README.md",
        "This site": "jobs/docs/README.md",
    },
    "Project": {
        "Changes": "CHANGELOG.md",
        "Contributing": ".github/CONTRIBUTING.md",
        "Licence": "LICENSE",
        "Licences of what it needs": "reference/licences.md",
    },
}
_FENCE: Final = re.compile(r"^(```+).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`[^`\n]+`")
_LINK: Final = re.compile(r"(?<=\]\()(?P<place>[^)#\s]*)(?P<anchor>#[^)\s]*)?(?=\))")
_ASSETS: Final = ("site.css", "iframe-worker.js")
_IMAGES: Final = frozenset({".svg", ".png"})
_LANGUAGES: Final = {".py": "python", ".sh": "bash", ".conf": "properties", ".yml": "yaml"}


def pages_of(contents: Mapping[str, object]) -> Iterator[str]:
    """The pages of the contents, in their order."""
    for page in contents.values():
        if isinstance(page, Mapping):
            yield from pages_of(page)
        else:
            yield str(page)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change a page of Markdown where it is neither a block of code nor code in a line."""
    made, last = [], 0
    code = sorted([*_FENCE.finditer(text), *_INLINE.finditer(text)], key=lambda each: (each.start(), -each.end()))
    for each in code:
        if each.start() < last:  # inside of a block
            continue
        made += [change(text[last : each.start()]), each.group()]
        last = each.end()
    return "".join([*made, change(text[last:])])


@dataclass
class Pages:
    """The pages of the site as they are gathered, from the repository or made."""

    folder: Path  # where they are written
    written: set[str] = field(default_factory=set)  # places in the site
    wanted: list[str] = field(default_factory=list)  # linked places of the repository that are not written yet

    def place_of(self, page: str) -> str:
        """Where in the site a place of the repository is."""
        place = page.removeprefix("jobs/docs/") if page.startswith("jobs/docs/tutorials/") else page
        place = re.sub(r"(?<![^/])\.(?=\w)", "", place)  # hidden files and folders are no part of a site
        if place.endswith(".md") or Path(place).suffix in _IMAGES:
            return place
        return f"{place}/README.md" if (ROOT / page).is_dir() else f"{place}.md"

    def write(self, place: str, text: str) -> None:
        """Write a page."""
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.written.add(place)

    def linked(self, page: str, text: str) -> str:
        """A page of the repository with its links as they are in the site."""
        here, own = posixpath.dirname(page), posixpath.dirname(self.place_of(page))

        def in_site(found: re.Match[str]) -> str:
            place, anchor = found["place"], found["anchor"] or ""
            target = posixpath.normpath(posixpath.join(here, place)) if place else page
            if not place or re.match(r"\w+:", place) or not (ROOT / target).exists():
                return found.group()  # of another host; or one that leads nowhere, and that the build reports
            self.wanted.append(target)
            return posixpath.relpath(self.place_of(target), own or ".") + anchor

        return outside_code(text, lambda part: _LINK.sub(in_site, part))

    def add(self, page: str) -> None:
        """Write a page of the repository, or the page that shows one of its files."""
        place, path = self.place_of(page), ROOT / page
        if place in self.written:
            return
        if path.suffix in _IMAGES:
            (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.folder / place)
            self.written.add(place)
        elif path.is_dir():
            names = sorted(each.name for each in path.iterdir() if each.is_file())
            listed = "\n".join(f"- [{name}]({posixpath.basename(page)}/{name})" for name in names)
            self.write(place, self.linked(page, f"# {page}/\n\n{listed}\n"))
        elif path.suffix == ".md":
            self.write(place, self.linked(page, path.read_text(encoding="utf-8")))
        else:
            language = _LANGUAGES.get(path.suffix, path.suffix.removeprefix("."))
            self.write(place, f"# {page}\n\n````{language}\n{path.read_text(encoding='utf-8')}````\n")

    def add_linked(self) -> None:
        """Write whatever pages link to and is not there yet."""
        while self.wanted:
            self.add(self.wanted.pop())


def contents_in_site(contents: Mapping[str, object], pages: Pages) -> list[dict[str, object]]:
    """The contents as MkDocs takes them."""
    return [
        {title: contents_in_site(page, pages) if isinstance(page, Mapping) else pages.place_of(str(page))}
        for title, page in contents.items()
    ]


def make_site(out: Path, *, with_tutorials: bool = True) -> None:
    """Make the site anew.

    Args:
        out: Its folder, which is emptied.
        with_tutorials: Whether tutorials are carried out, which takes most of the time; else they have no results.
    """
    with tempfile.TemporaryDirectory(prefix="das_spark-docs-") as scratch:
        pages = Pages(Path(scratch, "pages"))
        generated = references.pages()
        for page in pages_of(CONTENTS):
            if page in generated:
                pages.write(page, generated[page])
            elif not page.startswith("jobs/docs/tutorials/"):
                pages.add(page)
        for name, made in tutorials.pages(Path(scratch), carried_out=with_tutorials).items():
            place = f"jobs/docs/tutorials/{name}.md"
            pages.write(pages.place_of(place), pages.linked(place, made.text))
            for file, content in made.files.items():
                (pages.folder / "tutorials" / file).write_bytes(content)
        named = {pages.place_of(page) for page in pages_of(CONTENTS)}
        pages.add_linked()
        for name in _ASSETS:
            shutil.copyfile(HERE / name, pages.folder / name)
        # MkDocs announces a successor of itself in many lines at every start.
        os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")
        with CONFIGURATION.open("rb") as file:
            config = load_config(
                file,
                docs_dir=str(pages.folder),
                site_dir=str(out.resolve()),
                nav=contents_in_site(CONTENTS, pages),
                # Files that pages link to are reached from there.
                not_in_nav="\n".join(f"/{place}" for place in sorted(pages.written - named)),
            )
        config.plugins.on_startup(command="build", dirty=False)
        build(config)


def main() -> None:
    """Make the site, and say where it is."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=ROOT / "build" / "docs")
    options.add_argument("--without-tutorials", action="store_true", help="leave their results out: for a quick look")
    given = options.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    make_site(given.out, with_tutorials=not given.without_tutorials)
    print(f"the site is {given.out / 'index.html'}")  # noqa: T201


if __name__ == "__main__":
    main()
