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
from das_spark.privacy.keyed import KeyedStream
from das_spark.privacy.tables import WORD_BITS, CumulativeTable
from das_spark.privacy.tails import decide

_CHUNK: Final = 1 << 14  # Answers at a time: words, guide and values stay in the second-level cache.


def sample(table: CumulativeTable, stream: KeyedStream, geounit: int, answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Noise of some answers of one geounit.

    Args:
        table: Table of the law.
        stream: Random words of the domain (product, table, geolevel, attempt, query).
        geounit: Number of the geounit, in [0, 2^64).
        answers: Indices of the answers, integers in [0, 2^32), shape (n,), none twice.

    Returns:
        int64 of shape (n,), in people.

    Raises:
        PrivacyGuardError: If an answer stands twice or an address does not fit.
    """
    if not 0 <= geounit < 1 << 64:
        raise PrivacyGuardError("the number of a geounit does not fit into 64 bits")
    return sample_many(table, stream, np.full(len(answers), geounit, dtype=np.uint64), answers)


def sample_many(
    table: CumulativeTable, stream: KeyedStream, geounits: NDArray[np.uint64], answers: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Noise of answers of many geounits, element by element.

    Args:
        table: Table of the law.
        stream: Random words of the domain.
        geounits: Numbers of the geounits, shape (n,).
        answers: Indices of the answers, shape (n,); no pair (geounit, answer) twice. Ascending pairs are checked
            fastest.

    Returns:
        int64 of shape (n,), in people.

    Raises:
        PrivacyGuardError: If a pair stands twice, shapes differ or an address does not fit.
    """
    geounits, answers = np.asarray(geounits), np.asarray(answers)
    if geounits.shape != answers.shape:
        raise PrivacyGuardError(f"{geounits.size} geounits for {answers.size} answers")
    _require_unique(geounits, answers)
    result = np.empty(len(answers), dtype=np.int64)
    for start in range(0, len(answers), _CHUNK):
        part = slice(start, start + _CHUNK)
        words = stream.words(geounits[part], answers[part], 0)
        values, undecided = table.look_up(words)
        result[part] = values
        for place in undecided + start:
            result[place] = _refine(table, stream, geounits[place : place + 1], answers[place : place + 1])
    return result


def sample_grid(
    table: CumulativeTable, stream: KeyedStream, geounits: NDArray[np.uint64], rows: int
) -> NDArray[np.int64]:
    """Noise of all answers 0, ..., rows - 1 of many geounits: the same values as `sample`, at half the cost.

    Args:
        table: Table of the law.
        stream: Random words of the domain.
        geounits: Numbers of the geounits, shape (n,), none twice.
        rows: Number of answers of the query.

    Returns:
        int64 of shape (n, rows), in people.

    Raises:
        PrivacyGuardError: If a geounit stands twice or an address does not fit.
    """
    geounits = np.asarray(geounits)
    if len(np.unique(geounits)) != len(geounits):
        raise PrivacyGuardError("a geounit stands twice in one call for noise")
    result = np.empty((len(geounits), rows), dtype=np.int64)
    step = max(1, _CHUNK // max(1, rows))
    for start in range(0, len(geounits), step):
        part = geounits[start : start + step]
        values, undecided = table.look_up(stream.word_grid(part, rows).reshape(-1))
        block = result[start : start + step].reshape(-1)
        block[:] = values
        for place in undecided:
            unit, answer = divmod(int(place), rows)
            block[place] = _refine(table, stream, part[unit : unit + 1], np.array([answer], dtype=np.int64))
    return result


def _refine(table: CumulativeTable, stream: KeyedStream, geounit: NDArray[np.uint64], answer: NDArray[np.int64]) -> int:
    """The value of one answer, from as many words as it takes."""
    number = words = 0
    while True:
        word = int(stream.words(geounit, answer, words)[0])
        number = number << table.bits | word >> (WORD_BITS - table.bits)
        words += 1
        value = decide(table.mechanism, number, words * table.bits)
        if value is not None:
            return value


def _require_unique(geounits: NDArray[np.uint64], answers: NDArray[np.int64]) -> None:
    """Refuse a pair that stands twice: its noise would be shared by two answers."""
    if len(answers) < 2:  # noqa: PLR2004 - fewer than two cannot repeat.
        return
    same = geounits[1:] == geounits[:-1]
    ascending = np.where(same, answers[1:] > answers[:-1], geounits[1:] > geounits[:-1])
    if ascending.all():
        return
    order = np.lexsort((answers, geounits))
    units, indices = geounits[order], answers[order]
    if ((units[1:] == units[:-1]) & (indices[1:] == indices[:-1])).any():
        raise PrivacyGuardError("an answer of a geounit stands twice in one call for noise")
