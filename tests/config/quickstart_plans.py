"""Plans of the shipped quickstart under settings, for the tests of `[output.intervals]` and `[output.replicates]`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from das_spark.config import RunPlan, load_plan
from das_spark.errors import ConfigurationError

CONF = Path(__file__).parents[2] / "conf"
QUICKSTART = "quickstart.toml"
TABLES = ("P1", "P2", "P3", "P4", "P5")


def plan(*settings: str, name: str = QUICKSTART) -> RunPlan:
    return load_plan(CONF / name, settings=settings, files=False)


def refused(*settings: str, name: str = QUICKSTART) -> str:
    """What is said of a run file that is refused."""
    with pytest.raises(ConfigurationError) as caught:
        plan(*settings, name=name)
    return str(caught.value)


def inline(key: str, values: dict[str, object]) -> str:
    """A setting whose value is a table."""
    return f"{key}={{{', '.join(f'{name}={json.dumps(value)}' for name, value in values.items())}}}"
