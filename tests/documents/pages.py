"""The commands that the project's documents show: blocks of its pages, and comments of its run files."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from tracked import ROOT, tracked

_BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_SHOWN_FILE = re.compile(r"^```toml\n(# (\w+\.toml):.*?)^```$", flags=re.MULTILINE | re.DOTALL)
#: A command in a comment of a run file, with the lines that go on with it.
_COMMENT = re.compile(r"^#   ((?:\./|\.venv/bin/)(?:.*\\\n#  +)*.*)$", flags=re.MULTILINE)
#: A block of another kind, or lines that are set in.
_PLAIN = re.compile(r"^```\w*\n(.*?)^```$|((?:^ {4}[^\n]*\n)+)", flags=re.MULTILINE | re.DOTALL)
#: What begins with a program, perhaps behind variables; prose begins otherwise.
_OF_OURS = r"(?:\./|\.venv/bin/|build/|tests/|jobs/)\S+|das-spark"
_PROGRAM = re.compile(rf" *(?:[A-Z_]+=\S+ )*(?:{_OF_OURS}|spark-\w+|python[\d.]*|airflow|docker|kubectl)(?: +[^ ].*)?$")
#: A command in the midst of prose.
_IN_PROSE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
#: What the comment says of a command behind it.
_REMARK = re.compile(r" {3,}\(.*\)$", flags=re.MULTILINE)
#: Pages of runs that tests read; nobody follows them.
_FROZEN = "/frozen/"


@dataclass(frozen=True)
class Block:
    """Commands of a document."""

    page: str  # path in the checkout
    section: str  # the nearest heading above them of level 2
    language: str  # bash or python
    text: str

    @property
    def name(self) -> str:
        """Return what it runs, for people who read the names of tests."""
        words = re.findall(r"das-spark \w+|[\w-]+\.(?:sh|toml|py)|das_spark\.\w+", self.text)
        return "+".join(dict.fromkeys(words)) or self.text.split("\n", 1)[0]


@cache
def documents() -> tuple[str, ...]:
    """Return all pages and run files of the checkout that people read."""
    return tuple(page for page in tracked("*.md", "conf/*.toml") if _FROZEN not in page)


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page in their order; of a run file one with all commands of its comments."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.endswith(".toml"):
        commands = [_REMARK.sub("", re.sub(r"\\\n#  +", "", command)) for command in _COMMENT.findall(text)]
        return tuple(
            Block(page, "", "bash", text) for text in ["".join(f"{command}\n" for command in commands)] if text
        )
    return tuple(
        Block(page, section, language, block)
        for section, part in _sections(page)
        for language, block in _BLOCK.findall(part)
    )


@cache
def plain_blocks(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page that are neither bash nor Python, and its lines that are set in, in their order."""
    return tuple(
        Block(page, section, "", textwrap.dedent(fenced or set_in))
        for section, text in _sections(page)
        for fenced, set_in in _PLAIN.findall(_BLOCK.sub("", text))
    )


@cache
def plain_commands(page: str) -> tuple[Block, ...]:
    """Return the lines of a page that are commands and stand in no block of bash or Python, each by itself."""
    return tuple(
        replace(block, text=line.strip())
        for block in plain_blocks(page)
        for line in block.text.splitlines()
        if _PROGRAM.match(line)
    )


@cache
def commands_in_prose(page: str) -> tuple[Block, ...]:
    """Return what the sentences of a page name as commands with arguments."""
    named = (
        Block(page, section, "", " ".join(words.split()))
        for section, text in _sections(page)
        for words in _IN_PROSE.findall(_PLAIN.sub("", _BLOCK.sub("", text)))
    )
    return tuple(block for block in named if " " in block.text and _PROGRAM.match(block.text))


def _sections(page: str) -> list[tuple[str, str]]:
    """Return the headings of level 2 of a page, each with what stands below it; what stands before is below none."""
    text = (ROOT / page).read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]


@cache
def shown_files(page: str) -> Mapping[str, str]:
    """Return the files that a page shows, with their names in their first lines: name -> text."""
    return {name: text for text, name in _SHOWN_FILE.findall((ROOT / page).read_text(encoding="utf-8"))}
