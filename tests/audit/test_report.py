"""The report: which findings convict, and what its texts say of them."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from das_spark.audit import present_audit
from das_spark.audit.claim import Claim
from das_spark.audit.events import StatisticEvent
from das_spark.audit.judgement import JudgedEvent, Judgement
from das_spark.audit.report import EXACT_LEAK, AuditReport, Power, too_few
from das_spark.privacy import Framework
from das_spark.report import markdown_text

EVENT = StatisticEvent("hhgq * race[3] of County 01", "answer", upward=True, threshold=4.0, telling="second")
PAIRS = ("crowd", "lone")
SOUND = JudgedEvent("pipeline", "lone", EVENT, (40, 9), 50, low=0.6, high=0.4, bound=0.4, epsilon=0.4, allowed=0.7)


def made(*findings: JudgedEvent, framework: Framework = Framework.PURE_DP) -> AuditReport:
    delta = Fraction(0) if framework is Framework.PURE_DP else Fraction(1, 100)
    return AuditReport(
        run="run",
        product="product",
        config_hash="abc",
        claim=Claim(framework, Fraction(1, 2), delta),
        exercised="1/3",
        judgement=Judgement(0.95, 0.01, findings),
        power=(Power("pipeline", "lone", 50, "1/2", 0.75, convicts=True, beyond=False),),
        inputs=("lone: two inputs",),
        notes=("a note",),
        insecure=False,
        seconds=2.0,
    )


def page_of(report):
    return markdown_text(present_audit(report))


def test_nothing_convicts_within_both_standards():
    report = made(SOUND, replace(SOUND, bound=0.5, epsilon=0.5))
    assert not report.convicts
    assert report.verdict.startswith("Consistent")
    assert not made().convicts
    assert made().best is None


@pytest.mark.parametrize("changed", [{"bound": 0.51}, {"epsilon": 9.0}])
def test_a_bound_above_the_claim_refutes_it(changed):
    report = made(SOUND, replace(SOUND, **changed))
    assert report.convicts
    assert report.refutes_claim
    assert not report.refutes_noise
    assert "more privacy than the claimed epsilon" in report.verdict


def test_an_event_beyond_the_declared_noise_convicts_within_the_claim():
    report = made(SOUND, replace(SOUND, low=0.71))
    assert report.convicts
    assert not report.refutes_claim
    assert "declared noise" in report.verdict


def test_rho_is_compared_with_rho_and_its_epsilon_with_the_conversion():
    concentrated = made(replace(SOUND, epsilon=1.0), framework=Framework.ZCDP)
    assert concentrated.claim.epsilon > 1.0
    assert not concentrated.convicts
    beyond = made(replace(SOUND, epsilon=concentrated.claim.epsilon + 0.1), framework=Framework.ZCDP)
    assert beyond.refutes_claim


def test_the_page_and_the_record_tell_the_same():
    report = made(SOUND, replace(SOUND, bound=0.45), framework=Framework.ZCDP)
    page, record = page_of(report), json.loads(report.to_json())
    assert "rho = 1/2 (exact), that is epsilon" in page
    assert "66.7% of it is spent" in page
    assert record["exercised"] == "1/3"
    assert "rho >= 0.4500" in page
    assert r"hhgq * race\[3\] of County 01 >= 4 | second / first | 40 | 9 | 50" in page
    assert "| pipeline | lone | 1/2 | 50 | 0.7500 | yes | no |" in page
    assert record["bound"] == 0.45
    assert record["findings"][0]["event"]["text"] == EVENT.text
    assert record["power"][0]["convicts"] is True
    assert "no event was found" in page_of(made())


def test_runs_too_few_for_an_exact_leak_are_named_and_not_called_consistent():
    leaks = [Power("pipeline", pair, 12, EXACT_LEAK, 0.4, convicts=False, beyond=pair == "lone") for pair in PAIRS]
    report = replace(made(SOUND), power=(*made().power, *leaks))
    assert report.powerless == (leaks[0],)
    assert (
        report.verdict == "Nothing was found, but too few runs to find anything, even an exact leak: pipeline, crowd."
    )
    assert not report.convicts
    page, record = page_of(report), json.loads(report.to_json())
    assert "| pipeline | crowd | 0 | 12 | 0.4000 | no | no |" in page
    assert "exact leak: pipeline, crowd" in page
    assert record["powerless"] == [{"stage": "pipeline", "pair": "crowd", "runs": 12}]
    (note,) = too_few(report.power)
    assert note.startswith("pipeline, crowd: so few runs (12 of each input judge) that even an exact leak")
    assert replace(report, power=report.power[::2]).verdict.startswith("Consistent")
    assert replace(made(replace(SOUND, bound=9.0)), power=report.power).verdict.startswith("CONVICTED")
