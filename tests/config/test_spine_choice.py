"""Options of a spine: presets, shares from three places, and every mistake answered."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from das_spark.config import choose_spine
from das_spark.errors import BudgetError, ConfigurationError, GeographyError
from das_spark.geography import DHC, DHC_SHARES, PL94_UNIT, PRESETS, SpineSettings

CONF = Path(__file__).parents[2] / "conf"
FILE = """\
[budget]
framework = "pure_dp"
geolevels = { State = "1/4", County = "0.25", Tract = "1/4", Block_Group = "1/8", Block = "1/8" }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "shares.toml"
    path.write_text(FILE)
    return path


def choose(**options):
    return choose_spine(**({"kind": "optimised", "product_name": "pl94_2020_person"} | options))


def test_shares_come_from_the_strategy_of_a_product():
    choice = choose(strategy="us")
    assert dict(zip(choice.shares.levels, choice.shares.numerators, strict=True)) == {
        "US": 104,
        "State": 1440,
        "County": 447,
        "Tract": 687,
        "Block_Group": 1256,
        "Block": 165,
    }
    assert choice.framework == "zcdp"
    assert dict(choice.facts) == {"product": "pl94_2020_person", "strategy": "us"}
    assert choose().shares == choice.shares


def test_shares_come_from_a_file_of_shares(file):
    choice = choose(product_name=None, shares=file)
    assert choice.framework == "pure_dp"
    assert choice.shares.levels == ("State", "County", "Tract", "Block_Group", "Block")
    assert choice.shares.numerators == (2, 2, 2, 1, 1)


def test_shares_come_from_a_run_file():
    choice = choose(product_name=None, shares=CONF / "pl94_2020_state.toml")
    assert choice.shares == choose(strategy="state").shares
    with pytest.raises(ConfigurationError, match=r"pl94_2020\.toml: is a joint run"):
        choose(product_name=None, shares=CONF / "pl94_2020.toml")


def test_presets_and_settings_are_laid_over_each_other():
    assert choose(preset="pl94_unit", kind=None).settings == PL94_UNIT
    assert choose(preset="pl94_unit", kind="aian").settings == replace(PL94_UNIT, kind="aian")
    with pytest.raises(GeographyError, match="target_school_districts asks for a spine of kind 'dhc'"):
        choose(preset="dhc", kind="optimised")
    off = ["spine.target_school_districts=false", "spine.target_block_groups=false"]
    assert choose(preset="dhc", kind="optimised", settings=off).settings == SpineSettings("optimised")
    assert all(choose(preset=name, kind=None).settings == settings for name, settings in PRESETS.items())
    assert choose(kind="dhc").settings == DHC
    assert choose(kind="census").settings == SpineSettings("census")
    changed = choose(settings=["spine.fanout_cutoff=0", "spine.aian_categories=['federal']", "spine.merge=paper"])
    assert changed.settings == SpineSettings("optimised", 0, aian_categories=("federal",), merge="paper")


def test_single_shares_can_be_set():
    changes = ["budget.geolevels.US=105/4099", "budget.geolevels.Block=164/4099", "budget.framework=pure_dp"]
    choice = choose(settings=changes)
    assert Fraction(choice.shares.numerators[0], choice.shares.denominator) == Fraction(105, 4099)
    assert choice.framework == "pure_dp"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": None}, "no kind of spine is chosen"),
        ({"kind": "optimized"}, "no kind of spine is called 'optimized'.*'optimised'"),
        ({"preset": "pl94"}, "--preset pl94.*pl94_person"),
        ({"product_name": None}, "nothing gives the shares"),
        ({"shares": Path("x.toml")}, "two things give the shares"),
        ({"product_name": "pl94"}, "unknown product 'pl94'"),
        ({"strategy": "usa"}, "--strategy usa.*us"),
        ({"settings": ["spine.fanout=3"]}, "spine.fanout: no such setting.*'fanout_cutoff'"),
        ({"settings": ["spine.fanout_cutoff=many"]}, "spine.fanout_cutoff: the value must be of type int, is 'many'"),
        ({"settings": ["spine.fanout_cutoff=true"]}, "must be of type int"),
        ({"settings": ["spine.consider_gq=1"]}, "must be of type bool"),
        ({"settings": ["spine.aian_categories=federal"]}, "must be a list of texts"),
        ({"settings": ["spine=3"]}, "a table of settings is expected"),
        ({"settings": ["input.path=x"]}, "--set input: a spine has settings"),
        ({"settings": ["budget.framework=renyi"]}, "budget.framework: unknown 'renyi'"),
    ],
)
def test_a_mistake_is_answered(options, words):
    with pytest.raises(ConfigurationError, match=words):
        choose(**options)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (FILE.replace('"1/4"', "0.25"), BudgetError, "budget.geolevels.State: expected an exact number, found float"),
        (FILE.replace('"1/4"', '"a quarter"'), BudgetError, "budget.geolevels.State: 'a quarter' is not a number"),
        (FILE.replace('"1/8"', '"1/9"'), GeographyError, "the shares of the geolevels sum to 35/36, not 1"),
        (FILE.replace("County", "Kreis"), GeographyError, "'County' below a root"),
        (FILE.replace('framework = "pure_dp"\n', ""), ConfigurationError, "budget.framework is missing"),
        ("[budget]\n", ConfigurationError, "has no table budget.geolevels"),
    ],
)
def test_a_wrong_file_of_shares_is_answered(file, text, kind, words):
    file.write_text(text)
    with pytest.raises(kind, match=words):
        choose(product_name=None, shares=file)


@pytest.mark.parametrize("name", DHC_SHARES)
def test_shares_of_the_demographic_and_housing_characteristics_have_names(name):
    choice = choose(kind="dhc", product_name=None, shares=Path(name))
    assert dict(choice.facts) == {"shares": name}
    assert choice.framework == "zcdp"
    assert sum(DHC_SHARES[name].values()) == 1
    assert choice.shares.levels[-5:] == ("Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")
    assert ("US" in choice.shares.levels) == name.endswith("us")
