"""Flaxman (2019), "Empirical quantification of privacy loss with examples relevant to the 2020 US Census", done again.

The "less-obvious" estimate reads the privacy loss off the residuals of all leaves in one release: the log ratio of
their kernel density one person apart. Its level away from the middle (the median of its size) is what the study
compares with epsilon: GDPC keeps all of it, ADPC about half, RDPC about 1 / (J + 1).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Final

from das_spark.evaluation.privacy_loss import FLAXMAN
from das_spark.studies.flaxman_direct import DirectEstimate, direct_estimate
from das_spark.studies.flaxman_mechanisms import Mechanism, protect
from das_spark.studies.flaxman_population import Database, FlaxmanSettings, area_numbers, population
from das_spark.studies.noise import Noise
from das_spark.studies.residual_loss import ResidualLoss
from das_spark.studies.table import Cell, Table, plain

_FORMAT: Final = 1
_STUDY: Final = "flaxman"


@dataclass(frozen=True, slots=True, eq=False)
class LossLine:
    """One mechanism at one epsilon.

    Attributes:
        mechanism: Which.
        epsilon: In all.
        expected: Empirical privacy loss that the study reads off its figure for such a mechanism.
        found: Residuals of the leaves, and their loss.
    """

    mechanism: Mechanism
    epsilon: Fraction
    expected: Fraction
    found: ResidualLoss


@dataclass(frozen=True, slots=True, eq=False)
class FlaxmanResult:
    """Everything that was found.

    Attributes:
        settings: What was asked for.
        areas: How many areas each level has, root first.
        lines: The less-obvious estimate, by mechanism and epsilon.
        direct: The direct estimate, where it was asked for.
    """

    settings: FlaxmanSettings
    areas: tuple[int, ...]
    lines: tuple[LossLine, ...]
    direct: DirectEstimate | None

    def compared(self) -> tuple[LossLine, ...]:
        """Of each mechanism the line whose expected loss is nearest to the smallest epsilon: those of the figure."""
        aim = min(self.settings.epsilons)
        return tuple(
            min((line for line in self.lines if line.mechanism is mechanism), key=lambda line: abs(line.expected - aim))
            for mechanism in Mechanism
        )

    def tables(self) -> tuple[Table, ...]:
        """Losses, and the readings of the direct estimate."""
        columns = (
            "mechanism",
            "epsilon",
            "r.m.s. residual",
            "plateau",
            "expected plateau",
            "plateau / epsilon",
            "maximum",
        )
        losses = Table(
            "losses",
            f"Empirical privacy loss of {self.areas[-1]:,} areas, one release each",
            columns,
            tuple(_row(line) for line in self.lines),
            note="plateau: median of |ln f(x) / f(x + 1)| over all x, which the study compares with epsilon; maximum: "
            "the largest, which noise in the tails inflates. expected: what the study reads off its figure, for P = 4.",
        )
        return (losses,) if self.direct is None else (losses, self.direct.table(), self.direct.points())

    def to_json(self) -> str:
        """Settings, tables and curves."""
        settings = {each.name: _json(getattr(self.settings, each.name)) for each in fields(self.settings)}
        content: dict[str, Any] = {"format": _FORMAT, "experiment": _STUDY, "settings": settings, "areas": self.areas}
        content["tables"] = {table.name: table.records() for table in self.tables()}
        content["curves"] = [
            {"mechanism": line.mechanism.value, "epsilon": float(line.epsilon), **line.found.curve_json()}
            for line in self.lines
        ]
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


def flaxman(settings: FlaxmanSettings) -> FlaxmanResult:
    """Do the study.

    Args:
        settings: Its own by default.

    Returns:
        The same for the same settings.

    Raises:
        ConfigurationError: An epsilon is no parameter of the law, or a family cannot be raked.
    """
    database, noise = population(settings), Noise(_STUDY, settings.seed, settings.law)
    lines = [
        _line(mechanism, epsilon, database, settings, noise)
        for mechanism in Mechanism
        for epsilon in sorted(set(settings.epsilons))
    ]
    direct = direct_estimate(database, settings, noise) if settings.replicates else None
    return FlaxmanResult(settings, area_numbers(database.levels), tuple(lines), direct)


def _line(
    mechanism: Mechanism, epsilon: Fraction, database: Database, settings: FlaxmanSettings, noise: Noise
) -> LossLine:
    residuals = protect(mechanism, database, epsilon, noise, parts=settings.parts)[:, 0] - database.leaves
    expected = epsilon * mechanism.expected_share(settings.levels)
    return LossLine(mechanism, epsilon, expected, ResidualLoss.of(residuals, FLAXMAN))


def _row(line: LossLine) -> tuple[Cell, ...]:
    found = line.found
    share = None if found.plateau is None else found.plateau / float(line.epsilon)
    return (
        line.mechanism.value,
        line.epsilon,
        found.root_mean_square,
        found.plateau,
        line.expected,
        share,
        found.maximum,
    )


def _json(value: object) -> object:
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    return plain(value) if isinstance(value, Fraction) else value
