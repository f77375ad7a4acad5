"""The study of three mechanisms: its plateaus, what is reported of them, and releases that have no curve."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from das_spark.report import records
from das_spark.studies.flaxman import FlaxmanMechanism, FlaxmanResult, FlaxmanSettings, flaxman
from das_spark.studies.noise import NoiseRatio

#: Releases that a mean is taken over. The plateau of one has a standard deviation of 2 percent, that of ADPC of 5.
SEEDS = range(1, 9)
#: Three standard errors of the mean for ADPC, seven for the others.
TOLERANCE = 0.06
#: An independent computation of the same three releases, 30 replicates each: medians of |EPL(x)|.
RECOMPUTED = {FlaxmanMechanism.GDPC: 0.0248, FlaxmanMechanism.RDPC: 0.0249, FlaxmanMechanism.ADPC: 0.0253}


@pytest.fixture(scope="module")
def results() -> list[FlaxmanResult]:
    return [flaxman(FlaxmanSettings(seed=seed, replicates=0)) for seed in SEEDS]


def plateau(results: list[FlaxmanResult], mechanism: FlaxmanMechanism, epsilon: Fraction) -> float:
    lines = [
        line for found in results for line in found.lines if (line.mechanism, line.epsilon) == (mechanism, epsilon)
    ]
    assert len(lines) == len(results)
    return float(np.mean([line.found.plateau for line in lines]))


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [
        (FlaxmanMechanism.GDPC, Fraction(1, 40)),
        (FlaxmanMechanism.RDPC, Fraction(1, 10)),
        (FlaxmanMechanism.ADPC, Fraction(1, 20)),
    ],
)
def test_all_of_epsilon_a_half_and_a_quarter_are_the_same_loss(
    results: list[FlaxmanResult], mechanism: FlaxmanMechanism, epsilon: Fraction
) -> None:
    found = plateau(results, mechanism, epsilon)
    assert found == pytest.approx(0.025, rel=TOLERANCE)
    assert found == pytest.approx(RECOMPUTED[mechanism], rel=TOLERANCE)
    # And twice the epsilon is another loss, as far as this tolerance can see.
    assert plateau(results, mechanism, epsilon / 2 if epsilon > Fraction(1, 40) else 2 * epsilon) != pytest.approx(
        0.025, rel=5 * TOLERANCE
    )


def test_the_figure_compares_releases_of_one_size(results: list[FlaxmanResult]) -> None:
    compared = results[0].compared()
    assert [(line.mechanism, float(line.epsilon)) for line in compared] == [
        ("GDPC", 0.025),
        ("RDPC", 0.1),
        ("ADPC", 0.05),
    ]
    # "all three residual standard deviations about 56"
    assert [line.found.root_mean_square for line in compared] == pytest.approx([56, 56, 56], rel=0.03)
    assert {line.found.n for line in compared} == {9261}


def test_largest_losses_are_of_the_recomputed_size(results: list[FlaxmanResult]) -> None:
    """Recomputed over the full range: .044 +- .006, .047 +- .007, .062 +- .018, for GDPC, RDPC, ADPC."""
    largest = np.array([[line.found.maximum for line in found.compared()] for found in results])
    assert largest.mean(axis=0) == pytest.approx([0.044, 0.047, 0.062], rel=0.2)


def test_the_same_settings_give_the_same_text_and_no_number_is_lost() -> None:
    settings = FlaxmanSettings(20_000, 2, 100, replicates=20, law=NoiseRatio.EXACT)
    text = flaxman(settings).to_json()
    assert text == flaxman(settings).to_json()
    content = json.loads(text)
    assert content["areas"] == [1, 14, 196]
    assert content["settings"]["law"] == "exact"
    assert content["settings"]["epsilons"] == [0.025, 0.05, 0.1]
    assert [len(content["tables"][name]) for name in ("losses", "direct", "direct_points")] == [9, 9, 3 * 88]
    assert all(len(curve["x"]) == len(curve["loss"]) > 10 for curve in content["curves"])


def test_the_direct_estimate_can_be_left_out() -> None:
    found = flaxman(FlaxmanSettings(20_000, 2, 100, replicates=0))
    assert found.direct is None
    assert [table.name for table in found.tables()] == ["losses"]


def test_releases_without_noise_have_no_loss_and_say_why() -> None:
    found = flaxman(FlaxmanSettings(2_000, 2, 100, epsilons=(Fraction(200),), law=NoiseRatio.EXACT, replicates=3))
    geometric = found.lines[0]
    assert geometric.found.maximum is geometric.found.plateau is None
    row = records(found.tables()[0])[0]
    assert (row["mechanism"], row["plateau"], row["maximum"], row["expected plateau"]) == ("GDPC", None, None, 200.0)
    curves = json.loads(found.to_json())["curves"]
    assert "equal" in curves[0]["why_undefined"]
