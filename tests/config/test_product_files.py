"""Products that run files name by a file or that installed packages bring, and what a configuration says of them."""

from __future__ import annotations

import json
import re
from importlib.metadata import EntryPoint

import pytest
import tomli_w

from das_spark.config import find_product, held_counts, load_plan, plan_from_config, plan_to_config
from das_spark.config import product_files as module
from das_spark.config.plan import config_hash, differing_settings
from das_spark.errors import ConfigurationError
from das_spark.products import PRODUCTS, product_data, product_from

RUN = """
config_version = 1
[run]
product = "{product}"
[input]
reader = "tidy_counts"
dataset = "mine"
persons = "persons.csv"
geography = "geounits.csv"
[invariants]
units = false
[budget]
strategy = "{strategy}"
"""


def definition(**change):
    return product_data(PRODUCTS["e2e_1940"]) | {"name": "mine"} | change


@pytest.fixture
def written(tmp_path):
    """Writes a product file and a run file that names it; the plan of that."""

    def write(named="mine.toml", **change):
        (tmp_path / "mine.toml").write_text(tomli_w.dumps(definition(**change)))
        (tmp_path / "run.toml").write_text(RUN.format(product=named, strategy="e2e_1940"))
        return load_plan(tmp_path / "run.toml", files=False)

    return write


def test_a_product_file_lies_where_the_run_file_says_seen_from_there(written, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert written().product.schema == PRODUCTS["e2e_1940"].schema
    (tmp_path / "overlays").mkdir()
    (tmp_path / "overlays" / "other.toml").write_text(tomli_w.dumps(definition(name="other")))
    (tmp_path / "overlays" / "overlay.toml").write_text('[run]\nproduct = "other.toml"\n')
    plan = load_plan(tmp_path / "run.toml", [tmp_path / "overlays" / "overlay.toml"], files=False)
    assert plan.product.name == "other"
    (tmp_path / "elsewhere" / "third.toml").write_text(tomli_w.dumps(definition(name="third")))
    assert load_plan(tmp_path / "run.toml", settings=["run.product=third.toml"], files=False).product.name == "third"


def test_a_configuration_has_the_definition_and_makes_the_same_plan(written):
    plan = written()
    config = json.loads(json.dumps(plan_to_config(plan)))
    assert config["run"]["product"] == "mine"
    again = plan_from_config(config, source="manifest")
    assert again.product == plan.product
    assert plan_to_config(again) == config
    shipped = plan_to_config(written("e2e_1940"))
    assert "product" not in shipped


def test_another_definition_is_another_configuration(written):
    one, two = written(), written(title="Something else")
    assert config_hash(plan_to_config(one)) != config_hash(plan_to_config(two))
    assert list(differing_settings(one, two)) == ["product.title"]
    assert not differing_settings(one, written())


def test_all_that_is_wrong_with_the_file_is_a_problem_of_the_run_file(written):
    with pytest.raises(ConfigurationError) as caught:
        written(titel="x", strata="rase")
    assert "run.product" in caught.value.message
    assert "mine.toml" in caught.value.message
    assert "unknown key 'titel'; did you mean 'title'?" in caught.value.message


def test_a_python_file_may_have_the_product(written, tmp_path):
    (tmp_path / "my.py").write_text(
        "from dataclasses import replace\nfrom das_spark.products import PRODUCTS\n"
        "PRODUCT = replace(PRODUCTS['e2e_1940'], name='made')\n"
        "def make():\n    return replace(PRODUCT, name='called')\nODD = 3\n"
    )
    assert written("my.py:PRODUCT").product.name == "made"
    assert plan_from_config(plan_to_config(written("my.py:make")), source="m").product.name == "called"
    for named, said in [
        ("my.py:ODD", "is a int, and no Product"),
        ("my.py:OTHER", "has no OTHER"),
        ("your.py:PRODUCT", "no such Python file"),
    ]:
        with pytest.raises(ConfigurationError, match=said):
            written(named)
    (tmp_path / "my.py").write_text("1 / 0")
    with pytest.raises(ConfigurationError, match=r"cannot be imported \(ZeroDivisionError"):
        written("my.py:PRODUCT")


def test_an_installed_package_may_bring_products(monkeypatch, tmp_path):
    (tmp_path / "brought_by_a_package.py").write_text(
        "from dataclasses import replace\nfrom das_spark.products import PRODUCTS\n"
        "HERE = replace(PRODUCTS['e2e_1940'], name='brought')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("brought", "brought_by_a_package:HERE", module.GROUP)
    monkeypatch.setattr(module, "entry_points", lambda group: [point] if group == module.GROUP else [])
    assert find_product("brought").name == "brought"
    with pytest.raises(ConfigurationError, match="did you mean 'brought'"):
        find_product("brougt")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("e2e_1941", "did you mean 'e2e_1940'"),
        ("weather", "or name a file, such as my_census.toml"),
        ("nothing.toml", "no such product file"),
    ],
)
def test_what_is_not_there_is_said(named, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        find_product(named)
    assert said in str(caught.value)


def test_no_file_takes_the_name_of_a_shipped_product(written):
    with pytest.raises(ConfigurationError, match="comes with das_spark is called 'e2e_1940'"):
        written(name="e2e_1940")


@pytest.mark.parametrize(("content", "said"), [(b"name = ", "is not TOML"), (b"\xff\xfe\0", "UTF-8"), (b"", "missing")])
def test_files_that_are_no_products(tmp_path, content, said):
    (tmp_path / "odd.toml").write_bytes(content)
    with pytest.raises(ConfigurationError, match=said):
        find_product(str(tmp_path / "odd.toml"))


HELD = {"name": "people", "product": "people.toml", "query": "total", "of": "total"}


def test_a_product_file_is_held_to_another_one_as_seen_from_it(written, tmp_path, monkeypatch):
    (tmp_path / "people.toml").write_text(tomli_w.dumps(definition(name="folk")))
    with pytest.raises(ConfigurationError, match="name the folder of a finished run of folk"):
        written(published=HELD)
    monkeypatch.chdir("/")
    held = find_product(str(tmp_path / "mine.toml"))
    assert held.published.product == "folk"
    assert held_counts(held, units=False).of.size == PRODUCTS["e2e_1940"].schema.size
    # A run's configuration, and a copy of the product, say all without the other file.
    (tmp_path / "people.toml").unlink()
    assert product_from(json.loads(json.dumps(product_data(held)))) == held


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"product": "nobody"}, "published.product: unknown product 'nobody'"),
        ({"product": "gone.toml"}, "gone.toml: no such product file"),
        ({"product": "mine.toml"}, "would be held to themselves"),
        ({"query": "detailed"}, "'detailed' has 192 answers, and 'total' of folk has 1"),
        ({"of": "color"}, "color"),
    ],
)
def test_what_a_product_file_cannot_be_held_to_is_said_when_it_is_read(written, tmp_path, change, said):
    (tmp_path / "people.toml").write_text(tomli_w.dumps(definition(name="folk")))
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(definition(published=HELD | change)))
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        find_product(str(tmp_path / "mine.toml"))


def test_households_without_a_bound_are_refused_before_a_run_where_units_are_exact(tmp_path):
    short = {key: definition()[key] for key in ("name", "attributes", "geolevels", "strategies")}
    (tmp_path / "run.toml").write_text(RUN.format(product="mine.toml", strategy="e2e_1940"))

    def plan_of(units, **change):
        (tmp_path / "mine.toml").write_text(tomli_w.dumps(short | {"record": "household"} | change))
        more = ["input.units=units.csv", f"invariants.units={units}"]
        return load_plan(tmp_path / "run.toml", settings=more, files=False)

    assert plan_of("true").product.unit_bounds.most == (1,)
    assert plan_of("false", class_query="").product.unit_bounds is None
    two = {"least": [0], "most": [2], "cap_when_total_known": True}
    for wrong in ({"class_query": ""}, {"class_query": "total", "unit_bounds": two}):
        with pytest.raises(ConfigurationError, match="must hold households to the housing units"):
            plan_of("true", **wrong)
