"""Losses of several releases of one mechanism: their mean and spread, beside what was published of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.privacy_loss import LossSettings
from das_spark.studies.noise import Law
from das_spark.studies.published_appendix import EXAMPLES, PRINTED, SA1_PROGRAM, SA1_REPLY, Spread
from das_spark.studies.residual_loss import ResidualLoss
from das_spark.studies.table import Table

_PERCENTILES: Final = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class LossSpread:
    """Losses of several releases.

    Attributes:
        value: What was varied: epsilon, or a setting of the curve.
        spread: Of the largest |EPL(x)|; None where no curve is defined.
        twice_plateau: Mean of twice the median |EPL(x)|; None likewise.
        undefined: Releases without a curve.
    """

    value: Fraction
    spread: Spread | None
    twice_plateau: float | None
    undefined: int

    @classmethod
    def of(cls, value: Fraction, releases: Iterable[NDArray[np.float64]], settings: LossSettings) -> LossSpread:
        """Draw the curve of each release.

        Args:
            value: What is varied.
            releases: Residuals of each, people.
            settings: Of the curves.
        """
        found = [ResidualLoss.of(residuals, settings).curve for residuals in releases]
        curves = [curve for curve in found if curve is not None]
        undefined = len(found) - len(curves)
        if not curves:
            return cls(value, None, None, undefined)
        maxima = [curve.maximum for curve in curves]
        low, high = np.percentile(maxima, _PERCENTILES)
        spread = Spread(float(np.mean(maxima)), float(low), float(high))
        return cls(value, spread, 2 * float(np.mean([curve.plateau for curve in curves])), undefined)


def sa1_table(lines: Sequence[LossSpread], law: Law, areas: int, replicates: int) -> Table:
    """Table SA1, with both published versions.

    Args:
        lines: By epsilon.
        law: Of the noise.
        areas: Residuals of a release.
        replicates: Releases an epsilon.
    """
    columns = ("epsilon", "mean", "2.5 %", "97.5 %", "2 x plateau", "slope of the law x 2")
    published = ("reply: mean", "2.5 %, reply", "97.5 %, reply", "program: mean", "2.5 %, program", "97.5 %, program")
    rows = tuple(
        (
            line.value,
            *_numbers(line.spread),
            line.twice_plateau,
            2 * law.slope(line.value / 2),
            *_numbers(SA1_REPLY.get(line.value)),
            *_numbers(SA1_PROGRAM.get(line.value)),
        )
        for line in lines
    )
    return Table(
        "table_SA1",
        f"Table SA1: empirical privacy loss of {areas:,} district totals, {replicates} releases an epsilon",
        (*columns, *published),
        rows,
        note="mean and percentiles of the largest |EPL(x)| over the releases; published in the authors' reply and "
        "printed by their program (10 releases).",
    )


def sensitivity_table(varied: Mapping[str, Sequence[LossSpread]], replicates: int) -> Table:
    """What a setting of the curve does, with what was printed of it.

    Args:
        varied: By setting: bandwidth, percentile, multiplier.
        replicates: Releases, the same throughout.
    """
    rows = tuple(
        (name, line.value, *_numbers(line.spread), line.twice_plateau, line.undefined, PRINTED[name][line.value].mean)
        for name, lines in varied.items()
        for line in lines
    )
    return Table(
        "sensitivity",
        f"Sensitivity at epsilon = {float(EXAMPLES[0].epsilon):g}, {replicates} releases",
        ("setting", "value", "mean", "2.5 %", "97.5 %", "2 x plateau", "undefined", "printed mean"),
        rows,
        left=1,
        note="The printed tables are no evidence: their program ignored the setting and drew anew, so every line is of "
        "factor 0.1, percentile 95, multiplier 1. Here it is varied, on the same releases. undefined: releases whose "
        "density vanishes within the range.",
    )


def _numbers(spread: Spread | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if spread is None else (spread.mean, spread.low, spread.high)
