"""What is spent, exactly: fractions from the run file to the sampler, and no float anywhere between."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from textwrap import shorten
from typing import Final

from das_spark.errors import BudgetError
from das_spark.privacy.mechanisms import Framework, Mechanism, mechanism_for

__all__ = ["Budget", "Framework", "LevelBudget", "QueryShare", "exact"]

#: Digits of a number in a run file, its exponent written out; a float reaches as far.
_MOST_DIGITS: Final = 300
#: Signs of a number that a message shows.
_SAID: Final = 40


def exact(value: str | int | Fraction, where: str) -> Fraction:
    """Read a number that decides privacy.

    Args:
        value: "1/4", "0.25", an integer or a fraction.
        where: Key path or name of the number, for the message.

    Returns:
        The number, without any rounding.

    Raises:
        BudgetError: If the value is a float or a boolean, or cannot be read.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise BudgetError(
            f"{where}: expected an exact number, found {type(value).__name__} {value!r}",
            hint='write it in quotes, as a fraction or a decimal: "1/4" or "0.25"',
        )
    _check_length(value, where)
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError) as error:
        raise BudgetError(
            f"{where}: {value!r} is not a number", hint='write a fraction or a decimal: "1/4" or "0.25"'
        ) from error


def _check_length(value: int | str, where: str) -> None:
    """Refuse what no float and no page can show, before its digits are computed: 1e999999999 has a thousand million."""
    if isinstance(value, int):
        too_long = abs(value) >= 10**_MOST_DIGITS
    else:
        exponents = map(int, re.findall(r"[eE]([+-]?[0-9]{1,9})(?![0-9_])", value))
        signs = len(value) + max((abs(each) for each in exponents), default=0)
        too_long = signs > _MOST_DIGITS or re.search(r"[eE][+-]?[0-9_]{10}", value) is not None
    if too_long:
        found = shorten(str(value), _SAID, placeholder="...") if isinstance(value, str) else "this number"
        raise BudgetError(
            f"{where}: {found} has more than {_MOST_DIGITS} digits",
            hint="no budget or share needs so many; write fewer",
        )


@dataclass(frozen=True, slots=True)
class QueryShare:
    """The share of one query in the budget of its geolevel.

    Args:
        query: Name of the query.
        share: Exact share, > 0.
    """

    query: str
    share: Fraction


@dataclass(frozen=True, slots=True)
class LevelBudget:
    """The share of one geolevel in the total, and how its queries divide it.

    Args:
        geolevel: Name of the geolevel.
        share: Exact share of the total, > 0.
        queries: Shares of the queries; they sum to exactly 1.

    Raises:
        BudgetError: If a share is not exact and positive, a query stands twice, or the shares do not sum to 1.
    """

    geolevel: str
    share: Fraction
    queries: tuple[QueryShare, ...]

    def __post_init__(self) -> None:
        """Check the queries' shares."""
        where = f"budget of geolevel '{self.geolevel}'"
        _check_positive(self.share, f"{where}: share")
        if not self.queries:
            raise BudgetError(
                f"{where}: no query has a share", hint="give it queries, or take the geolevel out of the run"
            )
        for item in self.queries:
            _check_positive(item.share, f"{where}: share of query '{item.query}'")
        _check_unique((item.query for item in self.queries), where)
        _check_sum((item.share for item in self.queries), where)

    def share_of(self, query: str) -> Fraction:
        """The exact share of a query.

        Args:
            query: Name of the query.

        Raises:
            BudgetError: If the geolevel has no such query.
        """
        for item in self.queries:
            if item.query == query:
                return item.share
        names = [item.query for item in self.queries]
        raise _unknown("query", query, names, f" in the budget of geolevel '{self.geolevel}'")


@dataclass(frozen=True, slots=True)
class Budget:
    """The whole privacy budget of a run.

    Args:
        framework: What the total is measured in: epsilon or rho.
        total: Exact total, > 0.
        levels: Budgets of the geolevels, root first; their shares sum to exactly 1.

    Raises:
        BudgetError: If the total or a share is not exact and positive, a geolevel stands twice, or shares do not sum
            to 1.
    """

    framework: Framework
    total: Fraction
    levels: tuple[LevelBudget, ...]

    def __post_init__(self) -> None:
        """Check total and geolevels."""
        framework: object = self.framework
        if not isinstance(framework, Framework):
            names = ", ".join(Framework)
            raise BudgetError(f"budget: unknown framework {framework!r}", hint=f"choose one of {names}")
        _check_positive(self.total, "budget: total")
        if not self.levels:
            raise BudgetError("budget: no geolevel has a share")
        _check_unique((level.geolevel for level in self.levels), "budget")
        _check_sum((level.share for level in self.levels), "budget: geolevels")

    def level(self, geolevel: str) -> LevelBudget:
        """The budget of one geolevel.

        Args:
            geolevel: Name of the geolevel.

        Raises:
            BudgetError: If there is none of that name.
        """
        for level in self.levels:
            if level.geolevel == geolevel:
                return level
        raise _unknown("geolevel", geolevel, [level.geolevel for level in self.levels], " in the budget")

    def spent(self, geolevel: str, query: str) -> Fraction:
        """Epsilon or rho spent on one query of one geolevel: total x level share x query share, exactly.

        Args:
            geolevel: Name of the geolevel.
            query: Name of one of its queries.

        Raises:
            BudgetError: If there is no such geolevel, or it has no such query.
        """
        level = self.level(geolevel)
        return self.total * level.share * level.share_of(query)

    def mechanism(self, geolevel: str, query: str) -> Mechanism:
        """The law of the noise of one query of one geolevel.

        Args:
            geolevel: Name of the geolevel.
            query: Name of one of its queries.

        Returns:
            The law that spends exactly what `spent` says.

        Raises:
            BudgetError: If there is no such geolevel, or it has no such query.
        """
        return mechanism_for(self.framework, self.spent(geolevel, query))

    def mechanism_at(self, geolevel: str, query: str, share: Fraction) -> Mechanism:
        """The law of the noise of a query of geounits that have a share of their own.

        Args:
            geolevel: Their geolevel, which says what part of the share the query has.
            query: The query.
            share: Share of the total of each of the geounits (Theorem 3 of Cumings-Menon et al. 2022), > 0.
        """
        return mechanism_for(self.framework, self.total * share * self.level(geolevel).share_of(query))


def _check_positive(value: object, where: str) -> None:
    if not isinstance(value, Fraction):
        raise BudgetError(f"{where}: expected an exact fraction, found {type(value).__name__} {value!r}")
    if value <= 0:
        raise BudgetError(f"{where}: must be greater than 0, is {value}")


def _check_unique(names: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BudgetError(f"{where}: '{name}' stands twice")
        seen.add(name)


def _check_sum(shares: Iterable[Fraction], where: str) -> None:
    total = sum(shares, Fraction(0))
    if total != 1:
        raise BudgetError(f"{where}: shares sum to {total}, not 1")


def _unknown(kind: str, name: str, known: Sequence[str], place: str) -> BudgetError:
    nearest = get_close_matches(name, known, n=1)
    hint = f"did you mean '{nearest[0]}'?" if nearest else f"known: {', '.join(known)}"
    return BudgetError(f"no {kind} '{name}'{place}", hint=hint)
