"""Noisy answers of families: the only place where confidential counts meet noise.

Every query is answered on a child's complete confidential histogram; then the answers that the parent's estimate cannot
touch are left out, so their noise need never be evaluated. Restricting the histogram first would bias the aggregates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das_spark.core.family import UNMEASURED, ConfidentialFamily, NoisyAnswers
from das_spark.errors import PrivacyGuardError
from das_spark.privacy import CumulativeTable, GeounitAddresses, KeyedStream, sample, sample_groups

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


def measure_families(
    families: Sequence[ConfidentialFamily], supports: Sequence[NDArray[np.int32] | None], plan: MeasurementPlan
) -> list[tuple[NoisyAnswers, ...]]:
    """Measure every child of several families, those whose answers are left out by their parents' support at once.

    Args:
        families: Their confidential histograms.
        supports: Cells that the estimate of each parent occupies; None where there is no parent, or no estimate of it.
        plan: What to measure, with which noise.

    Returns:
        For each family what `measure_family` gives.
    """
    found: list[tuple[NoisyAnswers, ...]] = [()] * len(families)
    lazy = []
    for place, (children, support) in enumerate(zip(families, supports, strict=True)):
        if _is_left_out(children, support, plan):
            continue
        if plan.lazy and support is not None:
            lazy.append((place, children, support))
        else:
            found[place] = _whole(children, plan)
    if lazy:
        places, several, restrictions = zip(*lazy, strict=True)
        for place, answers in zip(places, _restricted(several, restrictions, plan), strict=True):
            found[place] = answers
    return found


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
    return measure_families([children], [support], plan)[0]


def _is_left_out(children: ConfidentialFamily, support: NDArray[np.int32] | None, plan: MeasurementPlan) -> bool:
    """Whether nothing of a family will be read: single children have what their parent has."""
    only = plan.lazy and support is not None and len(children.geocodes) == 1
    return only or set(children.shares) == {UNMEASURED}


def _whole(children: ConfidentialFamily, plan: MeasurementPlan) -> tuple[NoisyAnswers, ...]:
    """Measure all answers of a family."""
    addresses = GeounitAddresses.of(children.geocodes)
    count, child = len(children.geocodes), np.repeat(np.arange(len(children.geocodes)), np.diff(children.offsets))
    found = []
    for name in sorted(plan.queries):
        query = plan.queries[name]
        values, variance = np.zeros((count, query.rows), dtype=np.int64), np.zeros(count)
        if not plan.blind:
            answer = query.row_of(children.cells)
            counted = answer >= 0
            np.add.at(values, (child[counted], answer[counted]), children.counts[counted])
        for share, mine in _by_share(children.shares):
            table, variance[mine] = plan.mechanisms[share][name]
            values[mine] += sample(table, plan.streams[name], addresses.part(mine), np.arange(query.rows))
        found.append(NoisyAnswers(children.geocodes, name, None, values, variance))
    return tuple(found)


def _by_share(shares: Sequence[str]) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Every share that geounits have, and their positions."""
    texts = np.array(shares)
    for share in np.unique(texts):
        yield str(share), np.flatnonzero(texts == share)


def _restricted(
    families: Sequence[ConfidentialFamily], supports: Sequence[NDArray[np.int32]], plan: MeasurementPlan
) -> list[tuple[NoisyAnswers, ...]]:
    """Measure of each family the answers that its parent's support touches: all families in one array a query."""
    sizes = np.array([len(family.geocodes) for family in families])
    geocodes = [code for family in families for code in family.geocodes]
    addresses = GeounitAddresses.of(geocodes)
    shares = list(_by_share([share for family in families for share in family.shares]))
    family_of_child = np.repeat(np.arange(len(families)), sizes)
    child = np.repeat(np.arange(len(geocodes)), np.concatenate([np.diff(family.offsets) for family in families]))
    cells, counts = (np.concatenate(each) for each in zip(*((one.cells, one.counts) for one in families), strict=True))
    supported = np.concatenate(supports)
    family_of_supported = np.repeat(np.arange(len(families)), [len(support) for support in supports])
    found: list[list[NoisyAnswers]] = [[] for _ in families]
    for name in sorted(plan.queries):
        query = plan.queries[name]
        # The answers of each family, one family after the other; and where those of each child begin.
        row = query.row_of(supported)
        keys = np.unique(family_of_supported[row >= 0] * query.rows + row[row >= 0])
        owner, rows = np.divmod(keys, query.rows)
        widths = np.bincount(owner, minlength=len(families))
        first = np.cumsum(widths) - widths
        width = widths[family_of_child]
        begin = np.cumsum(width) - width
        values = np.zeros(int(width.sum()), dtype=np.int64)
        if not plan.blind and len(keys):
            row = query.row_of(cells)
            wanted = family_of_child[child] * query.rows + row
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            there = np.flatnonzero((row >= 0) & (keys[place] == wanted))
            at = begin[child[there]] + place[there] - first[family_of_child[child[there]]]
            np.add.at(values, at, counts[there])
        variance = np.zeros(len(geocodes))
        for share, mine in shares:
            table, variance[mine] = plan.mechanisms[share][name]
            groups = np.bincount(family_of_child[mine], minlength=len(families))
            noise = sample_groups(table, plan.streams[name], addresses.part(mine), groups, rows, widths)
            if len(mine) == len(geocodes):
                values += noise
            else:
                chosen = np.zeros(len(geocodes), dtype=np.bool_)
                chosen[mine] = True
                values[np.repeat(chosen, width)] += noise
        ends = np.cumsum(sizes)
        for number, family in enumerate(families):
            own = slice(int(ends[number] - sizes[number]), int(ends[number]))
            start = int(begin[own.start])
            part = values[start : start + int(sizes[number] * widths[number])]
            kept = rows[first[number] : first[number] + widths[number]]
            shaped = part.reshape(int(sizes[number]), int(widths[number]))
            found[number].append(NoisyAnswers(family.geocodes, name, kept, shaped, variance[own]))
    return [tuple(each) for each in found]
