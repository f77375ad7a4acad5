"""Findings on the quickstart census, protected in memory: what must be reconstructed is, what must not be is not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from quickstart_run import findings, quickstart_run, tallies_of

from das_spark.attack.agreement import GROUPS
from das_spark.attack.reconstruction import Outcome
from das_spark.attack.reconstruction_report import EVERY_SIZE, present_reconstruction
from das_spark.attack.reconstruction_tally import (
    EXACT,
    MEASURES,
    METHODS,
    PROTECTED,
    SOURCES,
    SWAPPED,
    ReconstructionTally,
)
from das_spark.attack.report import AttackReport
from das_spark.attack.sample import StratifiedSample
from das_spark.attack.sizes import size_names, size_of
from das_spark.report import RESTRICTED, Report, ReportTable, csv_files, page


@pytest.fixture(scope="module")
def run():
    return quickstart_run("2")


@pytest.fixture(scope="module")
def found(run):
    return findings(run)


@pytest.fixture(scope="module")
def enormous():
    return findings(quickstart_run("100000"))


@pytest.fixture(scope="module")
def hardly_any():
    return findings(quickstart_run("1/100"))


def test_exact_tables_are_reconstructed_nearly_fully(enormous):
    for group in GROUPS:
        assert enormous.rate(EXACT, group).rate.value > 0.9
        assert enormous.rate(EXACT, group).lift.value > 0.25
        assert enormous.rate(EXACT, group, "within").rate.value > 0.99


def test_a_run_under_an_enormous_budget_is_reconstructed_as_exact_tables_are(enormous):
    for group in GROUPS:
        for measure in MEASURES:
            protected, exact = (enormous.rate(source, group, measure) for source in (PROTECTED, EXACT))
            assert protected.rate == exact.rate
            assert protected.lift == exact.lift


@pytest.mark.slow
def test_a_run_with_nearly_no_budget_is_at_the_level_of_the_guess(hardly_any):
    for group in GROUPS:
        rate = hardly_any.rate(PROTECTED, group)
        assert -0.05 < rate.lift.value < 0.01
        assert rate.rate.value < 0.05
    # The tables of exact counts are what they were.
    assert hardly_any.rate(EXACT).lift.value > 0.5


def test_swapping_costs_those_most_who_are_unique_and_protects_the_others_little(found):
    everybody, unique = (found.rate(SWAPPED, group) for group in ("all", "unique"))
    exact = {group: found.rate(EXACT, group).rate.value for group in GROUPS}
    assert 0 < exact["all"] - everybody.rate.value < 0.06
    assert exact["unique"] - unique.rate.value > 0.2


def test_exact_tables_with_one_solution_are_the_truth(run, found):
    for tally in tallies_of(run).values():
        if tally.ended(EXACT) is Outcome.ONE:
            assert tally.agreed[METHODS.index(EXACT), 0, 0] == tally.records[0] == tally.made[METHODS.index(EXACT)]
    whole = next(solution for solution in found.solutions if (solution.source, solution.size) == (EXACT, EVERY_SIZE))
    assert whole.agreement_in_one.value == 1
    assert 0.5 < whole.one.value < 1
    assert (whole.undecided, whole.unsolved, whole.infeasible) == (0, 0, 0)


def test_rates_are_those_of_all_blocks(run, found):
    tallies = list(tallies_of(run).values())
    for source in SOURCES:
        for place, group in enumerate(GROUPS):
            for number, measure in enumerate(MEASURES):
                records = sum(int(tally.records[place]) for tally in tallies)
                agreed = {m: sum(int(t.agreed[n, place, number]) for t in tallies) for n, m in enumerate(METHODS)}
                rate = found.rate(source, group, measure)
                assert rate.records == records
                assert rate.rate.value == pytest.approx(agreed[source] / records)
                totals = PROTECTED if source == PROTECTED else EXACT
                guesses = {name: value for name, value in agreed.items() if name.endswith(f", {totals}")}
                assert guesses[f"{rate.guess}, {totals}"] == max(guesses.values())
                assert rate.lift.value == pytest.approx((agreed[source] - max(guesses.values())) / records)
                assert rate.rate.error == rate.lift.error == 0


def test_samples_are_right_on_average_and_err_as_much_as_they_say(run, found):
    tallies = list(tallies_of(run).values())
    records, agreed = np.array([tally.records for tally in tallies]), np.array([tally.agreed for tally in tallies])
    classes = size_of(records[:, 0])
    geounits = np.bincount(classes, minlength=len(size_names()))
    numbers = np.random.default_rng(2018)
    samples = []
    for _ in range(400):
        chosen = [numbers.permutation(np.flatnonzero(classes == size))[:12] for size in range(len(geounits))]
        samples.append(np.concatenate(chosen))
    for number, source in enumerate(SOURCES):
        for place, group in enumerate(GROUPS):
            y, x = agreed[:, number, place, 0], records[:, place]
            estimates = [StratifiedSample(classes[own], geounits).ratio(y[own], x[own]) for own in samples]
            away = np.array([estimate.value for estimate in estimates]) - found.rate(source, group).rate.value
            claimed = np.mean([estimate.error**2 for estimate in estimates])
            assert abs(away.mean()) < 4 * np.sqrt(claimed / len(samples))
            assert 0.75 < (away**2).mean() / claimed < 1.35


def test_tallies_travel_as_numbers(run):
    for tally in list(tallies_of(run).values())[:5]:
        again = ReconstructionTally.of_flat(tally.flat().tolist())
        assert again.flat().tolist() == tally.flat().tolist()
        assert again.agreed.shape == (len(METHODS), len(GROUPS), len(MEASURES))


def test_classes_of_geounits():
    names = size_names()
    ends = {1: 0, 9: 0, 10: 1, 49: 1, 50: 2, 99: 2, 100: 3, 249: 3, 250: 4, 499: 4, 500: 5, 999: 5, 1000: 6, 10**6: 6}
    assert {records: int(size_of(records)) for records in ends} == ends
    assert names[0] == "1-9"
    assert names[-1] == "1,000+"


def test_the_report(found):
    (section,) = present_reconstruction(found)
    report = Report("Attack", (section,), restricted=RESTRICTED)
    tables = {block.name: block for block in section.blocks if isinstance(block, ReportTable)}
    assert set(tables) == {
        "reconstruction_rates",
        "reconstruction",
        "reconstruction_by_size",
        "reconstruction_solutions",
        "reconstruction_published",
        "reconstruction_sample",
    }
    assert len(tables["reconstruction"].rows) == len(SOURCES) * len(GROUPS) * len(MEASURES)
    assert len(tables["reconstruction_rates"].rows) == len(GROUPS) * len(MEASURES)
    assert len(csv_files(report)) == len(tables) - 1  # the one at a glance says what the long one does
    text = page(report)
    assert "all 109" in text
    assert "<svg" in text
    content = json.loads(AttackReport("q", "e2e_2018", {}, found).to_json())["reconstruction"]
    assert content["about"]["swapped"] == "1/20"
    assert len(content["rates"]) == len(found.rates)
