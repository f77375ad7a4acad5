"""The exact distribution of the privacy loss of discrete Laplace noise: a diagnostic, tighter than adding up epsilons.

One replaced record moves one count up and one down. At query budget e the loss is +e with probability (1 +
exp(-e/2))^-2, -e with probability (1 + exp(e/2))^-2, else 0. Losses of independent queries add, so their
distributions are convolved, on the common grid of the exact budgets. With L the total loss,

    delta(epsilon) = sum over losses l > epsilon of P(L = l) (1 - exp(epsilon - l)).
    (P-11)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import BudgetError
from das_spark.privacy.budget import Budget
from das_spark.privacy.mechanisms import Framework

_MOST_STEPS: Final = 1 << 22


def delta_of_laplace(budget: Budget, epsilon: float) -> float:
    """Delta at an epsilon of a whole budget in pure differential privacy, by (P-11).

    Args:
        budget: The budget of a run; its framework must be pure differential privacy.
        epsilon: >= 0; at the budget's total the result is 0.

    Returns:
        Delta in [0, 1], in double precision.

    Raises:
        BudgetError: If the budget is not pure, or its fractions have too fine a common grid.
    """
    if budget.framework is not Framework.PURE_DP:
        raise BudgetError("the loss distribution is that of the discrete Laplace law: the budget must be pure_dp")
    spent = [budget.spent(level.geolevel, item.query) for level in budget.levels for item in level.queries]
    step = _common_step(spent)
    probabilities = _convolved(spent, step)
    middle = len(probabilities) // 2
    losses = (np.arange(len(probabilities)) - middle) * float(step)
    above = losses > epsilon
    return float(np.sum(probabilities[above] * -np.expm1(epsilon - losses[above])))


def _common_step(spent: Sequence[Fraction]) -> Fraction:
    """The largest step of which every query budget is a multiple."""
    denominator = math.lcm(*(value.denominator for value in spent))
    step = Fraction(math.gcd(*(int(value * denominator) for value in spent)), denominator)
    if sum(spent) / step > _MOST_STEPS:
        raise BudgetError("the shares have too fine a common grid for the loss distribution")
    return step


def _convolved(spent: Sequence[Fraction], step: Fraction) -> NDArray[np.float64]:
    """P(L = l) for l = -total, ..., total in steps; three shifted copies a query."""
    probabilities = np.ones(1)
    for value in spent:
        shift = int(value / step)
        up = (1 + math.exp(-float(value) / 2)) ** -2
        down = (1 + math.exp(float(value) / 2)) ** -2
        result = np.zeros(len(probabilities) + 2 * shift)
        result[2 * shift :] += up * probabilities
        result[shift : len(result) - shift] += (1 - up - down) * probabilities
        result[: len(probabilities)] += down * probabilities
        probabilities = result
    return probabilities
