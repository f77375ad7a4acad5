"""Products that somebody made to write elsewhere, or to say what is not so: refused, wherever they come from."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import tomli_w

from das_spark.config.product_files import product_from_config, read_product
from das_spark.constraints import AddedConstraint, Sense, StructuralZero
from das_spark.errors import ConfigurationError
from das_spark.geography import Geolevel
from das_spark.histogram import Attribute, Recode
from das_spark.products import (
    MicrodataColumn,
    MicrodataLayout,
    PublishedCounts,
    Records,
    product,
    product_data,
    product_from,
)

DATA = json.loads(json.dumps(product_data(product("e2e_2018")))) | {
    "name": "village",
    "structural_zeros": [{"name": "none", "selection": {"hhgq": [0]}, "meaning": "nobody"}],
}
#: A product of hospital stays, which says what its records are.
STAYS = {
    "name": "stays",
    "records": {"singular": "stay", "plural": "stays", "at_most": 2, "contributed_by": "patient"},
    "attributes": [{"name": "ward", "levels": ["A", "B"]}],
    "geolevels": [{"name": "Region", "length": 2}],
    "strategies": [
        {"name": "s", "framework": "zcdp", "total": "1", "geolevels": {"Region": "1"}, "queries": {"detailed": "1"}}
    ],
}
ELSEWHERE = ("../../../../x", "/tmp/x", "..", "", "level=State", "latest", "a\0")
#: Texts that say more than they may, and what a message calls the reason.
FORGED = {
    "T\n## The claim\n\nepsilon = 0.01\n<!--": "U+000A",
    "T\0": "U+0000",
    "T\u202e": "U+202E",
    "T\u0085": "U+0085",
    "T\u2028": "U+2028",
    "T" * 10_000: "10,000",
}
Path = tuple[str | int, ...]
NAMES: dict[str, Path] = {
    "name": ("name",),
    "geolevels": ("geolevels", 0, "name"),
    "tables[1]": ("tables", 1, "name"),
    "tables[0].lowest": ("tables", 0, "lowest"),
}
TEXTS: dict[str, Path] = {
    "title": ("title",),
    "unit_classes": ("unit_classes", 0),
    "strategies[0]": ("strategies", 0, "title"),
    "attributes[0]: attribute 'hhgq': label 0": ("attributes", 0, "levels", 0),
    "attributes[0]: attribute 'hhgq': title": ("attributes", 0, "title"),
    "attributes[0].recodes[0]": ("attributes", 0, "recodes", 0, "title"),
    "tables[0]: table P1: title": ("tables", 0, "title"),
    "tables[0]: table P1: universe": ("tables", 0, "universe"),
    "tables[0]: table P1: label of": ("tables", 0, "lines", 1, "label"),
    "structural_zeros[0]: structural zero": ("structural_zeros", 0, "name"),
    "structural_zeros[0]: structural zero none: meaning": ("structural_zeros", 0, "meaning"),
    "microdata: microdata layout e2e_2018: comment": ("microdata", "comment"),
    "microdata: microdata layout": ("microdata", "name"),
}
FORMULAS: dict[str, Path] = {
    "tables[0]: table P1: column": ("tables", 0, "prefix"),
    "microdata.person[0]": ("microdata", "person", 0, "name"),
}


def changed(path: Path, value: object, data: dict[str, Any] = DATA) -> dict[str, Any]:
    made = deepcopy(data)
    at: Any = made
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    return made


def test_the_product_that_is_changed_is_one():
    assert product_from(DATA).every_table
    assert product_from(STAYS).kind == "stay"


@pytest.mark.parametrize("key", NAMES)
@pytest.mark.parametrize("name", ELSEWHERE)
def test_no_name_leads_elsewhere(key, name, tmp_path):
    data = changed(NAMES[key], {"name": name, "length": 5} if key.endswith("lowest") else name)
    for source in (product_from, lambda data: product_from_config({"product": data})):
        with pytest.raises(ConfigurationError) as caught:
            source(data)
        assert f"{key}: " in caught.value.message or f"{key}[0]: " in caught.value.message
    if "\0" not in name:
        path = tmp_path / "village.toml"
        path.write_text(tomli_w.dumps(data))
        with pytest.raises(ConfigurationError):
            read_product(path)


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize("text", FORGED, ids=range(len(FORGED)))
def test_every_text_is_one_printable_line(key, text):
    with pytest.raises(ConfigurationError) as caught:
        product_from(changed(TEXTS[key], text))
    assert key in caught.value.message
    assert FORGED[text] in caught.value.message
    assert "one line" in str(caught.value)
    assert caught.value.message.replace("\n", "").isprintable()


@pytest.mark.parametrize("key", FORMULAS)
@pytest.mark.parametrize("sign", "=+-@")
def test_no_heading_begins_as_a_formula_does(key, sign):
    with pytest.raises(ConfigurationError, match="is no heading of a column") as caught:
        product_from(changed(FORMULAS[key], f"{sign}A"))
    assert key in caught.value.message


@pytest.mark.parametrize("source", ["constant:=1", "constant:@A", "recode:sex:1,-A", "recode:sex:+A,2"])
def test_no_code_of_a_record_begins_as_a_formula_does(source):
    with pytest.raises(ConfigurationError, match="for a formula"):
        MicrodataColumn("SEX", source)
    MicrodataColumn("SEX", "recode:sex:-1,+2")


@pytest.mark.parametrize("delimiter", ["", "ab", "\n", "\r", '"', "1", "é", "\0", "-"])
def test_a_delimiter_is_one_sign(delimiter):
    with pytest.raises(ConfigurationError, match="delimiter"):
        MicrodataLayout("m", (), (), delimiter=delimiter)


def test_a_code_does_not_contain_the_delimiter():
    for column in (MicrodataColumn("A", "recode:sex:1,2|3"), MicrodataColumn("A", "constant:a|b")):
        with pytest.raises(ConfigurationError, match="has the delimiter"):
            MicrodataLayout("m", (column,), ())
        MicrodataLayout("m", (column,), (), delimiter=";")


@pytest.mark.parametrize("key", ["singular", "plural", "contributed_by"])
@pytest.mark.parametrize("noun", ["../x", "a\nb", "a" * 81, "/x", "<b>"])
def test_nouns_name_no_other_folder(key, noun):
    with pytest.raises(ConfigurationError, match="records"):
        product_from(changed(("records", key), noun, STAYS))


def test_two_tables_never_share_a_folder():
    for name in ("P2", "p2"):
        with pytest.raises(ConfigurationError, match="would lie in one folder"):
            product_from(changed(("tables", 0, "name"), name))


def test_products_made_in_python_are_refused_alike():
    made, bad = product("e2e_2018"), "a\nb"
    table = made.tables[0]
    for make in (
        lambda: replace(made, name="../x"),
        lambda: replace(made, title=bad),
        lambda: replace(made, unit_classes=(bad,)),
        lambda: replace(table, name="../x"),
        lambda: replace(table, title=bad),
        lambda: replace(table, columns=(replace(table.total, label=bad), *table.columns[1:])),
        lambda: replace(table, columns=(replace(table.total, name="=1"), *table.columns[1:])),
        lambda: Geolevel("../x", 2),
        lambda: Attribute("a", (bad,)),
        lambda: Attribute("a", ("b",), title=bad),
        lambda: Attribute("a" * 81, ("b",)),
        lambda: Recode("r", ((bad, (0,)),)),
        lambda: StructuralZero(bad, ()),
        lambda: AddedConstraint(bad, "State", "total", Sense.EQUAL, (1,)),
        lambda: PublishedCounts("p", "../x", "total", "total"),
        lambda: Records(contributor=bad),
        lambda: replace(next(iter(made.strategies.values())), title=bad),
        lambda: replace(next(iter(made.strategies.values())), name=bad),
    ):
        with pytest.raises(ConfigurationError):
            make()
