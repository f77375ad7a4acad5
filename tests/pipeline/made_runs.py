"""Folders of runs made up by hand: what evaluation and verification read, without a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.config import load_plan, plan_to_config
from das_spark.config.reopen import public_plan
from das_spark.privacy import LedgerEntry
from das_spark.products import PRODUCTS
from das_spark.store import PublicManifest, RunLayout, open_run

PRODUCT = PRODUCTS["e2e_1940"]
LEVELS = ["National", "State", "County", "Enumdist"]
#: A session of which nothing is asked but its name, and properties that protect nothing.
SPARK: Any = SimpleNamespace(
    version="4",
    conf={},
    sparkContext=SimpleNamespace(
        setJobGroup=lambda *_, **__: None,
        applicationId="app",
        master="local[2]",
        defaultParallelism=2,
        getConf=dict,
    ),
)


def configuration(conf: str, *settings: str) -> dict[str, Any]:
    """What a run of a run file of `conf/` says of itself in its manifest."""
    plan = load_plan(Path(__file__).parents[2] / "conf" / conf, (), settings, files=False)
    return plan_to_config(public_plan(plan))


def manifest(run: str = "run", total: str = "1") -> PublicManifest:
    budget = replace(next(iter(PRODUCT.strategies.values())).budget, total=Fraction(total))
    entry = LedgerEntry(
        "run", datetime(1940, 4, 1, tzinfo=UTC).isoformat(), PRODUCT.name, "persons", budget, insecure=True
    )
    config = configuration("e2e_1940.toml", f"budget.epsilon={total}", 'output.microdata=["text"]')
    return PublicManifest(run, entry.created, product=PRODUCT.name, config=config, ledger=entry.as_record())


def histograms(folder: Path, dense: np.ndarray, length: int) -> None:
    """A level of a table, as one part file and its marker."""
    folder.mkdir(parents=True)
    cells = [np.flatnonzero(row) for row in dense]
    columns = {
        "geocode": pa.array([f"{number:0{length}d}" for number in range(len(dense))]),
        "parent": pa.array(["0"] * len(dense)),
        "cells": pa.array(cells, pa.list_(pa.int32())),
        "counts": pa.array([row[place] for row, place in zip(dense, cells, strict=True)], pa.list_(pa.int64())),
    }
    pq.write_table(pa.table(columns), folder / "part-0.parquet")
    (folder / "_SUCCESS").touch()


def finished_run(
    root: Path, name: str, seed: int, *, total: str = "1", width: int = 2, people: int = 0
) -> tuple[RunLayout, np.ndarray, np.ndarray]:
    """A run of four levels that all have the same six geounits, for the arithmetic only.

    Args:
        root: Of the runs.
        name: Of the run.
        seed: Of the errors.
        total: Of the budget.
        width: Largest error.
        people: Seed of the truth.
    """
    layout = RunLayout.at(root, name)
    open_run(layout, "0" * 64)
    manifest(name, total).save(layout.public.manifest)
    rng = np.random.default_rng(people)
    truth = rng.poisson(2, (6, PRODUCT.schema.size)) * rng.integers(0, 2, (6, PRODUCT.schema.size))
    truth[0] = 0
    estimate = np.maximum(truth + np.random.default_rng(seed).integers(-width, width + 1, truth.shape), 0)
    for level in LEVELS:
        histograms(layout.restricted.level("histograms", level), truth, 4)
        histograms(layout.public.level("estimates", level), estimate, 4)
    return layout, truth, estimate
