"""Runs whose every estimate is held to what another run has published: whole runs, resumed ones, and what is refused."""

from __future__ import annotations

import json

import held_runs
import pytest

from das_spark.config import load_plan
from das_spark.histogram import Histogram
from das_spark.pipeline import run_stages
from das_spark.store import open_public

pytestmark = [pytest.mark.spark, pytest.mark.whole_run]


@pytest.fixture(scope="module")
def monkeypatched():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def products(monkeypatched):
    return held_runs.registered(monkeypatched)


@pytest.fixture(scope="module")
def place(tmp_path_factory, products, spark, tools):
    """The census, and a finished run of the coarse product."""
    folder = tmp_path_factory.mktemp("held")
    held_runs.write_census(folder / "census")
    run_stages(plan_of(folder, held_runs.COARSE), run_id="coarse", test_key=tools.TEST_KEY, spark=spark)
    return folder


def plan_of(folder, product, published="", settings=()):
    run_file = folder / f"{product}.toml"
    key = f'published = "{published}"' if published else ""
    text = held_runs.RUN_FILE.format(product=product, census=folder / "census", root=folder / "runs", published=key)
    run_file.write_text(text)
    return load_plan(run_file, settings=settings)


def answers(tools, public, table, level, query):
    """Geocode -> answers of a query on what a table says of each geounit."""
    return {
        row["geocode"]: query.answer_dense(
            Histogram.from_pairs(query.size, row["cells"], row["counts"]).dense()
        ).tolist()
        for row in tools.rows_of(public.level(table, level))
    }


@pytest.fixture(scope="module")
def whole(place, spark, tools):
    plan = plan_of(place, held_runs.FINE, place / "runs" / "coarse")
    return run_stages(plan, run_id="fine", test_key=tools.TEST_KEY, spark=spark)


def test_every_estimate_has_the_published_answers(whole, place, products, tools):
    coarse, fine = products
    public, theirs = whole.layout.public, place / "runs" / "coarse" / "public"
    assert json.loads(public.verification.read_text())["passed"]
    source = open_public(theirs)
    for level in ("County", "Tract", "Block"):
        mine = answers(tools, public, "estimates", level, fine.schema.query("home * age * sex"))
        other = answers(tools, source, "estimates", level, coarse.schema.query("detailed"))
        assert mine == other
        assert any(any(values) for values in mine.values())
