"""Table SA1 against what was published and against an independent computation; what the settings of the curve do."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.studies.epl_appendix import (
    GRID,
    PRINTED,
    SA1_PROGRAM,
    SA1_REPLY,
    AppendixResult,
    AppendixSettings,
    LossSpread,
    MeanLoss,
    epl_appendix,
)
from das_spark.studies.noise import NoiseRatio

#: An independent computation, 200 replicates: mean, 2.5th and 97.5th percentile of the largest |EPL(x)|, coded law.
RECOMPUTED = {
    "0.05": (0.0486, 0.0375, 0.07),
    "0.1": (0.097, 0.0756, 0.1265),
    "0.15": (0.1467, 0.1145, 0.2034),
    "0.2": (0.1908, 0.1483, 0.254),
    "0.25": (0.2366, 0.1907, 0.3088),
    "0.3": (0.2793, 0.2125, 0.3624),
    "0.35": (0.3167, 0.2519, 0.4239),
    "0.4": (0.3517, 0.2851, 0.4494),
    "0.45": (0.3857, 0.3124, 0.5001),
    "0.5": (0.4042, 0.33, 0.498),
}
#: The same for the exact law.
RECOMPUTED_EXACT = {"0.1": 0.0945, "0.3": 0.2634, "0.5": 0.3752}
#: A mean of 400 against one of 200, 16 percent apart each: standard error 1.4 percent.
MEANS = 0.03
#: Outer percentiles of 200 have a standard error of some 5 percent; over the ten rows together, of 2.
ENDS, ENDS_TOGETHER = 0.15, 0.03
#: The bandwidth of 0.1 in the sensitivity tables, and so on: lines that are the table's own settings.
OWN = {"bandwidth": Fraction("0.1"), "percentile": Fraction(95), "multiplier": Fraction(1)}


@pytest.fixture(scope="module")
def found() -> AppendixResult:
    return epl_appendix(AppendixSettings(tuple(map(Fraction, RECOMPUTED)), 400))


def spread(line: LossSpread) -> MeanLoss:
    assert line.spread is not None
    return line.spread


def test_every_mean_of_table_sa1_is_that_of_an_independent_computation(found: AppendixResult) -> None:
    assert [spread(line).mean for line in found.lines] == pytest.approx(
        [line[0] for line in RECOMPUTED.values()], rel=MEANS
    )


def test_the_ends_of_its_intervals_are_too(found: AppendixResult) -> None:
    ratios = np.array(
        [
            (spread(line).low / low, spread(line).high / high)
            for line, (_, low, high) in zip(found.lines, RECOMPUTED.values(), strict=True)
        ]
    )
    assert np.abs(ratios - 1).max() < ENDS
    assert ratios.mean(axis=0) == pytest.approx([1, 1], abs=ENDS_TOGETHER)


def test_every_mean_lies_in_the_published_intervals(found: AppendixResult) -> None:
    means = {line.value: spread(line).mean for line in found.lines}
    compared = 0
    for published in (SA1_REPLY, SA1_PROGRAM):
        for epsilon, line in published.items():
            if epsilon in means:
                assert line.low < means[epsilon] < line.high
                compared += 1
    assert compared == 11


def test_means_are_those_of_the_reply(found: AppendixResult) -> None:
    means = {line.value: spread(line).mean for line in found.lines}
    for epsilon, line in SA1_REPLY.items():
        if epsilon in means:
            assert means[epsilon] == pytest.approx(line.mean, rel=MEANS)


def test_the_plateau_is_half_of_epsilon_and_hardly_depends_on_chance(found: AppendixResult) -> None:
    for line in found.lines:
        slope = 2 * NoiseRatio.CODED.slope(line.value / 2)
        assert line.twice_plateau == pytest.approx(slope, rel=0.06)


def test_the_exact_law_loses_less() -> None:
    found = epl_appendix(AppendixSettings(tuple(map(Fraction, RECOMPUTED_EXACT)), 200, NoiseRatio.EXACT))
    # Two means of 200: standard error 1.6 percent; the coded law would be off by 3, 6 and 8 percent.
    assert [spread(line).mean for line in found.lines] == pytest.approx(list(RECOMPUTED_EXACT.values()), rel=0.04)


def test_the_settings_of_the_curve_matter_though_the_printed_tables_do_not_show_it(found: AppendixResult) -> None:
    lines = {name: {line.value: line for line in lines} for name, lines in found.sensitivity.items()}
    assert {name: list(values) for name, values in lines.items()} == {
        name: list(values) for name, values in PRINTED.items()
    }
    base = [spread(lines[name][value]).mean for name, value in OWN.items()]
    assert base[0] == base[1] == base[2]
    assert spread(lines["bandwidth"][Fraction(1)]).mean < 0.4 * base[0]
    assert spread(lines["bandwidth"][Fraction("0.05")]).mean > 1.3 * base[0]
    assert spread(lines["percentile"][Fraction(99)]).mean > 1.3 * base[0]
    assert spread(lines["multiplier"][Fraction(2)]).mean > 1.7 * base[0]
    # A kernel of a hundredth of a person leaves gaps between whole residuals: most releases have no curve.
    assert lines["bandwidth"][Fraction("0.001")].undefined > 100


def test_small_epsilons_of_the_grid() -> None:
    found = epl_appendix(AppendixSettings((Fraction("0.01"),), 10))
    published = SA1_REPLY[Fraction("0.01")]
    assert published.low < spread(found.lines[0]).mean < published.high


def test_the_defaults_are_those_of_the_appendix() -> None:
    settings = AppendixSettings()
    assert (settings.replicates, settings.law, len(settings.epsilons)) == (10, NoiseRatio.CODED, 13)
    assert set(GRID) == {*SA1_REPLY, *SA1_PROGRAM, Fraction(1, 4)}


def test_json_holds_tables_and_curves() -> None:
    settings = AppendixSettings((Fraction(1, 4),), 2)
    text = epl_appendix(settings).to_json()
    assert text == epl_appendix(settings).to_json()
    content = json.loads(text)
    assert {name: len(rows) for name, rows in content["tables"].items()} == {
        "examples": 3,
        "table_SA1": 1,
        "sensitivity": 17,
    }
    assert content["settings"] == {"replicates": 2, "law": "coded", "seed": 12345, "epsilons": [0.25]}
    assert [len(curve["x"]) > 10 for curve in content["curves"]] == [True] * 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replicates": 0}, "replicates: expected 1 or more"),
        ({"seed": -1}, "seed: expected 0 or more"),
        ({"epsilons": ()}, "epsilon: expected numbers above 0"),
        ({"epsilons": (Fraction(-1),)}, "epsilon: expected numbers above 0"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        AppendixSettings(**changes)  # type: ignore[arg-type]


def test_published_spreads_are_spreads() -> None:
    for lines in (SA1_REPLY, SA1_PROGRAM, *PRINTED.values()):
        assert all(0 < line.low <= line.mean <= line.high for line in lines.values())
