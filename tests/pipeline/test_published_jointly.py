"""A joint run whose later part is held to what its earlier part publishes: order, deaths, and the same answers."""

from __future__ import annotations

import json

import held_runs
import pytest

from das_spark.cli.main import main
from das_spark.config import load_parts, load_plan, plan_from_config, plan_to_config, stage_names
from das_spark.errors import ConfigurationError
from das_spark.features.microdata.feature import Microdata
from das_spark.pipeline import joint, run_parts, run_stages
from das_spark.pipeline import published as published_stage
from das_spark.store import PublicManifest

LEVELS = ("County", "Tract", "Block")


@pytest.fixture
def plan(monkeypatch, tmp_path):
    held_runs.registered_units(monkeypatch)
    return load_parts(held_runs.write_joint(tmp_path))


def test_the_later_part_takes_its_counts_when_the_earlier_one_is_done(plan, tmp_path):
    names = stage_names(plan)
    taken = names.index("household: published counts")
    assert names.index("unit: verify") < taken == names.index("household: measure County") - 1
    later = plan.parts["household"]
    assert (later.published_part, later.input.published) == ("unit", None)
    again = plan_from_config(plan_to_config(later), source="test")
    assert again.published_part == "unit"
    assert again.config_hash == later.config_hash
    assert plan.parts["unit"].published_part == ""


def test_by_itself_or_in_the_other_order_it_needs_a_run(plan, tmp_path):
    with pytest.raises(ConfigurationError, match=r"input\.published: is missing.*hamlet_units"):
        load_plan(tmp_path / "households.toml", settings=["budget.strategy=usual", "invariants.units=false"])
    path = tmp_path / "joint.toml"
    path.write_text(path.read_text().replace('["units.toml", "households.toml"]', '["households.toml", "units.toml"]'))
    with pytest.raises(ConfigurationError, match=r"input\.published: is missing"):
        load_parts(path)
    settings = ["budget.strategy=usual", "invariants.units=false", "input.published=x"]
    with pytest.raises(
        ConfigurationError, match=r"input\.published: product 'hamlet_units' is held to counts of no other"
    ):
        load_plan(tmp_path / "units.toml", settings=settings)
    with pytest.raises(ConfigurationError, match=r"input\.published: there is no folder"):
        load_plan(tmp_path / "households.toml", settings=settings)


def charged(root):
    (ledger,) = root.glob("ledgers/*")
    states = [json.loads(line) for line in ledger.read_text().splitlines()]
    return {line["run_id"] for line in states if line.get("state") == "charged"}


@pytest.mark.spark
@pytest.mark.verified
@pytest.mark.whole_run
@pytest.mark.slow
def test_a_joint_run_that_dies_holds_every_estimate_to_the_units_of_its_earlier_part(plan, tmp_path, spark, tools):
    def go():
        return run_parts(plan, run_id="both", test_key=tools.TEST_KEY, spark=spark)

    with tools.dying(joint, "carry_out", nth=1):
        go()
    with tools.dying(published_stage, "_refuse_contradictions"):
        go()
    with tools.dying(Microdata, "publish", nth=2):
        go()
    summary = go()
    units, households = (summary.parts[record].layout.public for record in ("unit", "household"))
    of = plan.parts["unit"].product.schema.query("lived_in")
    query = plan.parts["household"].product.schema.query("tenure")
    for level in LEVELS:
        expected = held_runs.answers(tools.rows_of(units.level("estimates", level)), of)
        found = held_runs.answers(tools.rows_of(households.level("estimates", level)), query)
        assert found == expected
        assert any(any(each) for each in found.values())
    for public in (units, households):
        assert json.loads(public.verification.read_text())["passed"]
    manifest = PublicManifest.load(households.manifest)
    assert manifest.published["run_id"] == "both-unit"
    assert manifest.published["manifest"] == PublicManifest.load(units.manifest).sha256
    assert PublicManifest.load(units.manifest).published == {}
    assert [release["run_id"] for release in manifest.published["releases"]] == [entry_of(units)["run_id"]]
    claim = households.privacy_statement.read_text().partition("## The claim")[2].partition("\n## ")[0]
    assert "**epsilon = 6**" in claim
    assert "differ in one household and one unit within the same County at the same time" in claim
    with pytest.raises(ConfigurationError, match=r"no part of a joint run with part 'unit'"):
        run_stages(plan.parts["household"], run_id="alone", test_key=tools.TEST_KEY, spark=spark)


def entry_of(public):
    """The ledger entry of a run, as its manifest has it."""
    return json.loads(public.manifest.read_text())["ledger"]


def test_the_plan_says_what_is_held_and_where_it_is_taken_from(plan, tmp_path, capsys):
    assert main(["plan", str(tmp_path / "joint.toml")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "is held to the counts of 'tenure' that a run of hamlet_units has published" in said
    assert "They are taken from part 'unit' of this joint run" in said
    settings = ["budget.strategy=usual", "invariants.units=false", f"input.published={tmp_path / 'elsewhere'}"]
    given = [part for each in (*settings, "input.dataset=hamlet") for part in ("--set", each)]
    assert main(["plan", str(tmp_path / "households.toml"), *given, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert f"They are taken from {tmp_path / 'elsewhere'}." in json.dumps(told)
