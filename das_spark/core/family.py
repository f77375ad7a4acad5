"""A family, a parent geounit and its children, as arrays: confidential, measured, estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from das_spark.estimation import FamilyProblem, FamilyResult
    from das_spark.histogram import Histogram

#: Share of geounits that are not measured: single children, whose part of the budget their parent has.
UNMEASURED = "0/1"

#: What an estimator knows of one geounit besides its estimate, by name: flat arrays of numbers, all public.
GeounitArrays = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class ConfidentialFamily:
    """The children of a family with their confidential histograms.

    Attributes:
        geocodes: Of the K children, sorted; the addresses of their noise.
        cells: Occupied cells of all children, one child after the other, shape ``(n,)``.
        counts: Records in each of them, shape ``(n,)``.
        offsets: Child k has the cells ``offsets[k]`` up to ``offsets[k + 1]``, shape ``(K + 1,)``.
        shares: Exact share of the budget that each child has, as text; "" where all have that of their geolevel.
    """

    geocodes: tuple[str, ...]
    cells: NDArray[np.int32]
    counts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    shares: tuple[str, ...]

    @classmethod
    def of(cls, histograms: Mapping[str, Histogram], share: str = "") -> ConfidentialFamily:
        """Children that have one share of the budget.

        Args:
            histograms: Geocode -> histogram.
            share: As in `shares`.
        """
        codes = tuple(sorted(histograms))
        lengths = [len(histograms[code].cells) for code in codes]
        return cls(
            codes,
            np.concatenate([histograms[code].cells for code in codes]),
            np.concatenate([histograms[code].counts for code in codes]),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            (share,) * len(codes),
        )


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredBounds:
    """Bounds of one name on the children of a family, which follow from declared invariants.

    Attributes:
        geocodes: The child that each row is about, sorted, n.
        members: The child itself; in a `flow` row the descendant whose total is invariant, in a `group_total` row, and
            in the `total` rows beside one, the group of children that have the total together.
        lower: Least number of records in each answer of the bound's query, shape ``(n, r)``; a `flow` row has the
            descendant's total behind them.
        upper: Most, likewise.
    """

    geocodes: tuple[str, ...]
    members: tuple[str, ...]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyAnswers:
    """Noisy answers of a family's children to one query.

    Attributes:
        geocodes: Of the K children.
        query: Name of the query in the budget.
        rows: Answers that were kept, sorted, shape ``(r,)``; None where all were.
        values: Shape ``(K, r)``.
        variance: Of the noise of each child's answers, shape ``(K,)``.
    """

    geocodes: tuple[str, ...]
    query: str
    rows: NDArray[np.int64] | None
    values: NDArray[np.int64]
    variance: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredFamily:
    """All that is public of a family before its children are estimated.

    Attributes:
        problem: Noisy answers and what must hold; with the parent's estimate, where there is one already.
        upward: What the upward pass knows of each child: from its descendants while the pass goes up through the
            family, the child's own result afterwards; empty where there is no upward pass.
        parent: What was given with the parent's estimate.
    """

    problem: FamilyProblem
    upward: Sequence[GeounitArrays] = ()
    parent: GeounitArrays | None = None


@dataclass(frozen=True, slots=True, eq=False)
class UpwardResult:
    """What the upward pass makes of a family.

    Attributes:
        children: The result of each child, which the downward pass is given.
        parent: What the children say of their parent together, which the family above is given.
    """

    children: Sequence[GeounitArrays]
    parent: GeounitArrays


@dataclass(frozen=True, slots=True, eq=False)
class FamilyEstimate:
    """Estimates of the children of a family.

    Attributes:
        result: Whole numbers and diagnostics.
        arrays: What goes with the estimate of each child to the tables of the run and to the family below, such as
            standard errors: the names that the estimator declares; empty where it declares none.
    """

    result: FamilyResult
    arrays: Sequence[GeounitArrays] = ()
