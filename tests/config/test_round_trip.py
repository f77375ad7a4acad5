"""The law of a plan: written as the configuration of a manifest and read again it is the same plan, byte for byte.

The texts of configurations enter the hash that binds the folder of a run, so that none may change without a new version
of them: `configurations.json` has the digests of many.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from das_spark.config import (
    JointPlan,
    MeasurementOrigin,
    OriginKind,
    RunPlan,
    known_levels,
    load_run,
    plan_from_config,
    plan_of,
)
from das_spark.config import plan_to_config as written
from das_spark.config.plan import public_plan
from das_spark.errors import ConfigurationError, DasError
from das_spark.products import PRODUCTS

CONF = Path(__file__).parents[2] / "conf"
RECORD = Path(__file__).with_name("configurations.json")
#: One option each, laid over every shipped run file.
OPTIONS = (
    (),
    ("evaluation.enabled=false",),
    ("evaluation.areas=a/b.csv",),
    ('output.microdata=["text"]', "output.microdata_files=single"),
    ("output.tables=[]",),
    ("estimation.rounding=released", "estimation.gap_tolerance=0.00001"),
    ('estimation.solvers=["piqp"]', "estimation.partitions_per_core=9"),
    ("measurement.rows=all", "estimation.failsafe=true"),
    ("invariants.total_at=none",),
    ("run.name=1940", "input.dataset=people"),
    ("geography.reader=tidy", "geography.path=x/areas.csv"),
)
ORIGIN = MeasurementOrigin(
    OriginKind.RUN, "second", "2020-04-01T00:00:00+00:00", "0" * 64, "first#1",
    MeasurementOrigin(OriginKind.EXTERNAL, "dataset", "", "1" * 64, "dataset"),
)  # fmt: skip


def parts(plan: RunPlan | JointPlan) -> list[RunPlan]:
    return list(plan.parts.values()) if isinstance(plan, JointPlan) else [plan]


def shipped() -> Iterator[tuple[str, RunPlan]]:
    for path in sorted(CONF.glob("*.toml")):
        for settings in OPTIONS:
            for plan in parts(load_run(path, settings=settings, files=False)):
                yield " ".join([path.stem, *settings, plan.product.record]), plan


def tables(name: str, strategy: str, spine: str) -> dict[str, Any]:
    chosen = PRODUCTS[name].strategies[strategy].budget.framework.symbol
    own = {} if spine == "census" else {"reader": "tidy", "path": "/x/areas.csv"}
    return {
        "config_version": 1,
        "run": {"product": name},
        "input": {"reader": "simulated"} | ({"published": "/x/runs/before"} if PRODUCTS[name].published else {}),
        "geography": {"spine": spine, **own},
        "budget": {"strategy": strategy, chosen: "3/7"},
    }


def of_products() -> Iterator[tuple[str, RunPlan]]:
    """Every strategy of every product, on every kind of spine that it has shares for."""
    for name, product in PRODUCTS.items():
        for strategy in product.strategies:
            for spine in ("census", "aian", "optimised", "dhc"):
                try:
                    yield f"{name} {strategy} {spine}", plan_of(tables(name, strategy, spine), "made", files=False)
                except DasError:
                    levels = {level.name for level in known_levels(product, spine)}
                    assert spine != "census" or not levels.issuperset(product.strategies[strategy].geolevels)
        data = tables(name, next(iter(product.strategies)), "census")
        data["input"]["simulate"] = {"like": "1940", "seed": 3, "share": "1/100"}
        data["constraints"] = [{"name": "few", "geolevel": product.default_levels[-1], "query": "total", "sense": "<=", "right": 5}]  # fmt: skip  # noqa: E501
        data["ledger"] = {"cap": {"epsilon": "5"}}
        yield f"{name} constrained", plan_of(data, "made", files=False)


CASES = dict([*shipped(), *of_products()])


@pytest.mark.parametrize("name", CASES)
def test_a_plan_comes_back_from_its_manifest(name):
    plan = CASES[name]
    text = json.dumps(written(plan))
    again = plan_from_config(json.loads(text), source="manifest")
    assert again == public_plan(plan)
    assert json.dumps(written(again)) == text
    assert again.config_hash == plan.config_hash


def test_configurations_are_written_as_ever():
    digests = {name: hashlib.sha256(json.dumps(written(plan)).encode()).hexdigest() for name, plan in CASES.items()}
    assert digests == json.loads(RECORD.read_text())


def test_an_origin_comes_back_with_all_that_came_before_it():
    plan = replace(CASES["quickstart person"], origin=ORIGIN)
    assert plan_from_config(written(plan), source="manifest").origin == ORIGIN
    assert ORIGIN.began_external
    assert not ORIGIN.is_external


def changed(path: str, value: object) -> dict[str, Any]:
    config = deepcopy(written(CASES["quickstart person"]))
    *above, last = path.split(".")
    table: Any = config
    for key in above:
        table = table[int(key) if key.isdigit() else key]
    table[last] = value
    return config


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("run.product", "nobody"),
        ("run.more", 1),
        ("input.simulate", {}),
        ("output.microdata_files", None),
        ("geography.levels", ["County"]),
        ("geography.reader", "tidy"),
        ("budget.framework", "x"),
        ("budget.total", "2/2"),
        ("budget.levels.0.share", "1/3"),
        ("budget.levels.0.queries", {"sexes": "1"}),
        ("invariants.total_at", "Nowhere"),
        ("invariants.units", 1),
        ("estimation.solvers", ["by hand"]),
        ("estimation.passes", [{"geolevel": "Nowhere", "least_squares": [["total"]], "rounding": [["detailed"]]}]),
        ("constraints", [{"name": "a", "geolevel": "County", "query": "total", "sense": "~", "right": [1]}]),
        ("privacy.acknowledge", "all"),
    ],
)
def test_what_this_software_would_not_write_is_refused(path, value):
    with pytest.raises(ConfigurationError, match="manifest: its configuration cannot be read"):
        plan_from_config(changed(path, value), source="manifest")


@pytest.mark.parametrize("wrong", [{}, {"budget": 3}, {"run": {"product": "e2e_2018"}}])
def test_a_configuration_that_is_none_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="manifest: its configuration cannot be read"):
        plan_from_config(wrong, source="manifest")


def test_what_is_given_up_must_be_acknowledged():
    config = deepcopy(written(CASES["pl94_2020_person person"]))
    config["privacy"]["acknowledge"] = []
    with pytest.raises(ConfigurationError, match="is not acknowledged"):
        plan_from_config(config, source="manifest")
