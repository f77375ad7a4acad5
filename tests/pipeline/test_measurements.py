"""Noisy measurements published, and runs from them: the same estimates to the last bit; what is wrong is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import das_spark
from das_spark.cli.main import main
from das_spark.errors import ConfigurationError, InputError, OutputError, PrivacyGuardError
from das_spark.io.files import record_of
from das_spark.io.layout import RunLayout
from das_spark.io.manifest import MeasurementsManifest, PublicManifest
from das_spark.pipeline import estimate_from, from_measurements, open_source, publish_measurements, reestimate
from das_spark.pipeline import measure as measure_stage
from das_spark.pipeline.publish import INSECURE
from das_spark.products import PRODUCTS
from das_spark.spark import session as session_module

pytestmark = [pytest.mark.spark, pytest.mark.whole_run]

PRODUCT = PRODUCTS["e2e_1940"]
ATTRIBUTES = [attribute.name for attribute in PRODUCT.schema.attributes]
GEOUNITS = {"State": 2, "County": 5, "Enumdist": 25}
ALL_ROWS = 'measurement.rows="all"'
FAILED, WRONG = 1, 2


def read(folder: Path) -> list[dict[str, Any]]:
    parts = sorted(folder.glob("part-*"))
    assert parts, folder
    return [row for part in parts for row in pq.ParquetFile(part).read().to_pylist()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, spark, tools) -> Any:
    """A whole run that keeps every noisy answer, and its measurements, in a folder of their own."""
    workshop = tools.Workshop(tmp_path_factory.mktemp("measured"), spark)
    arguments = ["run", str(workshop.run_file()), "--run-id", "whole", "--test-key", tools.TEST_KEY]
    assert main([*arguments, "--set", ALL_ROWS]) == 0
    assert main(["measurements", str(workshop.layout("whole").folder), "--out", str(workshop.folder / "nmf")]) == 0
    return workshop


@pytest.fixture(scope="module")
def again(whole) -> RunLayout:
    """A run from the folder alone: everything else of the run that measured is out of reach."""
    away = whole.folder.parent / f"{whole.folder.name}-locked"
    (away / "hidden").mkdir(parents=True)
    ledger = whole.census.with_name(whole.census.name + ".privacy-ledger.jsonl")
    hidden = [whole.layout("whole").folder, whole.census, ledger]
    for path in hidden:
        path.rename(away / "hidden" / path.name)
    arguments = ["estimate", "--from-measurements", str(whole.folder / "nmf"), "--run-id", "again"]
    try:
        assert main([*arguments, "--output", str(whole.folder / "other")]) == 0
        assert not ledger.exists()
    finally:
        for path in hidden:
            (away / "hidden" / path.name).rename(path)
    return RunLayout.at(whole.folder / "other", "again")


@pytest.fixture
def folder(whole, tmp_path) -> Path:
    """A copy of the folder that a test may spoil."""
    return Path(shutil.copytree(whole.folder / "nmf", tmp_path / "nmf"))


class TestPublished:
    """What the folder holds."""

    def test_measurements_stand_in_the_published_columns(self, whole):
        recode_free = {"hhgq": ("detailed", "*", "*", "*"), "detailed": ("detailed",) * 4}
        shapes = {"hhgq": [8, 1, 1, 1], "detailed": list(PRODUCT.schema.shape)}
        for level, count in GEOUNITS.items():
            rows = read(whole.folder / "nmf" / "e2e_1940" / f"{level}.parquet" / "DPQuery")
            assert len(rows) == 2 * count
            own = {
                (row["geocode"], row["query"]): (row["values"], row["variance"])
                for row in read(whole.layout("whole").public.level("measurements", level))
            }
            for row in rows:
                assert list(row) == [
                    "geocode",
                    "query_name",
                    *ATTRIBUTES,
                    "query_shape",
                    "value",
                    "variance",
                    "plb",
                    "sign",
                ]
                query = row["query_name"].removesuffix("_dpq")
                assert row["query_name"] == f"{query}_dpq"
                assert tuple(row[name] for name in ATTRIBUTES) == recode_free[query]
                assert row["query_shape"] == shapes[query]
                assert (row["value"], row["variance"]) == own.pop((row["geocode"], query))
                assert row["plb"] == {"State": "1/2", "County": "1/2", "Enumdist": "1"}[level]
                assert row["sign"] is None
            assert own == {}

    def test_constraints_are_the_exact_totals_and_bounds(self, whole):
        rows = read(whole.folder / "nmf" / "e2e_1940" / "State.parquet" / "Constraint")
        totals = {
            row["geocode"]: row["values"] for row in read(whole.layout("whole").public.level("invariants", "State"))
        }
        found = {(row["geocode"], row["query_name"]): row for row in rows}
        for geocode, total in totals.items():
            assert found[geocode, "total_con"]["value"] == total
            assert found[geocode, "total_con"]["sign"] == "="
            assert [found[geocode, "total_con"][name] for name in ATTRIBUTES] == ["*"] * 4
            low, high = (found[geocode, f"hhgq_total_{side}_con"] for side in ("lb", "ub"))
            assert (low["sign"], high["sign"]) == (">=", "<=")
            assert low["query_shape"] == high["query_shape"] == [8, 1, 1, 1]
            assert all(least <= most for least, most in zip(low["value"], high["value"], strict=True))
            assert (low["variance"], low["plb"]) == (0.0, None)
        assert len(rows) == 3 * GEOUNITS["State"]

    def test_the_record_has_the_budget_the_schema_and_the_checksum_of_every_file(self, whole):
        folder = whole.folder / "nmf"
        record = MeasurementsManifest.load(folder / "measurements.json")
        files = {str(path.relative_to(folder)) for path in folder.rglob("part-*")}
        assert {each.name for each in record.files} == files
        assert all(record_of(folder / each.name, each.name) == each for each in record.files)
        assert record.ledger == json.loads(whole.layout("whole").public.privacy_ledger.read_text())
        assert [each["name"] for each in record.schema] == ATTRIBUTES
        assert record.rows["e2e_1940/County.parquet/DPQuery"] == 10
        assert INSECURE in record.overridden_guards
        assert INSECURE in (folder / "_about.txt").read_text()
        described = {each["path"] for each in record.data_dictionary}
        assert {"e2e_1940/<geolevel>.parquet/DPQuery", "geounits/level=<geolevel>"} <= described

    def test_the_folder_tells_nothing_of_the_input_and_holds_no_confidential_count(self, whole):
        names = {path.relative_to(whole.folder / "nmf").parts[0] for path in (whole.folder / "nmf").rglob("*")}
        assert names == {"e2e_1940", "geounits", "invariants", "measurements.json", "_about.txt"}
        restricted = json.loads(whole.layout("whole").restricted.manifest.read_text())
        text = (whole.folder / "nmf" / "measurements.json").read_text()
        assert not any(each["sha256"] in text for each in restricted["input_files"].values())

    def test_a_run_that_kept_its_support_only_is_refused_by_the_name_of_the_setting(self, whole, capsys):
        changed = whole.folder / "support"
        shutil.copytree(whole.layout("whole").public.path, changed)
        manifest = json.loads((changed / "manifest.json").read_text())
        manifest["config"]["measurement"]["rows"] = "support"
        (changed / "manifest.json").write_text(json.dumps(manifest))
        assert main(["measurements", str(changed), "--out", str(whole.folder / "none")]) == WRONG
        assert 'measurement.rows = "all"' in capsys.readouterr().err
        assert not (whole.folder / "none").exists()

    def test_a_folder_that_holds_something_is_refused_and_left_alone(self, whole, tmp_path):
        (tmp_path / "thesis.txt").write_text("mine")
        with pytest.raises(OutputError, match="empty"):
            publish_measurements(whole.layout("whole").folder, tmp_path, whole.spark)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_a_folder_that_could_not_be_finished_is_not_there(self, whole, tmp_path, monkeypatch):
        monkeypatch.setattr("das_spark.pipeline.measurements._write_record", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            publish_measurements(whole.layout("whole").folder, tmp_path / "nmf", whole.spark)
        assert list(tmp_path.iterdir()) == []


class TestEstimated:
    """A run from the folder."""

    def test_estimates_are_those_of_the_run_that_measured_bit_for_bit(self, whole, again, tools):
        kinds = ("measurements", "estimates", "bounds", "invariants", "geounits")
        assert tools.level_rows(again.public.path, kinds) == tools.level_rows(whole.layout("whole").public.path, kinds)

    def test_microdata_and_verification_are_there(self, whole, again):
        other = whole.layout("whole").public
        for kind in ("person", "unit"):
            mine, theirs = (sorted(map(str, read(each.microdata(kind, "parquet")))) for each in (again.public, other))
            assert mine == theirs
        assert json.loads(again.public.verification.read_text())["passed"] is True

    def test_statement_and_manifest_say_whose_budget_it_was(self, whole, again):
        first = PublicManifest.load(whole.layout("whole").public.manifest)
        manifest = PublicManifest.load(again.public.manifest)
        assert manifest.ledger == first.ledger == json.loads(again.public.privacy_ledger.read_text())
        origin = manifest.config["origin"]
        record = whole.folder / "nmf" / "measurements.json"
        assert origin["run_id"] == "whole"
        assert origin["sha256"] == hashlib.sha256(record.read_bytes()).hexdigest()
        assert [stage.name for stage in manifest.stages][:2] == ["adopt", "estimate"]
        statement = again.public.privacy_statement.read_text()
        assert first.ledger["run_id"] in statement
        assert "spent nothing" in statement
        assert "INSECURE" in statement
        assert INSECURE in manifest.overridden_guards

    def test_the_run_holds_nothing_confidential_and_cannot_draw(self, again, spark):
        assert {path.name for path in again.restricted.path.iterdir()} == {
            *("run.json", "run.lock", "manifest.json", "begun.json"),
        }
        source = reestimate.open_source(again.folder, None)
        context = reestimate.RunContext(source.plan, again, spark, None, reestimate.Progress(lambda _: None, "x"))
        with pytest.raises(PrivacyGuardError, match="draws nothing"):
            measure_stage.measurement_task(context, "State", 1)

    def test_a_run_estimated_again_from_its_public_folder_is_the_same(
        self, whole, again, tmp_path, spark, tools, monkeypatch
    ):
        monkeypatch.setattr(reestimate, "conclude", lambda *_: None)
        public = Path(shutil.copytree(again.public.path, tmp_path / "elsewhere"))
        source = open_source(public, None, [f'output.root="{tmp_path}/runs"'])
        estimate_from(source, run_id="third", spark=spark)
        third = RunLayout.at(tmp_path / "runs", "third")
        assert tools.level_rows(third.public.path) == tools.level_rows(whole.layout("whole").public.path)
        assert source.origin.entry.run_id.startswith("whole#")
        assert source.origin.earlier is not None
        assert source.origin.earlier["run_id"] == "whole"

    def test_a_finished_run_that_is_started_again_estimates_nothing_and_changes_no_table(
        self, whole, again, monkeypatch, spark, tools
    ):
        before = tools.checksums(again.public.path)
        monkeypatch.setattr(from_measurements.MeasurementsSource, "check", lambda *_: pytest.fail("checked again"))
        monkeypatch.setattr("das_spark.pipeline.estimate.estimates", lambda *_: pytest.fail("estimated again"))
        source = open_source(None, whole.folder / "nmf", [f"output.root={json.dumps(str(again.root))}"])
        monkeypatch.setattr("das_spark.pipeline.runner.verify_public", lambda *_: pytest.fail("came so far"))
        with pytest.raises(pytest.fail.Exception, match="came so far"):
            estimate_from(source, run_id="again", spark=spark)
        assert tools.checksums(again.public.path) == before

    def test_a_run_that_died_while_it_took_tables_over_goes_on(self, whole, tmp_path, monkeypatch, spark, tools):
        source = open_source(None, whole.folder / "nmf", [f'output.root="{tmp_path}"'])
        with monkeypatch.context() as dying:
            dying.setattr(from_measurements, "write_bounds", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                estimate_from(source, run_id="resumed", spark=spark)
        monkeypatch.setattr(reestimate, "estimate", lambda *_: None)
        monkeypatch.setattr(reestimate, "conclude", lambda *_: None)
        estimate_from(source, run_id="resumed", spark=spark)
        resumed, kinds = RunLayout.at(tmp_path, "resumed"), ("geounits", "invariants", "bounds", "measurements")
        assert tools.level_rows(resumed.public.path, kinds) == tools.level_rows(
            whole.layout("whole").public.path, kinds
        )

    def test_a_run_folder_belongs_to_its_measurements(self, whole, again, spark):
        source = open_source(whole.layout("whole").folder, None, [f"output.root={json.dumps(str(again.root))}"])
        with pytest.raises(OutputError, match="belongs to another run"):
            estimate_from(source, run_id="again", spark=spark)


class TestOptions:
    """What can be asked for, before Spark is started."""

    @pytest.fixture(autouse=True)
    def no_spark(self, monkeypatch):
        monkeypatch.setattr(session_module, "session", lambda *_: pytest.fail("Spark was asked for"))
        monkeypatch.setattr(reestimate, "session", lambda *_: pytest.fail("Spark was asked for"))

    def test_settings_of_estimation_are_taken_and_part_of_the_run(self, whole):
        same = open_source(None, whole.folder / "nmf").plan
        other = open_source(None, whole.folder / "nmf", ['estimation.rounding="released"']).plan
        assert (same.estimation.rounding, other.estimation.rounding) == ("nearest", "released")
        assert same.config_hash != other.config_hash
        assert not same.evaluation.enabled

    @pytest.mark.parametrize("setting", ["budget.epsilon=8", 'run.product="e2e_2018"', "invariants.units=false"])
    def test_what_the_measurements_fix_cannot_be_set(self, whole, setting):
        with pytest.raises(ConfigurationError, match="measurements fix everything but"):
            open_source(None, whole.folder / "nmf", [setting])

    def test_a_run_that_kept_its_support_only_is_estimated_in_its_own_way_only(self, whole, tmp_path):
        public = Path(shutil.copytree(whole.layout("whole").public.path, tmp_path / "public"))
        manifest = json.loads((public / "manifest.json").read_text())
        manifest["config"]["measurement"]["rows"] = "support"
        (public / "manifest.json").write_text(json.dumps(manifest))
        assert open_source(public, None, ["estimation.partitions_per_core=2"]).plan.measurement_rows == "support"
        with pytest.raises(ConfigurationError, match=r"measurement\.rows"):
            open_source(public, None, ["estimation.gap_tolerance=1e-5"])

    @pytest.mark.parametrize(
        ("arguments", "needle"),
        [
            ([], "name a run, or measurements"),
            (["RUN", "--from-measurements", "NMF"], "name a run, or measurements"),
            (["--from-measurements", "NMF", "--conf", "CONF"], "leave --conf out"),
            (["RUN", "--conf", "CONF"], "leave --conf out"),
        ],
    )
    def test_options_that_contradict_each_other_are_refused(self, whole, capsys, arguments, needle):
        places = {"RUN": whole.layout("whole").folder, "NMF": whole.folder / "nmf", "CONF": whole.run_file()}
        assert main(["estimate", *(str(places.get(each, each)) for each in arguments)]) == WRONG
        assert needle in capsys.readouterr().err

    def test_no_finished_run_is_an_error(self, capsys, tmp_path):
        assert main(["estimate", str(tmp_path)]) == FAILED
        assert "runs/latest" in capsys.readouterr().err


def spoil(folder: Path, level: str, kind: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows of a level, and make the checksums of the record agree with that."""
    place = folder / "e2e_1940" / f"{level}.parquet" / kind
    table = pa.concat_tables([pq.ParquetFile(part).read() for part in sorted(place.glob("part-*"))])
    for part in place.glob("part-*"):
        part.unlink()
    pq.write_table(change(table), place / "part-00000.parquet")
    sign(folder)


def sign(folder: Path, **changes: Any) -> None:
    """Record the checksums of the files as they are."""
    record = json.loads((folder / "measurements.json").read_text())
    paths = sorted(path for path in folder.rglob("part-*"))
    files = [record_of(path, str(path.relative_to(folder))) for path in paths]
    record["files"] = [{"name": each.name, "size": each.size, "sha256": each.sha256} for each in files]
    (folder / "measurements.json").write_text(json.dumps(record | changes))


def column(name: str, function: Callable[[Any, dict[str, Any]], Any]) -> Callable[[pa.Table], pa.Table]:
    """A change of one column, row by row."""

    def change(table: pa.Table) -> pa.Table:
        values = [function(row[name], row) for row in table.to_pylist()]
        place = table.schema.get_field_index(name)
        return table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))

    return change


def without_query(name: str) -> Callable[[pa.Table], pa.Table]:
    """A change that leaves the rows of a query out."""
    return lambda table: table.filter(pc.not_equal(table.column("query_name"), name))


def cut_off(folder: Path) -> None:
    path = next(folder.rglob("County.parquet/DPQuery/part-*"))
    path.write_bytes(path.read_bytes()[:-100])


#: Faults that are found together: level and change -> what is said of it.
FAULTS = [
    {
        ("State", column("query_name", lambda name, _: name.replace("hhgq", "hgq"))): "names 'hgq'",
        ("County", lambda table: table.slice(1)): "expected one of each 5",
        ("Enumdist", column("hhgq", lambda _, __: "*")): "its binning is",
    },
    {
        ("State", column("variance", lambda value, _: value * (1 + 1e-9))): "follows from the budget",
        ("County", lambda table: pa.concat_tables([table, table.slice(0, 1)])): "expected one of each 5",
        ("Enumdist", column("query_shape", lambda shape, _: shape[::-1])): "its shape is",
    },
    {
        ("State", column("query_name", lambda name, _: name.removesuffix("_dpq"))): "must end with _dpq",
        ("County", without_query("hhgq_dpq")): "the measurements of query 'hhgq' are missing",
        ("Enumdist", column("value", lambda value, _: value[:-1])): "values a geounit, expected",
    },
    {
        ("State", column("query_name", lambda name, _: name.replace("hhgq", "race"))): "the budget has no such query",
        ("County", column("plb", lambda _, __: "1")): "plb says",
    },
    {("State", column("geocode", lambda code, _: code.replace("02", "03"))): "geounit 03, which does not exist"},
]


class TestRefused:
    """Whatever is wrong is one clear error; nothing is written."""

    @pytest.fixture
    def refused(self, folder, tmp_path, spark, capsys) -> Callable[..., None]:
        def check(*needles: str) -> None:
            arguments = ["estimate", "--from-measurements", str(folder), "--run-id", "bad"]
            assert main([*arguments, "--output", str(tmp_path / "runs")]) == FAILED
            said = capsys.readouterr().err
            assert said.count("das-spark: error: [DAS2") == 1
            for needle in needles:
                assert needle in said, said
            assert not (tmp_path / "runs").exists()

        return check

    def test_one_changed_byte(self, folder, refused):
        path = next(folder.rglob("State.parquet/DPQuery/part-*"))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
        refused("is not as it was published", str(path.relative_to(folder)))

    def test_a_missing_file(self, folder, refused):
        next(folder.rglob("State.parquet/DPQuery/part-*")).unlink()
        refused("is missing")

    def test_a_file_that_was_not_there(self, folder, refused):
        shutil.copy(next(folder.rglob("part-*")), folder / "e2e_1940" / "State.parquet" / "DPQuery" / "part-9.parquet")
        refused("part-9.parquet is not part of what was published")

    def test_a_file_that_is_cut_off(self, folder, refused):
        cut_off(folder)
        refused("checksum")
        sign(folder)
        refused("is not a whole Parquet file", "County.parquet")

    def test_a_missing_level(self, folder, refused):
        shutil.rmtree(folder / "e2e_1940" / "County.parquet")
        sign(folder)
        refused("geolevel County are missing")

    def test_a_missing_table_of_geounits(self, folder, refused):
        shutil.rmtree(folder / "geounits" / "level=County")
        sign(folder)
        refused("geounits of geolevel County are missing")

    def test_a_folder_without_record(self, folder, refused):
        (folder / "measurements.json").unlink()
        refused("measurements.json", "--conf")

    @pytest.mark.parametrize(
        ("changes", "needle"),
        [
            ({"product": "e2e_1950"}, "which does not exist here"),
            ({"product": "e2e_2018"}, "its schema is not that of product e2e_2018"),
            ({"schema_version": 9}, "version 9"),
            ({"schema": [{"name": "age"}]}, "schema"),
            ({"config_hash": "0"}, "configuration has been changed"),
            ({"ledger": {}}, "not an entry of a privacy ledger"),
            ({"surprise": 1}, "surprise"),
        ],
    )
    def test_a_record_of_something_else(self, folder, refused, changes, needle):
        sign(folder, **changes)
        refused(needle)

    def test_a_record_that_claims_another_budget(self, folder, refused):
        record = json.loads((folder / "measurements.json").read_text())
        sign(folder, ledger=record["ledger"] | {"total": "5"})
        refused("do not agree on the budget")

    def test_columns_of_another_schema(self, folder, refused):
        spoil(
            folder,
            "State",
            "DPQuery",
            lambda table: table.rename_columns(
                ["votingage" if name == "age18plus" else name for name in table.column_names]
            ),
        )
        refused("without age18plus", "with votingage")

    def test_values_that_are_no_whole_numbers(self, folder, refused):
        def change(table: pa.Table) -> pa.Table:
            values = table.column("value").cast(pa.list_(pa.float64()))
            return table.set_column(table.schema.get_field_index("value"), "value", values)

        spoil(folder, "State", "DPQuery", change)
        refused("lists of whole numbers")

    @pytest.mark.parametrize("faults", FAULTS, ids=[" and ".join(each.values()) for each in FAULTS])
    def test_rows_that_are_not_those_of_the_budget(self, folder, refused, faults):
        for (level, change), _ in faults.items():
            spoil(folder, level, "DPQuery", change)
        refused(*(f"geolevel {level}" for level, _ in faults), *faults.values())

    def test_a_constraint_that_does_not_follow_from_the_invariants(self, folder, tmp_path, capsys):
        def change(value: list[int], row: dict[str, Any]) -> list[int]:
            return [value[0] + 1] if (row["query_name"], row["geocode"]) == ("total_con", "01") else value

        spoil(folder, "State", "Constraint", column("value", change))
        arguments = ["estimate", "--from-measurements", str(folder), "--run-id", "bad"]
        assert main([*arguments, "--output", str(tmp_path / "runs")]) == FAILED
        assert "total_con of geounit 01 (State) does not follow" in capsys.readouterr().err
        public = RunLayout.at(tmp_path / "runs", "bad").public.path
        assert [path.name for path in public.rglob("part-*")] == []

    def test_measurements_of_a_run_that_differ_from_its_budget(self, whole, tmp_path, spark):
        public = Path(shutil.copytree(whole.layout("whole").public.path, tmp_path / "public"))
        place = public / "measurements" / "level=State"
        part, *_ = place.glob("part-*")
        table = pq.ParquetFile(part).read()
        pq.write_table(column("variance", lambda value, _: value / 2)(table), part)
        settings = [f'output.root="{tmp_path}/runs"']
        with pytest.raises(InputError, match="follows from the budget"):
            estimate_from(open_source(public, None, settings), run_id="bad", spark=spark)
        part.write_bytes(part.read_bytes()[:-10])
        with pytest.raises(InputError, match="whole Parquet file"):
            estimate_from(open_source(public, None, settings), run_id="bad", spark=spark)
        assert not (tmp_path / "runs").exists()


def test_from_python_as_from_the_command_line(whole, tmp_path, spark, monkeypatch):
    monkeypatch.setattr(reestimate, "conclude", lambda *given: given)
    monkeypatch.setattr(reestimate, "estimate", lambda *_: None)
    summary = das_spark.publish_measurements(whole.layout("whole").folder, tmp_path / "nmf", spark=spark)
    assert summary.rows["e2e_1940/State.parquet/DPQuery"] == 4
    settings = [f'output.root="{tmp_path}/runs"']
    context, entry, ledger, _ = das_spark.estimate(
        from_measurements=tmp_path / "nmf", settings=settings, run_id="python", spark=spark
    )
    assert context.key is None
    assert entry.insecure
    assert ledger is None
