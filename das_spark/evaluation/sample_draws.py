"""Simple random samples as counts by cell, drawn without drawing a single person.

A sample of m persons without replacement takes a multivariate hypergeometric number of persons from the cells of a
population. What the cells of one geounit gave has the same law given how many persons the geounit gave. So it can first
be drawn how many persons each geounit gives, and then, geounit by geounit and on any machine, from which cells.

A sample protects nothing and is compared with what is protected: it needs a seed that repeats it, not a secret key.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence  # noqa: TID251 - evaluation repeats its samples by their seed
from numpy.typing import NDArray

from das_spark.errors import InputError

#: Below this many people numpy draws multivariate hypergeometric numbers.
_TOO_MANY_PEOPLE: Final = 10**9
_WORD: Final = 32
_LARGEST_SEED: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Draw:
    """One sample: its share and its seed.

    Samples of different shares or seeds are independent. (In the study of the 1940 runs the generator was reset before
    every sample, so that its four runs were one and the same, and the samples of all shares were nested.)

    Attributes:
        share: f = p/q, in (0, 1]: the share of the persons that is drawn.
        seed: At least 0, below 2^63. The sample is the same wherever it is drawn with the same version of numpy.

    Raises:
        InputError: Share or seed is out of range.
    """

    share: Fraction
    seed: int

    def __post_init__(self) -> None:
        """Check ranges."""
        if not 0 < self.share <= 1 or self.share.denominator >> _WORD:
            raise InputError(
                f"share {self.share} of a sample: expected a fraction above 0, not above 1 and with at most 9 digits "
                "below the line",
                hint="such as 1/20; a share that was once a floating-point number is none",
            )
        if not 0 <= self.seed <= _LARGEST_SEED:
            raise InputError(f"seed {self.seed} of a sample: expected a whole number from 0 to {_LARGEST_SEED}")

    def persons(self, population: int) -> int:
        """How many persons are drawn: f N, rounded half to even.

        Args:
            population: N.
        """
        return round(self.share * population)

    def taken(self, people: NDArray[np.int64], persons: int, geocode: str = "") -> NDArray[np.int64]:
        """How many of some persons each cell, or each geounit, gives.

        Args:
            people: (n,) people of each.
            persons: How many persons are drawn from all of them together, at most their people.
            geocode: Digits of the geounit that the cells make up; none for the whole population.

        Returns:
            Shape (n,).

        Raises:
            InputError: There are a thousand million people or more.
        """
        if people.sum() >= _TOO_MANY_PEOPLE:
            raise InputError(f"samples can be drawn from fewer than {_TOO_MANY_PEOPLE:,} people only")
        drawn: NDArray[np.int64] = self._generator(geocode).multivariate_hypergeometric(
            people, persons, method="marginals"
        )
        return drawn

    def _generator(self, geocode: str) -> Generator:
        # Numbers of a fixed number of words, and the length before what varies: no two draws have the same words.
        words = [*_words(self.seed, 2), self.share.numerator, self.share.denominator, len(geocode)]
        digits = int(geocode or "0")
        words += _words(digits, 1 + digits.bit_length() // _WORD)
        return Generator(PCG64(SeedSequence(words)))


def _words(number: int, count: int) -> list[int]:
    return [number >> (_WORD * place) & ((1 << _WORD) - 1) for place in range(count)]
