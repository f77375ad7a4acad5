"""A small census as the files that a run reads: people and units as Parquet, and the run file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from small_census import CLASSES, SHAPE, Census

ATTRIBUTES = ("hhgq", "age18plus", "hispanic", "race")


def census_files(folder: Path, census: Census) -> Path:
    """Write persons.parquet and units.parquet; return their folder."""
    place = folder / "population"
    place.mkdir()
    leaf, cell = np.nonzero(census.counts)
    codes = np.array(census.geocodes)
    people: dict[str, object] = {"geocode": codes[leaf]}
    people |= dict(zip(ATTRIBUTES, np.unravel_index(cell, SHAPE), strict=True))
    people["count"] = census.counts[leaf, cell]
    units: dict[str, object] = {"geocode": codes}
    units |= {f"units_{each}": census.units[:, each] for each in range(CLASSES)}
    units["vacant"] = census.vacant
    parquet.write_table(pa.table(people), place / "persons.parquet")
    parquet.write_table(pa.table(units), place / "units.parquet")
    return place


def run_file(folder: Path, population: Path, *, epsilon: int, more: str = "") -> Path:
    """Write a run file of the 1940 product without evaluation; return its path."""
    path = folder / "run.toml"
    path.write_text(
        f"""
config_version = 1
[run]
name = "small"
product = "e2e_1940"
[input]
reader = "tidy_counts"
path = "{population}"
[output]
root = "{folder / "runs"}"
[budget]
strategy = "e2e_1940"
epsilon = "{epsilon}"
[evaluation]
enabled = false
{more}""",
        encoding="utf-8",
    )
    return path
