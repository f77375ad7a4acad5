"""What Flaxman and Petti published on how empirical privacy loss behaves.

Source: Supplementary Methods Appendix to "Differential privacy in the 2020 US census: what will it do?" (Zenodo, 2020),
the table SA1 in the authors' reply to their reviewers, and the programs that made them, with their printed results.
Every loss is the largest |EPL(x)|: kernel factor 0.1, range up to the 95th percentile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over replicates.

    Attributes:
        mean: Of the losses.
        low: Their 2.5th percentile.
        high: Their 97.5th percentile.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PublishedExample:
    """An example of the appendix; one release each.

    Attributes:
        shows: What it was made to show of the loss, compared with epsilon.
        epsilon: In all.
        maximum: Largest |EPL(x)|.
        twice_plateau: Twice the median of |EPL(x)|.
    """

    shows: str
    epsilon: Fraction
    maximum: float
    twice_plateau: float


def _spreads(lines: Mapping[str, tuple[float, float, float]]) -> Mapping[Fraction, Spread]:
    return MappingProxyType({Fraction(value): Spread(*line) for value, line in lines.items()})


EXAMPLES: Final = (
    PublishedExample("near epsilon", Fraction(1, 4), 0.1823, 0.2531),
    PublishedExample("below epsilon", Fraction(1), 0.5441, 0.3152),
    PublishedExample("above epsilon", Fraction(1, 4), 2.3255, 0.3234),
)
"""Examples 1, 2 and 3."""

ZEROS_OF_EXAMPLE_3: Final = Fraction(46_358, 63_912)
"""Share of residuals that are 0 to one decimal in example 3."""

SA1_REPLY: Final = _spreads(
    {
        "0.001": (0.001, 0.0008, 0.0013),
        "0.005": (0.0048, 0.0039, 0.0068),
        "0.01": (0.0099, 0.0076, 0.013),
        "0.05": (0.049, 0.039, 0.0673),
        "0.1": (0.098, 0.0752, 0.1262),
        "0.15": (0.1475, 0.1181, 0.1941),
        "0.2": (0.1988, 0.1521, 0.2639),
    }
)
"""Table SA1, by epsilon, as in the reply; the number of replicates is not said."""

SA1_PROGRAM: Final = _spreads(
    {
        "0.001": (0.001, 0.0008, 0.0011),
        "0.005": (0.0045, 0.0037, 0.0053),
        "0.01": (0.0092, 0.0082, 0.0112),
        "0.05": (0.0477, 0.0388, 0.0561),
        "0.1": (0.1015, 0.0823, 0.1368),
        "0.3": (0.2823, 0.2292, 0.3909),
        "0.35": (0.3326, 0.2769, 0.4564),
        "0.4": (0.3407, 0.2869, 0.429),
        "0.45": (0.3788, 0.3171, 0.4216),
        "0.5": (0.3786, 0.3376, 0.4182),
    }
)
"""The same, as the program printed it with 10 replicates."""

_BANDWIDTHS: Final = _spreads(
    {
        "0.001": (0.2392, 0.2012, 0.284),
        "0.005": (0.2188, 0.1888, 0.2577),
        "0.01": (0.238, 0.2025, 0.2733),
        "0.05": (0.2409, 0.2002, 0.2788),
        "0.1": (0.2432, 0.1889, 0.3144),
        "0.5": (0.2343, 0.1917, 0.2681),
        "1": (0.2233, 0.1878, 0.269),
        "5": (0.2456, 0.2059, 0.3407),
    }
)

_PERCENTILES: Final = _spreads(
    {
        "75": (0.2392, 0.2012, 0.284),
        "85": (0.2188, 0.1888, 0.2577),
        "95": (0.238, 0.2025, 0.2733),
        "99": (0.2409, 0.2002, 0.2788),
        "99.9": (0.2432, 0.1889, 0.3144),
    }
)

_MULTIPLIERS: Final = _spreads(
    {
        "0.5": (0.2392, 0.2012, 0.284),
        "1": (0.2188, 0.1888, 0.2577),
        "1.5": (0.238, 0.2025, 0.2733),
        "2": (0.2409, 0.2002, 0.2788),
    }
)

PRINTED: Final[Mapping[str, Mapping[Fraction, Spread]]] = MappingProxyType(
    {"bandwidth": _BANDWIDTHS, "percentile": _PERCENTILES, "multiplier": _MULTIPLIERS}
)
"""By setting of the curve, at epsilon 1/4, as printed. The program ignored the settings: all lines are of kernel factor
0.1, percentile 95 and multiplier 1, and differ by chance."""
