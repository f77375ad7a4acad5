"""A census of eight blocks in one county, and a run file for it: what a product with published tables needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.products import PRODUCTS

PRODUCT = PRODUCTS["e2e_2018"]
LEVELS = ("County", "Tract", "Block")
GEOUNITS = {"County": 1, "Tract": 2, "Block": 8}
FORMATS = ("parquet", "csv")
#: Their codes have leading zeros.
BLOCKS = [f"01001{tract:06d}{group}{group}{block:03d}" for tract in (100, 200) for group in (1, 2) for block in (0, 1)]
EMPTY = BLOCKS[3]

RUN_FILE = """
config_version = 1
[run]
name = "blocks"
product = "e2e_2018"
[input]
reader = "tidy_counts"
path = "{census}"
[output]
root = "{root}"
[geography]
levels = ["County", "Tract", "Block"]
[budget]
strategy = "e2e_2018"
epsilon = "{epsilon}"
[budget.geolevels]
County = "1/4"
Tract = "1/4"
Block = "1/2"
[evaluation]
enabled = false
"""


def write_census(folder: Path) -> None:
    """One block has nobody in it, and no units; not all others have group quarters."""
    numbers = np.random.default_rng(1850)
    persons: dict[str, list[Any]] = {name: [] for name in ("geocode", *(a.name for a in PRODUCT.schema.attributes))}
    persons["count"] = []
    units: dict[str, list[Any]] = {name: [] for name in ("geocode", "hhgq", "units", "vacant")}
    for place, geocode in enumerate(BLOCKS):
        kinds = [] if geocode == EMPTY else [0, 1 + place % 7] if place % 2 else [0]
        for kind in range(8):
            row = (geocode, kind, 9 * int(kind in kinds), int(kind == 0))
            for name, value in zip(units, row, strict=True):
                units[name].append(value)
        for kind in kinds:
            for race in numbers.choice(63, 4, replace=False):
                person = (geocode, kind, 1, int(numbers.integers(2)), int(race), int(numbers.integers(3, 15)))
                for name, value in zip(persons, person, strict=True):
                    persons[name].append(value)
    folder.mkdir()
    pq.write_table(pa.table(persons), folder / "persons.parquet")
    pq.write_table(pa.table(units), folder / "units.parquet")


def write_run_file(folder: Path, epsilon: str, more: str = "") -> Path:
    """The census in `census`, and a run file beside it whose runs lie in `runs`; `more` are further sections."""
    write_census(folder / "census")
    path = folder / "run.toml"
    path.write_text(RUN_FILE.format(census=folder / "census", root=folder / "runs", epsilon=epsilon) + more)
    return path
