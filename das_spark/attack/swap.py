"""A baseline that protects by swapping, as censuses were protected before: records change places, tables stay exact.

In each geounit above the lowest geolevel a share of the records is exchanged between its children, rare ones first. Two
records that are exchanged are alike in what is held: whether somebody is of voting age, and the class of quarters.
So every child keeps its number of records, and of those that are alike in what is held. Which records these are, and
how many, was never published of a census; this is a swap, not the Census Bureau's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence  # noqa: TID251 - the baseline is repeated by its seed
from numpy.typing import NDArray

from das_spark.histogram import SEPARATOR, Histogram, Query

if TYPE_CHECKING:
    from das_spark.products import Product

#: Records among which a partner is looked for at once: mostly there is one among the first.
_AT_ONCE: Final = 1024
#: Attributes or recodes that tell those of voting age.
_VOTING_AGE: Final[tuple[str, ...]] = ("votingage", "age18plus")


@dataclass(frozen=True, slots=True)
class Held:
    """What records that are exchanged have in common.

    Attributes:
        query: Records in the same answer are alike.
        words: What it tells, as people read it; empty where all records are alike.
    """

    query: Query
    words: str

    @classmethod
    def of(cls, product: Product) -> Held:
        """What is held of a product: voting age and class of quarters, as far as it knows them."""
        schema = product.schema
        known = {name for axis in schema.attributes for name in (axis.name, *(recode.name for recode in axis.recodes))}
        names = [name for name in _VOTING_AGE if name in known][:1]
        if product.class_query and product.class_query in known:
            names.append(product.class_query)
        text = SEPARATOR.join(names)
        return cls(schema.query(text or "total"), schema.words(text) if text else "")


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """An exchange of records between the children of geounits.

    Attributes:
        size: Cells of the schema.
        held: Records in the same answer are alike.
        share: Of a parent's records that are exchanged, at most.
        seed: Of chance.
    """

    size: int
    held: Query
    share: Fraction
    seed: int

    def of(self, children: Sequence[Histogram], parent: str) -> tuple[Histogram, ...]:
        """Exchange records between the children of one geounit.

        The records of the rarest cells of the parent come first. Each is exchanged with one of another child that is
        alike in what is held, is of another cell, and was not exchanged before; by chance where there are several. A
        record that has no such partner stays.

        Args:
            children: Their records.
            parent: Geocode of the parent; each parent has chance of its own.

        Returns:
            The children after the exchange, in order: every child has as many records as before in each answer of
            `held`, and the parent has the same records.
        """
        counts = np.concatenate([child.counts for child in children]) if children else np.zeros(0, dtype=np.int64)
        if not counts.sum():
            return tuple(children)
        cells = np.repeat(np.concatenate([child.cells for child in children]), counts).astype(np.int64)
        home = np.repeat(np.arange(len(children)), [child.total for child in children])
        generator = Generator(PCG64(SeedSequence([self.seed, len(parent), *parent.encode()])))
        pairs = int(self.share * len(cells)) // 2
        cells = cells[_partners(cells, home, self.held.row_of(cells), pairs, generator)]
        return tuple(
            Histogram.from_pairs(self.size, own, np.ones(len(own), dtype=np.int64))
            for number in range(len(children))
            for own in (cells[home == number],)
        )


def _partners(
    cells: NDArray[np.int64], home: NDArray[np.int64], alike: NDArray[np.int64], pairs: int, generator: Generator
) -> NDArray[np.int64]:
    """For every record the one whose place it takes: itself, unless it is exchanged."""
    partner = np.arange(len(cells))
    _, kind, of_kind = np.unique(cells, return_inverse=True, return_counts=True)
    chance = generator.permutation(len(cells))
    rare_first = np.lexsort((chance, of_kind[kind]))
    by_chance = np.argsort(generator.permutation(len(cells)))
    waiting = {int(answer): by_chance[alike[by_chance] == answer] for answer in np.unique(alike)}
    free = np.ones(len(cells), dtype=np.bool_)
    for record in rare_first.tolist():
        if not pairs:
            break
        if not free[record]:
            continue
        answer = int(alike[record])
        if 2 * np.count_nonzero(free[waiting[answer][:_AT_ONCE]]) < min(_AT_ONCE, len(waiting[answer])):
            waiting[answer] = waiting[answer][free[waiting[answer]]]
        for start in range(0, len(waiting[answer]), _AT_ONCE):
            others = waiting[answer][start : start + _AT_ONCE]
            fits = free[others] & (home[others] != home[record]) & (cells[others] != cells[record])
            if fits.any():
                other = int(others[np.argmax(fits)])
                partner[record], partner[other] = other, record
                free[[record, other]] = False
                pairs -= 1
                break
    return partner
