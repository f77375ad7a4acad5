"""Published figures of the protected releases of the census of 1940, and of simple random samples of it.

Source: S. Petti and A. Flaxman, "Differential privacy in the 2020 US census: what will it do? Quantifying the
accuracy/privacy tradeoff", Gates Open Research 2020 (version 2): its tables and figures 2 and 3, with the
result files and printed outputs of the repository that made them (aflaxman/dp_2020_census). The figures lie beside this
module in `published_1940.json`:

- `protected`: residuals of eight values of epsilon, four runs each pooled; medians, 95th percentiles and largest
  absolute residuals are rounded to whole people there.
- `mean_error`: mean residual of totals, printed to one decimal.
- `sample`: a single simple random sample of each share, scaled up.
- `bias_by_index`: mean residual of the totals of the geounits with each homogeneity index, four runs pooled.
- `nearest_sample`: table 1, the share whose sample has about the error and the loss of a release, at county level.

"MAE" there is the median of the absolute residuals. The empirical privacy loss of the states' totals is undefined:
none of them has an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from das_spark.evaluation import TOTAL
from das_spark.products import PRODUCTS

RUNS: Final = 4
"""Runs of each epsilon that were pooled."""

STRATA: Final = PRODUCTS["e2e_1940"].strata
OCCUPIED_STRATA: Final[Mapping[str, int]] = MappingProxyType({"State": 1_010, "County": 26_021, "Enumdist": 539_107})
"""Strata of geounits with somebody in them; that of districts is derived from a mean, within about 110."""

PRIVACY_LOSS: Final = "privacy_loss"
BIAS: Final = "bias"
NEAREST_SHARE: Final = "nearest_share"

_MEASURES: Final = {"total": TOTAL, "strata": STRATA}


class FigureSource(StrEnum):
    """What a figure is of."""

    PROTECTED = "protected"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class FigureKey:
    """Names a figure."""

    source: FigureSource
    setting: Fraction
    level: str
    measure: str
    statistic: str
    index: int | None = None

    def __str__(self) -> str:
        """In words, for messages."""
        of_index = "" if self.index is None else f" at homogeneity index {self.index}"
        setting = "epsilon" if self.source is FigureSource.PROTECTED else "share"
        return f"{self.statistic} of {self.level}, {self.measure}{of_index} ({setting} {self.setting})"


def protected(epsilon: Fraction, level: str, measure: str, statistic: str) -> FigureKey:
    """Names a figure of the releases with an epsilon."""
    return FigureKey(FigureSource.PROTECTED, epsilon, level, measure, statistic)


def sampled(share: Fraction, level: str, measure: str, statistic: str) -> FigureKey:
    """Names a figure of a simple random sample."""
    return FigureKey(FigureSource.SAMPLE, share, level, measure, statistic)


def bias_at(epsilon: Fraction, level: str, index: int) -> FigureKey:
    """Names the bias of the totals of the geounits with a homogeneity index."""
    return FigureKey(FigureSource.PROTECTED, epsilon, level, TOTAL, BIAS, index)


def nearest_share(epsilon: Fraction) -> FigureKey:
    """Names the share of the sample that is nearest to a release (table 1; counties, strata)."""
    return FigureKey(FigureSource.PROTECTED, epsilon, "County", STRATA, NEAREST_SHARE)


@cache
def published() -> Mapping[FigureKey, float | None]:
    """Every published figure; None where it is undefined. People, but for `privacy_loss` and `nearest_share`."""
    content = json.loads(files(__package__).joinpath("published_1940.json").read_text(encoding="utf-8"))
    return MappingProxyType({key: value for name, block in content.items() for key, value in _figures(name, block)})


def _figures(name: str, block: Mapping[str, Any]) -> Iterator[tuple[FigureKey, float | None]]:
    source = FigureSource.SAMPLE if name == "sample" else FigureSource.PROTECTED
    named = ("setting", "level", "measure", "index")
    for values in block["rows"]:
        row = dict(zip(block["columns"], values, strict=True))
        setting, measure = Fraction(row["setting"]), _MEASURES[row["measure"]]
        for statistic in (column for column in row if column not in named):
            value = row[statistic]
            # Shares are exact in the file, as text; everything else is a number, or null where undefined.
            figure = None if value is None else float(Fraction(str(value)))
            yield FigureKey(source, setting, row["level"], measure, statistic, row.get("index")), figure
