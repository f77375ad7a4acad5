"""Another value in any column of any table fails the rule of that table, and is named; so do texts beside tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from das_spark.config import plan_from_config
from das_spark.pipeline.verified_texts import text_check
from das_spark.spark.checks import Check, Rule, judge
from das_spark.spark.tables import LEVEL_TABLES
from das_spark.spark.verify import judged_families
from das_spark.spark.verify_run import (
    Verified,
    bound_columns,
    declared_columns,
    estimated_columns,
    histogram_rules,
    schema_check,
)
from das_spark.store import PublicLayout, PublicManifest, part_files
from das_spark.store.tables import TABLES as DECLARED
from das_spark.verification import POSSIBLE, RULES, WIDE, rule_name

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.verified]

LEVELS = ("State", "County", "Enumdist")
OF_AREAS = ("shares", "census_estimates")  # tests/verification/test_spine.py
OF_ESTIMATORS = ("estimate_arrays", "upward", "upward_sums")  # test_estimators.py
OF_PUBLISHED = ("published",)  # tests/verification/test_published.py
OTHERS = (*OF_AREAS, *OF_ESTIMATORS, *OF_PUBLISHED)
TABLES = [name for name in LEVEL_TABLES if not DECLARED[name].restricted and name not in OTHERS]
#: What no rule knows the value of is changed to what it cannot be.
IMPOSSIBLE: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("measurements", "values"): lambda values: [*values, 0],
    **{("diagnostics", name): lambda _: -1 for name in ("variables", "iterations", "attempts", "passes")},
    **{("diagnostics", name): lambda _: float("nan") for name in ("primal_residual", "rounding_gap")},
    ("diagnostics", "gap"): lambda _: 1e-5,
    ("diagnostics", "problem"): lambda _: b"npz",
    ("measurements", "rows"): lambda rows: None if rows else [0],
}


def other(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value[:-1] + ("7" if value[-1:] != "7" else "8")
    if isinstance(value, list):
        return [value[0] + 1, *value[1:]] if value else [1]
    return value + 1 if isinstance(value, int) else value * (1 + 1e-12)


def changed(public: PublicLayout, folder: Path, table: str, level: str, column: str) -> PublicLayout:
    """A copy of a public root in which one value of a column is another one."""
    shutil.copytree(public.path, folder)
    layout = PublicLayout(folder)
    for path in part_files(layout.level(table, level)):
        rows = pq.ParquetFile(path).read()
        if rows.num_rows:
            values = rows.column(column).to_pylist()
            values[-1] = IMPOSSIBLE.get((table, column), other)(values[-1])
            place = rows.schema.get_field_index(column)
            field = rows.schema.field(place)
            pq.write_table(rows.set_column(place, field.with_nullable(True), pa.array(values, field.type)), path)
            return layout
    raise AssertionError(f"{table}/{level} has no row")


def verified(spark, layout: PublicLayout, plan, scratch: Path) -> Verified:
    rows = {
        f"{table}/{level}": sum(pq.read_metadata(path).num_rows for path in part_files(layout.level(table, level)))
        for table in ("bounds", "invariants")
        for level in LEVELS
    }
    return Verified(spark, layout, PublicManifest("run", "", rows=rows), plan, plan.spine, scratch)


def columns_judged(run: Verified) -> list[Rule]:
    """The rules on the columns of all tables."""
    read = run.tables()
    bounds, sums = bound_columns(run, read)
    return judged_families([*declared_columns(run), *bounds, *estimated_columns(run, read)], read, run.spine, sums)


def judged_of(run: Verified, table: str) -> list[Rule]:
    """The rules that answer for a table."""
    read = run.tables()
    bounds, sums = bound_columns(run, read)
    estimates = histogram_rules(run, read)
    # What is exact is compared with estimates, and with the bounds that follow; a geounit with its estimate.
    others = {"invariants": (rule_name("bounds"), "invariant totals"), "geounits": ("geounits present once",)}
    answering = {rule_name(table), *others.get(table, ())}
    every = [*declared_columns(run), *bounds, *estimated_columns(run, read), *estimates]
    of_table = [rule for rule in every if answering.intersection(name for name, *_ in rule.expected)]
    return judged_families(estimates if table == "estimates" else of_table, read, run.spine, sums)


def marked(rules: list[Rule], column: str) -> list[Rule]:
    """The same rules, whose checks have the changed column for a note."""
    return [
        Rule(
            None,
            tuple((name, level, column) for name, level, _ in rule.expected),
            {(name, level, column): names for (name, level, _), names in rule.failing.items()},
            {(name, level, column): number for (name, level, _), number in rule.checked.items()},
        )
        for rule in rules
    ]


def test_every_column_of_every_table_has_a_rule():
    public = {name: schema.names for name, schema in LEVEL_TABLES.items() if not DECLARED[name].restricted}
    assert {name: set(columns) for name, columns in RULES.items() if name != "spine/blocks"} == {
        name: set(columns) for name, columns in public.items()
    }
    assert set(RULES["spine/blocks"]) == {"block", "path", "shares"}
    assert all(text for columns in RULES.values() for text in columns.values())


def test_tables_as_they_were_written_pass(calm, workshop, spark, tmp_path):
    run = verified(spark, calm.public, workshop.plan(), tmp_path / "scratch")
    checks = judge(columns_judged(run))
    assert [check for check in checks if not check.passed] == []
    of_tables = {rule_name(table) for table in TABLES if table != "estimates"}
    assert {check.name for check in checks} == {*of_tables, POSSIBLE, WIDE}
    assert schema_check(run, {}).passed


@pytest.mark.parametrize("table", TABLES)
def test_another_value_in_any_column_fails_the_rule_of_its_table_and_is_named(calm, workshop, spark, tmp_path, table):
    plan, rules = workshop.plan(), list[Rule]()
    level = {"invariants": "State"}.get(table, "Enumdist")
    names = LEVEL_TABLES[table].names
    for column in names:
        layout = changed(calm.public, tmp_path / column, table, level, column)
        run = verified(spark, layout, plan, tmp_path / f"{column}-scratch")
        rules += marked(judged_of(run, table), column)
    failed: dict[str, list[Check]] = {name: [] for name in names}
    for check in judge(rules):
        if not check.passed:
            failed[check.note].append(check)
    assert [name for name, checks in failed.items() if not checks] == []
    if table != "estimates":
        # What is exact is told of by what contradicts it; a row under another key is missing under its own.
        keys = {"geocode", "query", "name", "member", "family", *(["values"] if table == "invariants" else [])}
        for column in set(names) - keys:
            assert any(name.endswith(f" {column}") for check in failed[column] for name in check.failing), column


def test_other_units_of_which_the_bounds_do_not_tell_are_found(calm, workshop, spark, tmp_path):
    shutil.copytree(calm.public.path, tmp_path / "run")
    layout = PublicLayout(tmp_path / "run")
    path = part_files(layout.level("invariants", "Enumdist"))[0]
    rows = pq.ParquetFile(path).read().to_pylist()
    first = next(row for row in rows if row["name"] == "units")
    first["values"] = [first["values"][0] + 1, *first["values"][1:]]
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)
    run = verified(spark, layout, workshop.plan(), tmp_path / "scratch")
    failed = {check.name: check.failing for check in judge(judged_of(run, "bounds")) if not check.passed}
    assert any(name.startswith(first["geocode"]) for name in failed[rule_name("bounds")])


def test_a_measurement_without_its_rows_or_twice_is_found(calm, workshop, spark, tmp_path):
    def twice(rows: pa.Table) -> pa.Table:
        return pa.concat_tables([rows, rows.slice(0, 1)])

    def all_alike(rows: pa.Table) -> pa.Table:
        """As many rows as there must be of a geounit, all of one query."""
        own = pc.equal(rows.column("geocode"), rows.column("geocode")[0])
        first, several = rows.slice(0, 1), rows.filter(own).num_rows
        assert several > 1
        return pa.concat_tables([rows.filter(pc.invert(own)), *[first] * several])

    for number, change in enumerate((lambda rows: rows.slice(1), twice, all_alike)):
        folder = tmp_path / str(number)
        shutil.copytree(calm.public.path, folder)
        layout = PublicLayout(folder)
        path = next(p for p in part_files(layout.level("measurements", "Enumdist")) if pq.read_metadata(p).num_rows)
        pq.write_table(change(pq.ParquetFile(path).read()), path)
        run = verified(spark, layout, workshop.plan(), tmp_path / f"scratch-{number}")
        (failed,) = [check for check in judge(judged_of(run, "measurements")) if not check.passed]
        assert failed.failing[0].endswith("geocode or query")


def test_answers_of_a_part_that_are_all_a_million_are_found(calm, workshop, tmp_path, spark):
    """Their number, rows and variances are right, and nothing is known that they must equal."""
    shutil.copytree(calm.public.path, tmp_path / "run")
    layout = PublicLayout(tmp_path / "run")
    path = max(part_files(layout.level("measurements", "Enumdist")), key=lambda part: part.stat().st_size)
    rows = pq.ParquetFile(path).read()
    values = [[10**6] * len(each) for each in rows.column("values").to_pylist()]
    place = rows.schema.get_field_index("values")
    pq.write_table(
        rows.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type)), path
    )
    run = verified(spark, layout, workshop.plan(), tmp_path / "scratch")
    failed = {check.name for check in judge(columns_judged(run)) if not check.passed}
    assert failed == {POSSIBLE}


@pytest.mark.parametrize("fault", ["missing", "more", "type", "order"])
def test_a_parquet_file_with_other_columns_is_named(calm, workshop, tmp_path, fault):
    shutil.copytree(calm.public.path, tmp_path / "run")
    layout = PublicLayout(tmp_path / "run")
    path = part_files(layout.level("geounits", "County"))[0]
    rows = pq.ParquetFile(path).read()
    spoiled = {
        "missing": lambda: rows.drop_columns(["children"]),
        "more": lambda: rows.append_column("people", rows.column("children")),
        "type": lambda: rows.set_column(2, "children", rows.column("children").cast(pa.int32())),
        "order": lambda: rows.select(["parent", "geocode", "children"]),
    }
    pq.write_table(spoiled[fault](), path)
    plan = workshop.plan()
    run = Verified(None, layout, PublicManifest("run", ""), plan, plan.spine, tmp_path)  # no session is asked
    check = schema_check(run, {})
    what = {"missing": "children", "more": "people", "type": "children", "order": "their order"}[fault]
    assert check.failing == (f"geounits/level=County/{path.name}: {what}",)


def rewritten(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


MANIFEST: dict[str, Any] = {
    "config_hash": "0" * 64,
    "public_rules": ("Everything is public.",),
    "estimation": "All geolevels are estimated together.",
    "notices": (),
    "solver_status": {level: {"optimal (piqp)": 1} for level in LEVELS},
    "worst_residuals": {level: {"gap": 0.0, "primal_residual": 0.0} for level in LEVELS},
    "relaxed": ("County/01",),
    "data_dictionary": (),
}


@pytest.mark.whole_run
@pytest.mark.parametrize("field", MANIFEST)
def test_what_the_manifest_says_follows_from_configuration_and_tables(measured, spark, tmp_path, field):
    public = measured.layout("whole").public
    manifest = PublicManifest.load(public.manifest)
    plan = plan_from_config(manifest.config, source="run")
    whole = Verified(spark, public, manifest, plan, plan.spine, tmp_path)
    assert text_check(whole).failing == ()
    other_manifest = replace(manifest, **{field: MANIFEST[field]})
    named = text_check(replace(whole, manifest=other_manifest)).failing
    assert f"manifest.json: {field}" in named


@pytest.mark.whole_run
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("run.json", '"run_id": "whole"', '"run_id": "other"'), ("microdata/rows.json", "person", "people")],
)
def test_texts_beside_the_tables_follow_from_the_manifest(measured, spark, tmp_path, file, old, new):
    shutil.copytree(measured.layout("whole").public.path, tmp_path / "public")
    public = PublicLayout(tmp_path / "public")
    manifest = PublicManifest.load(public.manifest)
    plan = plan_from_config(manifest.config, source="run")
    rewritten(public.path / file, old, new)
    run = Verified(spark, public, manifest, plan, plan.spine, tmp_path)
    assert text_check(run).failing == (file,)
    assert json.loads((public.path / file).read_text())
