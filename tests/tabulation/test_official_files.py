"""Real data: the official files of the 2018 test, read, tabulated without protection, give back what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from official_files import read_table

from das_spark.config import InputSettings
from das_spark.products import PRODUCTS
from das_spark.spark.readers import READERS
from das_spark.tabulation import Table, housing_tables, incidence, redistricting_tables, tabulate

pytestmark = [pytest.mark.spark, pytest.mark.real_data, pytest.mark.slow]

#: Digits of the 16-digit geocode, which names the block group between tract and block; and geounits with blocks.
LENGTHS = {"tract": (11, 7), "block group": (12, 28), "block": (16, 569)}
FOLDER = "official/ri2018_2020Style.pl"


def wide(level: str, geocode: str) -> str:
    """A published geocode as the system writes it."""
    return geocode[:12] + geocode[11:] if level == "block" else geocode


@pytest.fixture(scope="module")
def read(spark, census_data: Path) -> tuple[pa.Table, pa.Table]:
    product = PRODUCTS["e2e_2018"]
    settings = InputSettings(reader="pl94_summary", path=str(census_data / FOLDER))
    tables = READERS["pl94_summary"].read(spark, settings, product, product.spine())
    leaves = tables.leaves.toArrow().combine_chunks()
    cells, counts = (leaves.column(name).combine_chunks() for name in ("cells", "counts"))
    geocodes = leaves.column("geocode").take(pc.list_parent_indices(cells))
    return pa.table({"geocode": geocodes, "cell": cells.flatten(), "count": counts.flatten()}), leaves


def tabulated(table: Table, geocodes: list[str], names: Any, cells: Any, counts: Any) -> dict[str, list[int]]:
    """The table of the geounits of a level, from cells under their geocodes."""
    order = np.argsort(names, kind="stable")
    wanted = np.array(sorted(geocodes))
    offsets = np.append(np.searchsorted(names[order], wanted), len(names))
    rows = tabulate(incidence([table]), cells[order], offsets, counts[order])
    return dict(zip(wanted.tolist(), rows.tolist(), strict=True))


def compared(table: Table, folder: Path, names: np.ndarray, cells: np.ndarray, counts: np.ndarray) -> int:
    """Compare one table at all levels; how many values there are."""
    values = 0
    for level, published in read_table(folder, table.name).items():
        length, geounits = LENGTHS[level]
        wanted = {wide(level, geocode): row for geocode, row in published.items()}
        assert len(wanted) == geounits
        shorter = np.array([name[:length] for name in names])
        found = tabulated(table, list(wanted), shorter, cells, counts)
        assert found == wanted, (table.name, level)
        values += sum(map(len, wanted.values()))
    return values


@pytest.mark.slow
def test_every_cell_of_p1_to_p5_of_blocks_block_groups_and_tracts_comes_back(read, persons, census_data):
    counts, _ = read
    names = np.array(counts.column("geocode").to_pylist())
    cells, people = (counts.column(name).to_numpy() for name in ("cell", "count"))
    assert people.sum() == 29_225
    tables = redistricting_tables(persons)
    values = sum(compared(table, census_data / FOLDER, names, cells, people) for table in tables)
    assert values == (7 + 28 + 569) * (71 + 73 + 71 + 73 + 10)


def test_every_cell_of_h1_comes_back(read, housing, census_data):
    _, geounits = read
    names = np.array(geounits.column("geocode").to_pylist())
    vacant = geounits.column("vacant").to_numpy()
    occupied = np.array([units[0] for units in geounits.column("units").to_pylist()])
    cells = np.repeat([0, 1], len(names))
    (table,) = housing_tables(housing)
    values = compared(table, census_data / FOLDER, np.tile(names, 2), cells, np.concatenate([vacant, occupied]))
    assert values == (7 + 28 + 569) * 3
