"""The audit of structure: what is public is the same for neighbours, and systems that are not so are found out."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from das_spark.audit import allowed_cells
from das_spark.audit.system import declared_bounds
from das_spark.config import load_plan, load_run, measurement_plan
from das_spark.errors import ConfigurationError, PrivacyGuardError
from das_spark.pipeline import assess, driver, runner, spines, structure
from das_spark.pipeline.measurements import publish_measurements
from das_spark.pipeline.runner import run_stages
from das_spark.pipeline.structure import OPTIONS, VARIANTS, audit_structure, write_structure
from das_spark.privacy import RunKey
from das_spark.spark import run_tables
from das_spark.spark.session import temporary_properties
from das_spark.store import part_files, record_of

pytestmark = pytest.mark.slow

STATE = ("budget.strategy=state", "output.microdata=['text','parquet','ppmf']")


@pytest.fixture
def quickstart():
    return load_plan("conf/quickstart.toml")


@pytest.mark.parametrize("conf", ["quickstart", "e2e_1940", "pl94_2020_state", "pl94_2020_unit"])
def test_the_inputs_are_neighbours_within_the_invariants(conf):
    plan = load_plan(f"conf/{conf}.toml", files=False)
    first, *others = (structure._population(plan, variant) for variant in VARIANTS)
    for other in others:
        assert first.geocodes == other.geocodes
        assert np.array_equal(first.units, other.units)
        assert np.abs(first.counts - other.counts).sum() == 2, "one record is another one"
        assert declared_bounds(plan, first) == declared_bounds(plan, other)
    assert set(np.flatnonzero(first.counts.sum(axis=0))) <= set(allowed_cells(plan).tolist())


@pytest.mark.long  # as is the audit of the worked examples (documents/), which all tests but those marked long run
@pytest.mark.spark
@pytest.mark.whole_run
def test_neighbours_publish_the_same_bytes(quickstart, spark, tmp_path):
    report = audit_structure(quickstart, tmp_path / "runs", spark)
    assert not report.differences, report.to_markdown()
    assert report.compared > 150
    assert not (tmp_path / "runs").exists()
    write_structure(report, tmp_path / "out")
    assert "same to the last byte" in (tmp_path / "out" / "structure.md").read_text()


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.whole_run
def test_published_measurements_and_runs_that_reuse_an_input_are_the_same_for_neighbours(spark, tmp_path):
    """As in a sweep: the second run has another budget and reuses what the first one ingested."""
    seen = []
    for variant in VARIANTS[:2]:
        place = tmp_path / "work"
        shutil.rmtree(place, ignore_errors=True)
        plans = [
            load_plan("conf/quickstart.toml", (), ["measurement.rows=all", f"budget.epsilon={epsilon}"])
            for epsilon in (2, 1)
        ]
        with temporary_properties(spark, variant.session):
            first = structure.on_invented(plans[0], place / "input", variant)
            summary = run_stages(first, run_id="first", test_key="k", spark=spark, options=OPTIONS)
            given = {name: getattr(first, name) for name in ("input", "geography", "output", "evaluation")}
            second = replace(plans[1], **given)
            options = replace(OPTIONS, ingested_by=summary.layout)
            again = run_stages(second, run_id="second", test_key="l", spark=spark, options=options)
            publish_measurements(again.layout.folder, place / "runs" / "measurements", spark)
        seen.append(dict(structure.published(place / "runs")))
    assert {path.split("/")[0] for path in seen[0]} == {"first", "second", "measurements"}
    assert not structure.compared(seen[0], seen[1], "")


@pytest.mark.spark
@pytest.mark.whole_run
def test_neighbours_publish_the_same_bytes_on_a_spine_of_areas_and_in_a_joint_run(spark, tmp_path):
    plan = load_run(
        "conf/pl94_2020.toml", (), (*STATE, "geography.spine=optimised", "geography.path=areas"), files=False
    )
    report = audit_structure(plan, tmp_path / "runs", spark, variants=VARIANTS[:2])
    assert not report.differences, report.to_markdown()
    assert report.compared > 300


AREAS = ("geography.spine=optimised", "geography.path=areas", "geography.reader=tidy")
#: What makes units of people, and the run files that do.
MADE = {
    "units_from_people": ("input.units_from_people=true", 'privacy.acknowledge=["units_from_people"]'),
    "unit_conflicts_from_people": (
        'input.unit_conflicts="from_people"',
        'privacy.acknowledge=["unit_conflicts_from_people"]',
    ),
}


def on_areas(name, *more):
    reader = ("input.reader=tidy_counts", "output.tables=[]", "output.microdata=['parquet']")
    settings = (*STATE, *MADE[name], *AREAS, *reader, *more)
    return load_plan("conf/pl94_2020_simulated.toml", settings=settings, files=False)


@pytest.mark.parametrize("name", MADE)
def test_which_blocks_have_group_quarters_decides_no_spine_where_it_follows_from_people(name):
    assert not on_areas(name).geography.spine.consider_gq
    with pytest.raises(ConfigurationError, match=rf"these follow from people \({name}\); set it to false"):
        on_areas(name, "geography.consider_gq=true")


@pytest.mark.spark
@pytest.mark.whole_run
def test_a_spine_that_follows_from_people_is_found_out(spark, tmp_path, monkeypatch):
    plan = on_areas("units_from_people")
    shape = replace(plan.geography, spine=replace(plan.geography.spine, consider_gq=True))
    leaking = replace(plan, geography=shape)
    with pytest.raises(PrivacyGuardError, match="the spine would tell which blocks have group quarters"):
        audit_structure(leaking, tmp_path / "runs", spark, variants=VARIANTS[:1])
    monkeypatch.setattr(spines, "follows_from_people", lambda plan: False)
    report = audit_structure(leaking, tmp_path / "runs", spark, variants=VARIANTS[:2])
    assert report.convicts
    assert any("/spine/" in difference.path for difference in report.differences)
    # Between people who agree in the units nothing differs; and nothing but the spine and what is made of it.
    assert {difference.path.split("/")[2] for difference in report.differences} <= {"spine", "shares", "geounits"}


def as_spark_writes(frame, table, writer, *_, **__):
    """How public tables were written before: in the order in which rows arrive, into as many files as partitions."""
    staging = writer.folders[table].path
    frame.write.partitionBy("level").parquet(str(staging))
    return tuple(
        replace(record_of(path), name=str(path.relative_to(staging)))
        for level in sorted(staging.glob("level=*"))
        for path in part_files(level)
    )


@pytest.mark.spark
@pytest.mark.whole_run
def test_a_system_that_publishes_the_order_of_confidential_rows_is_found_out(quickstart, spark, tmp_path, monkeypatch):
    monkeypatch.setattr(run_tables, "write_levels", as_spark_writes)
    for module in (driver, runner):
        monkeypatch.setattr(module, "set_times", lambda *_: None)
    monkeypatch.setattr(assess, "file_checks", lambda *_: [])  # verification knows Spark's writer by its metadata
    report = audit_structure(quickstart, tmp_path / "runs", spark, variants=VARIANTS[:2])
    assert report.convicts
    named = {part for difference in report.differences for part in difference.path.split("/")}
    assert named >= {"geounits", "invariants", "bounds"}
    assert any("time of change" in difference.what for difference in report.differences)
    assert "no finite epsilon" in report.verdict


def test_noise_without_truth_is_refused_under_a_real_key(quickstart):
    shares = {"": quickstart.budget.level("County").share}
    task = measurement_plan(quickstart, "County", shares, RunKey.from_system(), 1)
    with pytest.raises(PrivacyGuardError, match="test key"):
        replace(task, blind=True)
