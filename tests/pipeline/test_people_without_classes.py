"""A whole run of a product of people whom nothing divides by class of unit: `class_query` is empty."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from das_spark.config import product_files
from das_spark.pipeline import run_stages
from das_spark.products import PRODUCTS

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

E2E_1940 = PRODUCTS["e2e_1940"]
PLAIN = replace(
    E2E_1940,
    class_query="",
    unit_bounds=None,
    microdata=replace(
        E2E_1940.microdata,
        person=tuple(each for each in E2E_1940.microdata.person if each.source != "record_type"),
        unit=(),
    ),
)


@pytest.fixture
def registered(monkeypatch):
    """The made product in the place of the one whose name it has."""
    monkeypatch.setattr(product_files, "PRODUCTS", {**PRODUCTS, PLAIN.name: PLAIN})


@pytest.mark.usefixtures("registered")
def test_they_are_measured_estimated_written_and_verified(workshop, tools):
    # Without a class that people share with units, a table of units has a column for each class.
    _, units = tools.census_tables()
    rows = list(zip(units["geocode"], units["hhgq"], units["units"], units["vacant"], strict=True))
    wide = {"geocode": list(dict.fromkeys(units["geocode"]))}
    wide |= {f"units_{each}": [number for _, level, number, _ in rows if level == each] for each in range(8)}
    wide["vacant"] = [number for _, level, _, number in rows if level == 0]
    tools.write_census(workshop.census, units=wide)
    settings = ('output.microdata=["parquet", "text"]', "evaluation.enabled=true")
    plan = workshop.plan(*settings)
    assert plan.product is PLAIN
    summary = run_stages(plan, run_id="plain", test_key=tools.TEST_KEY, spark=workshop.spark)
    public = summary.layout.public
    assert json.loads(public.verification.read_text())["passed"]
    assert len(workshop.ledger()) > 0
    estimated = sum(sum(row["counts"]) for row in tools.rows_of(public.level("estimates", "Enumdist")))
    lines = [line for file in public.microdata("person", "text").glob("part-*") for line in file.read_text().split()]
    assert len(lines) == estimated > 0
    assert Counter(len(line.split("|")) for line in lines) == {len(PLAIN.microdata.person): estimated}
    assert not public.microdata("unit", "text").exists()
