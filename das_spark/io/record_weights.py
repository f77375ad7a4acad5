"""Two sums that stand for all records of a geounit: combinations of codes have weights under a key that is drawn once.

The combinations of a nation are hundreds of millions of groups, which nobody need bring together to see that files and
estimates hold the same: sums of weights times counts are the same for different records with a probability of 2**-62.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das_spark.products import CODE_SEPARATOR, TOLD

if TYPE_CHECKING:
    from das_spark.products import MicrodataCodes

_BITS: Final = 31
_NEW, _POSSIBLE, _IMPOSSIBLE = range(3)
#: Codes and class that no record has: what is told apart of all records of a geounit.
_APART: Final = ("", 0)


@dataclass(frozen=True, slots=True, eq=False)
class _KnownCells:
    """What is known of cells, from `TOLD` on: weights, and whether there may be such a cell."""

    weights: NDArray[np.int64]
    state: NDArray[np.int8]

    @classmethod
    def none(cls, cells: int) -> _KnownCells:
        return cls(np.zeros((cells, 2), dtype=np.int64), np.full(cells, _NEW, dtype=np.int8))


@dataclass(frozen=True, eq=False)
class RecordWeights:
    """The weights of combinations of codes.

    Attributes:
        codes: What the columns of the files hold.
        by_kind: Whether records of units of different classes are told apart, too.
        key: What the weights follow from.
    """

    codes: MicrodataCodes
    by_kind: bool
    key: bytes

    @cached_property
    def _known(self) -> _KnownCells:
        return _KnownCells.none(self.codes.schema.size + self._kinds - TOLD)

    @classmethod
    def drawn(cls, codes: MicrodataCodes, *, by_kind: bool) -> RecordWeights:
        """Draw a key."""
        return cls(codes, by_kind, secrets.token_bytes(32))

    def found(self, geocodes: pa.Array, texts: pa.Array, kinds: pa.Array, counts: pa.Array) -> pa.RecordBatch:
        """Sum up records that were counted by their codes, neighbours of one geounit together.

        Args:
            geocodes: Of each count.
            texts: The codes, joined.
            kinds: The class of their unit; null where no units are known.
            counts: How many records.

        Returns:
            Columns geocode, count, one and other.
        """
        encoded, places = texts.dictionary_encode(), geocodes.dictionary_encode()
        kind = kinds.fill_null(0).to_numpy().astype(np.int64)
        lowest = int(kind.min(initial=0))
        span = int(kind.max(initial=0)) - lowest + 1
        pair = encoded.indices.to_numpy().astype(np.int64) * span + (kind - lowest)
        known, place = np.unique(pair, return_inverse=True)
        names = encoded.dictionary.to_pylist()
        pairs = [divmod(each, span) for each in known.tolist()]
        weights = self._weights([self._parts(names[name], lowest + rest) for name, rest in pairs])
        count = counts.to_numpy()
        starts = np.flatnonzero(np.diff(places.indices.to_numpy(), prepend=-1))
        # A part has fewer records than there are bits left.
        sums = np.add.reduceat(count[:, None] * weights[place], starts) if len(starts) else weights[:0]
        columns = [geocodes.take(pa.array(starts)), np.add.reduceat(count, starts) if len(starts) else count, *sums.T]
        return pa.RecordBatch.from_arrays(
            [pa.array(column) for column in columns], ["geocode", "count", "one", "other"]
        )

    def of_cells(
        self, cells: NDArray[np.int64], *, beside: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the weights of cells, shape ``(cells, 2)``, and which of them there may be: others have none.

        Args:
            cells: Their numbers.
            beside: Whether these are no cells of estimates, but what there is besides: kinds of what is listed,
                numbered behind the cells, and `TOLD`.
        """
        size = self.codes.schema.size
        there = (cells >= (TOLD if beside else 0)) & (cells < size + (self._kinds if beside else 0))
        place = np.where(there, cells, TOLD) - TOLD
        new = np.unique(place[self._known.state[place] == _NEW])
        if len(new):
            self._learn(new + TOLD)
        return np.where(there[:, None], self._known.weights[place], 0), there & (self._known.state[place] == _POSSIBLE)

    def _learn(self, cells: NDArray[np.int64]) -> None:
        """Work out the weights of cells that were not met before."""
        kinds = np.where(cells == TOLD, 0, self.codes.classes_of(np.maximum(cells, 0)))
        possible = cells[kinds >= 0]
        texts = self.codes.codes_of(np.maximum(possible, 0))
        named = zip(possible.tolist(), texts, kinds[kinds >= 0].tolist(), strict=True)
        parts = [[_APART if cell == TOLD else (text, kind if self.by_kind else 0)] for cell, text, kind in named]
        self._known.weights[possible - TOLD] = self._weights(parts)
        self._known.state[cells - TOLD] = np.where(kinds >= 0, _POSSIBLE, _IMPOSSIBLE)

    @property
    def _kinds(self) -> int:
        """How many kinds of units there may be behind the cells."""
        return max((len(each.texts) for each in self.codes.coded if not each.attributes), default=1) - 1

    def _parts(self, text: str, kind: int) -> list[tuple[str, int]]:
        """What records with some codes are counted as: those that are told apart as the others of their cell, too."""
        kind = kind if self.by_kind else 0
        own = text.split(CODE_SEPARATOR)
        for place, column in enumerate(self.codes.coded):
            if column.divided and place < len(own) and own[place] == column.divided:
                usual = [*own[:place], column.texts[-2], *own[place + 1 :]]
                return [(CODE_SEPARATOR.join(usual), kind), _APART]
        return [(text, kind)]

    def _weights(self, combinations: Sequence[Sequence[tuple[str, int]]]) -> NDArray[np.int64]:
        """The weights of combinations, each a sum of some: shape ``(combinations, 2)``."""
        sums = np.zeros((len(combinations), 2), dtype=np.int64)
        for place, parts in enumerate(combinations):
            for text, kind in parts:
                digest = blake2b(f"{kind} {text}".encode(), key=self.key, digest_size=8).digest()
                sums[place] += np.frombuffer(digest, dtype="<u4") >> (32 - _BITS)
        return sums
