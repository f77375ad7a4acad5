"""Rules on the geounits of a spine, and on the invariants that they declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow.compute as pc

from das_spark.core import GROUP_TOTAL
from das_spark.verification.families import (
    NOWHERE,
    FamilyRule,
    Found,
    Key,
    agreed,
    alike,
    first_wrong,
    names_of,
    summed,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from das_spark.constraints import Invariants
    from das_spark.geography import Spine
    from das_spark.verification.families import Families

PRESENT: Final = "geounits present once"
TOTALS: Final = "invariant totals"


def rule_name(table: str) -> str:
    """Name of the check of the columns of a table."""
    return f"columns of {table}"


def keys(rule: str, levels: Sequence[str]) -> tuple[Key, ...]:
    """Checks of a rule that there must be."""
    return tuple((rule, level, "") for level in levels)


def odd_parents(families: Families, column: pa.Array, family: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say of rows whether their parent is another one than that of their geocode."""
    same = pc.equal(column, families.names.take(family))
    return np.asarray(pc.invert(same.fill_null(False)).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class GeounitsPresent(FamilyRule):
    """Every geounit of the spine has exactly one estimate, under its own parent, and there is no other."""

    needs: ClassVar = ("geounits", "estimates")

    levels: Sequence[str]

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level."""
        return keys(PRESENT, self.levels)

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        size, spine, estimates = len(families.geocodes), families.rows("geounits"), families.rows("estimates")
        found = np.bincount(estimates.geounit, minlength=size)
        there = (families.geounits > 0) | (found > 0)
        bad = there & ~((families.geounits == 1) & (found == 1) & agreed("parent", spine, estimates, size))
        bad |= there & pc.equal(families.geocodes, NOWHERE).to_numpy(zero_copy_only=False)
        if there.any():
            yield Found(PRESENT, int(families.geounits.sum()), names_of(families.geocodes, bad))


@dataclass(frozen=True, slots=True)
class GeounitColumns(FamilyRule):
    """Every geounit has a geocode of its level, a parent that begins it, and the count of its children."""

    needs: ClassVar = ("geounits", "above_geounits")

    spine: Spine

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level."""
        return keys(rule_name("geounits"), self.spine.names)

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families: the children, and of their parents how many children they have."""
        spine, rows, rule = self.spine, families.rows("geounits"), rule_name("geounits")
        length = spine.level(families.level).length or 1
        fits = pc.match_substring_regex(families.geocodes, f"^{spine.characters}{{{length}}}$")
        there = families.geounits > 0
        odd = odd_parents(families, rows.columns["parent"], rows.family)
        size = len(families.geocodes)
        wrong = {
            "geocode": there & ((families.geounits != 1) | ~fits.to_numpy(zero_copy_only=False)),
            "parent": np.bincount(rows.geounit[odd], minlength=size) > 0,
        }
        children = rows.numbers("children", -1)
        # A leaf has none; above, a geounit that nothing lies in is none, whatever the level below says.
        some = children != 0 if families.level == spine.leaf.name else children < 1
        wrong["children"] = np.bincount(rows.geounit[some], minlength=size) > 0
        yield Found(rule, int(there.sum()), first_wrong(families.geocodes, wrong))
        if families.level != spine.names[0]:
            above = families.rows("above_geounits")
            number = len(families.names)
            found = np.bincount(rows.family[~odd], minlength=number)
            said = summed(above.family, above.numbers("children", -1), number)
            names = names_of(families.names, said != found, " children")
            yield Found(rule, 0, names, level=spine.names[spine.index(families.level) - 1])


@dataclass(frozen=True, slots=True)
class InvariantColumns(FamilyRule):
    """Every geounit declares what the run declares, once, and nothing else.

    Attributes:
        names: Level -> invariants of its geounits.
        classes: Numbers of the invariant `units`.
        grouped: Whether `group_total` stands for `total` where geounits have only one together.
        twice: The level at which a total is the units of the first class, too; empty where it is none.
    """

    needs: ClassVar = ("geounits", "invariants")

    names: Mapping[str, tuple[str, ...]]
    classes: int
    grouped: bool
    twice: str

    @classmethod
    def of(cls, spine: Spine, declared: Invariants, classes: int, *, counts_units: bool) -> InvariantColumns:
        """Return the rule of a run.

        Args:
            spine: Its levels.
            declared: What it declares.
            classes: Of units.
            counts_units: Whether its records are units.
        """
        totals, leaf = declared.total_levels(spine.names), spine.leaf.name
        units = [name for name in declared.names if name != "total"]
        names = {level: (*["total"] * (level in totals), *(units if level == leaf else ())) for level in spine.names}
        same = counts_units and "units" in units and leaf in totals
        grouped = spine.total_key_at(declared.total_at) is not None
        return cls(names, classes, grouped, leaf if same else "")

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level whose geounits declare anything."""
        return keys(rule_name("invariants"), [level for level, names in self.names.items() if names])

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        names, rows, size = self.names[families.level], families.rows("invariants"), len(families.geocodes)
        if not names and not len(rows):
            return
        said = rows.texts("name")
        place = said.among(names)
        if self.grouped and "total" in names:
            place[said.are(GROUP_TOTAL)] = names.index("total")
        # One column more for names that nobody declares.
        width = len(names) + 1
        where = rows.geounit * width + np.where(place < 0, width - 1, place)
        count = np.bincount(where, minlength=size * width).reshape(size, width)
        odd = count[:, :-1] != families.geounits[:, None]
        if "vacant" in names:  # a geounit of which nobody said how many vacant units it has declares none
            odd[:, names.index("vacant")] &= count[:, names.index("vacant")] != 0
        values = rows.lists("values")
        possible = values.whole & (values.lengths == np.where(said.are("units"), self.classes, 1))
        possible &= ~values.any_of(values.values < 0)
        impossible = np.bincount(rows.geounit[~possible], minlength=size) > 0
        if families.level == self.twice:
            first = np.zeros(len(rows), dtype=np.int64)
            some = values.lengths > 0
            first[some] = values.values[values.offsets[:-1][some]]
            sign = said.are("total").astype(np.int64) - said.are("units")
            impossible |= summed(rows.geounit, first * sign, size) != 0
        parents = odd_parents(families, rows.columns["parent"], rows.family)
        wrong = {
            "name": odd.any(axis=1) | (count[:, -1] > 0),
            "parent": np.bincount(rows.geounit[parents], minlength=size) > 0,
            "values": impossible,
        }
        yield Found(
            rule_name("invariants"), int(families.geounits.sum()) * len(names), first_wrong(families.geocodes, wrong)
        )


@dataclass(frozen=True, slots=True)
class InvariantTotals(FamilyRule):
    """Every geounit has a declared total, and its estimate has exactly that."""

    needs: ClassVar = ("geounits", "invariants", "estimates")

    levels: Sequence[str]

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at each level."""
        return keys(TOTALS, self.levels)

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        if families.level not in self.levels:
            return
        size = len(families.geocodes)
        exact, declared = totals_of(families, "total")
        estimates = families.rows("estimates")
        total, estimated = alike(estimates.geounit, families.totals, size)
        there = families.geounits > 0
        bad = there & ~(declared & estimated & (exact == total))
        yield Found(TOTALS, int(families.geounits.sum()), names_of(families.geocodes, bad))


@dataclass(frozen=True, slots=True)
class GroupTotals(FamilyRule):
    """The estimates of the geounits with the same key sum to the total that each of them declares.

    A geounit alone with its key declares its own `total`, every other one the `group_total`; each declares once.

    Attributes:
        level: The level of the totals.
        total_key: First digit (from 1) and number of the digits that the geounits of a group share.
    """

    needs: ClassVar = ("geounits", "invariants", "estimates")

    level: str
    total_key: tuple[int, int]

    @property
    def expected(self) -> tuple[Key, ...]:
        """One at the level of the totals."""
        return keys(TOTALS, (self.level,))

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families: the geounits of a group have one parent."""
        if families.level != self.level:
            return
        group, names = groups(families, self.total_key)
        number, rows = len(names), families.rows("invariants")
        some, first = declared_totals(families, ("total", GROUP_TOTAL))
        members = np.bincount(group, weights=families.geounits, minlength=number).astype(np.int64)
        of_rows = group[rows.geounit[some]]
        own = np.bincount(rows.geounit[some], minlength=len(families.geocodes))
        once = np.bincount(group, weights=own != families.geounits, minlength=number) == 0
        alone = rows.texts("name").are("total")[some] == (members[of_rows] == 1)
        named = np.bincount(of_rows[~alone], minlength=number) == 0
        exact, declared = alike(of_rows, first, number)
        estimates = families.rows("estimates")
        total = summed(group[estimates.geounit], families.totals, number)
        bad = (members > 0) & ~(once & named & declared & (exact == total))
        yield Found(TOTALS, int(members.sum()), names_of(names, bad))


def declared_totals(families: Families, names: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which rows of the invariants have one of some names, and the first value of each of these."""
    rows = families.rows("invariants")
    values = rows.lists("values")
    some = (rows.texts("name").among(names) >= 0) & (values.lengths > 0) & values.whole
    return some, values.values[values.offsets[:-1][some]]


def totals_of(families: Families, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the total of some name that each geocode declares, and whether it declares one."""
    some, first = declared_totals(families, (name,))
    return alike(families.rows("invariants").geounit[some], first, len(families.geocodes))


def group_keys(families: Families, total_key: tuple[int, int]) -> pa.Array:
    """Return the key of the group of each geocode."""
    begin, length = total_key
    return pc.utf8_slice_codeunits(families.geocodes, begin - 1, begin - 1 + length)


def groups(families: Families, total_key: tuple[int, int]) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the group of each geocode, and the keys of all groups."""
    keys_of = group_keys(families, total_key).dictionary_encode()
    return keys_of.indices.to_numpy().astype(np.int64), keys_of.dictionary
