"""A run whose input is tables of a catalog: as from files, known by its rows, refused where these have changed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.config import load_plan
from das_spark.errors import InputError, PrivacyGuardError
from das_spark.pipeline import ingest as ingest_stage
from das_spark.pipeline import levels, run_stages
from das_spark.spark.leaves import write_leaves
from das_spark.store import finished

pytestmark = [pytest.mark.spark, pytest.mark.whole_run]

DATABASE = "census_of_1940"


@pytest.fixture
def tables(workshop, spark) -> Any:
    """The tiny census as tables of the session's own catalog: rows in another order, columns, too."""
    workshop.plan()  # writes the files
    spark.sql(f"CREATE DATABASE {DATABASE}")
    for name in ("persons", "units"):
        rows = spark.read.parquet(str(workshop.census / f"{name}.parquet"))
        frame = rows.select(*reversed(rows.columns)).repartition(3, "geocode").sortWithinPartitions(rows.columns[-1])
        frame.write.saveAsTable(f"{DATABASE}.{name}")
    yield workshop
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


def run_file(workshop: Any, persons: str = "persons", units: str = "units") -> Any:
    return workshop.run_file(
        change=(
            f'path = "{workshop.census}"',
            f'persons = "table:{DATABASE}.{persons}"\nunits = "table:{DATABASE}.{units}"',
        )
    )


def plan_of(workshop: Any, *settings: str) -> Any:
    return load_plan(run_file(workshop), settings=settings)


def contents(public: Any) -> dict[str, str]:
    """Checksums of all data files of a public root."""
    parts = (path for path in public.path.rglob("part-*") if path.is_file())
    return {str(path.relative_to(public.path)): hashlib.sha256(path.read_bytes()).hexdigest() for path in parts}


@pytest.mark.verified
@pytest.mark.slow
def test_a_run_from_tables_gives_the_bytes_of_one_from_files(tables, tools):
    files = tables.run_file()
    assert main(["run", str(files), "--run-id", "files", "--test-key", tools.TEST_KEY]) == 0
    assert main(["run", str(run_file(tables)), "--run-id", "tables", "--test-key", tools.TEST_KEY]) == 0
    found = contents(tables.layout("tables").public)
    assert len(found) > 10
    assert found == contents(tables.layout("files").public)
    # What was read is in the restricted manifest, and nothing of it, nor the database, in public files.
    restricted = json.loads(tables.layout("tables").restricted.manifest.read_text())
    read = restricted["input_files"]
    persons = pq.read_table(tables.census / "persons.parquet")
    assert read[f"table:{DATABASE}.persons"]["rows"] == len(persons)
    assert set(read) == {f"table:{DATABASE}.persons", f"table:{DATABASE}.units"}
    assert restricted["places"]["input.persons"] == f"table:{DATABASE}.persons"
    secrets = [DATABASE.encode(), *(each["sha256"].encode() for each in read.values())]
    for path in tables.layout("tables").public.path.rglob("*"):
        if path.is_file():
            assert not any(secret in path.read_bytes() for secret in secrets), path
    assert len(json.loads(tables.ledger()[-1])["contents"]) == 2
    assert main(["verify", str(tables.layout("tables").folder)]) == 0


@pytest.mark.slow
def test_a_run_from_tables_goes_on_where_it_stopped_and_needs_them_until_all_is_measured(
    tables, spark, tools, monkeypatch
):
    def carry_out(until: str | None = None) -> Any:
        return run_stages(plan_of(tables), run_id="resumed", test_key=tools.TEST_KEY, spark=spark, until=until)

    carry_out("ingest")
    assert finished(tables.layout("resumed").restricted.table("leaves"))
    carry_out("measure Enumdist")
    spark.sql(f"DROP TABLE {DATABASE}.persons")
    monkeypatch.setattr(levels, "measurements", lambda *_, **__: pytest.fail("drawn again"))
    carry_out()
    assert tables.layout("resumed").public.manifest.is_file()


def test_a_table_that_changed_since_a_run_began_is_refused(tables, spark, tools):
    def carry_out(until: str | None = None) -> Any:
        return run_stages(plan_of(tables), run_id="changed", test_key=tools.TEST_KEY, spark=spark, until=until)

    carry_out("ingest")
    spark.sql(f"INSERT INTO {DATABASE}.persons SELECT * FROM {DATABASE}.persons LIMIT 1")
    with pytest.raises(InputError, match="the input has changed since run changed read it"):
        carry_out()
    assert not [line for line in tables.ledger() if json.loads(line)["state"] == "charged"]


def test_a_table_that_changes_while_it_is_read_is_refused_and_nothing_is_kept(tables, spark, tools, monkeypatch):
    def delivered(*given: Any) -> Any:
        spark.sql(f"INSERT INTO {DATABASE}.units SELECT * FROM {DATABASE}.units LIMIT 1")
        return write_leaves(*given)

    monkeypatch.setattr(ingest_stage, "write_leaves", delivered)
    with pytest.raises(InputError, match=rf"table:{DATABASE}\.units: changed while it was read"):
        run_stages(plan_of(tables), run_id="moving", test_key=tools.TEST_KEY, spark=spark)
    assert not tables.layout("moving").restricted.input_record.exists()
    assert tables.ledger() == []


def test_a_table_may_be_read_as_two_and_is_counted_once(tables, spark, tools):
    classes = ", ".join(f"sum(if(hhgq = {level}, units, 0)) AS units_{level}" for level in range(8))
    spark.sql(f"CREATE TABLE {DATABASE}.wide AS SELECT geocode, {classes} FROM {DATABASE}.units GROUP BY geocode")
    plan = plan_of(tables, f"input.units=table:{DATABASE}.wide", f"input.geography=table:{DATABASE}.wide")
    layout = run_stages(plan, run_id="twofold", test_key=tools.TEST_KEY, spark=spark, until="ingest").layout
    files = {file["file"]: file for file in json.loads(layout.restricted.input_record.read_text())["files"]}
    wide, rows = files[f"table:{DATABASE}.wide"], spark.table(f"{DATABASE}.wide").count()
    assert len(files) == 2
    assert (wide["rows"], wide["records"], wide["confidential"]) == (rows, rows, True)


def test_the_same_rows_under_another_name_are_refused_under_a_real_key(tables, spark):
    insecure = {"spark": spark, "until": "measure State"}
    if spark.sparkContext.getConf().get("spark.io.encryption.enabled") != "true":
        pytest.skip("the session of the tests protects nothing")
    run_stages(plan_of(tables), run_id="first", **insecure)
    with pytest.raises(PrivacyGuardError, match="the same records are counted under the dataset 'tiny'"):
        run_stages(plan_of(tables, "input.dataset=other"), run_id="second", **insecure)


@pytest.mark.parametrize(
    ("persons", "units", "message", "hint"),
    [
        (
            "person",
            "units",
            r"table:census_of_1940\.person: there is no such table",
            "did you mean 'persons'? tables of ",
        ),
        ("units", "units", r"table:census_of_1940\.units: no column 'age18plus'", "the table has vacant, units, hhgq"),
    ],
)
def test_a_wrong_table_is_named_with_what_there_is(tables, spark, tools, persons, units, message, hint):
    plan = load_plan(run_file(tables, persons, units))
    with pytest.raises(InputError, match=message) as raised:
        run_stages(plan, run_id="wrong", test_key=tools.TEST_KEY, spark=spark)
    assert hint in raised.value.hint
    assert tables.ledger() == []
