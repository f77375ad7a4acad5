"""Whole runs on spines that are made of areas: budget, exact totals, census tables, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import shutil
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import servers

from das_spark.attack import AttackSettings
from das_spark.cli.main import main
from das_spark.config import RunPlan, load_plan
from das_spark.errors import InputError
from das_spark.features.census.feature import CensusEstimates
from das_spark.features.intervals.finished import area_intervals, open_intervals
from das_spark.features.intervals.tables import intervals_layout as layout_of_intervals
from das_spark.features.replicates.tables import errors_folder, intervals_layout
from das_spark.features.tables.feature import Tables
from das_spark.pipeline import (
    estimate_from,
    levels,
    open_source,
    run_stages,
    spines,
    verify_run,
)
from das_spark.pipeline import ingest as ingest_stage
from das_spark.pipeline.attack import attack_run
from das_spark.pipeline.charge import open_ledger
from das_spark.pipeline.context import RunContext, RunOptions
from das_spark.pipeline.input_record import fingerprint
from das_spark.pipeline.progress import Progress
from das_spark.privacy import LedgerEntry, RunKey
from das_spark.store import PublicLayout, RunLayout, created_at, finished, open_run
from das_spark.store.spine import read_record

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.slow, pytest.mark.verified]

CONF = Path(__file__).parents[2] / "conf" / "pl94_2020_simulated.toml"
KEY = "an open secret"


@pytest.fixture(scope="module")
def population(tmp_path_factory) -> Path:
    """Some 10,000 people of a synthetic state, as CEF records, in places and tribal areas that are synthetic, too."""
    place = tmp_path_factory.mktemp("spines") / "population"
    asked = ["--like", "2020-state", "--share", "1/1000", "--layout", "cef", "--out", str(place)]
    assert main(["simulate", *asked]) == 0
    return place


def plan_of(population: Path, root: Path | str, *settings: str) -> RunPlan:
    given = [f"input.path={population}", f"output.root={root}", "budget.strategy=state", 'output.microdata=["parquet"]']
    return load_plan(CONF, settings=[*given, *settings])


@pytest.fixture(scope="module")
def optimised(population, tmp_path_factory, spark) -> RunLayout:
    """A run of persons on the optimised spine, by the stages of a run."""
    plan = plan_of(population, tmp_path_factory.mktemp("optimised"), "geography.spine=optimised")
    return run_stages(plan, run_id="optimised", test_key=KEY, spark=spark).layout


def test_a_spine_is_built_in_a_store_and_the_run_goes_on_with_it(population, tmp_path, spark) -> None:
    with servers.s3_server(tmp_path) as server, servers.reached(server.environment, spark):
        plan = plan_of(population, f"{server.url}/runs", "geography.spine=optimised")
        for until in ("spine", "measure State"):
            summary = run_stages(plan, run_id="mine", test_key=KEY, spark=spark, until=until)
        record = read_record(summary.layout.public.spine)
        assert record.kind == "optimised"
        assert finished(summary.layout.public.level("measurements", "State"))


def rows(public: PublicLayout, table: str, level: str) -> list[dict]:
    files = sorted(public.level(table, level).glob("part-*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def people(row: dict) -> int:
    return sum(row["counts"])


def test_the_run_is_verified_on_the_spine_and_on_the_census(optimised):
    report = json.loads(optimised.public.verification.read_text())
    assert report["passed"] is True
    names = {check["name"] for check in report["checks"]}
    assert {
        "shares sum to 1 on every path",
        "measured geounits have a share",
        "census geounits sum up blocks",
        "tables equal estimates",
    } <= names


def test_only_children_are_not_measured_and_their_share_is_above(optimised):
    public = optimised.public
    shares = {row["geocode"]: Fraction(row["share"]) for row in rows(public, "shares", "Block")}
    measured = {row["geocode"] for row in rows(public, "measurements", "Block")}
    without = {code for code, share in shares.items() if not share}
    assert without
    assert measured
    assert not measured & without
    groups = {row["geocode"]: Fraction(row["share"]) for row in rows(public, "shares", "Block_Group")}
    length = len(next(iter(groups)))
    usual = min(share for share in groups.values() if share)
    assert all(groups[code[:length]] > usual or not groups[code[:length]] for code in without)


def test_siblings_with_other_shares_are_measured_with_other_noise(optimised):
    found: dict[str, set[float]] = {}
    for row in rows(optimised.public, "measurements", "Block_Group"):
        found.setdefault(row["query"], set()).add(row["variance"])
    assert all(len(variances) > 1 for variances in found.values()), found


def test_attacks_find_the_declared_noise_by_the_share_of_each_geounit(optimised):
    found = attack_run(optimised.folder, AttackSettings(draws=2_000, blocks=20, test_key="k"))
    assert not found.convicts
    assert not found.left_out
    assert found.inference.usual_shares
    noise = found.inference.own
    groups = [row for row in noise.rows if row.geolevel == "Block_Group"]
    assert len({row.share for row in groups}) > 1
    assert len({row.declared_deviation for row in groups if row.query == groups[0].query}) > 1
    assert found.linkage.geolevel == "Block"


def test_the_total_of_the_state_is_exact_and_that_of_its_parts_is_not_told(optimised):
    public = optimised.public
    parts = rows(public, "estimates", "State")
    assert {row["geocode"][0] for row in parts} == {"0", "1"}
    declared = [row for row in rows(public, "invariants", "State") if "total" in row["name"]]
    assert {row["name"] for row in declared} == {"group_total"}
    assert {tuple(row["values"]) for row in declared} == {(sum(people(row) for row in parts),)}
    assert "parts" in public.privacy_statement.read_text()


def test_tables_and_microdata_are_of_census_geounits(optimised, population):
    public = optimised.public
    blocks = {row["geocode"] for row in rows(public, "census_estimates", "Block")}
    lines = (population / "geography.txt").read_text().splitlines()[1:]
    assert len(blocks) == len(lines)
    assert {len(code) for code in blocks} == {16}
    for level, length in (("State", 2), ("County", 5), ("Tract", 11), ("Block_Group", 12)):
        table = pq.read_table(public.tables.level("P1", "parquet", level))
        assert {len(code) for code in table["geocode"].to_pylist()} == {length}
    persons = pq.read_table(public.microdata("person", "parquet"), columns=["TABBLKST", "TABBLKCOU"])
    assert persons.num_rows == sum(people(row) for row in rows(public, "estimates", "State"))


def test_the_manifest_tells_of_the_tables_of_the_spine(optimised):
    manifest = json.loads(optimised.public.manifest.read_text())
    told = {entry["path"] for entry in manifest["data_dictionary"]}
    assert {"spine/blocks", "shares/level=<geolevel>", "census_estimates/level=<census geolevel>"} <= told
    done = {stage["name"]: stage["outputs"] for stage in manifest["stages"]}
    assert list(done) == ["spine", "ingest", "measure", "estimate", "census geounits", "microdata", "tabulate"]
    assert (done["spine"], done["census geounits"]) == (["spine", "shares"], ["census_estimates"])
    assert all((optimised.public.path / output).exists() for outputs in done.values() for output in outputs)
    blocks = len(rows(optimised.public, "estimates", "Block"))
    assert manifest["rows"]["shares/Block"] == manifest["rows"]["census_estimates/Block"] == blocks


def test_the_statement_says_what_shares_and_losses_are(optimised):
    statement = optimised.public.privacy_statement.read_text()
    assert "Geounits of this spine have shares of their own" in statement
    assert "The losses below are those of the worst path" in statement
    whole = statement.split("| State | County | Tract | Block_Group | Block | lowest geounits |")[1]
    paths = [line.strip("| ").split(" | ") for line in whole.splitlines()[2:] if line.startswith("|")]
    paths = paths[: next(place for place, path in enumerate(paths) if len(path) != 6)]
    assert len(paths) > 1
    assert {sum(Fraction(share) for share in path[:5]) for path in paths} == {1}
    blocks = len(rows(optimised.public, "estimates", "Block"))
    assert sum(int(path[5].replace(",", "")) for path in paths) == blocks
    # The entry in the ledger knows the same paths, so that all runs of the dataset are composed over them.
    entry = LedgerEntry.of(json.loads(optimised.public.manifest.read_text())["ledger"])
    assert {tuple(path[:5]) for path in paths if path[0] != "..."} <= {tuple(map(str, path)) for path in entry.paths}
    assert "| exact composition of all measured answers, at most |" in statement


def test_the_accuracy_report_has_off_spine_entities(optimised):
    report = json.loads(optimised.restricted.accuracy_json.read_text())
    places = {entry["place"] for entry in report["entries"]}
    assert {"place", "county_subdivision", "Block_Group"} <= places


def test_estimates_can_be_made_again_from_the_public_folder(optimised, tmp_path, spark):
    source = open_source(optimised.folder, None, [f"output.root={tmp_path}"])
    summary = estimate_from(source, run_id="again", spark=spark)
    for level in ("State", "Tract", "Block"):
        first, again = (rows(each.public, "estimates", level) for each in (optimised, summary.layout))
        assert sorted(first, key=lambda row: row["geocode"]) == sorted(again, key=lambda row: row["geocode"])
    assert json.loads(summary.layout.public.verification.read_text())["passed"] is True


def test_a_share_that_was_changed_is_found(optimised, tmp_path, spark):
    copied = tmp_path / "optimised"
    shutil.copytree(optimised.folder, copied)
    (file, *_) = sorted((copied / "public" / "shares" / "level=Tract").glob("part-*.parquet"))
    table = pq.read_table(file)
    changed = ["1/2", *table["share"].to_pylist()[1:]]
    place = table.schema.get_field_index("share")
    pq.write_table(table.set_column(place, table.schema.field("share"), [changed]), file)
    report = verify_run(copied, spark)
    failed = {check.name for check in report.checks if not check.passed}
    assert "columns of shares" in failed


def test_a_run_that_dies_resumes_on_the_same_spine(optimised, population, tmp_path, spark, tools):
    plan = plan_of(population, tmp_path, "geography.spine=optimised")
    for module, place in ((levels, "measure"), (CensusEstimates, "publish"), (Tables, "publish")):
        with tools.dying(module, place):
            run_stages(plan, run_id="optimised", test_key=KEY, spark=spark)
    layout = run_stages(plan, run_id="optimised", test_key=KEY, spark=spark).layout
    for table in ("measurements", "estimates"):
        first, again = (rows(each.public, table, "Block") for each in (optimised, layout))
        assert sorted(map(str, first)) == sorted(map(str, again))


@pytest.mark.parametrize("kind", ["aian", "dhc"])
def test_other_kinds_of_spines_run_too(population, tmp_path, spark, kind):
    settings = [f"geography.spine={kind}", "evaluation.enabled=false", "run.product=pl94_2020_unit"]
    if kind == "dhc":
        levels = ("State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")
        shares = ", ".join(f'{level}="1/7"' for level in levels)
        settings += [f"budget.geolevels={{{shares}}}", 'budget.queries={detailed="1"}']
        settings += [f"geography.levels=[{', '.join(f'{chr(34)}{level}{chr(34)}' for level in levels)}]"]
    plan = plan_of(population, tmp_path, *settings)
    layout = run_stages(plan, run_id=kind, test_key=KEY, spark=spark).layout
    assert json.loads(layout.public.verification.read_text())["passed"] is True


def test_a_spine_of_areas_is_estimated_from_all_levels_together(population, tmp_path, spark):
    settings = ["geography.spine=optimised", "evaluation.enabled=false", "estimation.estimator=blue_down"]
    layout = run_stages(plan_of(population, tmp_path, *settings), run_id="blue", test_key=KEY, spark=spark).layout
    public = layout.public
    assert json.loads(public.verification.read_text())["passed"] is True
    for level in ("State", "County", "Tract", "Block_Group"):
        geounits = {row["geocode"] for row in rows(public, "geounits", level)}
        assert {row["geocode"] for row in rows(public, "upward", level)} == geounits
        assert len({row["name"] for row in rows(public, "upward", level)} - {"unknown"}) == 4 * (level != "Block_Group")


def test_intervals_of_census_geounits_are_those_of_unions_of_blocks(population, tmp_path, spark):
    settings = [
        *("geography.spine=optimised", "evaluation.enabled=false", "run.product=pl94_2020_unit"),
        *("measurement.rows=all", 'output.intervals={level="0.9"}', 'output.tables=["parquet"]'),
    ]
    public = run_stages(
        plan_of(population, tmp_path, *settings), run_id="unions", test_key=KEY, spark=spark
    ).layout.public
    assert json.loads(public.verification.read_text())["passed"] is True
    found = {}
    for level in ("State", "County", "Tract", "Block_Group", "Block"):
        (file,) = sorted(layout_of_intervals(public).level("H1", "parquet", level).glob("part-*.parquet"))
        found[level] = {row["geocode"]: row for row in pq.ParquetFile(file).read().to_pylist()}
        published = pq.read_table(public.tables.level("H1", "parquet", level)).to_pylist()
        assert set(found[level]) == {row["geocode"] for row in published}
        # How many units there are is exact in every block; how many of them are occupied is not.
        for row in published:
            own = found[level][row["geocode"]]
            assert own["H0010001"] == pytest.approx(row["H0010001"], abs=1e-5)
            assert (own["H0010001_low"], own["H0010001_high"]) == (row["H0010001"],) * 2
            both = own["H0010002"] + own["H0010003"]
            assert both == pytest.approx(own["H0010001"], abs=1e-5)
    for above, below in pairwise(found):
        length = len(next(iter(found[above])))
        for code, row in found[above].items():
            parts = [each for part, each in found[below].items() if part[:length] == code]
            for name in ("H0010001", "H0010002", "H0010003"):
                assert row[name] == pytest.approx(sum(part[name] for part in parts), abs=1e-5)
            # Siblings know of each other by what was measured above them: errors of their sum are not independent.
            assert row["H0010002_se"] <= sum(part["H0010002_se"] for part in parts) + 1e-5
    tract, row = next(iter(found["Tract"].items()))
    inside = [code for code in found["Block"] if code.startswith(tract)]
    areas = tmp_path / "areas.csv"
    areas.write_text("".join(f"{line}\n" for line in ("geocode,area", *(f"{code},tract" for code in inside))))
    for interval in area_intervals(open_intervals(public.path, "0.9"), areas, tmp_path / "x", spark):
        assert (interval.area, interval.table) == ("tract", "H1")
        assert interval.estimate == pytest.approx(row[interval.column], abs=1e-6)
        assert interval.standard_error**2 == pytest.approx(row[f"{interval.column}_se"] ** 2, abs=1e-6)
        assert (interval.low, interval.high) == (row[f"{interval.column}_low"], row[f"{interval.column}_high"])
    (state,) = found["State"].values()
    blocks = sum(block["H0010002_se"] ** 2 for block in found["Block"].values())
    assert 0 < state["H0010002_se"] ** 2 < blocks / 10


def test_intervals_of_published_counts_are_of_census_geounits_on_a_spine_of_areas(population, tmp_path, spark):
    settings = [
        *("geography.spine=optimised", "evaluation.enabled=false", "run.product=pl94_2020_unit"),
        *('output.replicates={runs=2, level="0.9"}', 'output.tables=["parquet"]'),
    ]
    plan = plan_of(population, tmp_path, *settings)
    public = run_stages(plan, run_id="repeated", test_key=KEY, spark=spark).layout.public
    report = json.loads(public.verification.read_text())
    assert report["passed"] is True
    assert "offsets of counts follow from the errors of replicates" in {check["name"] for check in report["checks"]}
    widths = set()
    for level in ("State", "County", "Tract", "Block_Group", "Block"):
        (file,) = sorted(intervals_layout(public).level("H1", "parquet", level).glob("part-*.parquet"))
        found = {row["geocode"]: row for row in pq.ParquetFile(file).read().to_pylist()}
        published = pq.read_table(public.tables.level("H1", "parquet", level)).to_pylist()
        assert set(found) == {row["geocode"] for row in published}
        for row in published:
            own = found[row["geocode"]]
            for name in ("H0010001", "H0010002", "H0010003"):
                assert own[name] == row[name]
                assert own[f"{name}_low"] <= own[name] <= own[f"{name}_high"]
            # How many units there are is exact in every block, and so in every replicate.
            assert (own["H0010001_rmse"], own["H0010001_low"], own["H0010001_high"]) == (0.0, *(row["H0010001"],) * 2)
            widths.add(own["H0010002_high"] - own["H0010002_low"])
    assert len(widths) > 3
    # From the public folder, by whoever has it: the same bytes under the same name.
    shutil.copytree(public.path, tmp_path / "public")
    source = open_source(tmp_path / "public", None, [f'output.root="{tmp_path}/again"'])
    again = estimate_from(source, run_id="repeated", spark=spark).layout.public
    for number in (1, 2):
        (mine,), (theirs,) = (sorted(errors_folder(each, number).glob("part-*")) for each in (again, public))
        assert mine.read_bytes() == theirs.read_bytes()


def test_areas_of_another_geography_are_refused_before_anything_is_spent(population, tmp_path, spark):
    lines = (population / "geography.txt").read_text().splitlines()
    (tmp_path / "short.txt").write_text("\n".join([*lines[:-3], ""]))
    plan = plan_of(
        population,
        tmp_path,
        "geography.spine=optimised",
        "geography.reader=grfc",
        f"geography.path={tmp_path}/short.txt",
    )
    with pytest.raises(InputError, match=r"says nothing of 3 blocks of the input, such as \d{16}"):
        run_stages(plan, run_id="other", test_key=KEY, spark=spark)
    assert not list(tmp_path.glob("ledgers/*"))


def test_a_run_of_another_budget_takes_over_the_spine_with_the_input(optimised, population, spark, monkeypatch):
    plan = plan_of(population, optimised.root, "geography.spine=optimised", "budget.rho=1/7")
    layout = RunLayout.at(optimised.root, "cheaper")
    open_run(layout, plan.config_hash)
    progress = Progress(lambda _: None, "cheaper")
    ledger = open_ledger(plan, layout, progress, insecure=True)
    key, began = RunKey.insecure(KEY), created_at(layout)
    context = RunContext(
        plan, layout, spark, key, progress, began, ledger=ledger, options=RunOptions(ingested_by=optimised)
    )
    for name in ("reader", "write_levels_of"):
        monkeypatch.setattr(ingest_stage, name, lambda *_: pytest.fail("made again"))
    monkeypatch.setattr(spines, "build_spine", lambda *_: pytest.fail("built again"))
    ingest_stage.ingest(context, fingerprint(plan.input)[0])
    assert [level.length for level in context.spine.levels] != [level.length for level in plan.spine.levels]
    for table in ("geounits", "shares", "invariants", "bounds"):
        for level in plan.spine.names:
            assert rows(layout.public, table, level) == rows(optimised.public, table, level)


@pytest.mark.parametrize("changed", [False, True])
def test_what_is_read_of_geography_stands_in_the_record_and_may_not_change(
    population, tmp_path, spark, monkeypatch, changed
):
    areas = tmp_path / "areas.txt"
    shutil.copy(population / "geography.txt", areas)
    settings = ["geography.spine=optimised", "geography.reader=grfc", f"geography.path={areas}"]
    plan = plan_of(population, tmp_path, *settings)
    read = spines.blocks_in_areas

    def read_and_change(*given):
        blocks = read(*given)
        if changed:
            areas.write_text(areas.read_text().replace("A", "B", 1))
        return blocks

    monkeypatch.setattr(spines, "blocks_in_areas", read_and_change)
    before = hashlib.sha256(areas.read_bytes()).hexdigest()
    if changed:
        with pytest.raises(InputError, match=r"areas\.txt: changed while it was read"):
            run_stages(plan, run_id="other", test_key=KEY, spark=spark, until="spine")
        assert not list(tmp_path.glob("ledgers/*")), "nothing is spent on it"
        return
    layout = run_stages(plan, run_id="other", test_key=KEY, spark=spark, until="spine").layout
    record = json.loads(layout.restricted.input_record.read_text())
    assert [(each["file"], each["sha256"]) for each in record["geography"]] == [(str(areas), before)]
    assert str(areas) not in {file["file"] for file in record["files"]}
