"""Two runs on two spines of areas, one held to what the other has published: blocks are those of the census."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.config import load_plan
from das_spark.pipeline import run_stages
from das_spark.products import _REGISTRY, PRODUCTS, PublishedCounts

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.slow, pytest.mark.verified]

CONF = Path(__file__).parents[2] / "conf" / "pl94_2020_simulated.toml"
QUERY = "hhgq * votingage * hispanic"
KEY = "an open secret"
LEVELS = ("State", "County", "Tract", "Block_Group", "Block")


def answers(public, table, level, query):
    """Geocode -> answers that are not zero, of what a table says of each geounit."""
    found = {}
    for file in public.level(table, level).glob("part-*.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            sums = query.answer(np.array(row["cells"], dtype=np.int64), np.array(row["counts"], dtype=np.int64))
            found[row["geocode"]] = {place: sums[place] for place in np.flatnonzero(sums).tolist()}
    return found


def test_every_block_has_the_answers_that_the_other_run_has_published(tmp_path, spark, monkeypatch):
    usual = PRODUCTS["pl94_2020_person"]
    held = replace(usual, name="pl94_again", published=PublishedCounts("again", usual.name, QUERY, QUERY))
    monkeypatch.setitem(_REGISTRY, held.name, held)
    population = tmp_path / "population"
    asked = ["--like", "2020-state", "--share", "1/3000", "--layout", "cef", "--out", str(population)]
    assert main(["simulate", *asked]) == 0
    given = [
        f"input.path={population}",
        f"output.root={tmp_path / 'runs'}",
        "budget.strategy=state",
        'output.microdata=["parquet"]',
        "output.tables=[]",
        "evaluation.enabled=false",
    ]
    first = run_stages(
        load_plan(CONF, settings=[*given, "geography.spine=optimised"]), run_id="first", test_key=KEY, spark=spark
    ).layout.public
    more = ["run.product=pl94_again", "geography.spine=aian", f"input.published={tmp_path / 'runs' / 'first'}"]
    again = run_stages(
        load_plan(CONF, settings=[*given, *more]), run_id="again", test_key=KEY, spark=spark
    ).layout.public
    assert json.loads(again.verification.read_text())["passed"]
    query = usual.schema.query(QUERY)
    for level in LEVELS:
        found = answers(again, "census_estimates", level, query)
        assert found == answers(first, "census_estimates", level, query)
        assert any(found.values())
    parts = answers(again, "estimates", "State", query)
    assert {code[0] for code in parts} == {"0", "1"}
    assert parts == answers(again, "published", "State", query)
