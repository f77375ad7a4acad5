"""Linkage: what somebody who knows a person's place and age takes from published microdata for that person's race.

The attacker has a list of everybody with their geounit of the lowest geolevel and some known attributes (sex, age), as
good as the census itself: the worst case of such a list. He links it, one person to one record, with the records of
the geounit that have the same known attributes, at random where several do, and takes what the record says of the
learned attributes (origin, race) for the person's own.

Of n persons with the same key (geounit and known attributes), of whom t_l have the learned value l, and m released
records with this key, r_l of them with l, there are min(n, m) links, each person being in one with probability
min(n, m) / n. A link shows l with probability r_l / m, and so the expected number of right ones is

    min(n, m) sum_l (t_l / n) (r_l / m) = sum_l t_l r_l / max(n, m).                                           (T-1)

He may also claim for every person the value that is most frequent among the released records with the same key: he is
right for as many as have it.

Neither need come from the records of the geounit. Whoever claims the value that is most frequent among released records
with the same known attributes in the area above, or one drawn from them, is right often. These guesses are the
baseline: what a release gives away of a person is what lies above them. The same of the confidential records says what
publishing them would have given away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.attack.sizes import SIZES, size_names, size_of
from das_spark.errors import ConfigurationError
from das_spark.evaluation import demographic_groups
from das_spark.histogram import SEPARATOR
from das_spark.report import PROGRAMS, Axis, Bars, Figure, Panel, ReportColumn, ReportSection, ReportTable, percent

if TYPE_CHECKING:
    from das_spark.histogram import Query, Schema

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Attributes that lists of persons have beside an address, as products call them.
_KNOWN: Final = ("sex", "age", "votingage", "age18plus", "hhsex", "hhage")
#: Persons that figures are of.
#: The class of geounits of every size.
EVERY_SIZE: Final = "all"
EVERYBODY: Final = "all"
NONMODAL: Final = "nonmodal"
UNIQUE: Final = "unique"
GROUPS: Final = {
    EVERYBODY: "all persons",
    NONMODAL: "persons who do not have the most frequent value of the learned attributes in their geounit",
    UNIQUE: "persons whom no other in their geounit is like in known and learned attributes",
}


@dataclass(frozen=True, slots=True)
class LinkedAttributes:
    """What the attacker knows of everybody, and what he wants to learn.

    Args:
        known: Query of the known attributes; one answer where he knows the place alone.
        learned: Query of those that he learns, with an answer for each value.
    """

    known: Query
    learned: Query

    @classmethod
    def of(cls, schema: Schema, known: str = "", learned: str = "") -> LinkedAttributes:
        """What a list of persons has, and origin and race; or other queries.

        Args:
            schema: Of the product.
            known: Query, such as `sex * age`; those of sex, age and voting age that the schema has, where empty.
            learned: Query, such as `race`; origin and race as far as the schema has them, where empty.

        Raises:
            ConfigurationError: There is nothing to learn, or a query leaves out some cells.
            QueryError: A query names what the schema does not have.
        """
        names = [attribute.name for attribute in schema.attributes if attribute.name in _KNOWN]
        usual = demographic_groups(schema)
        if not learned and usual is None:
            raise ConfigurationError(
                "linkage: the product has neither origin nor race to be learned", hint="name what: --learn QUERY"
            )
        found = cls(
            schema.query(known or SEPARATOR.join(names) or "total"),
            schema.query(learned) if learned or usual is None else usual,
        )
        for query in (found.known, found.learned):
            if not query.is_partition:
                raise ConfigurationError(f"linkage: query {query.name!r} leaves out some records")
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Records of several geounits: one entry an occupied cell.

    Args:
        geounit: (n,) number of the geounit.
        cells: (n,) its cells.
        counts: (n,) how many records each cell holds.
    """

    geounit: Integers
    cells: Integers
    counts: Integers


#: Columns of the tallies of linkage, which are sums over persons.
TALLY: Final = ("persons", "linked", "confirmed", "before", "swapped", "claimed", "claimed_before", "guessed", "drawn")


def area_above(geolevels: Sequence[str]) -> str:
    """The geolevel from which values are guessed: two above the lowest, such as the tract above the block, or the root.

    Args:
        geolevels: Of the census, root first.
    """
    return geolevels[max(0, len(geolevels) - 3)]


def link(
    truth: Records, released: Records, swapped: Records, area: Records, attributes: LinkedAttributes
) -> dict[str, Floats]:
    """Link the persons of the geounits of one area with the released records there, in expectation.

    Args:
        truth: Confidential records.
        released: Published ones, of the same geounits.
        swapped: Confidential ones after some were exchanged between geounits, as the baseline of swapping does.
        area: Published ones of the area, all of them with geounit 0.
        attributes: What is known and learned.

    Returns:
        For each of `GROUPS` an array (classes of `SIZES`, columns of `TALLY`): persons; links; right links, (T-1); the
        same were the confidential records published, and after swapping; right claims by released and by confidential
        records; right guesses of the most frequent value in the area, and of one that is drawn there.
    """
    true, other, around = (_Keyed(records, attributes) for records in (truth, released, area))
    exchanged = _Keyed(swapped, attributes)
    key, learned, count = true.key, true.learned, true.count
    geounit, known = np.divmod(key, attributes.known.rows)
    persons, records = true.totals(key), other.totals(key)
    guess = around.modal(known)
    # Where nobody in the area is known to be like that, the guess is that of everybody there.
    guess = np.where(guess >= 0, guess, around.whole().modal(np.zeros_like(known)))
    claim = other.modal(key)
    claim = np.where(claim >= 0, claim, guess)
    there = np.maximum(around.totals(known), 1)
    columns = np.stack(
        [
            count,
            count * np.minimum(persons, records) / persons,
            count * other.counts(key, learned) / np.maximum(persons, records),
            count * count / persons,
            count * exchanged.counts(key, learned) / np.maximum(persons, exchanged.totals(key)),
            count * (claim == learned),
            count * (true.modal(key) == learned),
            count * (guess == learned),
            count * around.counts(known, learned) / there,
        ],
        axis=1,
    )
    by_geounit = true.by_geounit()
    chosen = {
        EVERYBODY: np.ones(len(count), dtype=np.bool_),
        NONMODAL: learned != by_geounit.modal(geounit),
        UNIQUE: count == 1,
    }
    size = size_of(by_geounit.totals(geounit))
    found = {}
    for name, kept in chosen.items():
        sums = np.zeros((len(SIZES), len(TALLY)))
        np.add.at(sums, size[kept], columns[kept])
        found[name] = sums
    return found


class _Counted:
    """Records counted by key and value: the pairs that occur, in their order, and sums by key."""

    def __init__(self, key: Integers, value: Integers, count: Integers, values: int) -> None:
        self._pair, place = np.unique(key * values + value, return_inverse=True)
        self._values = values
        self.count: Integers = np.bincount(place, count, minlength=len(self._pair)).astype(np.int64)
        self.key, self.learned = np.divmod(self._pair, values)
        self._keys, place = np.unique(self.key, return_inverse=True)
        self._totals: Integers = np.bincount(place, self.count, minlength=len(self._keys)).astype(np.int64)
        # The first of the most frequent values of each key.
        order = np.lexsort((self.learned, -self.count, self.key))
        first = np.concatenate([[True], np.diff(self.key[order]) != 0])[: len(order)]
        self._modal = self.learned[order][first]

    def totals(self, key: Integers) -> Integers:
        """Records of a key."""
        return _looked_up(self._keys, self._totals, key, 0)

    def counts(self, key: Integers, value: Integers) -> Integers:
        """Records of a key that have a value."""
        return _looked_up(self._pair, self.count, key * self._values + value, 0)

    def modal(self, key: Integers) -> Integers:
        """The most frequent value of a key; -1 where it has no record."""
        return _looked_up(self._keys, self._modal, key, -1)

    def whole(self) -> _Counted:
        """The same of all keys together, under key 0."""
        return _Counted(np.zeros_like(self.key), self.learned, self.count, self._values)


class _Keyed(_Counted):
    """Records counted by geounit with known attributes, and learned value."""

    def __init__(self, records: Records, attributes: LinkedAttributes) -> None:
        self._known = attributes.known.rows
        key = records.geounit * self._known + attributes.known.row_of(records.cells)
        super().__init__(key, attributes.learned.row_of(records.cells), records.counts, attributes.learned.rows)

    def by_geounit(self) -> _Counted:
        """The same by geounit alone."""
        return _Counted(self.key // self._known, self.learned, self.count, self._values)


def _looked_up(names: Integers, values: Integers, wanted: Integers, missing: int) -> Integers:
    """Values of sorted names."""
    if not len(names):
        return np.full(len(wanted), missing, dtype=np.int64)
    place = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(names[place] == wanted, values[place], missing)


@dataclass(frozen=True, slots=True)
class LinkageRow:
    """What came of linking one group of persons in geounits of one class of population.

    Args:
        group: One of `GROUPS`.
        size: Class of the geounits, a name in `size_names`; "all" for geounits of any size.
        persons: How many they are.
        linked: Expected links with released records.
        confirmed: Expected right ones.
        before: Expected right ones, were the confidential records published.
        swapped: Expected right ones, were they published after swapping.
        claimed: Right claims of the most frequent value in released records.
        claimed_before: The same by confidential records.
        guessed: Right guesses of the most frequent value in the area.
        drawn: Expected right guesses of a value that is drawn there.
    """

    group: str
    size: str
    persons: int
    linked: float
    confirmed: float
    before: float
    swapped: float
    claimed: int
    claimed_before: int
    guessed: int
    drawn: float

    @property
    def best_guess(self) -> float:
        """What the better guess finds."""
        return max(self.guessed, self.drawn)


@dataclass(frozen=True, slots=True)
class LinkageFindings:
    """What linkage found.

    Args:
        known: Query of what is known.
        learned: Query of what is learned.
        known_words: The same in the words of the product.
        learned_words: Likewise.
        geolevel: The lowest, whose geounits are known.
        exchanged: Share of the records that the baseline of swapping exchanges, at most.
        area: Geolevel from whose published records values are guessed.
        rows: By group and class of population.
    """

    known: str
    learned: str
    known_words: str
    learned_words: str
    geolevel: str
    exchanged: Fraction
    area: str
    rows: tuple[LinkageRow, ...]

    def whole(self, group: str) -> LinkageRow:
        """A group in geounits of all classes together."""
        rows = [row for row in self.rows if row.group == group]
        sums = {name: sum(getattr(row, name) for row in rows) for name in TALLY}
        return LinkageRow(group, EVERY_SIZE, **sums)

    @property
    def verdict(self) -> str:
        """One sentence."""
        row = self.whole(UNIQUE)
        if not row.persons:
            return "Linkage: nobody is unique."
        after, guess, before = (each / row.persons for each in (row.confirmed, row.best_guess, row.before))
        return (
            f"Linkage finds {self.learned_words} of {after:.1%} of unique persons; guesses find {guess:.1%},"
            f" and the confidential records would have given {before:.1%}."
        )


def linkage_rows(group: str, sums: Floats) -> tuple[LinkageRow, ...]:
    """The rows of a group, from its sums as `link` has them."""
    return tuple(
        LinkageRow(group, size, **{name: _number(name, each) for name, each in zip(TALLY, row, strict=True)})
        for size, row in zip(size_names(), sums.tolist(), strict=True)
        if row[0]
    )


def _number(name: str, value: float) -> Any:  # noqa: ANN401 - an integer where it counts persons
    return round(value) if name in {"persons", "claimed", "claimed_before", "guessed"} else value


_MEANING: Final = (
    "Somebody has a list of all persons with {known} and their {geolevel}. He links each with a published record that"
    " agrees in these, at random where several do; a link is right if the record has the person's {learned}. Or he"
    " claims for each the value that is most frequent among these records. A guess takes the most frequent value among"
    " published records of the same {known} in the {area}, or draws one of them; the better one counts. What a release"
    " gives away of persons is what it adds to guesses: agreement that guesses have, too, is no loss of privacy."
    " After swapping, up to {exchanged} of the confidential records have changed places within the geounit above, rare"
    " ones first."
)
_FORM: Final = ".1%"
_ADD: Final = {"links_add": "links add", "claims_add": "claims add"}


def present_linkage(found: LinkageFindings) -> tuple[ReportSection, ...]:
    """What people read of linkage."""
    words = {"known": found.known_words, "learned": found.learned_words, "geolevel": found.geolevel, "area": found.area}
    meaning = _MEANING.format(**words, exchanged=percent(found.exchanged))
    groups = [f"{name}: {text}." for name, text in GROUPS.items()]
    return (ReportSection("Linkage", (meaning, *groups, _table(found))),)


def _shares(row: LinkageRow) -> dict[str, float]:
    """The figures of a row as shares of its persons, and what the release adds to guesses."""
    persons = max(row.persons, 1)
    found = {name: getattr(row, name) / persons for name in TALLY[1:]}
    best = row.best_guess / persons
    return found | {
        "best_guess": best,
        "links_add": found["confirmed"] - best,
        "claims_add": found["claimed"] - best,
        "precision": row.confirmed / row.linked if row.linked else 0.0,
    }


def _table(found: LinkageFindings) -> ReportTable:
    of_links = (
        ("confirmed", "right links"),
        ("before", "before protection"),
        ("swapped", "after swapping"),
        ("claimed", "right claims"),
        ("claimed_before", "before protection"),
        ("best_guess", "best guess"),
    )
    columns = (
        ReportColumn("group"),
        ReportColumn("size", "persons in the geounit"),
        ReportColumn("persons", form=",d"),
        *(ReportColumn(name, heading, _FORM) for name, heading in of_links),
        *(ReportColumn(name, heading, "+.1%") for name, heading in _ADD.items()),
        # What the rest is made of: too wide for a page.
        *(ReportColumn(name, form=_FORM, media=PROGRAMS) for name in ("linked", "precision", "guessed", "drawn")),
    )
    rows = [
        {"group": row.group, "size": row.size, "persons": row.persons, **_shares(row)}
        for group in GROUPS
        for row in (found.whole(group), *(row for row in found.rows if row.group == group))
    ]
    note = (
        "Shares of the persons who are found rightly, by links and by claims, from published records and, before"
        " protection, from the confidential ones; links and claims add what they find above the better guess."
    )
    return ReportTable.of("linkage", "Links, claims and guesses by population of the geounit", columns, rows, note=note)


def linkage_figure(found: LinkageFindings) -> Figure:
    """Right links before and after protection, beside guesses."""
    whole = [_shares(found.whole(group)) for group in GROUPS]
    kinds = (
        ("before", "confidential records"),
        ("swapped", "swapped records"),
        ("confirmed", "released records"),
        ("best_guess", "guess"),
    )
    bars = tuple(
        Bars(
            [place + (number - 1.5) * 0.21 for place in range(len(whole))],
            [each[name] for each in whole],
            label,
            number,
            tuple(f"{each[name]:.0%}" for each in whole),
            thickness=0.19,
        )
        for number, (name, label) in enumerate(kinds)
    )
    axis = Axis("share of the persons", low=0, high=1.15, form=".0%")
    caption = (
        f"Persons whose {found.learned_words} is found rightly by a link with records of their {found.geolevel}. Beside"
        " the guess, which needs no record of it."
    )
    return Figure(
        caption, (Panel(bars, axis, rows=tuple(GROUPS)),), legend="above", height=11, title="Right links and guesses"
    )
