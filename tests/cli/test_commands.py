"""`list`, `simulate`, `show` and `run` as far as they go without Spark."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import das_spark.pipeline
from das_spark.cli.main import main
from das_spark.config import load_plan
from das_spark.errors import OutputError
from das_spark.evaluation import (
    AccuracyReport,
    Criterion,
    Entry,
    QueryErrors,
    SampleReport,
    compare_reports,
    frequencies_of,
    study_of,
)
from das_spark.evaluation.metric_rows import CriterionPart, ErrorPart
from das_spark.evaluation.samples import Draw, entries_of
from das_spark.evaluation.tallies import COUNTY, FIFTIES
from das_spark.pipeline import Check, VerificationReport, accuracy
from das_spark.privacy import Budget, Framework, LedgerEntry, LevelBudget, QueryShare
from das_spark.spark import finished_runs as finished
from das_spark.store import PublicManifest, RunLayout, StageRecord, discard, open_run, require_kept

CONF = Path(__file__).parents[2] / "conf"


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("products", ["e2e_2018", "e2e_1940", "dallas_2010"]),
        ("strategies", ["with_units", "without_units", "2499/10000"]),
        ("readers", ["ipums_1940", "cef_2020", "pl94_summary", "tidy_counts", "tidy_records", "simulated"]),
        ("writers", ["parquet", "text", "ppmf"]),
        ("solvers", ["projected", "nested", "batched", "osqp", "piqp", "clarabel", "highs"]),
    ],
)
def test_list_names_what_is_registered(capsys, what, names):
    assert main(["list", what]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)


def test_simulate_writes_what_the_run_file_reads(capsys, tmp_path):
    out = tmp_path / "population"
    assert main(["simulate", "--like", "1940", "--share", "1/10000", "--out", str(out)]) == 0
    assert {"persons.parquet", "units.parquet"} <= {path.name for path in out.iterdir()}
    assert "geounits" in capsys.readouterr().out
    assert main(["check", str(CONF / "e2e_1940_simulated.toml"), "--set", f"input.path={out}"]) == 0


@pytest.mark.slow
def test_simulate_writes_records_that_the_run_file_reads(capsys, tmp_path):
    out = tmp_path / "population"
    options = ["--like", "2020", "--share", "1/20000", "--layout", "cef", "--out", str(out)]
    assert main(["simulate", *options]) == 0
    assert "persons.txt" in capsys.readouterr().out
    assert main(["check", str(CONF / "pl94_2020_simulated.toml"), "--set", f"input.path={out}"]) == 0


def test_simulate_writes_people_with_households_that_the_run_file_reads(capsys, tmp_path):
    out = tmp_path / "people"
    options = [
        "--like",
        "2020-state",
        "--product",
        "dhc_2020",
        "--share",
        "1/5000",
        "--layout",
        "cef",
        "--out",
        str(out),
    ]
    assert main(["simulate", *options]) == 0
    assert "units.txt" in capsys.readouterr().out
    assert main(["check", str(CONF / "pl94_2020_simulated.toml"), "--set", f"input.path={out}"]) == 0


@pytest.mark.parametrize("wrong", [["--share", "2"], ["--share", "0.x"], ["--like", "1950"], ["--product", "dhc_2020"]])
def test_simulate_refuses_what_cannot_be(capsys, tmp_path, wrong):
    options = {"--like": "1940", "--share": "1/10000", "--out": str(tmp_path / "x")} | {wrong[0]: wrong[1]}
    assert main(["simulate", *[word for pair in options.items() for word in pair]]) == 2
    assert not (tmp_path / "x").exists()


@pytest.fixture
def finished_run(tmp_path: Path) -> RunLayout:
    layout = made_finished(RunLayout.at(tmp_path / "runs", "first"))
    (tmp_path / "runs" / "latest").symlink_to("first")
    return layout


def made_finished(layout: RunLayout) -> RunLayout:
    """What a finished run leaves, as far as `show` looks at it."""
    open_run(layout, "0" * 64)
    one = Fraction(1)
    budget = Budget(Framework.PURE_DP, Fraction(1, 4), (LevelBudget("County", one, (QueryShare("hhgq", one),)),))
    began = "2026-01-01T00:00:00+00:00"
    entry = LedgerEntry("first", began, "e2e_2018", "person", budget, insecure=True)
    PublicManifest(
        run_id="first",
        created=began,
        product="e2e_2018",
        ledger=entry.public_record(),
        config_hash="0" * 64,
        stages=(StageRecord("measure", "County", ("measurements/level=County",)),),
        rows={"estimates/County": 3},
        solver_status={"County": {"optimal": 1}},
        worst_residuals={"County": {"gap": 1e-9}},
        notices=("INSECURE: made under a test key",),
    ).save(layout.public.manifest)
    layout.public.verification.write_text('{"passed": true}')
    layout.restricted.manifest.write_text("{}")
    (layout.restricted.path / "histograms").mkdir()
    (layout.restricted.path / "histograms" / "part").write_text("x" * 2500)
    (layout.restricted.path / "journal").mkdir()
    layout.restricted.accuracy_json.write_text("{}")
    return layout


def test_a_run_whose_roots_lie_apart_is_shown_and_cleared_by_its_restricted_root(capsys, tmp_path, monkeypatch):
    layout = made_finished(RunLayout.at(tmp_path / "runs", "first", str(tmp_path / "open"), str(tmp_path / "closed")))
    closed, public = str(layout.restricted.path), str(layout.public.path)
    assert main(["show", closed]) == 0
    assert "run first" in capsys.readouterr().out
    assert main(["show", closed, "--retention"]) == 0
    assert "histograms" in capsys.readouterr().out
    monkeypatch.setattr(finished, "truths", lambda _, restricted, *__: restricted)
    plan = load_plan("conf/quickstart.toml", files=False)
    run = finished.FinishedRun(Path(closed), None, None, plan)
    monkeypatch.setattr(finished, "check_same_shape", lambda *_: None)
    monkeypatch.setattr(finished, "require_safe_session", lambda *_, **__: None)
    assert finished.truth_of(None, run) == layout.restricted
    assert main(["show", public, "--retention", "--remove"]) == 1
    assert "name the folder of the run, or" in capsys.readouterr().err
    assert layout.restricted.accuracy_json.exists()
    assert main(["show", closed, "--retention", "--remove"]) == 0
    assert not layout.restricted.accuracy_json.exists()
    assert layout.restricted.removed.is_file()


def test_show_prints_the_public_manifest(capsys, finished_run):
    assert main(["show", str(finished_run.root / "latest")]) == 0
    printed = capsys.readouterr().out
    for text in ("NOTICE: INSECURE", "run first", "total 1/4", "estimates/County", "optimal", "gap 1e-09"):
        assert text in printed


def test_retention_lists_what_is_confidential_and_leaves_it(capsys, finished_run):
    assert main(["show", str(finished_run.folder), "--retention"]) == 0
    printed = capsys.readouterr().out
    assert "histograms" in printed
    assert "2.5 kB" in printed
    assert "journal" not in printed
    assert finished_run.restricted.accuracy_json.exists()


def test_retention_removes_what_is_confidential_when_told_to(finished_run):
    assert main(["show", str(finished_run.folder), "--retention", "--remove"]) == 0
    left = {path.name for path in finished_run.restricted.path.iterdir()}
    assert left == {"journal", "removed.json", "run.json", "run.lock"}
    assert finished_run.public.manifest.exists()
    with pytest.raises(OutputError, match="this run is finished, and what was confidential in it was removed on 20"):
        require_kept(finished_run)
    assert main(["show", str(finished_run.folder), "--retention", "--remove"]) == 0, "again, after a kill in between"


def test_retention_keeps_the_tombstones_against_executors_that_wake_up_later(capsys, finished_run):
    buried = finished_run.restricted.staging("measurements", "County", 1)
    discard(buried, tombstone=True)
    left = buried.with_name(f".{buried.name}.destroyed")  # of a driver that died while it destroyed
    (left / "part").mkdir(parents=True)
    assert main(["show", str(finished_run.folder), "--retention", "--remove"]) == 0
    printed = capsys.readouterr().out
    assert f"staging/measurements/{left.name}" in printed
    assert buried.is_file()
    assert not left.exists()
    with pytest.raises(NotADirectoryError):
        (buried / "part-0").touch()


@pytest.mark.parametrize(
    "unfinished",
    [
        lambda layout: layout.public.verification.unlink(),
        lambda layout: layout.public.verification.write_text('{"passed": false}'),
        lambda layout: layout.restricted.manifest.unlink(),  # verified, and still to be evaluated
    ],
)
def test_retention_removes_nothing_of_an_unfinished_run(capsys, finished_run, unfinished):
    require_kept(finished_run)
    unfinished(finished_run)
    assert main(["show", str(finished_run.folder), "--retention", "--remove"]) == 1
    assert "not finished" in capsys.readouterr().err
    assert finished_run.restricted.accuracy_json.exists()


def test_show_of_no_run_says_where_runs_are(capsys, tmp_path):
    assert main(["show", str(tmp_path)]) == 1
    assert "runs/latest" in capsys.readouterr().err


def test_run_hands_plan_and_options_on_and_is_loud_about_a_test_key(capsys, monkeypatch, tmp_path):
    given = {}

    def run_stages(plan, **options):
        given.update(options, plan=plan)
        options["progress"]("measure County: 1.0 s")
        return SimpleNamespace(
            run_id="first", figures={"persons": "7"}, paths={"ledger": Path.cwd() / "runs" / "first" / "x"}
        )

    monkeypatch.setattr(das_spark.pipeline, "run_stages", run_stages)
    arguments = ["run", str(CONF / "quickstart.toml"), "--set", "budget.epsilon=1/3", "--run-id", "first"]
    assert main([*arguments, "--test-key", "sesame", "--output", str(tmp_path / "o u t")]) == 0
    assert str(given["plan"].budget.total) == "1/3"
    assert given["plan"].output.root == str(tmp_path / "o u t")
    assert (given["run_id"], given["test_key"]) == ("first", "sesame")
    captured = capsys.readouterr()
    assert "measure County: 1.0 s" in captured.out
    assert "runs/first/x" in captured.out
    assert captured.err.count("every output is marked insecure") == 2
    assert "sesame" not in captured.out + captured.err


def test_several_runs_are_evaluated_with_their_spread(capsys, monkeypatch):
    reports = tuple(
        AccuracyReport("e2e_1940", (name,), (Entry("State", "total", frequencies_of(np.array(errors))),))
        for name, errors in (("a", [0, 2]), ("b", [4, 6]))
    )
    monkeypatch.setattr(das_spark.pipeline, "study_runs", lambda *_, **__: (reports, study_of(reports)))
    assert main(["evaluate", "runs/a", "runs/b"]) == 0
    printed = capsys.readouterr().out
    assert "not protected by noise" in printed
    means = [line.split() for line in printed.splitlines() if "mean_absolute" in line]
    assert ["3", "2.828"] in [mean[3:] for mean in means], "mean and standard deviation over the two runs"


@pytest.mark.parametrize(("more", "seeds", "noted"), [([], 2, False), (["--sample-seeds", "5"], 5, True)])
def test_samples_are_as_many_as_runs_unless_it_is_said_that_they_are_not(capsys, monkeypatch, more, seeds, noted):
    entry = Entry("State", "total", frequencies_of(np.array([0, 2])))
    reports = tuple(AccuracyReport("e2e_1940", (name,), (entry,)) for name in "ab")
    checked = []

    def drawn(run, shares, given, truth):
        assert checked == [[Path("runs/a"), Path("runs/b")]]
        residuals = frequencies_of(np.array([-1, 1]))
        found = [
            one for seed in given for one in entries_of(Draw(shares[0], seed), "State", "race", residuals, residuals)
        ]
        return SampleReport(tuple(shares), tuple(given), tuple(found))

    monkeypatch.setattr(accuracy, "alike_runs", lambda runs: runs)
    monkeypatch.setattr(accuracy, "report_runs", lambda *_: reports)
    monkeypatch.setattr(accuracy, "require_one_population", lambda runs, truth: checked.append(runs))
    monkeypatch.setattr(accuracy, "sample_run", lambda *given: asked.append(given[2]) or drawn(*given))
    asked = []
    assert main(["evaluate", "runs/a", "runs/b", "--samples", "1/2", *more]) == 0
    assert [list(given) for given in asked] == [list(range(seeds))]
    printed = " ".join(capsys.readouterr().out.split())
    assert ("samples of every share: 5, runs beside them: 2;" in printed) is noted
    assert ("runs beside them" in printed) is noted


@pytest.mark.parametrize("options", [["--paired"], ["--over", "runs"]])
def test_options_of_a_comparison_go_with_one(capsys, options):
    assert main(["evaluate", "runs/a", "runs/b", *options]) == 2
    assert "go with --compare" in capsys.readouterr().err


def test_a_comparison_pairs_runs_where_that_is_asked_for_only(monkeypatch):
    asked = []
    entry = Entry("State", "total", frequencies_of(np.array([0, 2])))
    one, other = ([AccuracyReport("e2e_1940", (f"{side}{at}",), (entry,)) for at in "12"] for side in "ab")
    differences = [{("State", "total"): frequencies_of(np.array([0, 1]))}] * 2

    def compared(runs, truth, over, *, paired):
        asked.append(paired)
        return compare_reports(one, other, differences, {}, over, paired=paired)

    monkeypatch.setattr(das_spark.pipeline, "compare_runs", compared)
    assert main(["evaluate", "runs/a", "runs/b", "--compare"]) == 0
    assert main(["evaluate", "runs/a", "runs/b", "--compare", "--paired"]) == 0
    assert asked == [False, True]


def test_an_evaluation_prints_queries_and_criteria_and_writes_everything_where_it_is_told(
    capsys, monkeypatch, tmp_path
):
    errors = ErrorPart(0, 2, 50, frequencies_of(np.array([0, 2])))
    reports = tuple(
        AccuracyReport(
            "pl94_2020_person",
            (name,),
            (Entry("County", "total", frequencies_of(np.array([0, 2]))),),
            errors=(QueryErrors("County", "cenrace", 63, COUNTY, (errors,)),),
            criteria=(
                Criterion("County", "largest group", "cenrace", FIFTIES, (CriterionPart(50, 4, within, 0, 10**7),)),
            ),
            groups="cenrace",
        )
        for name, within in (("a", 3), ("b", 4))
    )
    monkeypatch.setattr(das_spark.pipeline, "study_runs", lambda *_, **__: (reports, study_of(reports)))
    monkeypatch.setattr(das_spark.pipeline, "map_runs", lambda *_, **__: None)
    assert main(["evaluate", "runs/a", "runs/b", "--out", str(tmp_path / "both")]) == 0
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "cenrace 98.00%" in printed
    assert "share of the largest of cenrace County all with 500 or more 8 87.50% 0.25%" in printed
    assert "County largest group: cenrace all with 500 or more share_within 0.875 0.1768" in printed
    assert json.loads((tmp_path / "both" / "accuracy.json").read_text())["runs"] == ["a", "b"]
    assert (tmp_path / "both" / "accuracy.html").is_file()


def test_a_wrong_run_file_never_reaches_the_pipeline(capsys, monkeypatch):
    monkeypatch.setattr(das_spark.pipeline, "run_stages", lambda *_, **__: pytest.fail("reached"))
    assert main(["run", str(CONF / "quickstart.toml"), "--set", "budget.epsilon=0"]) == 2


def test_verify_exits_with_1_when_a_check_failed(capsys, monkeypatch):
    checks = (Check("sums", "Tract", False, 3, ("4400701",)), Check("rows", "", True, 1))
    monkeypatch.setattr(das_spark.pipeline, "verify_run", lambda *_, **__: VerificationReport(checks))
    assert main(["verify", "runs/latest"]) == 1
    assert "4400701" in capsys.readouterr().out
    monkeypatch.setattr(das_spark.pipeline, "verify_run", lambda *_, **__: VerificationReport(checks[1:]))
    assert main(["verify", "runs/latest"]) == 0


def test_the_plan_record_is_json_for_programs(capsys):
    assert main(["plan", str(CONF / "dallas_2010_without_units.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"] == "10"
