"""Noisy answers of one family: the only place where confidential counts meet noise.

Every query is answered on a child's complete confidential histogram; then the answers that the parent's estimate cannot
touch are left out, so their noise need never be evaluated. Restricting the histogram first would bias the aggregates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das_spark.core.family import UNMEASURED, ConfidentialFamily, NoisyAnswers
from das_spark.errors import PrivacyGuardError
from das_spark.privacy import CumulativeTable, GeounitAddresses, KeyedStream, sample

if TYPE_CHECKING:
    from das_spark.histogram import Query


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """How the families of one level are measured: the streams hold keys of this level and attempt only.

    Attributes:
        queries: The queries measured at this level.
        mechanisms: For each share of the budget that geounits have (as text; empty where all have the geolevel's), and
            each query, the noise table and its variance (people^2).
        streams: For each query its keyed stream of random bits.
        lazy: Whether answers that the parent's support cannot touch, and single children, are left out.
        blind: Whether every answer is taken for 0, so that the noisy answers are the same whatever the histograms hold;
            for the audit of structure.

    Raises:
        PrivacyGuardError: It is blind under a real key: what is measured then is no release of anything.
    """

    queries: Mapping[str, Query]
    mechanisms: Mapping[str, Mapping[str, tuple[CumulativeTable, float]]]
    streams: Mapping[str, KeyedStream]
    lazy: bool
    blind: bool = False

    def __post_init__(self) -> None:
        """Refuse what could be mistaken for a release."""
        if self.blind and not all(stream.is_insecure for stream in self.streams.values()):
            raise PrivacyGuardError("noise without what it shall hide is measured under a test key only")


def measure_family(
    children: ConfidentialFamily, support: NDArray[np.int32] | None, plan: MeasurementPlan
) -> tuple[NoisyAnswers, ...]:
    """Measure every child of one family.

    Args:
        children: Their confidential histograms.
        support: Cells that the estimate of the parent occupies; None where there is no parent, or no estimate of it.
        plan: What to measure, with which noise.

    Returns:
        One a query, in the order of their names; none where nothing will be read.
    """
    lazy = plan.lazy and support is not None
    if (lazy and len(children.geocodes) == 1) or set(children.shares) == {UNMEASURED}:
        return ()
    addresses = GeounitAddresses.of(children.geocodes)
    shares = np.array(children.shares)
    positions = {str(share): np.flatnonzero(shares == share) for share in np.unique(shares)}
    found = []
    for name in sorted(plan.queries):
        query = plan.queries[name]
        rows = query.restrict(support).rows if lazy and support is not None else np.arange(query.rows)
        values = np.zeros((len(children.geocodes), len(rows)), dtype=np.int64)
        variance = np.zeros(len(children.geocodes))
        if not plan.blind:
            values += _answers(children, query, rows)
        for share, mine in positions.items():
            table, variance[mine] = plan.mechanisms[share][name]
            values[mine] += sample(table, plan.streams[name], addresses.part(mine), rows)
        found.append(NoisyAnswers(children.geocodes, name, rows if lazy else None, values, variance))
    return tuple(found)


def _answers(children: ConfidentialFamily, query: Query, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exact answers of a query on complete histograms, at some of its rows (sorted), shape (children, r)."""
    wanted = np.zeros((len(children.geocodes), len(rows)), dtype=np.int64)
    if not len(rows):
        return wanted
    child = np.repeat(np.arange(len(children.geocodes)), np.diff(children.offsets))
    answer = query.row_of(children.cells)
    position = np.minimum(np.searchsorted(rows, answer), len(rows) - 1)
    present = rows[position] == answer
    np.add.at(wanted, (child[present], position[present]), children.counts[present])
    return wanted
