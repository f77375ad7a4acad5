"""The three examples of the appendix on empirical privacy loss, on a state like Washington in 1940.

24 strata in each of 2,663 enumeration districts in 39 counties; noise has parameter epsilon / 2 throughout:

    example 1, near epsilon:  district totals + G(eps / 2)
    example 2, below epsilon: totals + G(eps1 / 2) and strata + G(eps2 / 2); nonnegative strata by (X-6), district by
                              district, with w = eps1 / eps2; residuals of the fitted totals
    example 3, above epsilon: strata + G(eps / 2); nonnegative strata by (X-6), county by county, with the exact county
                              total and w = 100; residuals of all strata, empty ones too (the appendix speaks of
                              districts; its program is of counties)

Source: Flaxman and Petti, Supplementary Methods Appendix (2020), and its programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.privacy_loss import AS_CODED
from das_spark.studies.noise import Noise
from das_spark.studies.published_appendix import EXAMPLES, ZEROS_OF_EXAMPLE_3, PublishedExample
from das_spark.studies.residual_loss import ResidualLoss
from das_spark.studies.table import Cell, Table
from das_spark.studies.tied_squares import tied_squares, tied_squares_of
from das_spark.studies.washington_1940 import Strata

Floats = NDArray[np.float64]

#: The two parts of epsilon in example 2.
TOTAL_EPSILON: Final = Fraction(1, 4)
STRATA_EPSILON: Final = Fraction(3, 4)
#: Weight of a squared county total in example 3, where that of a stratum is 1.
COUNTY_WEIGHT: Final = 100.0
_TENTH: Final = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One example.

    Attributes:
        number: 1, 2 or 3.
        counted: What has a residual.
        published: What the appendix says.
        found: What is found here.
    """

    number: int
    counted: str
    published: PublishedExample
    found: ResidualLoss

    @property
    def near_zero(self) -> float:
        """Share of the residuals that are 0 to one decimal."""
        found = self.found
        return float(found.counts[np.abs(found.values) < _TENTH].sum() / found.n)


def examples(state: Strata, noise: Noise) -> tuple[Example, ...]:
    """The three examples on a state.

    Args:
        state: Its people.
        noise: Of the experiment.
    """
    counts = state.counts.astype(np.float64)
    residuals = (
        ("districts", noise.draw("example 1", EXAMPLES[0].epsilon / 2, len(counts))),
        ("districts", _with_measured_totals(counts, noise)),
        ("strata", _with_exact_counties(state.county, counts, noise)),
    )
    return tuple(
        Example(number, counted, published, ResidualLoss.of(each.astype(np.float64), AS_CODED))
        for number, (published, (counted, each)) in enumerate(zip(EXAMPLES, residuals, strict=True), 1)
    )


def _with_measured_totals(counts: Floats, noise: Noise) -> Floats:
    """Example 2: residuals of fitted totals, shape (districts,)."""
    totals = counts.sum(axis=1)
    noisy_totals = totals + noise.draw("example 2, totals", TOTAL_EPSILON / 2, len(counts))[:, 0]
    noisy = counts + noise.draw("example 2, strata", STRATA_EPSILON / 2, *counts.shape)
    fitted = tied_squares(noisy, noisy_totals, float(TOTAL_EPSILON / STRATA_EPSILON))
    missed: NDArray[np.float64] = fitted.sum(axis=1) - totals
    return missed


def _with_exact_counties(county: NDArray[np.int64], counts: Floats, noise: Noise) -> Floats:
    """Example 3: residuals of fitted strata, shape (districts, strata)."""
    noisy = counts + noise.draw("example 3", EXAMPLES[2].epsilon / 2, *counts.shape)
    exact: Floats = np.bincount(county, counts.sum(axis=1)).astype(np.float64)
    return tied_squares_of(county, noisy, exact, COUNTY_WEIGHT) - counts


def examples_table(found: Sequence[Example]) -> Table:
    """A line an example.

    Args:
        found: The examples that were released.
    """
    rows = tuple(_example_row(example) for example in found)
    columns = ("example", "was made to show", "epsilon", "residuals", "mean residual", "r.m.s.", "zero", "maximum")
    return Table(
        "examples",
        "Three examples, one release each",
        (*columns, "published", "2 x plateau", "published 2 x plateau"),
        rows,
        left=2,
        note="maximum: the empirical privacy loss, largest |EPL(x)|; plateau: median of |EPL(x)|; zero: share of "
        "residuals that are 0 to one decimal. In example 3, "
        f"{float(ZEROS_OF_EXAMPLE_3):.1%} was published. The published state and this one have other people.",
    )


def _example_row(example: Example) -> tuple[Cell, ...]:
    published, found = example.published, example.found
    mean = float(found.values @ found.counts / found.n)
    sizes = (f"{found.n:,} {example.counted}", mean, found.root_mean_square, example.near_zero)
    twice = None if found.plateau is None else 2 * found.plateau
    losses = (found.maximum, published.maximum, twice, published.twice_plateau)
    return (str(example.number), published.shows, published.epsilon, *sizes, *losses)
