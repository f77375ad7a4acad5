"""How empirical privacy loss behaves: the appendix to Petti and Flaxman (2020), done again.

Three examples (`das_spark.studies.appendix_examples`); table SA1, which repeats the first at many epsilons; and
what the settings of the curve do. What example 1 finds near epsilon is the largest |EPL(x)| of 2,663 residuals, which
their number doubles: the slope of its law, which the plateau shows, is half of epsilon.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.evaluation.privacy_loss import AS_CODED, LossSettings
from das_spark.studies.appendix_examples import Example, examples, examples_table
from das_spark.studies.loss_spread import LossSpread, sa1_table, sensitivity_table
from das_spark.studies.noise import Law, Noise
from das_spark.studies.published_appendix import EXAMPLES, PRINTED, SA1_PROGRAM, SA1_REPLY
from das_spark.studies.table import Table, plain
from das_spark.studies.washington_1940 import DISTRICTS, washington

_FORMAT: Final = 1
_STUDY: Final = "epl-appendix"

#: All epsilons of table SA1, in either version, and that of the examples.
GRID: Final = tuple(sorted({*SA1_REPLY, *SA1_PROGRAM, EXAMPLES[0].epsilon}))


@dataclass(frozen=True, slots=True)
class AppendixSettings:
    """What can be set; the defaults are those of the appendix.

    Attributes:
        epsilons: Lines of table SA1.
        replicates: Of each line, and of the sensitivity tables.
        law: Of the noise.
        seed: Of people and noise.

    Raises:
        ConfigurationError: A number is outside.
    """

    epsilons: tuple[Fraction, ...] = GRID
    replicates: int = 10
    law: Law = Law.CODED
    seed: int = 12345

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        if self.replicates < 1:
            raise ConfigurationError(f"replicates: expected 1 or more, found {self.replicates}")
        if self.seed < 0:
            raise ConfigurationError(f"seed: expected 0 or more, found {self.seed}")
        if not self.epsilons or min(self.epsilons) <= 0:
            raise ConfigurationError("epsilon: expected numbers above 0")


@dataclass(frozen=True, slots=True, eq=False)
class AppendixResult:
    """Everything that was found.

    Attributes:
        settings: What was asked for.
        examples: The three.
        lines: Table SA1, by epsilon.
        sensitivity: At the epsilon of example 1, by setting of the curve: "bandwidth", "percentile", "multiplier".
    """

    settings: AppendixSettings
    examples: tuple[Example, ...]
    lines: tuple[LossSpread, ...]
    sensitivity: Mapping[str, tuple[LossSpread, ...]]

    def tables(self) -> tuple[Table, ...]:
        """Examples, table SA1, sensitivity."""
        number = self.settings.replicates
        return (
            examples_table(self.examples),
            sa1_table(self.lines, self.settings.law, DISTRICTS, number),
            sensitivity_table(self.sensitivity, number),
        )

    def to_json(self) -> str:
        """Settings, tables and curves."""
        settings = {"replicates": self.settings.replicates, "law": self.settings.law.value, "seed": self.settings.seed}
        content: dict[str, Any] = {"format": _FORMAT, "experiment": _STUDY, "settings": settings}
        content["settings"]["epsilons"] = [plain(each) for each in self.settings.epsilons]
        content["tables"] = {table.name: table.records() for table in self.tables()}
        content["curves"] = [{"example": each.number, **each.found.curve_json()} for each in self.examples]
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


def epl_appendix(settings: AppendixSettings) -> AppendixResult:
    """Do the appendix.

    Args:
        settings: Its own by default.

    Returns:
        The same for the same settings.

    Raises:
        ConfigurationError: Half of an epsilon is no parameter of the law.
    """
    noise = Noise(_STUDY, settings.seed, settings.law)
    lines = [
        LossSpread.of(epsilon, _repeated(epsilon, noise, settings.replicates), AS_CODED)
        for epsilon in sorted(set(settings.epsilons))
    ]
    found = examples(washington(settings.seed), noise)
    return AppendixResult(settings, found, tuple(lines), _sensitivity(noise, settings.replicates))


def _repeated(epsilon: Fraction, noise: Noise, replicates: int) -> list[NDArray[np.float64]]:
    """Residuals of example 1, which are its noise whatever the counts, several times."""
    drawn = noise.draw(f"table SA1, epsilon {epsilon}", epsilon / 2, DISTRICTS, replicates)
    return list(drawn.T.astype(np.float64))


def _sensitivity(noise: Noise, replicates: int) -> dict[str, tuple[LossSpread, ...]]:
    """The same releases throughout, so that differences come from the setting alone."""
    releases = _repeated(EXAMPLES[0].epsilon, noise, replicates)
    return {
        name: tuple(LossSpread.of(value, releases, _varied(name, float(value))) for value in printed)
        for name, printed in PRINTED.items()
    }


def _varied(name: str, value: float) -> LossSettings:
    """The settings of the appendix but for one."""
    if name == "bandwidth":
        return replace(AS_CODED, name="varied", bandwidth=value)
    if name == "percentile":
        return replace(AS_CODED, name="varied", percentile=value)
    return replace(AS_CODED, name="varied", multiplier=value)
