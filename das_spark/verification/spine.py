"""Rules on a spine that is made of areas: shares of the budget along the paths of its blocks, and the census beside it.

The sum of shares on every path is what the guarantee rests on (Theorem 3 of Cumings-Menon et al. 2022, S-22). Blocks
say all of it: their paths, and the shares of the geounits on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.core import UNMEASURED
from das_spark.geography import BLOCK
from das_spark.verification.families import (
    COLUMNS,
    NAMED,
    NOWHERE,
    FamilyRule,
    Found,
    Key,
    agreed,
    first_wrong,
    geocodes_at,
    names_of,
    starts,
)
from das_spark.verification.geounits import keys, odd_parents, rule_name
from das_spark.verification.histograms import differing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.geography import Spine
    from das_spark.verification.families import Families

PATHS: Final = "shares sum to 1 on every path"
MEASURED: Final = "measured geounits have a share"
CENSUS: Final = "census geounits sum up blocks"
_BLOCKS: Final = rule_name("spine")
_SHARES: Final = rule_name("shares")
_CENSUS_COLUMNS: Final = rule_name("census_estimates")

_PATHS: Final = pa.schema([("geocode", pa.string()), *COLUMNS["paths"].items()])


def share_of(text: str | None) -> Fraction:
    """Return the share that a text says; 0 where it says none."""
    try:
        return max(Fraction(text or 0), Fraction(0))
    except (ValueError, ZeroDivisionError):
        return Fraction(0)


def paths_of(batch: pa.RecordBatch, spine: Spine) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Turn blocks into what their paths say of geounits, each once for neighbours; a leaf has the verdict on its block.

    Args:
        batch: Columns block, path and shares.
        spine: Its levels.

    Yields:
        Level, and rows with the geocode and the columns of `paths`.
    """
    depth, none = len(spine.names), pa.nulls(batch.num_rows, pa.string())
    codes, shares = (_elements(batch.column(name), depth) for name in ("path", "shares"))
    leaf = codes[-1].fill_null(NOWHERE)
    as_leaf = [geocodes_at(leaf, level) for level in spine.levels]
    odd = {
        "block": ~_same(batch.column("block"), pc.utf8_slice_codeunits(leaf, -BLOCK)),
        "path": ~np.all([_same(code, right) for code, right in zip(codes, as_leaf, strict=True)], axis=0)
        | (pc.utf8_length(leaf).to_numpy() != spine.leaf.length)
        | ~_long(batch.column("path"), depth),
        "shares": ~_long(batch.column("shares"), depth),
    }
    wrong = np.full(batch.num_rows, None, dtype=object)
    for column, bad in reversed(odd.items()):
        wrong[bad] = column
    for place, level in enumerate(spine.names):
        is_leaf = place == depth - 1
        parent = codes[place - 1] if place else pa.repeat("", batch.num_rows)
        arrays = [
            codes[place].fill_null(NOWHERE),
            parent,
            shares[place],
            pa.array(wrong, pa.string()) if is_leaf else none,
            _sum_to_one(batch.column("shares")) if is_leaf else pa.nulls(batch.num_rows, pa.bool_()),
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=_PATHS)
        yield level, rows if is_leaf else rows.filter(pa.array(starts(rows, ("geocode", "parent", "share"))))


def _elements(lists: pa.Array, number: int) -> list[pa.Array]:
    """Return the first, second, ... element of each list; null where there is none."""
    lengths = lists.value_lengths().fill_null(0).to_numpy()
    first, flat = np.cumsum(lengths) - lengths, lists.flatten()
    return [flat.take(pa.array(first + place, mask=lengths <= place)) for place in range(number)]


def _long(lists: pa.Array, number: int) -> NDArray[np.bool_]:
    """Say which lists have a number of elements."""
    return np.asarray(lists.value_lengths().fill_null(-1).to_numpy() == number)


def _same(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Say where two columns have the same text."""
    return np.asarray(pc.equal(one, other).fill_null(False).to_numpy(zero_copy_only=False))


def _sum_to_one(shares: pa.Array) -> pa.Array:
    """Say which lists are shares, as they are written, that sum to exactly 1; there are few different ones."""
    joined = pc.binary_join(shares, " ").dictionary_encode()
    right = []
    for text in joined.dictionary.to_pylist():
        parts = [(share_of(each), each) for each in text.split(" ")]
        written = all(f"{share.numerator}/{share.denominator}" == each for share, each in parts)
        right.append(written and sum(share for share, _ in parts) == 1)
    return pa.array(right, pa.bool_()).take(joined.indices).fill_null(False)


@dataclass(frozen=True, slots=True)
class SpinePaths(FamilyRule):
    """Every block ends its path, whose shares sum to 1; every geounit has the share that its blocks say, once."""

    needs: ClassVar = ("geounits", "shares", "paths")

    levels: Sequence[str]

    @property
    def expected(self) -> tuple[Key, ...]:
        """Of blocks at the lowest level; of shares at each."""
        leaf = self.levels[-1:]
        return (*keys(PATHS, leaf), *keys(_BLOCKS, leaf), *keys(_SHARES, self.levels))

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        size, shares, paths = len(families.geocodes), families.rows("shares"), families.rows("paths")
        own, told = (np.bincount(rows.geounit, minlength=size) for rows in (shares, paths))
        there = (families.geounits > 0) | (own > 0) | (told > 0)
        wrong = {
            "geocode": there & ((families.geounits != 1) | (own != 1) | (told == 0)),
            **{name: there & ~agreed(name, shares, paths, size) for name in ("parent", "share")},
        }
        yield Found(_SHARES, int(there.sum()), first_wrong(families.geocodes, wrong))
        if families.level == self.levels[-1]:
            odd = paths.texts("wrong")
            columns = {name: np.bincount(paths.geounit[odd.are(name)], minlength=size) > 0 for name in odd.known}
            yield Found(_BLOCKS, len(paths), first_wrong(families.geocodes, columns))
            whole = paths.columns["whole"].fill_null(False).to_numpy(zero_copy_only=False)
            far = np.bincount(paths.geounit[~whole], minlength=size) > 0
            yield Found(PATHS, len(paths), names_of(families.geocodes, far))


@dataclass(frozen=True, slots=True)
class MeasuredHaveShare(FamilyRule):
    """No answer of a geounit without a share was published, and none of one that the spine does not have."""

    needs: ClassVar = ("shares", "measured")

    levels: Sequence[str]

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level."""
        return keys(MEASURED, self.levels)

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        rows = families.rows("shares")
        holders = families.geocodes.take(pa.array(rows.geounit))
        has_share = pc.not_equal(rows.columns["share"], UNMEASURED).fill_null(False)
        measured = families.rows("measured").columns["geounits"].flatten().unique()
        without = measured.filter(pc.invert(pc.is_in(measured, value_set=holders.filter(has_share))))
        unknown = measured.filter(pc.invert(pc.is_in(measured, value_set=holders)))
        yield Found(MEASURED, len(holders.unique()) + len(unknown), sorted(without.to_pylist())[:NAMED])


@dataclass(frozen=True, slots=True)
class CensusSums(FamilyRule):
    """Every block of the census has its own counts, and every geounit above in every cell the sum of its children's.

    Attributes:
        levels: Of the census, from the root.
    """

    needs: ClassVar = ("estimates", "above_estimates", "leaves")

    levels: Sequence[str]

    @property
    def expected(self) -> tuple[Key, ...]:
        """Of sums, and of columns, one at each level."""
        return (*keys(CENSUS, self.levels), *keys(_CENSUS_COLUMNS, self.levels))

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        own = families.rows("estimates")
        odd = odd_parents(families, own.columns["parent"], own.family)
        parents = {"parent": np.bincount(own.geounit[odd], minlength=len(families.geocodes)) > 0}
        yield Found(_CENSUS_COLUMNS, len(own), first_wrong(families.geocodes, parents))
        if families.level == self.levels[-1]:
            leaves = families.rows("leaves")
            number = len(families.geocodes)
            there = [np.bincount(rows.geounit, minlength=number) for rows in (own, leaves)]
            differs = differing(families, ("estimates", "leaves"), by_family=False)
            differs |= there[0] != there[1]
            checked = len(families.cells("leaves").cell) + len(leaves)
            yield Found(CENSUS, checked, names_of(families.geocodes, differs))
        if families.level != self.levels[0]:
            above, number = families.rows("above_estimates"), len(families.names)
            differs = differing(families, ("above_estimates", "estimates"))
            differs |= np.bincount(above.family, minlength=number) != 1
            differs |= np.bincount(own.family, minlength=number) == 0
            checked = len(families.cells("estimates").cell) + len(above)
            level = self.levels[self.levels.index(families.level) - 1]
            yield Found(CENSUS, checked, names_of(families.names, differs), level=level)
