r"""Whether noisy answers differ from one another as the noise that was declared does.

Counts of children sum to those of their parent. So of a query that a parent :math:`p` and all its children :math:`c`
were asked, each answer that all of them gave has a difference

.. math:: D = \sum_c m_c - m_p, \qquad V = \operatorname{Var} D = \sum_c v_c + v_p,

of noise alone, whatever the counts and the estimates are. Two rules follow. Each fails of sound measurements with a
probability below 1e-9, of at most 1e11 answers at a thousand levels and queries.

*No difference is impossible*: :math:`|D| \le 50 (\sqrt V + 1)`, which sums of two-sided geometric or discrete Gaussian
noise exceed with a probability below 1e-20 (Chernoff's bound; the test of this module computes it).

*Noise is as wide as declared*: the mean of the :math:`n` squares :math:`D^2 / V` of a level and query is at least
:math:`1 - \sqrt{2 K L / n}`, with :math:`L = \ln 10^{12}` and :math:`K = 6 + 1 / V`, above the second moment of such a
square (Maurer 2003, "A bound on the deviation probability for sums of non-negative random variables", theorem 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from das_spark.verification.families import FamilyRule, Found, Key, Tally, names_of, numbered, summed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.verification.families import Families, Rows

POSSIBLE: Final = "differences of noise are possible"
WIDE: Final = "noise is as wide as declared"
#: How many standard deviations, and people, a difference may have.
_MOST: Final = 50.0
#: One error in so many levels and queries.
_RARE: Final = log(1e12)
#: A parent counts as so many children: what all have given is told by one number.
_PARENT: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class NoiseDiffers(FamilyRule):
    """Judge the differences of all levels below the top.

    Attributes:
        levels: Those levels.
    """

    needs: ClassVar = ("measured", "above_geounits", "above_measured")

    levels: Sequence[str]

    @property
    def expected(self) -> tuple[Key, ...]:
        """None: where no family has given the same answers nothing can be said."""
        return ()

    def judged(self, families: Families) -> Iterator[Found]:
        """Add up what differences say, query by query; the name of the query stands for the note."""
        if families.level not in self.levels:
            return
        above, number = families.rows("above_geounits"), len(families.names)
        due = summed(above.family, above.numbers("children", -1), number) + _PARENT
        due[np.bincount(above.family, minlength=number) == 0] = -1  # nothing says how many children there are
        sides = [families.rows(table) for table in ("measured", "above_measured")]
        texts = [rows.texts("query") for rows in sides]
        for name in texts[0].known:
            answers = [_Answers.of(rows, text.are(name)) for rows, text in zip(sides, texts, strict=True)]
            found = _differences(families, answers, due)
            if found.checked:
                yield Found(POSSIBLE, found.checked, sorted(found.failing), name, "", found.squares, found.least)

    def concluded(self, tallies: Mapping[Key, Tally]) -> dict[Key, Tally]:
        """Judge the differences of each level and query."""
        checks: dict[Key, Tally] = {}
        for level in self.levels:
            for (_, own, query), said in tallies.items():
                if own != level:
                    continue
                name = {" below ".join([query, *sorted(said.failing)[:1]])}
                # A variance that is none is told of by another rule, too.
                narrow = said.least <= 0 or _is_narrow(said)
                for rule, bad in ((POSSIBLE, bool(said.failing)), (WIDE, narrow)):
                    checks.setdefault((rule, level, ""), Tally()).add(Tally(said.checked, name if bad else set()))
        return checks


def _is_narrow(said: Tally) -> bool:
    """Whether the mean of the squares is too small for the declared variances."""
    fourth = 6 + 1 / said.least
    return said.squares / said.checked < 1 - sqrt(2 * _RARE * fourth / said.checked)


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """Answers to a query of some rows, each of which sums up those of so many geounits."""

    family: NDArray[np.int64]  # of each row
    geounits: NDArray[np.int64]  # of each row
    variance: NDArray[np.float64]  # of each row, summed over its geounits
    row: NDArray[np.int64]  # of each answer
    answer: NDArray[np.int64]  # its number in the query
    value: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Rows, own: NDArray[np.bool_]) -> _Answers:
        """Read some rows of a table of children, or of one of parents, whose answers count less than nothing."""
        every, values = np.flatnonzero(own), rows.lists("values")
        if "variance" in rows.columns:
            variance = rows.columns["variance"].fill_null(np.nan).to_numpy(zero_copy_only=False)
            geounits, sign = np.full(len(rows), _PARENT), -1
        else:
            lists = rows.columns["variances"]
            geounits, sign = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64), 1
            flat = lists.flatten().fill_null(np.nan).to_numpy(zero_copy_only=False)
            variance = np.bincount(np.repeat(np.arange(len(rows)), geounits), flat, len(rows))
        place = np.cumsum(own) - 1
        mine = own[values.row]
        row = values.row[mine]
        answer = np.arange(len(values.values))[mine] - values.offsets[row]
        kept = rows.lists("rows")
        named = rows.columns["rows"].is_valid().to_numpy(zero_copy_only=False) & (kept.lengths == values.lengths)
        # A row without numbers has all answers.
        some = named[row]
        answer[some] = kept.values[kept.offsets[row[some]] + answer[some]]
        value = values.values[mine] * sign
        there = answer >= 0  # numbers below that are told of by another rule
        place = place[row][there]
        return cls(rows.family[every], geounits[every], variance[every], place, answer[there], value[there])


def _differences(families: Families, sides: Sequence[_Answers], due: NDArray[np.int64]) -> Tally:
    """What the differences of all families say together, of one query."""
    number = len(families.names)
    geounits = np.sum([summed(side.family, side.geounits, number) for side in sides], axis=0)
    variance = np.sum([np.bincount(side.family, side.variance, number) for side in sides], axis=0)
    most = max(int(side.answer.max(initial=0)) for side in sides) + 1
    keys = np.concatenate([side.family[side.row] * most + side.answer for side in sides])
    known, place = numbered(keys, number * most)
    difference = summed(place, np.concatenate([side.value for side in sides]), len(known))
    times = summed(place, np.concatenate([side.geounits[side.row] for side in sides]), len(known))
    family = known // most
    whole = (times == due[family]) & (geounits == due)[family]
    family, size = family[whole], np.abs(difference[whole].astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):  # a variance of nothing is told of by another rule
        of_family = variance[family]
        squares = float((size**2 / of_family).sum())
        odd = np.zeros(number, dtype=np.bool_)
        odd[family[size > _MOST * (np.sqrt(of_family) + 1)]] = True
    least = float(of_family.min(initial=np.inf))
    return Tally(len(family), set(names_of(families.names, odd)), squares, least)
