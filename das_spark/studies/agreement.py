"""Which published figures of 1940 another run can be expected to repeat, how closely, and why.

The confidential file of 1940 is not ours: we have an invented population of its size and shape. So a figure that the
noise decides should come out the same; one that people decide can only have the same shape. :func:`rule_of` says for
every published figure which it is. Where a rule has a tolerance, its reason says where that comes from: from the law of
the noise, from the rounding of what was published, or from the sampling error of both sides (a single sample, or the
runs that were pooled).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from das_spark.errors import ConfigurationError
from das_spark.evaluation.definitions import TOTAL
from das_spark.products.e2e_1940 import STRATA
from das_spark.studies.published_1940 import (
    BIAS,
    GEOUNITS,
    NEAREST_SHARE,
    OCCUPIED_STRATA,
    PRIVACY_LOSS,
    RUNS,
    Key,
    Source,
)


class Expectation(StrEnum):
    """What can be expected of a figure."""

    EXACT = "exact"
    AGREES = "agrees"
    SIGN = "sign agrees"
    SHAPE = "depends on data"


EXPECTATIONS: Final[Mapping[Expectation, str]] = {
    Expectation.EXACT: "follows from what is published without noise",
    Expectation.AGREES: "decided by the noise, or by sizes that the population is calibrated to; should agree",
    Expectation.SIGN: "its sign is robust; its size depends on who lives where",
    Expectation.SHAPE: "depends on who lives where; the shape can be compared, not the digits",
}
"""What the classes mean."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What can be expected of some figures.

    Args:
        expectation: Its class.
        reason: Why, and where the tolerance comes from.
        tolerance: By which share ours may be larger, or the published figure larger than ours; None: nothing is said.
            Where the figure depends on data, it is what was foreseen, and no verdict follows.
        steps: By how many steps of what both were rounded to the two may differ beyond that.
    """

    expectation: Expectation
    reason: str
    tolerance: float | None = None
    steps: float = 0.0


_MEDIAN, _P95, _RMSE, _LARGEST = "median_absolute", "p95_absolute", "rmse", "largest"
_AGREES, _SHAPE = Expectation.AGREES, Expectation.SHAPE
_TWOFOLD, _HALF_MORE = 1.0, 0.5

_EXTREME = Rule(_SHAPE, "an extreme value: it varies from run to run, and with the largest geounits")

_STATE_TOTALS = Rule(Expectation.EXACT, "the totals of the states are invariants", 0.0)
_MEAN_ERROR = Rule(Expectation.EXACT, "residuals sum to zero, as the totals of the states are invariants", 0.0)

_FEW_CELLS = (
    "sum of the four or five cells that are not empty, and of the answers on group quarters: the noise, and how many "
    "cells there are, decide; as close as an independent prototype came"
)
_DISTRICT_TOTALS = Rule(_AGREES, _FEW_CELLS, 0.10, steps=1)
_COUNTY_TOTALS = Rule(
    _SHAPE,
    "a county has nearly every class of group quarters, and each adds noise: within a tenth if they are as many as in "
    "the file, a fifth less without them",
    0.10,
    steps=1,
)
_COUNTY_TOTAL_LOSS = Rule(
    _SHAPE,
    "follows the errors of the counties' totals, hence group quarters; a maximum over a curve from few residuals: a "
    "prototype had up to half as much again",
    _HALF_MORE,
)

_STRATA_NOISE = (
    "the noise of age x origin x race, of scale 11.85 / epsilon, and what the detailed answers add: the limit is 2.03 "
    "at epsilon 8, where 2.01 to 2.02 were published"
)
_STRATA_RMSE = Rule(_AGREES, _STRATA_NOISE, 0.05)
_STRATA_RMSE_DAMPED = Rule(_AGREES, _STRATA_NOISE + "; somewhat damped, as no count can be negative", 0.08)
_STRATA_P95 = Rule(_AGREES, _STRATA_NOISE, 0.05, steps=1)
_STRATA_P95_DAMPED = Rule(
    _SHAPE,
    "where noise is larger than most cells, how many cells are small decides how far they can err",
    0.10,
    steps=1,
)
_STRATA_MEDIAN = Rule(
    _SHAPE,
    "set by the share of cells of one or two people, and of empty cells filled by mistake",
    0.30,
    steps=1,
)
_SPIKE = "where noise is large, it is the spike of cells of one or two people that vanish, not the noise, that decides"
_STRATA_LOSS_SMALL = Rule(_SHAPE, _SPIKE + ": 0.1 to 0.25 for districts", _TWOFOLD)
_STRATA_LOSS_COUNTY = Rule(_SHAPE, _SPIKE + ", at counties for every epsilon", _TWOFOLD)
_STRATA_LOSS_STATE = Rule(
    _SHAPE, "a maximum over a curve from a thousand cells and four runs, which lies above the loss of the noise", 0.5
)
_STRATA_LOSS_DISTRICT = Rule(
    _AGREES,
    "the loss of the noise, from half a million cells a run; an independent prototype came within 8 percent",
    0.15,
)

_BIAS = Rule(
    Expectation.SIGN,
    "empty cells can only gain and others pay for it, so geounits of few groups gain; the change of sign (districts: "
    "between 18 and 20, counties: between 8 and 12) is robust, and how much is won depends on who lives where",
    0.35,
    steps=1,
)
_BIAS_OF_FEW = Rule(_SHAPE, "few geounits have this index, so the mean is unsteady")
_UNSTEADY: Final[Mapping[str, frozenset[int]]] = {"County": frozenset(), "Enumdist": frozenset({14, 21, 23})}

_NEAREST = Rule(
    _SHAPE,
    "judged by eye from error and loss of the counties' strata, which depend on data; one step of 5 percent",
    0.0,
    1,
)

_SIZES = "of a sample, error is sqrt(n (1 - share) / share) for n people: only the sizes of geounits or cells decide"
_SAMPLES: Final[Mapping[tuple[str, str, str], Rule]] = {
    ("State", TOTAL, _MEDIAN): Rule(_AGREES, _SIZES + "; but one sample of 51 states varies by a quarter", _TWOFOLD),
    ("State", TOTAL, _P95): Rule(_AGREES, _SIZES + "; but one sample of 51 states varies by a quarter", _TWOFOLD),
    ("State", TOTAL, _RMSE): Rule(_AGREES, _SIZES + "; but one sample of 51 states varies by a quarter", _TWOFOLD),
    ("County", TOTAL, _MEDIAN): Rule(_AGREES, _SIZES + "; the ratio of two samples varies by 4 percent", 0.12, 1),
    ("County", TOTAL, _P95): Rule(_AGREES, _SIZES + "; the ratio of two samples varies by 5 percent", 0.15, 1),
    ("County", TOTAL, _RMSE): Rule(_AGREES, _SIZES + "; the largest counties make it vary by 8 percent", 0.25),
    ("Enumdist", TOTAL, _MEDIAN): Rule(_AGREES, _SIZES, 0.05, 1),
    ("Enumdist", TOTAL, _P95): Rule(_AGREES, _SIZES, 0.05, 1),
    ("Enumdist", TOTAL, _RMSE): Rule(_AGREES, _SIZES, 0.05),
    ("State", STRATA, _MEDIAN): Rule(_SHAPE, "how large the small groups of the states are", _HALF_MORE, 1),
    ("County", STRATA, _MEDIAN): Rule(_SHAPE, "how large the small groups of the counties are", 0.30, 1),
    ("Enumdist", STRATA, _MEDIAN): Rule(_SHAPE, "how large the small groups of the districts are", 0.30, 1),
    ("State", STRATA, _P95): Rule(_SHAPE, "fifty cells decide, one sample of each", _HALF_MORE, 1),
    ("County", STRATA, _P95): Rule(_AGREES, _SIZES + ", and large cells are calibrated", 0.10, 1),
    ("Enumdist", STRATA, _P95): Rule(_AGREES, _SIZES + ", and large cells are calibrated", 0.05, 1),
    ("State", STRATA, _RMSE): Rule(_AGREES, _SIZES + "; the largest cells make it vary by a sixth", _HALF_MORE),
    ("County", STRATA, _RMSE): Rule(_AGREES, _SIZES + "; the largest cells make it vary by 6 percent", 0.15),
    ("Enumdist", STRATA, _RMSE): Rule(_AGREES, _SIZES, 0.05),
    ("State", TOTAL, PRIVACY_LOSS): Rule(_SHAPE, "a maximum over a curve from 51 residuals: noise"),
    ("County", TOTAL, PRIVACY_LOSS): Rule(_SHAPE, "a maximum over a nearly flat curve from 3,108 residuals: noise"),
    ("Enumdist", TOTAL, PRIVACY_LOSS): Rule(_SHAPE, "a maximum over a curve from one sample; sizes of districts", 0.35),
    ("State", STRATA, PRIVACY_LOSS): Rule(_SHAPE, "a maximum over a curve from a thousand cells", _TWOFOLD),
    ("County", STRATA, PRIVACY_LOSS): Rule(_SHAPE, "how many cells are small", 0.35),
    ("Enumdist", STRATA, PRIVACY_LOSS): Rule(_SHAPE, "how many cells are small", 0.35),
}

_TOTALS: Final[Mapping[tuple[str, str], Rule]] = {
    **{("State", statistic): _STATE_TOTALS for statistic in (_MEDIAN, _P95, _RMSE, _LARGEST, PRIVACY_LOSS)},
    **{("County", statistic): _COUNTY_TOTALS for statistic in (_MEDIAN, _P95, _RMSE)},
    **{("Enumdist", statistic): _DISTRICT_TOTALS for statistic in (_MEDIAN, _P95, _RMSE, PRIVACY_LOSS)},
    **{(level, BIAS): _MEAN_ERROR for level in GEOUNITS},
    ("County", PRIVACY_LOSS): _COUNTY_TOTAL_LOSS,
}
_DAMPED_RMSE, _DAMPED_P95, _DAMPED_LOSS = Fraction(1), Fraction(1, 4), Fraction(1)
"""The largest epsilon at which the noise is so large that it is noticed that no count can be negative."""


def rule_of(key: Key) -> Rule:
    """What can be expected of a figure.

    Args:
        key: Of a published figure.

    Raises:
        ConfigurationError: No rule is written for such a figure.
    """
    rule = _SAMPLES.get((key.level, key.measure, key.statistic)) if key.source is Source.SAMPLE else _of_releases(key)
    if rule is None and key.statistic == _LARGEST:
        rule = _EXTREME
    if rule is None:
        raise ConfigurationError(f"there is no rule for {key}", hint="published figures are those of `published()`")
    return rule


def step_of(key: Key) -> float:
    """The smallest difference that the published figure, or ours, can show.

    Quantiles of releases are whole people; those of a sample of a share p / q are multiples of 1 / p people; others are
    as fine as they were printed.

    Args:
        key: Of a published figure.

    Returns:
        In the unit of the figure: people, but for `privacy_loss` and `nearest_share`.
    """
    if key.statistic in (_MEDIAN, _P95):
        return 1.0 if key.source is Source.PROTECTED else 1.0 / key.setting.numerator
    return {_LARGEST: 1.0, BIAS: 0.1, _RMSE: 0.01, PRIVACY_LOSS: 0.001, NEAREST_SHARE: 0.05}[key.statistic]


def expected_residuals(key: Key) -> int:
    """How many residuals the published figure is of, at least: a maximum over a curve compares at equal numbers only.

    Strata that are filled by mistake come on top; all runs of a sample were copies of one.

    Args:
        key: Of a published figure.

    Returns:
        Residuals of all runs or of the one sample: geounits for totals, occupied strata for others.
    """
    runs = RUNS if key.source is Source.PROTECTED else 1
    return runs * (GEOUNITS if key.measure == TOTAL else OCCUPIED_STRATA)[key.level]


def _of_releases(key: Key) -> Rule | None:
    if key.index is not None:
        return _BIAS_OF_FEW if key.index in _UNSTEADY[key.level] else _BIAS
    return _TOTALS.get((key.level, key.statistic)) if key.measure == TOTAL else _of_strata(key)


def _of_strata(key: Key) -> Rule | None:
    loss = {"State": _STRATA_LOSS_STATE, "County": _STRATA_LOSS_COUNTY, "Enumdist": _STRATA_LOSS_DISTRICT}[key.level]
    return {
        _MEDIAN: _STRATA_MEDIAN,
        _P95: _STRATA_P95_DAMPED if key.setting <= _DAMPED_P95 else _STRATA_P95,
        _RMSE: _STRATA_RMSE_DAMPED if key.setting <= _DAMPED_RMSE else _STRATA_RMSE,
        PRIVACY_LOSS: _STRATA_LOSS_SMALL if key.setting <= _DAMPED_LOSS else loss,
        NEAREST_SHARE: _NEAREST,
    }.get(key.statistic)
