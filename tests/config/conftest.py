"""A run file in text, and a way to change it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

RUN_FILE = """
config_version = 1

[run]
product = "e2e_1940"

[input]
reader = "tidy_counts"
persons = "{folder}/persons.csv"
units = "{folder}/units.csv"

[budget]
strategy = "e2e_1940"
"""


@pytest.fixture
def write_run_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a run file whose input exists; `more` is added at its end."""

    def write(more: str = "", text: str = RUN_FILE) -> Path:
        for name in ("persons.csv", "units.csv"):
            (tmp_path / name).write_text("geocode\n")
        path = tmp_path / "run.toml"
        path.write_text(text.format(folder=tmp_path) + more)
        return path

    return write
