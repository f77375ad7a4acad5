"""Runs whose estimates are held to what another run has published: whole ones, resumed ones, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import held_runs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.config import load_plan
from das_spark.errors import ConfigurationError, InfeasibleError, InputError, PrivacyGuardError
from das_spark.pipeline import estimate_from, levels, open_source, publish_measurements, run_stages, runner
from das_spark.pipeline import published as published_stage
from das_spark.pipeline.context import RunOptions
from das_spark.store import PublicManifest, RunLayout, open_public, read_ledger

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

LEVELS = ("County", "Tract", "Block")


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
    shutil.copytree(folder / "runs" / "ledgers", folder / "ledgers")  # with that run alone
    return folder


def plan_of(folder, product, published="", settings=()):
    run_file = folder / f"{product}.toml"
    key = f'published = "{published}"' if published else ""
    text = held_runs.RUN_FILE.format(product=product, census=folder / "census", root=folder / "runs", published=key)
    run_file.write_text(text)
    return load_plan(run_file, settings=settings)


@pytest.fixture(scope="module")
def whole(place, spark, tools):
    plan = plan_of(place, held_runs.FINE, place / "runs" / "coarse")
    return run_stages(plan, run_id="fine", test_key=tools.TEST_KEY, spark=spark)


def test_every_estimate_has_the_published_answers(whole, place, products, tools):
    coarse, fine = products
    public, theirs = whole.layout.public, place / "runs" / "coarse" / "public"
    assert json.loads(public.verification.read_text())["passed"]
    source = open_public(theirs)
    for level in LEVELS:
        mine = held_runs.answers(tools.rows_of(public.level("estimates", level)), fine.schema.query("home * age * sex"))
        other = held_runs.answers(tools.rows_of(source.level("estimates", level)), coarse.schema.query("detailed"))
        assert mine == other
        assert any(any(values) for values in mine.values())


def test_statement_and_manifest_name_the_run_and_no_path(whole, place):
    public = whole.layout.public
    theirs = PublicManifest.load(open_public(place / "runs" / "coarse").manifest)
    manifest = PublicManifest.load(public.manifest)
    assert manifest.published == {
        "run_id": "coarse",
        "product": held_runs.COARSE,
        "created": theirs.created,
        "manifest": theirs.sha256,
        "releases": [theirs.ledger],
    }
    statement = public.privacy_statement.read_text()
    assert "## Counts that the estimates are held to" in statement
    assert theirs.sha256 in statement
    assert str(place) not in statement + public.manifest.read_text()
    assert manifest.config["input"]["published"] == "coarse"
    assert {f"published/{level}" for level in LEVELS} <= set(manifest.rows)
    assert {each["path"] for each in manifest.data_dictionary} >= {"published/level=<geolevel>"}


def test_the_claim_is_that_of_both_releases(whole, place, tmp_path, spark, tools):
    statement = whole.layout.public.privacy_statement.read_text()
    claim = statement.partition("## The claim")[2].partition("\n## ")[0]
    assert "**epsilon = 6** (pure differential privacy)" in claim  # 3 of either run
    assert "| person | coarse | hamlet | epsilon = 3 |" in claim
    assert "| person | fine | hamlet_by_origin | epsilon = 3 |" in claim
    exact = statement.partition("## What is published exactly")[2].partition("\n## ")[0]
    assert "- By run coarse: The total number of people in every geounit of the geolevel County" in exact
    # A run of which nothing is exact is held to the totals of the other run all the same.
    settings = ["invariants.total_at=none", "invariants.units=false"]
    loose = plan_of(joined(place, tmp_path), held_runs.FINE, place / "runs" / "coarse", settings)
    assert loose.invariants.total_at is None
    public = run_stages(loose, run_id="loose", test_key=tools.TEST_KEY, spark=spark).layout.public
    text = public.privacy_statement.read_text()
    assert "one record, replaced by another one within the same County" in text
    assert "| moves within | epsilon" in text
    assert json.loads(public.verification.read_text())["passed"]


def joined(place, folder):
    """A folder with the same census, and the ledger in which the coarse run is entered."""
    shutil.copytree(place / "census", folder / "census")
    shutil.copytree(place / "ledgers", folder / "runs" / "ledgers")
    return folder


def test_a_run_of_another_dataset_is_refused_unless_that_is_acknowledged(place, tmp_path, spark, tools):
    shutil.copytree(place / "census", tmp_path / "census")
    coarse = place / "runs" / "coarse"
    plan = plan_of(tmp_path, held_runs.FINE, coarse)  # its ledger has no release
    with pytest.raises(PrivacyGuardError, match="does not have release coarse#") as caught:
        run_stages(plan, run_id="fine", test_key=tools.TEST_KEY, spark=spark)
    assert 'acknowledge = ["published_elsewhere"]' in caught.value.hint
    assert not charged(tmp_path / "runs")
    other = plan_of(joined(place, tmp_path / "other"), held_runs.FINE, coarse, ["input.dataset=another"])
    with pytest.raises(PrivacyGuardError, match="the ledger of dataset another does not have release"):
        run_stages(other, run_id="other", test_key=tools.TEST_KEY, spark=spark)
    acknowledged = ['privacy.acknowledge=["published_elsewhere"]']
    there = plan_of(tmp_path / "other", held_runs.FINE, coarse, acknowledged)
    with pytest.raises(ConfigurationError, match="is in the ledger of this dataset"):
        run_stages(there, run_id="there", test_key=tools.TEST_KEY, spark=spark)
    public = run_stages(
        plan_of(tmp_path, held_runs.FINE, coarse, acknowledged), run_id="known", test_key=tools.TEST_KEY, spark=spark
    ).layout.public
    statement, manifest = public.privacy_statement.read_text(), PublicManifest.load(public.manifest)
    assert any(notice.startswith("COUNTED ELSEWHERE") for notice in manifest.notices)
    assert "COUNTED ELSEWHERE" in statement
    assert "**epsilon = 6**" in statement
    assert "its cost is as its own manifest states it" in statement
    assert json.loads(public.verification.read_text())["passed"]


def test_a_manifest_that_is_not_the_one_of_the_ledger_is_refused(place, tmp_path, spark, tools):
    copied = shutil.copytree(place / "runs" / "coarse" / "public", tmp_path / "copied")
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["ledger"]["total"] = "1/100"
    (copied / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    plan = plan_of(joined(place, tmp_path / "here"), held_runs.FINE, copied)
    with pytest.raises(PrivacyGuardError, match="is not the one that the ledger of this dataset has"):
        run_stages(plan, run_id="fine", test_key=tools.TEST_KEY, spark=spark)


def test_a_run_that_dies_goes_on_to_the_same_bytes(whole, place, spark, tools, tmp_path):
    folder = joined(place, tmp_path / "again")
    plan = plan_of(folder, held_runs.FINE, place / "runs" / "coarse")

    def go():
        run_stages(plan, run_id="fine", test_key=tools.TEST_KEY, spark=spark)

    for where, name, nth in (
        (published_stage, "write_durably", 1),
        (published_stage, "_refuse_contradictions", 1),
        (runner, "charge", 1),
        (levels, "estimate", 2),
    ):
        with tools.dying(where, name, nth=nth):
            go()
    assert not list((folder / "runs" / "fine" / "public").rglob("published_leaves"))
    shutil.move(place / "runs" / "coarse", place / "runs" / "elsewhere")
    try:  # what was taken is enough
        go()
    finally:
        shutil.move(place / "runs" / "elsewhere", place / "runs" / "coarse")
    tables = ("measurements", "published", "estimates", "bounds")
    roots = (folder / "runs" / "fine" / "public", whole.layout.public.path)
    found, expected = (tools.level_rows(public, tables, LEVELS) for public in roots)
    assert found == expected


def test_it_is_estimated_again_from_its_public_root_alone(whole, spark, tools, tmp_path):
    source = open_source(whole.layout.public.path, None, [f"output.root={tmp_path}"])
    again = estimate_from(source, run_id="again", spark=spark).layout.public
    assert json.loads(again.verification.read_text())["passed"]
    tables = ("published", "estimates")
    assert tools.level_rows(again.path, tables, LEVELS) == tools.level_rows(whole.layout.public.path, tables, LEVELS)
    assert PublicManifest.load(again.manifest).published == PublicManifest.load(whole.layout.public.manifest).published


def test_its_measurements_have_no_folder_of_their_own(whole, spark, tmp_path):
    with pytest.raises(ConfigurationError, match="held to counts of hamlet"):
        publish_measurements(whole.layout.public.path, tmp_path / "out", spark)


def taking(plan, folder, *, insecure=True):
    """A run that has come to the stage: no more of it than is asked before any table is read."""
    layout = RunLayout.at(folder, "fine")
    tables = SimpleNamespace(is_finished=lambda table: False)
    options = RunOptions()
    (ledger,) = (Path(plan.output.root) / "ledgers").glob("*.jsonl")
    opened = SimpleNamespace(book=SimpleNamespace(read=lambda: read_ledger(ledger)))
    return SimpleNamespace(
        plan=plan,
        layout=layout,
        tables=tables,
        options=options,
        is_insecure=insecure,
        required_ledger=lambda: opened,
    )


def test_counts_under_a_test_key_are_refused_by_a_run_under_a_real_one(place, tmp_path):
    plan = plan_of(place, held_runs.FINE, place / "runs" / "coarse")
    with pytest.raises(PrivacyGuardError, match="comes from a test key"):
        published_stage.take_published(taking(plan, tmp_path, insecure=False))


def test_a_run_goes_on_with_the_run_that_it_began_with_alone(place, tmp_path):
    plan = plan_of(place, held_runs.FINE, place / "runs" / "coarse")
    context = taking(plan, tmp_path)
    noted = context.layout.public.published_source
    noted.parent.mkdir(parents=True)
    noted.write_text(json.dumps({"run_id": "coarse", "manifest": "0" * 64}))
    with pytest.raises(InputError, match="is not the run that this one began with"):
        published_stage.take_published(context)


def charged(folder):
    """Whether the run that is held was charged, in the ledgers of a folder."""
    lines = [json.loads(line) for file in folder.glob("ledgers/*") for line in file.read_text().splitlines()]
    return any(line.get("state") == "charged" for line in lines if line.get("run_id", "").startswith("fine#"))


def refused(place, tmp_path, spark, tools, published, kind, match, change=lambda census: None):
    """A run that is refused before anything is spent."""
    joined(place, tmp_path)
    change(tmp_path / "census")
    plan = plan_of(tmp_path, held_runs.FINE, published)
    with pytest.raises(kind, match=match) as caught:
        run_stages(plan, run_id="fine", test_key=tools.TEST_KEY, spark=spark)
    assert caught.value.hint
    assert not list(tmp_path.glob("runs/fine/*/measurements"))
    assert not charged(tmp_path / "runs")
    return caught.value.message


def with_table(census, name, change):
    path = census / f"{name}.parquet"
    rows = change(pq.read_table(path).to_pylist())
    pq.write_table(pa.Table.from_pylist(rows), path)


def test_a_run_on_a_block_that_the_other_does_not_have_is_refused(place, tmp_path, spark, tools):
    def more(census):
        with_table(census, "units", lambda rows: [*rows, {"geocode": "299", "units_0": 0, "units_1": 0}])

    coarse = place / "runs" / "coarse"
    refused(place, tmp_path, spark, tools, coarse, InputError, "no estimate of Block such as 299", more)


def test_a_run_without_a_block_where_the_other_counts_people_is_refused(place, tmp_path, spark, tools):
    def less(census):
        for name in ("persons", "units"):
            with_table(census, name, lambda rows: [row for row in rows if row["geocode"] != "102"])

    coarse = place / "runs" / "coarse"
    said = refused(place, tmp_path, spark, tools, coarse, InputError, "which this run does not know", less)
    assert "102" in said


def test_counts_that_contradict_the_declared_units_are_refused(place, tmp_path, spark, tools):
    def moved(census):  # a school where the other run has none
        def with_school(row):
            return {**row, "units_1": row["units_1"] or int(row["geocode"] == "103")}

        with_table(census, "units", lambda rows: [with_school(row) for row in rows])
        with_table(
            census,
            "persons",
            lambda rows: [*rows, {"geocode": "103", "home": 1, "age": 0, "sex": 0, "origin": 0, "count": 2}],
        )

    said = refused(place, tmp_path, spark, tools, place / "runs" / "coarse", InfeasibleError, "contradict", moved)
    assert "103 (Block: class)" in said
    assert "(County: total)" in said


def test_another_product_an_unfinished_run_and_a_folder_of_nothing_are_refused(whole, place, tmp_path, spark, tools):
    copied = shutil.copytree(place / "runs" / "coarse" / "public", tmp_path / "copied")
    (copied / "verification.json").unlink()
    cases = {
        "a": (whole.layout.folder, "has published hamlet_by_origin"),
        "b": (tmp_path, "is not the folder of a finished run"),
        "c": (copied, "is not finished and verified"),
    }
    for name, (folder, said) in cases.items():
        (tmp_path / name).mkdir()
        refused(place, tmp_path / name, spark, tools, folder, ConfigurationError, said)
