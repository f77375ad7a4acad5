"""Real data: unprotected counts of the 3,265 tracts of Illinois give back their published tables, every cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from das_spark.tabulation import incidence, redistricting_tables, tabulate

pytestmark = pytest.mark.real_data
TRACTS, PERSONS, QUARTERS = 3265, 12_812_508, 275_365
#: First codes of the file.
BASES = {"hhgq": 0, "voting_age": 1, "hispanic": 1, "cenrace": 1}


def test_tracts_of_illinois_are_tabulated_to_the_published_figures(persons, census_data: Path):
    published = pq.read_table(census_data / "il_2020_tract_pl94_full.parquet").sort_by("geoid")
    counted = pq.read_table(census_data / "il_2020_tract_person_cells.parquet").sort_by("geoid")
    codes = np.stack([counted.column(name).to_numpy().astype(np.int64) - base for name, base in BASES.items()], axis=1)
    tracts = np.array(published.column("geoid").to_pylist())
    assert len(set(tracts)) == TRACTS
    # Geounits come from the published file: a tract where nobody lives has no cell.
    offsets = np.searchsorted(np.array(counted.column("geoid").to_pylist()), tracts)
    offsets = np.append(offsets, counted.num_rows)
    for table in redistricting_tables(persons):
        found = tabulate(incidence([table]), persons.ravel(codes), offsets, counted.column("n").to_numpy())
        for place, name in enumerate(table.names):
            wanted = published.column(name).to_numpy().astype(np.int64)
            assert (found[:, place] == wanted).all(), name
        if table.name in ("P1", "P5"):
            assert found[:, 0].sum() == {"P1": PERSONS, "P5": QUARTERS}[table.name]
