"""The privacy statement says what was claimed, exactly, and warns where nothing is protected."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from das_spark.privacy import (
    Budget,
    ExactComposition,
    ExactCounts,
    Framework,
    Ledger,
    LedgerEntry,
    LevelBudget,
    Loss,
    NeighborRelation,
    QueryShare,
    StatementFacts,
    compose_exactly,
    epsilon_cks,
    privacy_statement,
    rounded_up,
)

LEVELS = (
    LevelBudget("State", Fraction(1, 4), (QueryShare("hhgq", Fraction(9, 40)), QueryShare("all", Fraction(31, 40)))),
    LevelBudget("Block", Fraction(3, 4), (QueryShare("all", Fraction(1)),)),
)
PURE = Budget(Framework.PURE_DP, Fraction(1, 4), LEVELS)
CONCENTRATED = Budget(Framework.ZCDP, Fraction(293764, 114921), LEVELS)


@pytest.fixture
def facts() -> StatementFacts:
    return StatementFacts(
        title="The 1940 test",
        run_id="r-7",
        budget=PURE,
        invariants=("the number of people of every State",),
        public_rules=("no minor is in a nursing home",),
        attributes=(Loss("race", Fraction(1, 5), 0.2, Fraction(0)),),
        within=(Loss("State", Fraction(3, 16), 0.1875, Fraction(0)),),
        relation=NeighborRelation((ExactCounts("person", ("State", "Block"), "State"),)),
    )


def test_a_pure_statement_names_its_claim_and_every_scale(facts: StatementFacts) -> None:
    text = privacy_statement(facts)
    assert text.startswith("# Privacy statement: The 1940 test")
    assert "**epsilon = 1/4**" in text
    assert "exp(epsilon) = 1.284" in text
    assert "| State | 1/4 | hhgq | 9/40 | 9/640 | 1280/9 | 201.13 |" in text
    assert "| race | 1/5 |" in text
    assert "within the same State" in text
    assert "- the number of people of every State" in text
    assert "- no minor is in a nursing home" in text
    assert "computational" in text
    assert "INSECURE" not in text


def test_a_concentrated_statement_gives_both_conversions(facts: StatementFacts) -> None:
    losses = (Loss("race", Fraction(1, 5), 4.2, Fraction(1, 10**10)),)
    text = privacy_statement(replace(facts, budget=CONCENTRATED, attributes=losses, within=()))
    assert "**rho = 293764/114921**" in text
    assert "17.14355" in text
    assert "17.90018" in text
    assert "at delta = 1e-10" in text
    assert "| race | 1/5 | 4.2000 | 1e-10 |" in text


def test_a_test_key_is_shouted_before_anything_else(facts: StatementFacts) -> None:
    text = privacy_statement(replace(facts, insecure=True))
    assert "INSECURE: A TEST KEY" in text
    assert text.index("INSECURE") < text.index("## The claim")


def test_the_claim_is_of_populations_that_agree_in_what_is_exact(facts: StatementFacts) -> None:
    text = privacy_statement(facts)
    assert "as long as both populations agree in everything that is published exactly" in text
    assert "NEARLY EXACTLY" not in text
    assert "No claim is made" not in text


FROM_PEOPLE = ("the number of people in households in every Block", "whether anybody lives in group quarters there")


@pytest.mark.parametrize(("budget", "figure"), [(PURE, "**epsilon = 1/4**"), (CONCENTRATED, "**rho = 293764/114921**")])
def test_what_is_published_nearly_exactly_opens_the_page_and_nothing_is_claimed_of_the_whole(facts, budget, figure):
    text = privacy_statement(replace(facts, budget=budget, from_people=FROM_PEOPLE, within=()))
    banner, claim = text.index("PUBLISHED NEARLY EXACTLY"), text.index("## The claim")
    assert banner < text.index(FROM_PEOPLE[0]) < text.index(FROM_PEOPLE[1]) < claim
    assert "No noise protects this, and no epsilon or rho covers it" in text
    # The figure stands nowhere but where it holds.
    assert text.count(figure) == 1
    said = text[claim:].split("\n- ")
    assert said[0].startswith("## The claim\n\n**No claim is made for what this run publishes as a whole.**")
    assert said[1].startswith("**The noisy answers by themselves**")
    assert figure in said[1]
    assert "any two populations that differ in one record of one person" in said[1]
    assert "only between two populations that agree in these numbers, too" in said[2]
    assert "times as probable" not in text
    assert "## About the place within a geounit" not in text
    assert "## Of what no loss is stated\n\nOf where in a geounit a person lives" in text


def test_the_sums_of_a_ledger_do_not_cover_what_is_published_nearly_exactly(facts: StatementFacts) -> None:
    ledger = Ledger((LedgerEntry("r-6", "2026-01-01T00:00:00Z", "p", "person", PURE, False),))
    beside, all_runs = "what is published nearly exactly has no price", ledger.describe(facts.delta)
    assert beside in privacy_statement(replace(facts, all_runs=all_runs, from_people=FROM_PEOPLE))
    assert beside not in privacy_statement(replace(facts, all_runs=all_runs))


@pytest.mark.parametrize(
    ("budget", "loss"),
    [
        (PURE, "at most 2 epsilon = 1/2"),
        (replace(CONCENTRATED, total=Fraction(1, 8)), "at most 4 rho = 1/2 by group privacy, and 2 rho = 1/4 where"),
    ],
)
def test_a_household_that_moves_costs_two_records_of_units(facts: StatementFacts, budget: Budget, loss: str) -> None:
    exact = NeighborRelation((ExactCounts("unit", ("State", "Block"), units=True),))
    text = privacy_statement(replace(facts, unit="unit", budget=budget, relation=exact))
    assert "One record of one unit" in text
    assert "A unit stays within the same Block between neighbours. One that is built, torn down, or turned" in text
    assert loss in text
    assert "household that moves" not in privacy_statement(replace(facts, budget=budget))
    loose = privacy_statement(replace(facts, unit="unit", budget=budget, relation=NeighborRelation()))
    assert loss in loose
    assert "A unit stays" not in loose


LEVELS_OF_SPINE = ("US", "State", "Block")


@pytest.mark.parametrize(
    ("release", "exact"),
    [
        (ExactCounts("household", LEVELS_OF_SPINE, units=True, vacant=True), "Block"),
        (ExactCounts("household", LEVELS_OF_SPINE, "State", units=True), "State"),
    ],
)
def test_no_price_is_said_of_households_where_their_number_is_exact(facts, release, exact):
    budget = replace(CONCENTRATED, total=Fraction(1, 8))
    of_households = replace(
        facts,
        unit="household",
        budget=budget,
        relation=NeighborRelation((release,)),
        attribute_names=("tenure", "size"),
    )
    text = privacy_statement(of_households)
    assert f"replaced by another one within the same {exact}" in text
    assert f"The number of households in every {exact} is published exactly. A household that moves within the" in text
    assert "is formed or is dissolved changes an exact number: of this nothing is claimed" in text
    assert "rho / 2" not in text
    assert "where it lives and its attributes (`tenure`, `size`)" in text
    assert "oldest member" not in text
    loose = replace(of_households, relation=NeighborRelation((replace(release, total_at=None, vacant=False),)))
    text = privacy_statement(loose)
    assert "moves into a vacant unit changes one record" in text
    assert "at most rho / 2 = 1/16" in text


def test_whether_a_single_unit_is_occupied_is_not_protected_where_occupied_units_are_exact(facts):
    exact = ExactCounts("unit", LEVELS_OF_SPINE, units=True, vacant=True)
    text = privacy_statement(replace(facts, unit="unit", relation=NeighborRelation((exact,))))
    assert "The number of occupied units in every Block is exact, too: whether a single unit is occupied is not" in text
    assert "This holds for a move within the same Block; of any other nothing is claimed." in text


def test_a_claim_about_units_holds_beside_what_is_published_of_people(facts: StatementFacts) -> None:
    text = privacy_statement(replace(facts, unit="unit", from_people=FROM_PEOPLE))
    assert text.index("PUBLISHED NEARLY EXACTLY") < text.index("## The claim\n\n**epsilon = 1/4**")
    assert "The claim is one about records of units alone" in text
    assert "No claim is made for what" not in text


def test_nothing_is_said_of_a_key_of_the_operating_system_where_there_was_none(facts: StatementFacts) -> None:
    text = privacy_statement(replace(facts, insecure=True))
    assert "AES-256: it protects nobody" in text
    assert "operating system" not in text


def test_a_run_without_invariants_says_so(facts: StatementFacts) -> None:
    assert "there are no invariants" in privacy_statement(replace(facts, invariants=()))


def test_notices_and_the_ledger_are_told(facts: StatementFacts) -> None:
    run = LedgerEntry("r-6", "2026-01-01T00:00:00Z", "p", "person", PURE, False)
    ledger = Ledger((run,))
    told = replace(facts, all_runs=ledger.describe(facts.delta), notices=("consistency may be relaxed",))
    text = privacy_statement(told)
    assert "## All runs on this input\n\n1 run with a real key" in text
    assert "## What readers must know\n\n- consistency may be relaxed" in text
    assert "was begun with this run" not in text
    begun = privacy_statement(replace(facts, all_runs=ledger.describe(facts.delta, "r-6")))
    assert "This ledger was begun with this run: releases that are counted in other ledgers are not known" in begun


def test_an_epsilon_beyond_every_double_is_stated(facts: StatementFacts) -> None:
    assert "**epsilon = 10000**" in privacy_statement(replace(facts, budget=replace(PURE, total=Fraction(10_000))))


def test_no_heading_stands_without_content(facts: StatementFacts) -> None:
    text = privacy_statement(replace(facts, attributes=(), within=(), public_rules=()))
    blocks = [block for block in text.split("\n## ")[1:]]
    assert all(len(block.strip().split("\n")) > 1 for block in blocks)


def test_measurements_that_were_made_before_are_said_to_be(facts: StatementFacts) -> None:
    text = privacy_statement(replace(facts, origin="They were made by run `r-6`, which spent the budget below, once."))
    heading = "## Where the measurements come from"
    assert text.index(heading) < text.index("made by run `r-6`") < text.index("## The claim")
    assert "AES-256" in text
    assert heading not in privacy_statement(facts)


def test_nothing_is_claimed_of_external_noise(facts: StatementFacts) -> None:
    text = privacy_statement(replace(facts, origin="Published by others.", external_noise=True))
    assert "cannot say how" in text
    assert "AES-256" not in text


def test_shares_of_geounits_of_their_own_are_listed_path_by_path(facts: StatementFacts) -> None:
    levels = len(facts.budget.levels)
    paths = {("1/4",) * levels: 1000, ("1/2", *("0",) * (levels - 1)): 5}
    statement = privacy_statement(replace(facts, paths=paths))
    assert "On each of the 2 different paths" in statement
    assert f"| {' | '.join(['1/4'] * levels)} | 1,000 |" in statement
    assert "have shares of their own" not in privacy_statement(facts)


@pytest.mark.parametrize(("budget", "norm", "alone"), [
    (PURE, "absolute value their sum by 6 at most", "epsilon / 3 = 1/12"),
    (CONCENTRATED, "absolute value the sum of squares by 18 at most", f"rho / 9 = {CONCENTRATED.total / 9}"),
])  # fmt: skip
def test_a_statement_says_what_a_contributor_with_several_records_is_protected_with(facts, budget, norm, alone) -> None:
    several = replace(facts, budget=replace(budget, at_most=3), noun="stay", contributor="patient", bound="By office.")
    text = privacy_statement(several)
    assert "All records of one patient, of which there are at most 3; one record is one stay." in text
    assert norm in text
    assert f"What can be told of one record alone is at most {alone}." in text
    assert "By office." in text
    assert "Between populations that differ in this attribute of the records of one patient alone" in text
    assert "One record of one" not in text
    if budget is PURE:
        assert "| State | 1/4 | hhgq | 9/40 | 9/640 | 1280/3 |" in text
        assert "the true records of one patient as with any others in their place" in text


def test_a_record_that_is_no_person_is_called_by_its_noun(facts: StatementFacts) -> None:
    text = privacy_statement(replace(facts, noun="farm"))
    assert "One record of one farm." in text
    assert "## About one attribute of one farm" in text
    assert "person" not in text
    assert "same people" not in text


def test_the_exact_composition_stands_beside_both_conversions(facts: StatementFacts) -> None:
    text = privacy_statement(replace(facts, budget=CONCENTRATED))
    composed = compose_exactly([CONCENTRATED])
    assert composed is not None
    high = composed.epsilon(facts.delta).high
    assert high < epsilon_cks(CONCENTRATED.total, facts.delta)
    assert f"| exact composition of all measured answers, at most | {rounded_up(high, 5)} |" in text
    several = privacy_statement(replace(facts, budget=replace(CONCENTRATED, at_most=2), bound="Nobody has more."))
    assert "since noise is Gaussian, and a contributor has several records: the conversions hold" in several
    assert "at most |" not in several.split("## What is protected")[0]


def test_shares_of_their_own_are_composed_over_pairs_of_paths_or_left_to_the_conversions(facts: StatementFacts) -> None:
    names = [level.geolevel for level in CONCENTRATED.levels]
    usual = tuple(str(level.share) for level in CONCENTRATED.levels)
    alone = ("1", *["0"] * (len(names) - 1))
    few = privacy_statement(replace(facts, budget=CONCENTRATED, paths={usual: 5, alone: 1}))
    assert "exact composition of all measured answers, at most" in few
    many = {(str(Fraction(k, 200)), str(Fraction(200 - k, 200))): 1 for k in range(1, 131)}
    said = privacy_statement(replace(facts, budget=CONCENTRATED, paths=many))
    assert "since geounits have shares of their own, of too many kinds: the conversions hold" in said


def test_a_pure_statement_keeps_its_epsilon_and_gives_the_smaller_one_at_a_delta(facts: StatementFacts) -> None:
    composed = compose_exactly([facts.budget])
    assert composed is not None
    high = composed.epsilon(facts.delta).high
    text = privacy_statement(facts)
    assert f"**epsilon = {facts.budget.total}** (pure differential privacy)" in text
    if high < facts.budget.total:
        assert f"The same noise has epsilon {rounded_up(high, 5)} at most at delta = 1e-10" in text
    wide = privacy_statement(replace(facts, delta=Fraction(1, 10)))
    assert "at most at delta = 0.1, by the exact composition of all measured answers" in wide


def test_what_tests_must_miss_is_said_from_below(facts: StatementFacts) -> None:
    composed = compose_exactly([CONCENTRATED])
    assert composed is not None
    part = ExactComposition(composed.parts[:1])
    losses = (Loss("race", Fraction(1, 5), 4.2, Fraction(1, 10**10), odds=(1.1,) * 3, compositions=(part,)),)
    text = privacy_statement(replace(facts, budget=CONCENTRATED, attributes=losses, within=()))
    section = text.split("## How often a test must miss")[1].split("##")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == ["| the whole record", "| attribute `race`"]
    for row, composition in zip(rows, (composed, part), strict=True):
        for cell, error in zip(row[1:], (0.001, 0.01, 0.05, 0.1), strict=True):
            low = composition.type_two_error(error).low
            assert low - 1e-3 <= float(cell.rstrip(" |%")) / 100 <= low
    void = privacy_statement(replace(facts, from_people=("in every Block, something",), attributes=losses, within=()))
    assert "the whole record |" not in void


def test_what_claims_are_worth_is_said_of_the_whole_of_attributes_and_places(facts: StatementFacts) -> None:
    losses = (Loss("race", Fraction(1, 5), 4.2, Fraction(1, 10**10), odds=(1.004, 2345678.0, math.inf)),)
    text = privacy_statement(replace(facts, budget=CONCENTRATED, attributes=losses, within=losses))
    composed = compose_exactly([CONCENTRATED])
    assert composed is not None
    whole = next(line for line in text.splitlines() if line.startswith("| the whole record |"))
    said = float(whole.split("|")[2].replace(",", ""))
    assert composed.odds(0.5) <= said <= composed.odds(0.5) * 1.01
    assert "| attribute `race` | 1.01 | 2.35e+06 | unbounded |" in text
    assert "| place within the race | 1.01 |" in text
    void = privacy_statement(replace(facts, from_people=("in every Block, something",), attributes=losses, within=()))
    assert "the whole record" not in void
    assert "attribute `race`" in void
