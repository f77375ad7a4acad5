"""A finished run as an analyst opens it: what it says is what the run published, in Arrow, pandas and Spark alike."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pytest

import das_spark
from das_spark.config import load_plan
from das_spark.config.load import FOLDER
from das_spark.errors import ConfigurationError, OutputError
from das_spark.pipeline import run_stages
from das_spark.results import OpenedRun
from das_spark.store.parquet import read_rows
from das_spark.store.tables import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    """A run of the quickstart with everything that a run can publish, and one with sparse answers."""
    place = tmp_path_factory.mktemp("results")
    for name, rows in (("whole", "all"), ("lazy", "support")):
        settings = [f"output.root={place}", f'measurement.rows="{rows}"', 'output.microdata=["parquet", "text"]']
        settings += ['output.intervals.level="0.9"'] if rows == "all" else []
        plan = load_plan(FOLDER / "quickstart.toml", settings=settings)
        run_stages(plan, run_id=name, test_key="results", spark=spark)
    return place


@pytest.fixture(scope="module")
def run(folder):
    return das_spark.open_run(folder / "whole")


def test_it_says_what_it_is_and_what_there_is(run):
    assert run.geolevels == ("County", "Tract", "Block_Group", "Block")
    assert run.verified is True
    assert "P1" in run.tables
    for part in ("whole", "epsilon", "all checks passed", "County, Tract", "INSECURE"):
        assert part in repr(run)
        assert part in run._repr_html_()
    assert run.statement.startswith("#")


def test_estimates_have_a_row_for_every_occupied_cell(run):
    for level in run.geolevels:
        rows = run.estimates(level).arrow()
        stored = read_rows(run._public.level("estimates", level), TABLES["estimates"].schema)
        assert rows.num_rows == sum(len(cells) for cells in stored["cells"].to_pylist())
        codes = run.estimates(level, labels=False).arrow()
        schema = run.plan.product.schema
        cells = schema.ravel(np.stack([codes[attribute.name].to_numpy() for attribute in schema.attributes], axis=1))
        assert cells.tolist() == [cell for row in stored["cells"].to_pylist() for cell in row]
        assert rows["count"].to_pylist() == [count for row in stored["counts"].to_pylist() for count in row]
        for name, labels in run.attributes.items():
            said = [labels[code] for code in codes[name].to_pylist()]
            assert rows[name].to_pylist() == said


def test_tables_are_sums_of_estimates(run):
    table = run.table("P1", "Tract").pandas().set_index("geocode")
    people = run.estimates("Tract").pandas().groupby("geocode")["count"].sum()
    assert table["P0010001"].to_dict() == people.to_dict()
    labels = run.table("P1").labels
    assert labels["P0010001"] == "Total"
    every = run.table("P1").pandas()
    assert list(dict.fromkeys(every["geolevel"])) == list(run.geolevels)
    assert every.groupby("geolevel")["P0010001"].sum().nunique() == 1


def test_measurements_have_a_row_for_every_answer(run, folder):
    (query, *_), level = run.queries["Block"], "Block"
    rows = run.measurements(level, query).pandas()
    asked = run.plan.queries[query]
    assert rows.groupby("geocode").size().unique().tolist() == [asked.rows]
    assert (rows.groupby("geocode")["row"].apply(list).map(lambda each: each == list(range(asked.rows)))).all()
    assert rows["variance"].nunique() == 1
    lazy = das_spark.open_run(folder / "lazy")
    fewer = lazy.measurements(level, "detailed").pandas()
    whole = run.measurements(level, "detailed").pandas()
    assert 0 < len(fewer) < len(whole)
    joined = fewer.merge(whole, on=["geocode", "row", "answer"], suffixes=("", "_all"))
    assert len(joined) == len(fewer)
    assert (joined["value"] == joined["value_all"]).all()


def test_answers_are_called_by_labels(run):
    names = run.measurements("County", "hhgq").pandas()["answer"].tolist()
    assert names[:2] == ["hhgq=Household", f"hhgq={run.attributes['hhgq'][1]}"]
    strata = run.measurements("County", "votingage * hispanic * cenrace").pandas()["answer"].tolist()
    assert strata[0] == ", ".join(f"{name}={run.attributes[name][0]}" for name in ("votingage", "hispanic", "cenrace"))


@pytest.mark.parametrize(
    "asked",
    [
        lambda run: run.estimates("Block"),
        lambda run: run.estimates("Tract", labels=False),
        lambda run: run.measurements("Block_Group", "hhgq"),
        lambda run: run.table("P1"),
        lambda run: run.table("P2", "Block"),
        lambda run: run.beside("intervals", "P1", "County"),
        lambda run: run.microdata(),
        lambda run: run.microdata("unit"),
    ],
)
def test_arrow_pandas_and_spark_have_the_same_rows(run, spark, asked):
    rows = asked(run)
    table = rows.arrow()
    assert table.schema == rows.schema
    assert rows.columns == table.column_names
    assert table.num_rows > 0
    as_values = sorted(map(repr, table.to_pylist()))
    frame = rows.spark(spark)
    assert frame.columns == rows.columns
    assert sorted(repr(row.asDict()) for row in frame.collect()) == as_values
    assert len(rows.pandas()) == table.num_rows
    assert rows.head(3).astype(str).equals(rows.pandas().head(3).astype(str))
    assert pa.table(rows).equals(table)  # by the stream that other libraries take
    assert sum(batch.num_rows for batch in rows.batches()) == table.num_rows
    assert rows.title in repr(rows)
    assert rows.columns[0] in rows._repr_html_()


def test_microdata_are_the_people_of_the_estimates(run):
    people = run.estimates("County").arrow()["count"].to_pylist()
    assert run.microdata().arrow().num_rows == sum(people)


def test_what_there_is_not_is_said_with_what_there_is(run, folder):
    for wrong, said in [
        (lambda: run.table("P9"), "there are P1"),
        (lambda: run.table("P1", "State"), "there are County, Tract"),
        (lambda: run.estimates("Trct"), "did you mean 'Tract'"),
        (lambda: run.measurements("Block", "hhgk"), "did you mean 'hhgq'"),
        (lambda: run.measurements("State", "hhgq"), "there are County"),
        (lambda: run.microdata("household"), "there are person, unit"),
        (lambda: run.beside("intervals", "P9"), "there are P1"),
        (lambda: das_spark.open_run(folder / "lazy").beside("intervals", "P1"), "there are none"),
    ]:
        with pytest.raises(ConfigurationError) as caught:
            wrong()
        assert said in caught.value.hint


def test_accuracy_is_asked_of_the_restricted_folder(run, folder, tmp_path):
    assert run.accuracy()["classification"].startswith("RESTRICTED")
    shutil.copytree(folder / "whole" / "public", tmp_path / "public")
    public = OpenedRun.at(tmp_path / "public")
    assert public.table("P1").arrow() == run.table("P1").arrow()
    with pytest.raises(OutputError, match="its restricted root is asked for"):
        public.accuracy()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(OutputError):
        das_spark.open_run(tmp_path)


def test_a_run_file_goes_in_and_an_opened_run_comes_out(spark, tmp_path, caplog):
    settings = [f"output.root={tmp_path}", "budget.epsilon=1/2"]
    with caplog.at_level("INFO", "das_spark"):
        opened = das_spark.protect("quickstart", settings=settings, test_key="k", run_id="one", spark=spark)
    assert isinstance(opened, OpenedRun)
    assert (opened.name, str(opened.plan.budget.total)) == ("one", "1/2")
    assert opened.table("P1", "Tract").pandas()["P0010001"].sum() > 0
    assert opened.accuracy() is not None, "the restricted side is found, too"
    lines = [record.getMessage() for record in caplog.records if record.name == "das_spark"]
    assert any(line.startswith("ingest: ") for line in lines)
    assert any(line.startswith("verify: ") for line in lines)
    heard: list[str] = []
    again = das_spark.protect(
        load_plan("quickstart", settings=settings), test_key="k", run_id="one", spark=spark, progress=heard.append
    )
    assert again.manifest == opened.manifest
    assert heard
    with pytest.raises(ConfigurationError, match="resolved already"):
        das_spark.protect(load_plan("quickstart"), settings=settings)
