"""American Indian, Alaska Native and Native Hawaiian areas: categories of codes, and the branch of the spine for them.

The ranges are those of the four-digit census code AIANNHCE of the 2020 census. The production runs of 2020 placed the
areas of seven categories on a branch of their own below the root of the spine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das_spark.errors import GeographyError
from das_spark.geography.digits import digit_column, whole_numbers

#: The code of a block that lies in no such area.
NO_AIAN_AREA: Final = "9999"

_CODE_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class AianCategory:
    """One kind of area, and the codes that belong to it.

    Attributes:
        name: How settings name the category.
        first: Its lowest code.
        last: Its highest code, inclusive.
        production: Whether the production runs of 2020 had it on the branch.
        title: What it is called.
    """

    name: str
    first: int
    last: int
    production: bool
    title: str


#: All categories, in the order of their codes; a code in none of the ranges is invalid, 4990 to 4999 among them.
AIAN_CATEGORIES: Final = (
    AianCategory("federal", 1, 4799, True, "federally recognised American Indian area"),
    AianCategory("joint_use", 4800, 4989, True, "American Indian joint-use area"),
    AianCategory("hawaiian_home_land", 5000, 5499, True, "Hawaiian home land"),
    AianCategory("oklahoma", 5500, 5899, True, "Oklahoma tribal statistical area"),
    AianCategory("oklahoma_joint_use", 5900, 5999, True, "joint-use Oklahoma tribal statistical area"),
    AianCategory("alaska_native_village", 6000, 7999, True, "Alaska native village statistical area"),
    AianCategory("tribal_designated", 8000, 8999, False, "tribal designated statistical area"),
    AianCategory("state_legal", 9000, 9499, True, "state-recognised American Indian area"),
    AianCategory("state_designated", 9500, 9998, False, "state designated tribal statistical area"),
)

#: Names of the categories that the production runs of 2020 had on the branch.
PRODUCTION_AIAN: Final = tuple(category.name for category in AIAN_CATEGORIES if category.production)

_FIRST: Final = np.array([category.first for category in AIAN_CATEGORIES], dtype=np.int64)
_LAST: Final = np.array([category.last for category in AIAN_CATEGORIES], dtype=np.int64)


def check_aian_selection(names: Iterable[str]) -> tuple[str, ...]:
    """Check a selection of categories.

    Args:
        names: Names of categories.

    Returns:
        The same names.

    Raises:
        GeographyError: A name is unknown, with the nearest one as a hint, or stands twice.
    """
    chosen, known = tuple(names), [category.name for category in AIAN_CATEGORIES]
    for name in chosen:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.0)[0]
            raise GeographyError(f"no category of AIAN areas is called {name!r}", hint=f"did you mean {near!r}?")
    if len(set(chosen)) != len(chosen):
        raise GeographyError(f"a category of AIAN areas stands twice: {', '.join(chosen)}")
    return chosen


def aian_category(codes: ArrayLike) -> NDArray[np.int64]:
    """Category of every code.

    Args:
        codes: Array (n,) of text, AIANNHCE codes of four digits.

    Returns:
        Array (n,): position in `AIAN_CATEGORIES`, -1 for 9999, which is no area.

    Raises:
        GeographyError: A code has not four digits, or lies in no range; it is named.
    """
    texts = digit_column(codes, _CODE_DIGITS, "AIANNHCE")
    numbers = whole_numbers(texts)
    category = np.searchsorted(_FIRST, numbers, side="right") - 1
    nowhere = numbers == int(NO_AIAN_AREA)
    valid = nowhere | ((category >= 0) & (numbers <= _LAST[category]))
    if not valid.all():
        raise GeographyError(
            f"AIANNHCE code {str(texts[np.argmin(valid)])!r} belongs to no category of areas",
            hint="codes 0000 and 4990 to 4999 are not assigned; 9999 says that a block lies in no area",
        )
    return np.where(nowhere, -1, category)


def in_aian_branch(codes: ArrayLike, selected: Iterable[str] = PRODUCTION_AIAN) -> NDArray[np.bool_]:
    """Whether a block lies on the branch of the selected areas: A = 1 (S-4).

    Args:
        codes: Array (n,) of text, AIANNHCE codes.
        selected: Names of the categories that make up the branch.

    Returns:
        Array (n,).

    Raises:
        GeographyError: As `aian_category` and `check_aian_selection`.
    """
    chosen = set(check_aian_selection(selected))
    # The last entry stands for "no area", which position -1 finds.
    on_branch = np.array([category.name in chosen for category in AIAN_CATEGORIES] + [False])
    return on_branch[aian_category(codes)]


def aian_area(codes: ArrayLike, selected: Iterable[str] = PRODUCTION_AIAN) -> NDArray[np.str_]:
    """The area as an off-spine entity: its code on the branch, 9999 elsewhere (S-5).

    Args:
        codes: Array (n,) of text, AIANNHCE codes.
        selected: Names of the categories that make up the branch.

    Returns:
        Array (n,) of four digits.

    Raises:
        GeographyError: As `in_aian_branch`.
    """
    on_branch = in_aian_branch(codes, selected)
    return np.where(on_branch, np.asarray(codes, dtype="U4"), NO_AIAN_AREA)
