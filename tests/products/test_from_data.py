"""Products made from plain data: the shipped ones come back whole, and what is wrong is said by the path of its key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import pytest

from das_spark.errors import ConfigurationError
from das_spark.products import _REGISTRY, PRODUCTS, Product, Strategy, product, product_from, register
from das_spark.tabulation import TableShell


def plain(value: Any) -> Any:
    """A value as a file could hold it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Fraction):
        return str(value)
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def of_strategy(strategy: Strategy) -> dict[str, Any]:
    budget = strategy.budget
    return {
        "name": strategy.name,
        "title": strategy.title,
        "framework": str(budget.framework),
        "total": str(budget.total),
        "geolevels": {level.geolevel: str(level.share) for level in budget.levels},
        "queries": {level.geolevel: {each.query: str(each.share) for each in level.queries} for level in budget.levels},
        "passes": plain(strategy.passes),
        "needs_total_at": strategy.needs_total_at,
    }


def of_selections(where: list[dict[str, Any]], *, tallies: bool) -> dict[str, Any]:
    return {"levels": {}, "tallied": where} if tallies else {"levels": where[0]}


def of_table(table: TableShell) -> dict[str, Any]:
    lines = [
        {
            "depth": column.depth,
            "label": column.label,
            **of_selections([plain(dict(selection)) for selection in column.where], tallies=column.tallies),
        }
        for column in table.columns
    ]
    prefix, number = re.fullmatch("(.*?)(0*1)", table.columns[0].name).groups()
    texts = {"name": table.name, "title": table.title, "universe": table.universe, "prefix": prefix}
    return texts | {"digits": len(number), "lines": lines, "lowest": plain(table.lowest)}


def of_product(made: Product) -> dict[str, Any]:
    data = {each.name: plain(getattr(made, each.name)) for each in fields(made)}
    data |= {"schema": made.schema.name, "attributes": plain(made.schema.attributes)}
    data["strategies"] = [of_strategy(each) for each in made.strategies.values()]
    data["tables"] = [of_table(each) for each in made.tables]
    data["medians"] = [of_table(each) | {"attribute": each.attribute} for each in made.medians]
    return json.loads(json.dumps(data))


@pytest.mark.parametrize("name", PRODUCTS)
def test_every_shipped_product_can_be_told_as_data(name):
    made = product_from(of_product(PRODUCTS[name]))
    assert made == PRODUCTS[name]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"titel": "x"}, r"unknown key 'titel'"),
        ({"default_levels": None}, r"default_levels: expected a list"),
        ({"title": 3}, r"title: expected str, not int"),
        ({"record": "family"}, r"record: 'family' is none of person, unit, household"),
        ({"unit_bounds": {"least": [1]}}, r"unit_bounds: most.* missing"),
        ({"attributes": [{"name": "age"}]}, r"attributes\[0\]: levels missing"),
        ({"strategies": [{"name": "x", "framework": "renyi"}]}, r"strategies.x.framework: 'renyi' is none of"),
    ],
)
def test_what_is_wrong_is_said_by_its_key(change, said):
    with pytest.raises(ConfigurationError, match=said):
        product_from(of_product(PRODUCTS["e2e_1940"]) | change)


def test_what_is_missing_is_said():
    data = of_product(PRODUCTS["e2e_1940"])
    for key in ("attributes", "geolevels"):
        with pytest.raises(ConfigurationError, match=f"{key}.* missing"):
            product_from({name: each for name, each in data.items() if name != key})


def test_a_registered_product_is_found_by_its_name(monkeypatch):
    made = product_from(of_product(PRODUCTS["e2e_1940"]) | {"name": "mine"})
    monkeypatch.setitem(_REGISTRY, "mine", made)  # is taken out again behind the test
    monkeypatch.delitem(_REGISTRY, "mine")
    register(made)
    assert product("mine") is PRODUCTS["mine"] is made
    with pytest.raises(ConfigurationError, match="there is a product 'mine' already"):
        register(made)
