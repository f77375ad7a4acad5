"""Figures and tables of what is claimed, against continuous noise and against the accountant."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import pytest

from das_spark.privacy import (
    TYPE_ONE,
    Bounds,
    DiscreteGaussian,
    ExactComposition,
    Loss,
    Unknown,
    claims_table,
    in_words,
    odds_figure,
    odds_text,
    percent_at_least,
    trade_off_figure,
    trade_off_table,
    unknowns_of,
)

# Many answers: the trade-off of continuous noise with mu = 1, and with mu = 1/2.
WHOLE = Unknown("all", (ExactComposition(((DiscreteGaussian(Fraction(100)), 100),)),))
PART = Unknown("part", (ExactComposition(((DiscreteGaussian(Fraction(400)), 100),)),))
NORMAL = NormalDist()


def continuous(alpha: float, mu: float) -> float:
    return NORMAL.cdf(NORMAL.inv_cdf(1 - alpha) - mu)


def lines(panel):
    return {each.label: each for each in panel.series}


def test_lines_are_trade_offs_and_the_whole_stands_in_every_panel():
    found = trade_off_figure([WHOLE], [("one attribute", [PART]), ("place", [Unknown("here", PART.compositions)])])
    assert [panel.title for panel in found.panels] == ["one attribute", "place"]
    first, second = map(lines, found.panels)
    assert first["all"].color == second["all"].color
    assert len({first["all"].color, first["part"].color, second["here"].color}) == 3
    for name, mu in (("all", 1.0), ("part", 0.5)):
        for x, y in zip(first[name].x, first[name].y, strict=True):
            if 1e-6 < x < 1 - 1e-6:
                assert y == pytest.approx(continuous(x, mu), rel=0.01)
                assert y <= continuous(x, mu) + 1e-9, "lines are lower bounds"
    assert "one attribute: part; place: here" in found.caption


def test_lines_of_odds_are_upper_bounds():
    (panel,) = odds_figure([WHOLE], ()).panels
    (line,) = panel.series
    for power, odds in zip(line.x, line.y, strict=True):
        if power < 1:
            truth = power / continuous(1 - power, 1.0)
            assert truth * (1 - 1e-6) <= odds <= 1.02 * truth
    assert (line.x[-1], line.y[-1]) == (1.0, pytest.approx(1.0))


def test_the_worst_of_several_compositions_is_drawn():
    both = Unknown("both", (*PART.compositions, *WHOLE.compositions))
    assert (both.least_misses([0.05, 0.5])[0] == WHOLE.least_misses([0.05, 0.5])[0]).all()


def test_tables_and_sentences_round_to_the_safe_side():
    table = trade_off_table([WHOLE, PART])
    assert len(table.rows) == 2 * len(TYPE_ONE)
    assert all(low <= high for _, _, low, high in table.rows)
    ((name, missed, *odds),) = claims_table([WHOLE]).rows
    assert name == "all"
    assert missed == pytest.approx(continuous(0.01, 1.0), rel=1e-3)
    assert [float(odd.replace(",", "")) for odd in odds] == sorted(float(odd.replace(",", "")) for odd in odds)
    assert f"at least {math.floor(1000 * missed) / 10} of 100" in in_words(WHOLE)
    assert (percent_at_least(0.9999), percent_at_least(0.0)) == ("99.9", "0.0")
    assert (odds_text(1.0001), odds_text(1234.2), odds_text(math.inf)) == ("1.01", "1,240", "unbounded")


def test_losses_without_an_exact_composition_or_without_a_loss_have_no_line():
    bounds = Bounds(1.0, 1.0)
    losses = [
        Loss("told", Fraction(1), 1.0, Fraction(0), bounds, (), PART.compositions),
        Loss("nothing", Fraction(0), 0.0, Fraction(0), bounds, (), PART.compositions),
        Loss("unknown", Fraction(1), 1.0, Fraction(0)),
    ]
    assert [unknown.name for unknown in unknowns_of(losses, "within ")] == ["within told"]
