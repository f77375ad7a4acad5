"""Audits of the real system, which is not convicted, and of systems with a planted fault, which all are.

Keys follow from texts, so every verdict here is always the same. The level is 0.99: were the keys fresh, a sound system
would be convicted in 1 of 100 audits at most. Where the power of an audit is asserted, the report says it beforehand.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from faulty_systems import OF_NOISE, OF_RUNS, half_the_noise

from das_spark.audit import AuditSettings, run_audit, write_audit
from das_spark.audit.claim import lower_limit, upper_limit
from das_spark.audit.inputs import neighbouring_inputs
from das_spark.audit.noise import DeclaredNoise
from das_spark.audit.system import LocalSystem
from das_spark.errors import ConfigurationError

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

FRAMEWORKS = ("pure_dp", "zcdp")
NOISE = AuditSettings(stage="measurement", draws=40_000, level=0.99, test_key="noise")
RUNS = AuditSettings(stage="estimates", runs=44, level=0.99, test_key="runs")


def farthest(report):
    """The finding that is farthest beyond what the declared noise allows, or nearest to it."""
    return max(report.judgement.findings, key=lambda finding: finding.low - finding.allowed, default=None)


@pytest.mark.parametrize("key", ["a", "b", "c"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_sound_noise_is_not_convicted(small_plan, framework, key):
    report = run_audit(small_plan(framework), replace(NOISE, test_key=key))
    assert not report.convicts, farthest(report)
    assert report.verdict.startswith("Consistent")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_audit_of_noise_comes_close_to_what_the_perfect_attacker_sees(small_plan, framework):
    report = run_audit(small_plan(framework), replace(NOISE, draws=160_000))
    expected = next(each.bound for each in report.power if each.noise == "1")
    assert 0.8 * expected < report.best.bound < 1.2 * expected


@pytest.mark.parametrize("fault", OF_NOISE, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_faulty_noise_is_convicted(small_plan, framework, fault):
    plan = small_plan(framework)
    assert run_audit(plan, NOISE, fault(plan)).convicts


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_half_the_noise_refutes_the_claim_itself_as_the_report_foretold(small_plan, framework):
    plan = small_plan(framework)
    report = run_audit(plan, NOISE, half_the_noise(plan))
    assert report.refutes_claim
    assert report.best.bound > plan.budget.total
    foretold = next(each for each in report.power if each.noise == "1/2")
    assert foretold.convicts
    assert foretold.beyond
    assert report.verdict.startswith("CONVICTED")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_sound_runs_are_not_convicted(small_plan, framework):
    plan = small_plan(framework)
    report = run_audit(plan, replace(RUNS, runs=48))
    assert not report.convicts, farthest(report)
    assert report.verdict.startswith("Consistent")
    # The test could fail: an event that is always seen on one input and never on the other would convict, on each pair.
    assert {finding.runs for finding in report.judgement.findings} == {24}
    low, high = lower_limit(24, 24, report.judgement.alpha / 2), upper_limit(0, 24, report.judgement.alpha / 2)
    for pair in neighbouring_inputs(plan):
        assert low > DeclaredNoise.of(pair.mechanisms).allowed(high)
    assert not report.powerless
    assert {finding.pair for finding in report.judgement.findings} == {"crowd", "lone"}


@pytest.mark.parametrize("fault", OF_RUNS, ids=lambda fault: fault.__name__)
def test_faulty_runs_are_convicted(small_plan, fault):
    plan = small_plan()
    report = run_audit(plan, RUNS, fault(plan))
    assert report.convicts, farthest(report)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_audit_of_too_few_runs_says_that_it_says_nothing(small_plan, framework, tmp_path):
    report = run_audit(small_plan(framework), replace(RUNS, stage="both", runs=24, draws=2000))
    assert [(each.stage, each.pair) for each in report.powerless] == [("pipeline", "crowd"), ("pipeline", "lone")]
    assert "even an exact leak" in report.verdict
    assert sum("even an exact leak would not be found" in note for note in report.notes) == 2
    write_audit(report, tmp_path)
    page = (tmp_path / "audit.md").read_text(encoding="utf-8")
    assert "pipeline, lone: so few runs (12 of each input judge)" in page
    assert [each["pair"] for each in json.loads((tmp_path / "audit.json").read_text())["powerless"]] == [
        "crowd",
        "lone",
    ]


def test_kinds_of_events_can_be_chosen_and_are_kept_to(small_plan):
    report = run_audit(small_plan(), replace(RUNS, runs=8, kinds=("estimate", "kept")))
    assert {finding.event.kind for finding in report.judgement.findings} <= {"estimate", "kept"}
    with pytest.raises(ConfigurationError, match="guesses is no kind of event"):
        AuditSettings(kinds=("guesses",))


def test_both_stages_are_in_one_report_and_share_the_level(small_plan):
    said = []
    report = run_audit(small_plan("zcdp"), replace(RUNS, stage="both", runs=8, draws=2000), progress=said.append)
    assert {finding.stage for finding in report.judgement.findings} == {"measurement", "pipeline"}
    assert report.judgement.alpha == pytest.approx(0.01 / len(report.judgement.findings))
    assert [line.split(":")[0] for line in said] == ["measurement", "pipeline, crowd", "pipeline, lone"]


def test_an_audit_under_a_text_is_repeated_and_says_that_it_is_insecure(small_plan, tmp_path):
    settings = replace(RUNS, runs=8)
    reports = [run_audit(small_plan(), settings) for _ in range(2)]
    assert reports[0].judgement == reports[1].judgement
    write_audit(reports[0], tmp_path / "made")
    record = json.loads((tmp_path / "made" / "audit.json").read_text(encoding="utf-8"))
    page = (tmp_path / "made" / "audit.md").read_text(encoding="utf-8")
    assert record["insecure"]
    assert "INSECURE" in page
    assert record["invented_records"]
    assert "synthetic records only" in page
    assert record["claim"]["total"] == "2"
    assert record["convicts"] is False


def test_an_audit_under_fresh_keys_differs_and_is_not_marked(small_plan):
    settings = replace(RUNS, runs=8, test_key=None)
    reports = [run_audit(small_plan(), settings) for _ in range(2)]
    assert reports[0].judgement != reports[1].judgement
    assert not reports[0].insecure
    assert not any("INSECURE" in note for note in reports[0].notes)


def test_the_claim_of_rho_is_told_at_the_delta_that_is_asked_for(small_plan):
    report = run_audit(small_plan("zcdp"), replace(NOISE, draws=2000, delta=Fraction(1, 100)))
    assert report.claim.delta == Fraction(1, 100)
    assert report.claim.epsilon < run_audit(small_plan("zcdp"), replace(NOISE, draws=2000)).claim.epsilon


def test_a_spine_of_areas_is_refused_with_a_hint(small_plan):
    plan = small_plan()
    areas = replace(plan, spine=replace(plan.spine, kind="optimised"))
    with pytest.raises(ConfigurationError, match=r"geography\.spine"):
        LocalSystem(areas)
