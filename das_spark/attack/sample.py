r"""Stratified samples of geounits, and rates estimated from them.

Strata are classes of geounits by size. With :math:`N_h` geounits in stratum *h*, of which a simple random sample of
:math:`n_h` is looked at, and numbers :math:`y_i` and :math:`x_i` of each of these, a rate is estimated by the combined
ratio estimator

.. math:: \hat R = \hat Y / \hat X, \qquad \hat Y = \sum_h N_h \bar y_h,

and its standard error, with :math:`e_i = y_i - \hat R x_i`, by

.. math:: \widehat{se}^2 = \frac{1}{\hat X^2} \sum_h N_h^2 \left(1 - \frac{n_h}{N_h}\right) \frac{s_{e,h}^2}{n_h},

where :math:`s_{e,h}^2` is the variance of *e* in the sample of the stratum, with :math:`n_h - 1` (Cochran 1977,
"Sampling Techniques", third edition, chapter 6). It is 0 where every geounit is looked at. It holds for many geounits,
and is not known where a stratum of several has one in the sample that x is not 0 of.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Geounits of a stratum from which a variance can be estimated.
_FEWEST: Final = 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate that a sample gives.

    Attributes:
        value: The rate; NaN where there is nothing that it is a rate of.
        error: Its standard error; 0 where everything was looked at, NaN where it is not known.
    """

    value: float
    error: float


def allocation(geounits: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """How many geounits each stratum gives: equally many, and all where it has fewer.

    Args:
        geounits: Of each stratum, (strata,).
        number: Of all that are looked at; all geounits where there are fewer.

    Returns:
        Of each stratum, (strata,); what cannot be shared equally goes to those with most geounits. A stratum that has
        geounits gives one at least, and two if it has two, even if that is more than `number` in all.
    """
    taken = np.zeros(len(geounits), dtype=np.int64)
    # From the smallest stratum on, so that what it does not have is shared by those that are left.
    for place, stratum in enumerate(np.argsort(geounits, kind="stable").tolist()):
        share = (number - int(taken.sum())) // (len(geounits) - place)
        taken[stratum] = min(int(geounits[stratum]), max(share, _FEWEST))
    return taken


@dataclass(frozen=True, slots=True, eq=False)
class StratifiedSample:
    """The geounits that were looked at.

    Attributes:
        stratum: Of each, (n,).
        geounits: Of each stratum, looked at or not, (strata,).
    """

    stratum: NDArray[np.int64]
    geounits: NDArray[np.int64]

    @property
    def taken(self) -> NDArray[np.int64]:
        """Geounits of each stratum that were looked at, (strata,)."""
        return np.bincount(self.stratum, minlength=len(self.geounits))

    def total(self, y: NDArray[np.int64]) -> float:
        """Estimated sum over all geounits of a number that is known of those looked at, (n,)."""
        taken = self.taken
        sums = np.bincount(self.stratum, weights=y, minlength=len(taken))
        return float((self.geounits * sums / np.maximum(taken, 1)).sum())

    def ratio(self, y: NDArray[np.int64], x: NDArray[np.int64]) -> Estimate:
        """Estimated ratio of two sums over all geounits.

        Args:
            y: Of each geounit that was looked at, (n,).
            x: Likewise.
        """
        below = self.total(x)
        if not below:
            return Estimate(nan, nan)
        rate, variance = self.total(y) / below, 0.0
        for stratum, (every, taken) in enumerate(zip(self.geounits.tolist(), self.taken.tolist(), strict=True)):
            chosen = self.stratum == stratum
            if taken == every or not (x[chosen].any() or y[chosen].any()):
                continue
            if taken < _FEWEST:
                return Estimate(rate, nan)
            residual = y[chosen] - rate * x[chosen]
            variance += every**2 * (1 - taken / every) * float(residual.var(ddof=1)) / taken
        return Estimate(rate, sqrt(variance) / below)
