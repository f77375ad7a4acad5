"""Columns of digit codes: checked and taken apart for whole arrays at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das_spark.errors import GeographyError

_ZERO: Final = ord("0")
_NINE: Final = ord("9")


def text_column(values: ArrayLike, width: int, column: str) -> NDArray[np.str_]:
    """Check that every value of a column is text of one width.

    Args:
        values: Array (n,) of text.
        width: Characters that each value has.
        column: Name of the column, for the message.

    Returns:
        Array (n,) of fixed-width text.

    Raises:
        GeographyError: The values are no text, or one has another width; it is named.
    """
    given: NDArray[Any] = np.asarray(values)
    if given.size == 0:
        return np.empty(0, dtype=f"U{width}")
    if given.dtype.kind not in "UO" or not all(isinstance(value, str) for value in given[:1].tolist()):
        raise GeographyError(f"column {column!r} holds no text", hint="codes are text: keep their leading zeros")
    texts = given.astype(np.str_)
    wrong = np.flatnonzero(np.strings.str_len(texts) != width)
    if wrong.size:
        raise GeographyError(
            f"column {column!r} holds {str(texts[wrong[0]])!r}, expected {width} characters",
            hint="codes are text: keep their leading zeros",
        )
    return texts.astype(f"U{width}")


def digit_column(values: ArrayLike, width: int, column: str) -> NDArray[np.str_]:
    """Check that every value of a column consists of exactly `width` digits.

    Args:
        values: Array (n,) of text.
        width: Digits that each value has.
        column: Name of the column, for the message.

    Returns:
        Array (n,) of fixed-width text.

    Raises:
        GeographyError: A value is no text of so many digits 0-9; it is named.
    """
    texts = text_column(values, width, column)
    points = characters(texts)
    wrong = np.flatnonzero(((points < _ZERO) | (points > _NINE)).any(axis=1))
    if wrong.size:
        raise GeographyError(f"column {column!r} holds {str(texts[wrong[0]])!r}, expected {width} digits 0-9")
    return texts


def characters(texts: NDArray[np.str_]) -> NDArray[np.uint32]:
    """Code points of fixed-width text: array (n, width).

    Args:
        texts: (n,) fixed-width text.
    """
    width = texts.dtype.itemsize // 4
    return np.ascontiguousarray(texts).view(np.uint32).reshape(texts.size, width)


def from_characters(points: NDArray[np.uint32]) -> NDArray[np.str_]:
    """Fixed-width text (n,) of code points (n, width): the inverse of `characters`.

    Args:
        points: (n, width) code points.
    """
    count, width = points.shape
    return np.ascontiguousarray(points).view(f"U{width}").reshape(count)


def slice_column(texts: NDArray[np.str_], start: int, stop: int) -> NDArray[np.str_]:
    """The characters from `start` up to `stop` of every value of fixed-width text: array (n,).

    Args:
        texts: (n,) fixed-width text.
        start: First character, from 0.
        stop: The character behind the last one.
    """
    return from_characters(characters(texts)[:, start:stop])


def whole_numbers(texts: NDArray[np.str_]) -> NDArray[np.int64]:
    """Decimal values (n,) of a checked column of at most 18 digits.

    Args:
        texts: (n,) text of digits, as `digit_column` gives it.
    """
    return texts.astype(np.int64)


def zero_padded(numbers: NDArray[np.int64], width: int) -> NDArray[np.str_]:
    """Numbers (n,) as text, filled with zeros on the left up to a width.

    Args:
        numbers: (n,) not negative, and of at most `width` digits: what is longer is cut.
        width: Digits of every text.

    Returns:
        Array (n,).
    """
    return np.strings.zfill(numbers.astype(f"U{max(width, 20)}"), width).astype(f"U{width}")


def joined(*parts: NDArray[np.str_]) -> NDArray[np.str_]:
    """Columns of fixed-width text, concatenated value by value: array (n,)."""
    return from_characters(np.concatenate([characters(part) for part in parts], axis=1))
