"""The spelling of queries: names separated by ``*``.

A query is written as a product of attributes and recodes, such as ``age18plus * hispanic * race``. White space is
free, case counts, and the order of the names says nothing: answers are always laid out in the order of the schema's
axes. ``total`` (one answer) and ``detailed`` (one answer a cell) are reserved words that stand alone.

This module knows the spelling only; what the names mean is the schema's business.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

from das_spark.errors import QueryError

TOTAL: Final = "total"
DETAILED: Final = "detailed"
RESERVED: Final = frozenset({TOTAL, DETAILED})
SEPARATOR: Final = " * "

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_name(name: str, what: str) -> None:
    """Refuse a name that could not be written in a query.

    Args:
        name: The name of an attribute or recode.
        what: What bears the name, for the message.

    Raises:
        QueryError: When the name is reserved, or is not made of letters, digits and underscores.
    """
    if not _NAME.fullmatch(name):
        raise QueryError(
            f"the name {name!r} of {what} cannot be written in a query",
            hint="use letters, digits and underscores, beginning with a letter or underscore",
        )
    if name in RESERVED:
        raise QueryError(f"the name {name!r} of {what} is a reserved word of the query language")


def split_names(text: str) -> tuple[str, ...]:
    """Split the text of a query into its names, in the order in which they are written.

    Args:
        text: For example ``"age18plus * hispanic*race"``.

    Returns:
        The names without white space: ``("age18plus", "hispanic", "race")``.

    Raises:
        QueryError: When a name is missing or malformed, or a reserved word does not stand alone.
    """
    names = tuple(part.strip() for part in text.split("*"))
    for name in names:
        if not _NAME.fullmatch(name):
            found = f"{name!r}" if name else "nothing"
            raise QueryError(
                f"query {text!r} has {found} where a name should be",
                hint='write names separated by "*", such as "age18plus * hispanic * race", or "total" or "detailed"',
            )
    alone = RESERVED.intersection(names)
    if alone and len(names) > 1:
        raise QueryError(f"query {text!r} multiplies the reserved word {min(alone)!r}, which stands alone")
    return names


def unknown_name(name: str, known: Iterable[str], where: str) -> QueryError:
    """Make the error for a name that means nothing, with the nearest one that does.

    Args:
        name: The unknown name.
        known: All names that would have been right.
        where: Where it was found, for the message.

    Returns:
        The error, for the caller to raise.
    """
    choices = tuple(known)
    nearest = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    guess = f"did you mean {nearest[0]!r}? " if nearest else ""
    return QueryError(f"{where} names {name!r}, which is unknown", hint=f"{guess}known names: {', '.join(choices)}")
