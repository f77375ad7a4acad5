"""Replicates of whole runs: verified, drawn from the name of the run, resumed, and made of public things alone."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from eight_blocks import FORMATS, GEOUNITS, LEVELS, PRODUCT, write_run_file

from das_spark.config import RunPlan, load_plan
from das_spark.errors import EstimationError
from das_spark.features.replicates import feature
from das_spark.features.replicates import work as stage
from das_spark.features.replicates.tables import errors_folder, intervals_layout, offsets_folder
from das_spark.io.table_files import ABOUT
from das_spark.pipeline import estimate_from, open_source, run_stages, verify_run
from das_spark.pipeline.statement import INSECURE
from das_spark.store import PublicLayout, PublicManifest, RunLayout, finished, part_files

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

P1, _, _, _, P5 = PRODUCT.tables
TABLES = (P1, P5)
ENDS = ("", "_rmse", "_low", "_high")
KEY, RUNS = "open", 2
WANTED = """
[output.replicates]
runs = 2
level = "0.9"
tables = ["P1", "P5"]
"""
#: What a run has of its replicates.
FOLDERS = ("replicate_errors", "replicate_offsets", "replicate_intervals")
RULES = {
    "replicates count every geounit",
    "offsets of counts follow from the errors of replicates",
    "intervals of counts have the offsets of their class",
}


@pytest.fixture(scope="module")
def conf(tmp_path_factory) -> Path:
    return write_run_file(tmp_path_factory.mktemp("replicates"), "4", WANTED)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """The folders of replicates, as they were when they had their estimates: `1`, `2`."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def whole(conf, spark, kept) -> RunLayout:
    """A whole run that keeps what its estimates need, with replicates; nobody may change it."""
    real = stage._Replicate.estimates

    def keeping(replicate: Any) -> Any:
        shutil.copytree(replicate.folder.path, kept / str(replicate.number))
        return real(replicate)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage._Replicate, "estimates", keeping)
        return run_stages(load_plan(conf), run_id="whole", test_key=KEY, spark=spark).layout


@pytest.fixture
def copied(whole, tmp_path) -> PublicLayout:
    """The public root of the run alone, in another place."""
    shutil.copytree(whole.public.path, tmp_path / "public")
    return PublicLayout(tmp_path / "public")


def rows_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Rows of part files, Parquet or CSV, by geocode."""
    found: list[dict[str, Any]] = []
    for part in part_files(folder):
        if part.suffix == ".csv":
            found += csv.DictReader(part.read_text().splitlines())
        else:
            found += pq.ParquetFile(part).read().to_pylist()
    return {row["geocode"]: row for row in found}


def require_same(public: PublicLayout, other: PublicLayout, tools: Any, folders: tuple[str, ...] = FOLDERS) -> None:
    for name in folders:
        found = tools.checksums(public.path / name)
        assert found
        assert found == tools.checksums(other.path / name), name


def test_counts_are_those_of_the_tables_with_intervals_about_them_and_the_run_is_verified(whole):
    report = json.loads(whole.public.verification.read_text())
    assert report["passed"] is True
    assert {check["name"] for check in report["checks"]} >= RULES
    notes = {check["note"] for check in report["checks"] if check["name"] == "tables equal estimates"}
    assert notes >= {f"replicate_intervals {format} files" for format in FORMATS}
    layout = intervals_layout(whole.public)
    widths = []
    for table in TABLES:
        for format in FORMATS:
            for level in LEVELS:
                folder = layout.level(table.name, format, level)
                assert finished(folder)
                found, published = rows_of(folder), rows_of(whole.public.tables.level(table.name, format, level))
                assert set(found) == set(published)
                assert len(found) == GEOUNITS[level]
                for code, row in found.items():
                    assert list(row) == ["geocode", *(f"{name}{end}" for name in table.names for end in ENDS)]
                    for name in table.names:
                        count, rmse, low, high = (float(row[f"{name}{end}"]) for end in ENDS)
                        assert count == float(published[code][name])
                        assert 0 <= low <= count <= high
                        assert rmse >= 0
                        widths.append(high - low)
    assert len(set(widths)) > 10
    # The tables that were asked for, and nothing of how they were made.
    assert {path.name for path in layout.path.iterdir()} == {f"{t.name}.{f}" for t in TABLES for f in FORMATS}
    assert not list(whole.public.path.rglob("*staging*/*"))


def test_the_exact_total_is_exact_and_other_counts_are_not(whole):
    (county,) = rows_of(intervals_layout(whole.public).level("P1", "parquet", "County")).values()
    total = P1.total.name
    assert [county[f"{total}{end}"] for end in ENDS[1:]] == [0.0, county[total], county[total]]
    assert any(county[f"{name}_rmse"] > 0 for name in P1.names[1:])


def test_errors_are_of_the_estimates_less_those_of_a_replicate(whole, kept):
    masks = np.array([column.mask(PRODUCT.schema) for column in P5.columns], dtype=np.int64)
    for number in range(1, RUNS + 1):
        (part,) = part_files(errors_folder(whole.public, number))
        rows = pq.ParquetFile(part).read().to_pylist()
        again = PublicLayout(kept / str(number))
        for level in LEVELS:
            before, after = (rows_of(each.level("estimates", level)) for each in (whole.public, again))
            assert set(before) == set(after)
            for name, mask in zip(P5.names, masks, strict=True):
                expected: dict[int, int] = {}
                for code in before:
                    one, other = (sum(mask[each[code]["cells"]] * each[code]["counts"]) for each in (before, after))
                    expected[int(one - other)] = expected.get(int(one - other), 0) + 1
                found: dict[int, int] = {}
                for row in rows:
                    if (row["level"], row["column"]) == (level, name):
                        found[row["difference"]] = found.get(row["difference"], 0) + row["cases"]
                assert found == expected


def noise(measured: dict[str, dict[str, Any]], truth: dict[str, dict[str, Any]], plan: RunPlan) -> Iterator[tuple]:
    """Query, noise and its variance, in the only geounit of the top level, which is measured whole."""
    (histogram,) = truth.values()
    cells, counts = (np.array(histogram[name], dtype=np.int64) for name in ("cells", "counts"))
    for query, row in sorted(measured.items()):
        assert row["rows"] is None
        values = np.array(row["values"]) - plan.queries[query].answer(cells, counts)
        yield query, tuple(values.tolist()), row["variance"]


def test_each_replicate_is_measured_like_the_run_with_noise_of_its_own(whole, kept, conf, tools):
    plan = load_plan(conf)
    drawn = []
    truths = [whole.restricted.level("histograms", "County"), *[whole.public.level("estimates", "County")] * RUNS]
    roots = [whole.public, *(PublicLayout(kept / str(number)) for number in range(1, RUNS + 1))]
    for root, truth in zip(roots, truths, strict=True):
        measured = {row["query"]: row for row in tools.rows_of(root.level("measurements", "County"))}
        drawn.append(list(noise(measured, rows_of(truth), plan)))
    assert all(len(values) > 1 for values in zip(*drawn, strict=True))
    for per_query in zip(*drawn, strict=True):
        queries, values, variances = ({each[place] for each in per_query} for place in range(3))
        assert len(queries) == len(variances) == 1
        if len(per_query[0][1]) > 4:  # where two draws are hardly the same
            assert len(values) == 1 + RUNS, queries
            assert all(any(value) for value in values)
    # Of the size that is declared.
    for of_root in drawn:
        z = np.concatenate([np.array(values) / variance**0.5 for _, values, variance in of_root])
        assert len(z) > 1000
        assert abs((z**2).mean() - 1) < 0.5


def test_levels_below_are_measured_where_the_replicate_has_estimates_above(whole, kept, tools):
    for number in range(1, RUNS + 1):
        rows = tools.rows_of(PublicLayout(kept / str(number)).level("measurements", "Block"))
        assert any(row["rows"] is not None for row in rows), "kept lazily, as in the run"


def test_manifest_and_texts_tell_of_replicates(whole):
    manifest = PublicManifest.load(whole.public.manifest)
    names = [f"replicate_intervals/{table.name}.{format}" for table in TABLES for format in FORMATS]
    rows = {name: count for name, count in manifest.rows.items() if name.startswith("replicate_intervals/")}
    assert rows == dict.fromkeys(names, sum(GEOUNITS.values()))
    assert [record.name for record in manifest.stages][-2:] == ["tabulate", "replicates"]
    assert manifest.stages[-1].outputs == ("replicate_errors", "replicate_offsets", *names)
    assert manifest.config["output"]["replicates"] == {"runs": RUNS, "level": "9/10", "tables": ["P1", "P5"]}
    described = [each["path"] for each in manifest.data_dictionary if each["path"].startswith("replicate")]
    assert described == [
        *("replicate_errors/replicate=<number>", "replicate_offsets"),
        *(f"replicate_intervals/{table.name}.<format>/level=<geolevel>" for table in TABLES),
    ]
    for table in TABLES:
        for format in FORMATS:
            text = (intervals_layout(whole.public).table(table.name, format) / ABOUT).read_text()
            assert text.startswith(f"{table.name}. {table.title}\n")
            assert INSECURE in text
            assert "about 90 %" in text
            assert f"{RUNS} replicates" in text
            assert str(whole.folder.parent) not in text


class Stop(BaseException):
    """Ends a run where a test has seen enough."""


def test_a_run_that_stopped_between_replicates_goes_on_with_the_next_and_without_its_histograms(
    whole, conf, spark, tmp_path, tools, monkeypatch
):
    plan = load_plan(conf, settings=[f"output.root={tmp_path}"])

    def until_replicates() -> RunLayout:
        return run_stages(plan, run_id="whole", test_key=KEY, spark=spark, until="replicates").layout

    carried: list[int] = []
    real = stage.run_levels

    def noted(steps: Any, replicate: Any) -> None:
        carried.append(replicate.number)
        real(steps, replicate)

    monkeypatch.setattr(stage, "run_levels", noted)
    with tools.dying(stage, "write_one_file", nth=2):
        until_replicates()
    layout = RunLayout.at(tmp_path, "whole")
    public = layout.public
    assert [finished(errors_folder(public, number)) for number in (1, 2)] == [True, False]
    assert not offsets_folder(public).exists()
    first = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in part_files(errors_folder(public, 1))}

    # What is confidential is out of the way of the stage.
    def without_histograms(*given: Any) -> None:
        place, away = layout.restricted.table("histograms"), tmp_path / "away"
        place.rename(away)
        try:
            stage.publish_replicates(*given)
        finally:
            away.rename(place)

    monkeypatch.setattr(feature, "publish_replicates", without_histograms)
    until_replicates()
    assert carried == [1, 2, 2]
    assert first == {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in first}
    require_same(public, whole.public, tools)
    # A further attempt finds everything there.
    monkeypatch.setattr(stage, "write_one_file", lambda *_: pytest.fail("made again"))
    monkeypatch.setattr("das_spark.pipeline.table_writing.write_levels", lambda *_, **__: pytest.fail("made again"))
    until_replicates()
    assert carried == [1, 2, 2]
    assert not list(public.path.rglob("*staging*/*"))


def test_intervals_are_made_again_from_the_public_folder_and_follow_from_the_name_of_the_run(
    copied, whole, tmp_path, spark, tools
):
    roots = [f'output.root="{tmp_path}/{name}"' for name in ("same", "other")]
    same = estimate_from(open_source(copied.path, None, roots[:1]), run_id="whole", spark=spark).layout
    assert not same.restricted.table("histograms").exists()
    # The name is what noise follows from: the same bytes of a run of that name, whatever key it was measured with.
    require_same(same.public, whole.public, tools)
    settings = [roots[1], "output.replicates.runs=1", 'output.replicates.tables=["P1"]', "output.tables=[]"]
    other = estimate_from(open_source(copied.path, None, settings), run_id="other", spark=spark).layout
    require_same(other.public, whole.public, tools, ("estimates",))
    mine, theirs = (part_files(errors_folder(each.public, 1)) for each in (other, whole))
    of_p1 = [row for row in pq.ParquetFile(theirs[0]).read().to_pylist() if row["column"] in P1.names]
    assert pq.ParquetFile(mine[0]).read().to_pylist() != of_p1
    # Without tables intervals are Parquet alone, of the tables that were asked for.
    assert {path.name for path in intervals_layout(other.public).path.iterdir()} == {"P1.parquet"}
    assert not finished(errors_folder(other.public, 2))


def changed(path: Path, column: str, place: int, step: int) -> None:
    table = pq.ParquetFile(path).read()
    at = table.schema.get_field_index(column)
    values = table.column(at).to_pylist()
    values[place] += step
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(values, pa.int64())), path)


def test_values_and_texts_that_were_changed_fail_the_verification(copied, spark):
    (block,) = part_files(intervals_layout(copied).level("P5", "parquet", "Block"))
    (tract,) = part_files(intervals_layout(copied).level("P1", "parquet", "Tract"))
    codes = [list(rows_of(path.parent)) for path in (block, tract)]
    changed(block, f"{P5.names[4]}_high", 2, 1)
    for end in ("", "_low", "_high"):
        changed(tract, f"{P1.names[1]}{end}", 0, 1)
    # Columns that are there beside those that are declared, and a header that calls them otherwise.
    (errors,) = part_files(errors_folder(copied, 2))
    (ends,) = part_files(intervals_layout(copied).level("P1", "parquet", "County"))
    for path in (errors, ends):
        rows = pq.ParquetFile(path).read()
        pq.write_table(rows.append_column("truth", pa.array([0] * rows.num_rows)), path)
    turned = [file for folder in (errors_folder(copied, 1), offsets_folder(copied)) for file in part_files(folder)]
    for path in turned:
        rows = pq.ParquetFile(path).read()
        pq.write_table(rows.take(list(reversed(range(rows.num_rows)))), path)
    (text,) = part_files(intervals_layout(copied).level("P1", "csv", "County"))
    text.write_text(text.read_text().replace(f"{P1.names[2]}_low", f"{P1.names[3]}_low", 1))
    about = intervals_layout(copied).table("P5", "csv") / ABOUT
    about.write_text(about.read_text() + "And they are exact.\n")
    failing = {(failure.name, failure.geolevel): failure for failure in verify_run(copied.path, spark).failures}
    assert failing["intervals of counts have the offsets of their class", "Block"].failing == (codes[0][2],)
    tables = failing["tables equal estimates", "Tract"]
    assert (tables.failing, tables.note) == ((f"{codes[1][0]} {P1.names[1]}",), "replicate_intervals parquet files")
    assert failing["texts follow from the manifest", ""].failing == (str(about.relative_to(copied.path)),)
    more = tuple(sorted(f"{path.relative_to(copied.path)}: truth" for path in (errors, ends)))
    assert failing["columns of Parquet files", ""].failing == more
    assert set(failing["rows are in order", ""].failing) == {
        path.parent.relative_to(copied.path).as_posix() for path in turned
    }
    assert failing["headers of tables", "County"].failing == ("P1",)


def test_replicates_that_are_not_whole_are_not_read(copied):
    nothing: Any = object()  # no session: nothing may be asked of it
    (errors_folder(copied, 2) / "_SUCCESS").unlink()
    (offsets_folder(copied) / "_SUCCESS").unlink()
    (intervals_layout(copied).level("P1", "csv", "Tract") / "_SUCCESS").unlink()
    missing = verify_run(copied.path, spark=nothing).checks[0].failing
    assert set(missing) == {
        "replicate_errors/replicate=2",
        "replicate_offsets",
        "replicate_intervals/P1.csv/level=Tract",
    }


def test_a_replicate_that_cannot_be_estimated_says_so_and_that_the_run_is_whole(
    whole, conf, spark, tmp_path, monkeypatch
):
    plan = load_plan(conf, settings=[f"output.root={tmp_path}"])
    monkeypatch.setattr(stage, "failed_families", lambda *_: (3, [{"family": "01001"}, {"family": "01003"}]))
    said = r"replicate 1: 3 families of level County could not be estimated: 01001, 01003"
    with pytest.raises(EstimationError, match=said) as caught:
        run_stages(plan, run_id="failing", test_key=KEY, spark=spark, until="replicates")
    assert "the run itself is whole" in caught.value.hint
    public = RunLayout.at(tmp_path, "failing").public
    assert not finished(errors_folder(public, 1))
    assert finished(public.tables.level("P1", "csv", "Block"))


def test_a_run_from_all_levels_together_has_intervals_of_both_kinds_and_their_coverage(conf, spark, tmp_path):
    settings = [
        *(f"output.root={tmp_path}", "estimation.estimator=blue_down", "evaluation.enabled=true"),
        *('output.intervals={level="0.8", tables=["P1"]}', 'output.replicates.tables=["P1"]'),
        *('output.tables=["parquet"]', "output.replicates.runs=1"),
    ]
    layout = run_stages(load_plan(conf, settings=settings), run_id="both", test_key=KEY, spark=spark).layout
    report = json.loads(layout.public.verification.read_text())
    assert report["passed"] is True
    assert {check["name"] for check in report["checks"]} >= RULES
    assert [each.name for each in PublicManifest.load(layout.public.manifest).stages][-2:] == [
        "intervals",
        "replicates",
    ]
    (text,) = layout.restricted.path.rglob("accuracy.json")
    coverage = json.loads(text.read_text())["coverage"]
    kinds = {(row["of"], row["place"], row["level"]) for row in coverage}
    assert kinds == {
        *(("measurements", level, 0.8) for level in LEVELS[:-1]),
        *(("replicates", level, 0.9) for level in LEVELS),
    }
    # By hand: of each geolevel every column of every geounit was looked at once.
    truth = {level: rows_of(layout.restricted.level("histograms", level)) for level in LEVELS}
    masks = np.array([column.mask(PRODUCT.schema) for column in P1.columns], dtype=np.int64)
    for level in LEVELS:
        rows = [row for row in coverage if (row["of"], row["place"], row["table"]) == ("replicates", level, "P1")]
        found = rows_of(intervals_layout(layout.public).level("P1", "parquet", level))
        inside = uncertain = 0
        for code, row in found.items():
            true = masks[:, truth[level][code]["cells"]] @ truth[level][code]["counts"]
            for name, count in zip(P1.names, true, strict=True):
                covered = row[f"{name}_low"] <= count <= row[f"{name}_high"]
                counts = not covered or row[f"{name}_rmse"] > 0
                uncertain += counts
                inside += covered and counts
        assert sum(row["intervals"] for row in rows) == uncertain
        assert sum(row["covered"] for row in rows) == inside
        assert sum(row["intervals"] + row["exact"] for row in rows) == GEOUNITS[level] * len(P1.names)
    page = next(layout.restricted.path.rglob("accuracy*.html")).read_text()
    assert "Coverage of intervals by the measurements" in page
    assert "Coverage of intervals of published counts" in page
