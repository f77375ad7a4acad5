"""Diagnostics of a level put together batch by batch: the same as all at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.io.diagnostics_files import SolverFacts, read_level_diagnostics, solver_facts


def write(folder, rows, seed=7):
    """Random diagnostics in two files of small row groups."""
    folder.mkdir()
    numbers = np.random.default_rng(seed)
    solvers = np.array(["piqp", "osqp", ""])[numbers.integers(0, 3, rows)]
    table = pa.table(
        {
            "family": [f"{row:05}" for row in range(rows)],
            **{
                name: numbers.integers(0, 50, rows)
                for name in ("children", "variables", "passes", "iterations", "attempts")
            },
            "status": np.where(solvers == "", "empty_parent", "optimal"),
            "solver": solvers,
            "gap": numbers.random(rows),
            "primal_residual": numbers.random(rows),
            "problem": pa.array([None] * rows, pa.binary()),
        }
    )
    half = rows // 2
    for part, piece in enumerate((table.slice(0, half), table.slice(half))):
        pq.write_table(piece, folder / f"part-{part}.parquet", row_group_size=37)
    return table.to_pandas()


def test_counts_worst_figures_and_largest_families_are_those_of_the_whole_table(tmp_path):
    rows = write(tmp_path / "d", 500)
    found = read_level_diagnostics(tmp_path / "d", "County", 20)
    assert found.families == 500
    assert found.statuses == {
        "empty_parent (no solver needed)": int((rows["solver"] == "").sum()),
        "optimal (osqp)": int((rows["solver"] == "osqp").sum()),
        "optimal (piqp)": int((rows["solver"] == "piqp").sum()),
    }
    assert (found.gap, found.residual) == (rows["gap"].max(), rows["primal_residual"].max())
    rows["work"] = rows["variables"] * rows["iterations"].clip(lower=1)
    ordered = rows.sort_values(["work", "family"], ascending=[False, True]).head(20)
    assert [each.family for each in found.slowest] == ordered["family"].tolist()
    assert [each.work for each in found.slowest] == ordered["work"].tolist()
    assert {each.geolevel for each in found.slowest} == {"County"}


def test_a_level_with_fewer_families_gives_them_all(tmp_path):
    write(tmp_path / "d", 3)
    assert len(read_level_diagnostics(tmp_path / "d", "County", 20).slowest) == 3


FAMILIES = {  # of every kind that a manifest tells apart
    "family": ["11", "12", "13", "14", "15", "16", "17"],
    "status": ["optimal", "accepted", "relaxed", "optimal", "accepted", "only_child", "relaxed"],
    "solver": ["piqp", "osqp", "osqp", "osqp", "osqp", "", "osqp"],
    "gap": [1e-9, 2e-3, 1e-8, 1e-7, 1e-3, 0.0, 1e-8],
    "primal_residual": [1e-6, 1e-5, 2e-5, 1e-6, 1e-6, 0.0, 3e-4],
    "relaxed": [False, False, True, False, False, False, True],
}


@pytest.mark.parametrize("files", [1, 2, 5, 7])
def test_what_a_manifest_says_of_families_is_the_same_text_whatever_the_files(tmp_path, files):
    order = np.random.default_rng(files).permutation(len(FAMILIES["family"]))
    for part, rows in enumerate(np.array_split(order, files)):
        pq.write_table(pa.table(FAMILIES).take(pa.array(rows)), tmp_path / f"part-{part}.parquet")
    facts = solver_facts(tmp_path)
    assert facts == SolverFacts(
        status={
            "accepted (osqp)": 2,
            "only_child ()": 1,
            "optimal (osqp)": 1,
            "optimal (piqp)": 1,
            "relaxed (osqp)": 2,
        },
        worst={"gap": 2e-3, "primal_residual": 3e-4},
        relaxed=("13", "17"),
        uncertified=("12", "15"),
    )
    assert list(facts.status) == sorted(facts.status), "their order is part of the text"
