"""Which settings keep runs from being pooled, and which do not."""

import json
from copy import deepcopy

import pytest

from das_spark.config import differing_settings, load_plan

CONFIG = json.loads(json.dumps(load_plan("conf/quickstart.toml", files=False).resolved))


def changed(path, value):
    config = deepcopy(CONFIG)
    *above, last = path.split(".")
    table = config
    for name in above:
        table = table[name]
    table[last] = value
    return config


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("budget.total", "1/3"),
        ("geography.spine", "optimised"),
        ("invariants.total_at", "Tract"),
        ("estimation.rounding", "released"),
        ("run.product", "e2e_1940"),
    ],
)
def test_runs_that_were_made_differently_differ_in_the_setting_that_says_so(path, value):
    found = differing_settings(CONFIG, changed(path, value))
    assert list(found) == [path]
    assert found[path][1] == value


def test_a_share_is_named_by_its_level_and_query():
    other = deepcopy(CONFIG)
    level = other["budget"]["levels"][1]
    query = next(iter(level["queries"]))
    level["queries"][query] = "1/1000"
    (key,) = differing_settings(CONFIG, other)
    assert key == f"budget.levels.{level['geolevel']}.queries.{query}"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("run.name", "again"),
        ("input.path", "elsewhere"),
        ("input.dataset", "another name of the same people"),
        ("output.root", "elsewhere"),
        ("budget.strategy", "by another name"),
        ("estimation.partitions_per_core", 9),
        ("evaluation.enabled", False),
    ],
)
def test_names_places_and_speed_keep_nobody_from_pooling(path, value):
    assert differing_settings(CONFIG, changed(path, value)) == {}
    assert differing_settings(changed(path, value), CONFIG) == {}
