"""What is counted of one geounit whose records were reconstructed: small numbers, from which rates are estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.attack.agreement import GROUPS, Nearness, agreement, groups_of
from das_spark.attack.guess import GUESSES, guesses
from das_spark.attack.reconstruction import Likely, Outcome, PublishedColumns, Reconstruction, reconstruct
from das_spark.tabulation import tabulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.histogram import Histogram

#: Whose tables the records are reconstructed from: those of the run; the same of exact counts; and of exact counts
#: after records were exchanged.
PROTECTED, EXACT, SWAPPED = SOURCES = ("protected", "exact", "swapped")
#: Guesses have as many records as the tables of a source say; exact and swapped ones say the same.
TOTALS_OF: Final = {PROTECTED: PROTECTED, EXACT: EXACT, SWAPPED: EXACT}
#: What agrees with the truth, in order: records from each source, then each guess with the totals of a source.
METHODS: Final = (*SOURCES, *(f"{guess}, {totals}" for totals in (PROTECTED, EXACT) for guess in GUESSES))
#: How records agree, in order.
MEASURES: Final = ("exact", "within")

_OUTCOMES: Final = tuple(Outcome)


def guess_names(totals: str) -> tuple[str, ...]:
    """The methods that guess as many records as the tables of a source say."""
    return tuple(f"{guess}, {totals}" for guess in GUESSES)


@dataclass(frozen=True, slots=True, eq=False)
class ReconstructionTally:
    """What is counted of a geounit.

    Attributes:
        records: True records of each group, (groups,), of which the first are all.
        agreed: Of them those that agree, (methods, groups, measures).
        made: Records of each method, (methods,).
        outcomes: Place among the outcomes of each source, (sources,).
        distances: Largest distance of another solution of each source, or one that is reached, (sources,).
        decided: 1 where that distance is known to be the largest, (sources,).
        variables: Variables of the program of each source, (sources,).
    """

    records: NDArray[np.int64]
    agreed: NDArray[np.int64]
    made: NDArray[np.int64]
    outcomes: NDArray[np.int64]
    distances: NDArray[np.int64]
    decided: NDArray[np.int64]
    variables: NDArray[np.int64]

    def flat(self) -> NDArray[np.int64]:
        """All numbers, one behind the other."""
        return np.concatenate([getattr(self, name).ravel() for name in _SHAPES])

    @classmethod
    def of_flat(cls, numbers: Sequence[int]) -> ReconstructionTally:
        """The inverse of `flat`."""
        ends = np.cumsum([np.prod(shape) for shape in _SHAPES.values()])
        parts = np.split(np.asarray(numbers, dtype=np.int64), ends[:-1])
        return cls(*(part.reshape(shape) for part, shape in zip(parts, _SHAPES.values(), strict=True)))

    def ended(self, source: str) -> Outcome:
        """How the reconstruction from the tables of a source ended."""
        return _OUTCOMES[int(self.outcomes[SOURCES.index(source)])]


_SHAPES: Final = {
    "records": (len(GROUPS),),
    "agreed": (len(METHODS), len(GROUPS), len(MEASURES)),
    "made": (len(METHODS),),
    "outcomes": (len(SOURCES),),
    "distances": (len(SOURCES),),
    "decided": (len(SOURCES),),
    "variables": (len(SOURCES),),
}


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A geounit that is reconstructed. RESTRICTED.

    Attributes:
        truth: Its true records.
        protected: Its protected records, whose tables are published.
        swapped: Its records after the exchange of the baseline.
        near_truth: True records of the area near by, such as the tract.
        near: Protected records of that area.
    """

    truth: Histogram
    protected: Histogram
    swapped: Histogram
    near_truth: Histogram
    near: Histogram


def tally_geounit(
    target: Target, whole: Histogram, columns: PublishedColumns, nearness: Nearness
) -> ReconstructionTally:
    """Reconstruct a geounit from the tables of each source, guess it, and count what agrees with the truth.

    Args:
        target: The geounit.
        whole: Protected records of the run's top geolevel.
        columns: What is published of the geounit.
        nearness: When records agree within one.
    """
    likely = Likely(target.near, whole)
    sources = {PROTECTED: target.protected, EXACT: target.truth, SWAPPED: target.swapped}
    solved = {name: _reconstructed(source, columns, likely) for name, source in sources.items()}
    guessed = {
        f"{guess}, {totals}": made
        for totals in (PROTECTED, EXACT)
        for guess, made in guesses(target.near, whole, sources[totals].total).items()
    }
    made = {name: each.records for name, each in solved.items()} | guessed
    groups = groups_of(target.truth, target.near_truth)
    return ReconstructionTally(
        groups @ target.truth.counts,
        np.stack([agreement(target.truth, groups, made[method], nearness) for method in METHODS]),
        np.array([made[method].total for method in METHODS]),
        np.array([_OUTCOMES.index(each.outcome) for each in solved.values()]),
        np.array([each.distance for each in solved.values()]),
        np.array([each.exact for each in solved.values()], dtype=np.int64),
        np.array([each.variables for each in solved.values()]),
    )


def _reconstructed(records: Histogram, columns: PublishedColumns, likely: Likely) -> Reconstruction:
    """The records from their own tables, and from nothing else of them."""
    (values,) = tabulate(columns.matrix, records.cells, np.array([0, len(records.cells)]), records.counts)
    return reconstruct(columns, values, likely)
