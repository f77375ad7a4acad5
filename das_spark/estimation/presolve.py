"""Shrink a family before a solver sees it: fix what is forced, fold what touches one cell, merge what is equal.

Everything is vectorised over children and cells; a free cell of a child is one *variable*, a row of a partition that
counts two or more variables of a child is one *margin* (README, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das_spark.estimation.folding import Folding
from das_spark.estimation.margins import Booleans, Margins, merged_margins
from das_spark.estimation.support import Floats, Integers, Support


@dataclass(frozen=True, slots=True, eq=False)
class Presolved:
    """A family with N variables.

    Attributes:
        support: Where it comes from.
        child: Child of each variable, sorted, shape ``(N,)``.
        cell: Cell of each, as position in the support, shape ``(N,)``.
        fixed: People known beforehand, shape ``(K, n)``; 0 in free cells.
        weight: Folded inverse variances of each variable, shape ``(N,)``.
        target: Folded noisy answers, shape ``(N,)``; 0 where the weight is 0.
        lower: Lower bound of each variable, not negative.
        upper: Upper bound of each, ``inf`` where there is none.
        lower_from: Partition that each lower bound comes from, -1 where it is just zero.
        upper_from: Partition that each upper bound comes from, -1 where there is none.
        needed: People still to divide in each cell, shape ``(n,)``; None at the root.
        margins: What is asked or demanded of sums.
        contradiction: Why the family is infeasible, where presolve sees it.
    """

    support: Support
    child: Integers
    cell: Integers
    fixed: Integers
    weight: Floats
    target: Floats
    lower: Floats
    upper: Floats
    lower_from: Integers
    upper_from: Integers
    needed: Integers | None
    margins: Margins
    contradiction: str = ""

    @property
    def variables(self) -> int:
        """Number of free cells."""
        return len(self.child)


def presolve(support: Support) -> Presolved:
    """Shrink a family.

    Args:
        support: The family on its support.

    Returns:
        What is left to solve; `contradiction` is not empty when nothing can satisfy the constraints.
    """
    live = support.most > 0
    fixed = np.zeros(live.shape, dtype=np.int64)
    contradiction = support.contradiction
    needed = None
    if support.parent is not None:
        needed = support.parent.copy()
        if support.relaxation is None:
            contradiction = contradiction or _fix_single(support, live, fixed)
            needed -= fixed.sum(axis=0)
    child, cell = np.nonzero(live)
    folding = Folding.start(support, child, cell, fixed, needed)
    rows = [folding.fold(partition) for partition in support.partitions]
    margins, trouble = merged_margins(folding, rows)
    contradiction = contradiction or folding.trouble or trouble or _crowded_cell(support, folding, needed)
    measured = folding.weight > 0
    return Presolved(
        support=support,
        child=child,
        cell=cell,
        fixed=fixed,
        weight=folding.weight,
        target=np.divide(folding.weighted, folding.weight, out=np.zeros(len(child)), where=measured),
        lower=folding.lower,
        upper=folding.upper,
        lower_from=folding.lower_from,
        upper_from=folding.upper_from,
        needed=needed,
        margins=margins,
        contradiction=contradiction,
    )


def _fix_single(support: Support, live: Booleans, fixed: Integers) -> str:
    """Give a cell to the only child that can hold it; changes `live` and `fixed`."""
    if support.parent is None:
        return ""
    holders = live.sum(axis=0)
    (alone,) = np.nonzero(holders == 1)
    child = live[:, alone].argmax(axis=0)
    fixed[child, alone] = support.parent[alone]
    live[child, alone] = False
    if (holders == 0).any():
        return f"no child can hold cell {int(support.cells[np.argmin(holders)])} of the parent"
    over = fixed[child, alone] > support.most[child, alone]
    if over.any():
        place = int(np.argmax(over))
        name = support.problem.children[child[place]]
        return f"{name}: only it can hold cell {int(support.cells[alone[place]])}, and its bounds are too small"
    return ""


def _crowded_cell(support: Support, folding: Folding, needed: Integers | None) -> str:
    """Say which cell cannot be divided because of bounds on it alone, if there is one."""
    if needed is None or support.relaxation is not None:
        return ""
    least = np.bincount(folding.cell, weights=folding.lower, minlength=len(needed))
    most = np.bincount(folding.cell, weights=np.minimum(folding.upper, folding.room), minlength=len(needed))
    wrong = (least > needed) | (most < needed)
    if not wrong.any():
        return ""
    return f"the children's bounds do not fit the parent's people in cell {int(support.cells[np.argmax(wrong)])}"
