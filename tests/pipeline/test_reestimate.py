"""Runs from measurements that exist: the same estimates to the last bit, and what may be asked for."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import das_spark
from das_spark.cli.main import main
from das_spark.errors import ConfigurationError, OutputError, PrivacyGuardError
from das_spark.pipeline import estimate_from, levels, noisy_sources, open_source, reestimate
from das_spark.pipeline.context import RunContext
from das_spark.pipeline.progress import Progress
from das_spark.pipeline.statement import INSECURE
from das_spark.spark import session as session_module
from das_spark.store import PublicManifest, RunLayout, created_at

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.slow, pytest.mark.verified]

FAILED, WRONG = 1, 2


@pytest.fixture(scope="module")
def again(measured) -> RunLayout:
    """A run from the folder alone: everything else of the run that measured is out of reach."""
    away = measured.folder.parent / f"{measured.folder.name}-locked"
    (away / "hidden").mkdir(parents=True)
    ledger = measured.ledger_file
    hidden = [measured.layout("whole").folder, measured.census, ledger]
    for path in hidden:
        path.rename(away / "hidden" / path.name)
    arguments = ["estimate", "--from-measurements", str(measured.folder / "nmf"), "--run-id", "again"]
    try:
        assert main([*arguments, "--output", str(measured.folder / "other")]) == 0
        assert not ledger.exists()
    finally:
        for path in hidden:
            (away / "hidden" / path.name).rename(path)
    return RunLayout.at(measured.folder / "other", "again")


class TestEstimated:
    """A run from the folder."""

    def test_estimates_are_those_of_the_run_that_measured_bit_for_bit(self, measured, again, tools):
        kinds = ("measurements", "estimates", "bounds", "invariants", "geounits")
        assert tools.level_rows(again.public.path, kinds) == tools.level_rows(
            measured.layout("whole").public.path, kinds
        )

    def test_microdata_and_verification_are_there(self, measured, again, tools):
        other = measured.layout("whole").public
        for kind in ("person", "unit"):
            mine, theirs = (
                sorted(map(str, tools.rows_of(each.microdata(kind, "parquet")))) for each in (again.public, other)
            )
            assert mine == theirs
        assert json.loads(again.public.verification.read_text())["passed"] is True

    def test_statement_and_manifest_say_whose_budget_it_was(self, measured, again):
        first = PublicManifest.load(measured.layout("whole").public.manifest)
        manifest = PublicManifest.load(again.public.manifest)
        assert manifest.ledger == first.ledger == json.loads(again.public.privacy_ledger.read_text())
        origin = manifest.config["origin"]
        record = measured.folder / "nmf" / "measurements.json"
        assert origin["run_id"] == "whole"
        assert origin["sha256"] == hashlib.sha256(record.read_bytes()).hexdigest()
        assert [stage.name for stage in manifest.stages][:2] == ["import", "estimate"]
        statement = again.public.privacy_statement.read_text()
        assert first.ledger["run_id"] in statement
        assert "spent nothing" in statement
        assert "INSECURE" in statement
        assert INSECURE in manifest.notices

    def test_the_run_holds_nothing_confidential_and_cannot_draw(self, again, spark):
        assert {path.name for path in again.restricted.path.iterdir()} == {
            *("run.json", "run.lock", "manifest.json", "completion.json", "committed.jsonl", "log.jsonl", "run.html"),
        }
        source = reestimate.open_source(again.folder, None)
        context = RunContext(source.plan, again, spark, None, Progress(lambda _: None, "x"), created_at(again))
        with pytest.raises(PrivacyGuardError, match="draws nothing"):
            levels.measurement_task(context, "State", 1)

    def test_a_run_estimated_again_from_its_public_folder_is_the_same(
        self, measured, again, tmp_path, spark, tools, monkeypatch
    ):
        monkeypatch.setattr(reestimate, "publish_results", lambda *_: None)
        public = Path(shutil.copytree(again.public.path, tmp_path / "elsewhere"))
        source = open_source(public, None, [f'output.root="{tmp_path}/runs"'])
        estimate_from(source, run_id="third", spark=spark)
        third = RunLayout.at(tmp_path / "runs", "third")
        assert tools.level_rows(third.public.path) == tools.level_rows(measured.layout("whole").public.path)
        assert source.entry.run_id.startswith("whole#")
        assert source.plan.origin.earlier is not None
        assert source.plan.origin.earlier.run_id == "whole"

    def test_a_finished_run_that_is_started_again_estimates_nothing_and_changes_no_table(
        self, measured, again, monkeypatch, spark, tools
    ):
        before = tools.checksums(again.public.path)
        monkeypatch.setattr(noisy_sources.MeasurementsSource, "check", lambda *_: pytest.fail("checked again"))
        monkeypatch.setattr("das_spark.pipeline.levels.estimates", lambda *_: pytest.fail("estimated again"))
        source = open_source(None, measured.folder / "nmf", [f"output.root={json.dumps(str(again.root))}"])
        monkeypatch.setattr("das_spark.pipeline.stages.verify.verify_public", lambda *_: pytest.fail("verified again"))
        estimate_from(source, run_id="again", spark=spark)
        assert tools.checksums(again.public.path) == before

    def test_a_run_that_died_while_it_took_tables_over_goes_on(self, measured, tmp_path, monkeypatch, spark, tools):
        source = open_source(None, measured.folder / "nmf", [f'output.root="{tmp_path}"'])
        with tools.dying(noisy_sources, "write_bounds"):
            estimate_from(source, run_id="resumed", spark=spark)
        monkeypatch.setattr(levels, "estimate", lambda *_: None)
        monkeypatch.setattr(reestimate, "publish_results", lambda *_: None)
        estimate_from(source, run_id="resumed", spark=spark)
        resumed, kinds = RunLayout.at(tmp_path, "resumed"), ("geounits", "invariants", "bounds", "measurements")
        assert tools.level_rows(resumed.public.path, kinds) == tools.level_rows(
            measured.layout("whole").public.path, kinds
        )

    def test_a_run_folder_belongs_to_its_measurements(self, measured, again, spark):
        source = open_source(measured.layout("whole").folder, None, [f"output.root={json.dumps(str(again.root))}"])
        with pytest.raises(OutputError, match="belongs to another run"):
            estimate_from(source, run_id="again", spark=spark)


class TestOptions:
    """What can be asked for, before Spark is started."""

    @pytest.fixture(autouse=True)
    def no_spark(self, monkeypatch):
        monkeypatch.setattr(session_module, "session", lambda *_, **__: pytest.fail("Spark was asked for"))
        monkeypatch.setattr(reestimate, "session", lambda *_, **__: pytest.fail("Spark was asked for"))

    def test_settings_of_estimation_are_taken_and_part_of_the_run(self, measured):
        same = open_source(None, measured.folder / "nmf").plan
        other = open_source(None, measured.folder / "nmf", ['estimation.rounding="released"']).plan
        assert (same.estimation.rounding, other.estimation.rounding) == ("nearest", "released")
        assert same.config_hash != other.config_hash
        assert not same.evaluation.enabled

    @pytest.mark.parametrize("setting", ["budget.epsilon=8", 'run.product="e2e_2018"', "invariants.units=false"])
    def test_what_the_measurements_fix_cannot_be_set(self, measured, setting):
        with pytest.raises(ConfigurationError, match="measurements fix everything but"):
            open_source(None, measured.folder / "nmf", [setting])

    def test_a_run_that_kept_its_support_only_is_estimated_in_its_own_way_only(self, measured, tmp_path):
        public = Path(shutil.copytree(measured.layout("whole").public.path, tmp_path / "public"))
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
    def test_options_that_contradict_each_other_are_refused(self, measured, capsys, arguments, needle):
        places = {"RUN": measured.layout("whole").folder, "NMF": measured.folder / "nmf", "CONF": measured.run_file()}
        assert main(["estimate", *(str(places.get(argument, argument)) for argument in arguments)]) == WRONG
        assert needle in capsys.readouterr().err

    def test_no_finished_run_is_an_error(self, capsys, tmp_path):
        assert main(["estimate", str(tmp_path)]) == FAILED
        assert "runs/latest" in capsys.readouterr().err


def test_from_python_as_from_the_command_line(measured, tmp_path, spark, monkeypatch):
    monkeypatch.setattr(reestimate, "publish_results", lambda *given: given)
    monkeypatch.setattr(levels, "estimate", lambda *_: None)
    summary = das_spark.publish_measurements(measured.layout("whole").folder, tmp_path / "nmf", spark=spark)
    assert summary.rows["e2e_1940/State.parquet/DPQuery"] == 4
    settings = [f'output.root="{tmp_path}/runs"']
    context, entry, ledger = das_spark.estimate(
        from_measurements=tmp_path / "nmf", settings=settings, run_id="python", spark=spark
    )
    assert (tmp_path / "runs" / "latest").resolve() == context.layout.folder.resolve()
    assert context.key is None
    assert entry.insecure
    assert ledger is None
