"""Exact integer noise by address: the same answer always gets the same value, however it is asked for.

A value is the quantile of its law at the uniform number whose binary digits are the leading bits of word 0, word 1,
... of the answer's stream. Word 0 decides almost always; where it does not, further words do (see `tables`), without
end if need be, so that the law is exact in the tails as well.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import PrivacyGuardError
from das_spark.privacy.keyed import GeounitAddresses, KeyedStream
from das_spark.privacy.tables import WORD_BITS, CumulativeTable
from das_spark.privacy.tails import decide

_CHUNK: Final = 1 << 14  # Answers at a time: words, guide and values stay in the second-level cache.


def sample(
    table: CumulativeTable, stream: KeyedStream, geounits: GeounitAddresses, answers: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Noise of some answers of every geounit.

    Args:
        table: Table of the law.
        stream: Random words of the domain (product, table, geolevel, attempt, query).
        geounits: Addresses of the geounits, n; none stands twice in them.
        answers: Indices of the answers, whole numbers from 0, shape (r,), none twice.

    Returns:
        int64 of shape (n, r), in people.

    Raises:
        PrivacyGuardError: If an answer stands twice, or does not fit its field.
    """
    answers = np.asarray(answers)
    if len(np.unique(answers)) != len(answers):
        raise PrivacyGuardError("an answer of a geounit stands twice in one call for noise")
    result = np.empty((len(geounits), len(answers)), dtype=np.int64)
    step = max(1, _CHUNK // max(1, len(answers)))
    for start in range(0, len(geounits), step):
        part = geounits.part(slice(start, start + step))
        values, undecided = table.look_up(stream.words(part, answers).reshape(-1))
        block = result[start : start + step].reshape(-1)
        block[:] = values
        for place in undecided:
            unit, answer = divmod(int(place), len(answers))
            block[place] = _refine(table, stream, part.part(slice(unit, unit + 1)), answers[answer : answer + 1])
    return result


def _refine(table: CumulativeTable, stream: KeyedStream, geounit: GeounitAddresses, answer: NDArray[np.integer]) -> int:
    """The value of one answer, from as many words as it takes."""
    number = words = 0
    while True:
        word = int(stream.words(geounit, answer, words)[0, 0])
        number = number << table.bits | word >> (WORD_BITS - table.bits)
        words += 1
        value = decide(table.mechanism, number, words * table.bits)
        if value is not None:
            return value
