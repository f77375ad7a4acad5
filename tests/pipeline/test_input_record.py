"""What is kept of the input beside the leaves, and what is refused there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from fractions import Fraction
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from das_spark.cli.main import main
from das_spark.config import InputSettings
from das_spark.errors import InputError, OutputError
from das_spark.pipeline import ingest as ingest_stage
from das_spark.pipeline import input_record, run_stages
from das_spark.pipeline.input_record import (
    geography_files_of,
    identity_of_input,
    require_same_geography,
    save_input_record,
)
from das_spark.privacy import Budget, Framework, LedgerEntry, LevelBudget, QueryShare
from das_spark.spark.leaves import LeafFacts
from das_spark.spark.readers import IngestedTables
from das_spark.store import RunLayout, open_run, succeed

LEVELS = ("State", "County")


@pytest.mark.spark
def test_leaves_of_which_rows_stand_twice_are_no_input(workshop):
    context = workshop.context("doubled")
    with pytest.raises(OutputError, match="hold geounits more than once"):
        save_input_record(context, "f" * 64, LeafFacts(2, 2, 3, twice=["0100100001"]), (), ())
    assert not context.layout.restricted.input_record.exists()
    save_input_record(context, "f" * 64, LeafFacts(2, 2, 3), (), ())
    assert context.layout.restricted.input_record.is_file()


@pytest.mark.spark
@pytest.mark.slow
def test_an_input_without_a_record_is_refused_before_anything_is_spent(workshop, tools):
    persons, units = (
        table | {name: [0] * len(table[name])}
        for table, name in zip(tools.census_tables(), ("count", "units"), strict=True)
    )
    tools.write_census(workshop.census, persons, units)
    with pytest.raises(InputError, match="the input holds no people"):
        run_stages(workshop.plan(), run_id="nobody", test_key="x", spark=workshop.spark)
    assert not workshop.layout("nobody").restricted.input_record.exists()
    assert workshop.ledger() == []


@pytest.mark.spark
@pytest.mark.slow
def test_persons_and_a_geography_are_all_that_units_made_from_people_need(workshop, tools):
    """100,000 people in one type of group quarters: more than one facility may hold."""
    people = {"geocode": ["0100100001"] * 100_000 + ["0100100002"] * 7, "hhgq": [5] * 100_000 + [0] * 7}
    others = {name: [0] * 100_007 for name in ("age18plus", "hispanic", "race")}
    places = pa.table({"geocode": ["0100100001", "0100100002", "0100200001"]})
    parquet.write_table(pa.table(people | others), workshop.folder / "records.parquet")
    csv.write_csv(places, workshop.folder / "places.csv")
    path = workshop.run_file(change=("tidy_counts", "tidy_records"))
    settings = ['path = "', "units_from_people = true\n", f'geography = "{workshop.folder}/places.csv"\npersons = "']
    path.write_text(path.read_text().replace(settings[0], "".join(settings[1:])))
    text = path.read_text().replace(str(workshop.census), f"{workshop.folder}/records.parquet")
    path.write_text(f'{text}\n[privacy]\nacknowledge = ["units_from_people"]\n')
    arguments = ["run", str(path), "--run-id", "made", "--test-key", "x", "--until", "ingest"]
    assert main(arguments) == 0
    declared = workshop.layout("made").public.level("invariants", "Enumdist")
    units = {row["geocode"]: row["values"] for row in tools.rows_of(declared) if row["name"] == "units"}
    none = [0] * 8
    assert units == {
        "0100100001": [0, 0, 0, 0, 0, 2, 0, 0],
        "0100100002": [3, *none[1:]],
        "0100200001": none,
    }


@pytest.mark.spark
@pytest.mark.real_data
@pytest.mark.slow
def test_blocks_that_do_not_sum_to_their_county_are_noticed_in_the_restricted_record(tmp_path, census_data, capsys):
    official = census_data / "official" / "ri2018_2020Style.pl"
    shutil.copytree(official, tmp_path / "official")
    arguments = ["run", "e2e_2018", "--run-id", "part", "--test-key", "x", "--until", "ingest"]
    settings = [f"input.path={tmp_path}/official", f"output.root={tmp_path}/runs", "input.unit_conflicts=from_people"]
    assert main([*arguments, *(each for setting in settings for each in ("--set", setting))]) == 0
    printed = capsys.readouterr().out
    layout = RunLayout.at(tmp_path / "runs", "part")
    problems = [json.loads(line) for line in layout.restricted.input_problems.read_text().splitlines()]
    found = {
        (problem["field"], *problem["geounits"]) for problem in problems if "sum of their blocks" in problem["expected"]
    }
    assert {("P0010001", "44007"), ("P0010001", "44")} <= found
    assert json.loads(layout.restricted.input_record.read_text())["problems"] == problems
    printed = re.sub(r"\s", "", printed)  # lines are as long as the terminal is wide
    assert f"thefilesdonotagreeinallthattheysay;see{layout.restricted.input_problems}" in printed
    assert not re.search("614,?053|29,?225|44007", printed.replace(str(tmp_path), ""))


@pytest.mark.spark
@pytest.mark.slow
def test_an_input_that_is_replaced_while_it_is_read_is_refused_and_nothing_of_it_is_kept(workshop, monkeypatch):
    layout, plan = workshop.layout("replaced"), workshop.plan()

    released = []
    monkeypatch.setattr(IngestedTables, "release", lambda tables: released.append(tables.held))

    refuse = ingest_stage._refuse_leaves

    def delivered(*given):
        assert len(released) == 1, "what Spark keeps of the input is released when the leaves are written"
        os.utime(workshop.census / "units.parquet", ns=(1, 1))
        refuse(*given)

    monkeypatch.setattr(ingest_stage, "_refuse_leaves", delivered)
    with pytest.raises(InputError, match=r"units\.parquet: changed while it was read"):
        run_stages(plan, run_id="replaced", test_key="x", spark=workshop.spark, until="ingest")
    kept = [path for path in layout.restricted.path.rglob("*") if "leaves" in path.name]
    assert not kept
    assert not layout.restricted.input_record.exists()
    monkeypatch.undo()
    run_stages(plan, run_id="replaced", test_key="x", spark=workshop.spark, until="ingest")
    assert layout.restricted.input_record.is_file()


@pytest.mark.spark
@pytest.mark.slow
def test_other_bytes_of_the_same_size_and_time_are_not_those_that_were_hashed(workshop, monkeypatch):
    plan = workshop.plan()
    file, plain = workshop.census / "persons.parquet", {"compression": "none", "use_dictionary": False}
    table = parquet.read_table(file)
    parquet.write_table(table, file, **plain)
    times, reader = file.stat(), ingest_stage.reader

    def deliver(name):
        parquet.write_table(table.take(list(range(table.num_rows))[::-1]), file, **plain)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert file.stat().st_size == times.st_size
        return reader(name)

    monkeypatch.setattr(ingest_stage, "reader", deliver)
    with pytest.raises(InputError, match=r"persons\.parquet: changed while it was read"):
        run_stages(plan, run_id="other", test_key="x", spark=workshop.spark, until="ingest")
    assert not workshop.layout("other").restricted.input_record.exists()
    assert workshop.ledger() == []


@pytest.fixture
def read(tmp_path, monkeypatch):
    """A run that has read its input, and how often that was hashed since."""
    (tmp_path / "persons.csv").write_text("persons")
    layout = RunLayout.at(tmp_path / "runs", "r")
    open_run(layout, "0" * 64)
    levels = tuple(LevelBudget(name, Fraction(1, 2), (QueryShare("detailed", Fraction(1)),)) for name in LEVELS)
    budget = Budget(Framework.PURE_DP, Fraction(1, 4), levels)
    settings = InputSettings(reader="tidy_counts", persons=str(tmp_path / "persons.csv"))
    context = SimpleNamespace(layout=layout, plan=SimpleNamespace(input=settings, budget=budget))
    identity, files = input_record.fingerprint(settings)
    leaves = layout.restricted.table("leaves")
    leaves.mkdir()
    succeed(leaves)
    layout.restricted.input_record.write_text(json.dumps({"identity": identity, "files": files}))
    hashed, fingerprint = [], input_record.fingerprint
    monkeypatch.setattr(input_record, "fingerprint", lambda given: (hashed.append(given), fingerprint(given))[1])
    return SimpleNamespace(
        run=(context.plan, layout),
        context=context,
        file=tmp_path / "persons.csv",
        found=(identity, files),
        hashed=hashed,
    )


def test_files_with_their_sizes_and_times_of_change_are_not_hashed_again(read):
    assert identity_of_input(*read.run) == read.found
    assert not read.hashed
    os.utime(read.file, ns=(1, 1))
    assert identity_of_input(*read.run)[0] == read.found[0], "only touched"
    assert len(read.hashed) == 1
    read.file.write_text("others")
    assert identity_of_input(*read.run)[0] != read.found[0]
    read.file.unlink()
    with pytest.raises(InputError, match=r"persons\.csv: no such file"):
        identity_of_input(*read.run)


@pytest.mark.parametrize("measured", [LEVELS[:1], LEVELS])
def test_an_input_is_needed_as_long_as_something_is_to_be_measured(read, measured):
    entry = LedgerEntry("r", "then", "p", "person", read.context.plan.budget, insecure=False, completed_levels=measured)
    (read.context.layout.restricted.path / "ledger_entry.json").write_text(entry.to_json())
    read.file.unlink()
    if measured == LEVELS:
        assert identity_of_input(*read.run) == read.found
    else:
        with pytest.raises(InputError, match=r"persons\.csv: no such file"):
            identity_of_input(*read.run)


@pytest.mark.parametrize("until", ["estimate State", "measure County", None])
def test_a_driver_asks_the_input_nothing_where_what_it_would_measure_is_measured(dry_workshop, until):
    plan, layout = dry_workshop.plan(), dry_workshop.layout("r")
    open_run(layout, plan.config_hash)
    leaves, known = layout.restricted.table("leaves"), input_record.fingerprint(plan.input)
    leaves.mkdir()
    succeed(leaves)
    layout.restricted.input_record.write_text(json.dumps({"identity": known[0], "files": known[1]}))
    entry = LedgerEntry("r", "then", "p", "person", plan.budget, insecure=False, completed_levels=("State",))
    layout.restricted.ledger_entry.write_text(entry.to_json())
    shutil.rmtree(dry_workshop.census)
    if until == "estimate State":
        assert identity_of_input(plan, layout, None, until) == known
    else:
        with pytest.raises(InputError, match="census: no such"):
            identity_of_input(plan, layout, None, until)


@pytest.mark.parametrize("lost", ["_SUCCESS of the leaves", "the record", "the files of the record"])
def test_what_would_be_read_again_is_hashed_again(read, lost):
    restricted = read.context.layout.restricted
    if lost == "_SUCCESS of the leaves":
        (restricted.table("leaves") / "_SUCCESS").unlink()
    elif lost == "the record":
        restricted.input_record.unlink()
    else:
        restricted.input_record.write_text(json.dumps({"identity": read.found[0]}))
    assert identity_of_input(*read.run) == read.found
    assert len(read.hashed) == 1


@pytest.fixture
def placed(tmp_path):
    """A run that reads areas from a folder, a crosswalk, a table of parents, and a file that is input, too."""
    (tmp_path / "areas").mkdir()
    names = ("areas/a.csv", "areas/b.csv", "areas/input.csv", "crosswalk.csv", "parents.csv")
    for name in names:
        (tmp_path / name).write_text(name)
    geography = SimpleNamespace(
        reader="tidy",
        path=str(tmp_path / "areas"),
        crosswalk=str(tmp_path / "crosswalk.csv"),
        parents=str(tmp_path / "parents.csv"),
    )
    facts = SimpleNamespace(input_files={str(tmp_path / "areas/input.csv"): {}})
    plan = SimpleNamespace(geography=geography, spine=SimpleNamespace(is_census=False))
    return SimpleNamespace(plan=plan, restricted_facts=facts)


def test_what_is_read_of_geography_is_listed_as_the_input_is(placed, tmp_path):
    files = geography_files_of(placed)
    names = ["areas/a.csv", "areas/b.csv", "crosswalk.csv", "parents.csv"]
    assert [file["file"] for file in files] == [str(tmp_path / name) for name in names]
    assert [file["sha256"] for file in files] == [hashlib.sha256(name.encode()).hexdigest() for name in names]
    assert {file["confidential"] for file in files} == {False}
    require_same_geography(placed, files)


@pytest.mark.parametrize("change", ["written", "gone", "added"])
@pytest.mark.parametrize("name", ["areas/b.csv", "crosswalk.csv", "parents.csv"])
def test_geography_that_changes_while_it_is_read_is_refused(placed, tmp_path, name, change):
    before, path = geography_files_of(placed), tmp_path / name
    if change == "gone":
        path.unlink()
    elif change == "written":
        path.write_text("as many"[: len(name)])
    else:
        name, path = "areas/c.csv", tmp_path / "areas/c.csv"
        path.write_text("more")
    with pytest.raises(InputError, match=rf"{re.escape(name)}: (changed while it was read|no such file)"):
        require_same_geography(placed, before)
