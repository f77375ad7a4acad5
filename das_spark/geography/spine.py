"""Geocodes and the spine: geolevels from the root to the leaf, each geounit inside exactly one of the level above.

A geocode is a string of digits, or of letters and digits, whose prefixes name the geounits that contain a geounit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from das_spark.errors import GeographyError, did_you_mean
from das_spark.names import check_name

#: Geocode of a root that no digits name: the whole universe of a run (a nation).
ROOT_GEOCODE = "0"

#: Digits of a census block: state 2, county 3, tract 6, block 4, whose first digit names the block group.
CENSUS_BLOCK = 15
#: Digits of the geocode of a block: the same with the block group before the block, so that it is a prefix.
BLOCK = CENSUS_BLOCK + 1

#: Digits of the longest geocode: of a block on a spine whose levels are numbered anew (S-3), behind its path.
LONGEST_GEOCODE = 96

#: What fills up the codes of a geolevel that have fewer characters than others, where geocodes are made of codes.
PADDING: Final = "."


#: Characters of a geocode, as a class of a regular expression: of one that has letters, and of others.
_LETTERS, _DIGITS = "[0-9A-Za-z_.-]", "[0-9]"


def check_geocode(geocode: str, length: int, *, letters: bool = False) -> str:
    """The geocode, if it is exactly `length` digits (or letters and digits); 0 asks for the root's, "0"."""
    _check_characters(geocode, letters=letters)
    if length == 0:
        if geocode != ROOT_GEOCODE:
            message = f"geocode {geocode!r} stands at the root of the spine, whose only geocode is {ROOT_GEOCODE!r}"
            raise GeographyError(message)
    elif len(geocode) != length:
        raise GeographyError(
            f"geocode {geocode!r} has {len(geocode)} {_called(letters)}, expected {length}",
            hint="geocodes are text: keep their leading zeros",
        )
    return geocode


def block_geocode(block: str) -> str:
    """The geocode of a census block.

    Args:
        block: The 15 digits of the block, as the census writes them.

    Returns:
        16 digits: state, county and tract; block group; block.

    Raises:
        GeographyError: It is no such number.
    """
    check_geocode(block, CENSUS_BLOCK)
    return block[:11] + block[11:12] + block[11:]


def _called(letters: bool) -> str:
    return "characters" if letters else "digits"


def _check_characters(geocode: str, *, letters: bool) -> None:
    if not re.fullmatch(f"{_LETTERS if letters else _DIGITS}+", geocode):
        of = "letters A-Z and a-z, digits and . _ - only" if letters else "the digits 0-9 only"
        raise GeographyError(f"geocode {geocode!r} must consist of {of}, and of one at least")
    if len(geocode) > LONGEST_GEOCODE:
        raise GeographyError(
            f"geocode {geocode!r} has {len(geocode)} {_called(letters)}, at most {LONGEST_GEOCODE} are allowed"
        )


_CENSUS: Final = "census"


@dataclass(frozen=True, slots=True)
class Geolevel:
    """One level of geography, such as "County".

    Attributes:
        name: How budgets, tables and reports call the level.
        length: Number of digits of its geocodes, a prefix of every geocode below; 0 for a root with geocode "0".
        letters: Whether its geocodes, and so those of all levels below, may have letters and `.`, `_`, `-` besides.
        code: Characters of the codes that its geounits have by themselves, which say nothing of the geounit above: a
            geocode then is the codes of all geounits above and that of the geounit, each filled up to its length; 0
            where codes begin with that of the geounit above.
        tabulated: Whether published tables have it; a level that exists within the system alone has none.

    Raises:
        GeographyError: The name cannot be that of a folder, the length is out of range, or there is no room for the
            code.
    """

    name: str
    length: int
    letters: bool = False
    code: int = 0
    tabulated: bool = True

    def __post_init__(self) -> None:
        """Check name and length."""
        check_name(self.name, "geolevel", error=GeographyError)
        if not 0 <= self.length <= LONGEST_GEOCODE:
            raise GeographyError(
                f"geolevel {self.name!r} has geocodes of {self.length} digits, expected 0 to {LONGEST_GEOCODE}"
            )
        if not 0 <= self.code <= self.length or (self.code and not self.letters):
            raise GeographyError(
                f"geolevel {self.name!r} has codes of {self.code} characters in geocodes of {self.length}",
                hint="give the geolevels of a table of parents a code each, and neither length nor letters",
            )

    def own_code(self, geocode: str) -> str:
        """The code that a geounit has by itself; its geocode where that is the same.

        Args:
            geocode: Of a geounit of this level or of one below.
        """
        return geocode[self.length - self.code : self.length].rstrip(PADDING) if self.code else geocode


@dataclass(frozen=True, slots=True)
class Spine:
    """The geolevels of a run, root first.

    The top level may hold several geounits, such as the counties of a run without a state: each is then estimated as a
    root of its own.

    Attributes:
        levels: Geolevels with strictly growing geocode lengths.
        kind: Kind of the spine, a name in `SPINE_KINDS`. On others than "census" the leaf's geocode ends with the
            geocode that the census gives it.
        total_key: First digit (from 1) and number of the digits that geounits of one level share when only their sum
            can have an invariant total, such as the two digits of the state in the geocodes of its parts. The digits
            are the last ones of that level, which is the top or just below a root of length 0.

    Raises:
        GeographyError: There is no level, a name occurs twice, lengths do not grow, or no level has a total key.
    """

    levels: tuple[Geolevel, ...]
    kind: str = _CENSUS
    total_key: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Check that the levels nest."""
        if not self.levels:
            raise GeographyError("a spine needs one geolevel at least")
        for above, below in pairwise(self.levels):
            if below.length <= above.length:
                raise GeographyError(
                    f"geolevel {below.name!r} has geocodes of {below.length} digits and stands below "
                    f"{above.name!r} with {above.length}",
                    hint="list the geolevels from the root down; each level's geocode begins with its parent's",
                )
        if len(set(self.names)) != len(self.levels):
            raise GeographyError(f"a geolevel occurs twice in the spine: {', '.join(self.names)}")
        if self.total_key is not None and not any(self.total_key_at(name) for name in self.names):
            start, length = self.total_key
            raise GeographyError(
                f"total_key: digits {start} to {start + length - 1} are not the last ones of the top geolevel, or of "
                "one just below a root of length 0"
            )

    @property
    def letters(self) -> bool:
        """Whether geocodes may have letters."""
        return any(level.letters for level in self.levels)

    @property
    def characters(self) -> str:
        """What a geocode consists of, as a class of a regular expression."""
        return _LETTERS if self.letters else _DIGITS

    @property
    def own_codes(self) -> dict[str, tuple[int, int]]:
        """Where in a geocode the codes stand that geounits have by themselves, by level; none where they are geocodes.

        First character (from 0) and the one behind the last; codes are filled up with `PADDING`.
        """
        return {level.name: (level.length - level.code, level.length) for level in self.levels if level.code}

    def total_key_at(self, name: str | None) -> tuple[int, int] | None:
        """The digits that geounits of a level share when only their sum has an invariant total.

        Args:
            name: A level, such as the one whose totals are invariant, or None.

        Returns:
            First digit (from 1) and number of digits; None where every geounit has a total of its own.

        Raises:
            GeographyError: No level has that name.
        """
        if name is None or self.total_key is None:
            return None
        start, length = self.total_key
        above = self.parent_level(name)
        together = above is None or above.length == 0
        ends = start > 1 and length > 0 and start + length - 1 == self.level(name).length
        return self.total_key if together and ends else None

    @property
    def is_census(self) -> bool:
        """Whether the geounits are those of the census; on others geounits have shares of the budget of their own."""
        return self.kind == _CENSUS

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the levels, root first."""
        return tuple(level.name for level in self.levels)

    @property
    def leaf(self) -> Geolevel:
        """The lowest level."""
        return self.levels[-1]

    def index(self, name: str) -> int:
        """Depth of a level: 0 is the top.

        Raises:
            GeographyError: No level has that name; the nearest name is offered.
        """
        if name in self.names:
            return self.names.index(name)
        raise GeographyError(
            f"the spine has no geolevel {name!r}; it has {', '.join(self.names)}",
            hint=did_you_mean(name, self.names, 0.0),
        )

    def level(self, name: str) -> Geolevel:
        """The level of that name.

        Raises:
            GeographyError: No level has that name.
        """
        return self.levels[self.index(name)]

    def parent_level(self, name: str) -> Geolevel | None:
        """The level above, or None at the top.

        Args:
            name: Name of the level below it.

        Raises:
            GeographyError: No level has that name.
        """
        depth = self.index(name)
        return self.levels[depth - 1] if depth else None

    def geocode_at(self, geocode: str, name: str) -> str:
        """Geocode of the geounit of a level that contains a geounit (or is it).

        Args:
            geocode: A geocode of this or a lower level.
            name: Name of the level.

        Returns:
            The first digits of the geocode; "0" at a root of length 0.

        Raises:
            GeographyError: The level is unknown, or the geocode is no geocode of this or a lower level.
        """
        below = self.levels[self.index(name) :]
        if len(geocode) in {level.length for level in below}:
            check_geocode(geocode, len(geocode), letters=self.letters)
        elif not (geocode == ROOT_GEOCODE and below[0].length == 0):
            lengths = ", ".join(f"{level.length} ({level.name})" for level in below)
            raise GeographyError(f"geocode {geocode!r} has {len(geocode)} {_called(self.letters)}, expected {lengths}")
        return geocode[: below[0].length] or ROOT_GEOCODE

    def parent(self, geocode: str, name: str) -> str:
        """Geocode of the parent of a geounit of a level; "" at the top, as in the tables of a run.

        Raises:
            GeographyError: The level is unknown or the geocode is none of its geocodes.
        """
        check_geocode(geocode, self.level(name).length, letters=self.letters)
        above = self.parent_level(name)
        return "" if above is None else self.geocode_at(geocode, above.name)
