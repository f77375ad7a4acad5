"""Exact budgets: shares and totals as fractions from the run file to the sampler, no float between; and their caps."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, Final

from das_spark.errors import BudgetError, PrivacyGuardError, did_you_mean, listed
from das_spark.limits import MOST_DENOMINATOR, MOST_DIGITS
from das_spark.privacy.accounting import PUBLISHED_DELTA, Composition, Framework, Release, compose
from das_spark.privacy.mechanisms import Mechanism, mechanism_for

#: The digits of an exponent; there may be "_" between them.
_EXPONENT: Final = re.compile(r"[eE][+-]?([0-9_]*)")
#: Digits of an exponent that is looked at.
_EXPONENT_DIGITS: Final = 9
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
            f"{where}: expected an exact number, found {type(value).__name__} {reprlib.repr(value)}",
            hint='write it in quotes, as a fraction or a decimal: "1/4" or "0.25"',
        )
    _check_length(value, where)
    try:
        if isinstance(value, str) and not value.isascii():
            raise ValueError(value)
        return Fraction(value)
    except (ValueError, ZeroDivisionError) as error:
        raise BudgetError(
            f"{where}: {value!r} is not a number", hint='write a fraction or a decimal: "1/4" or "0.25"'
        ) from error


def _check_length(value: int | str, where: str) -> None:
    """Refuse what no float and no page can show, before its digits are computed: 1e999999999 has a thousand million."""
    if _signs(value) > MOST_DIGITS:
        found = "this number"
        if isinstance(value, str):
            found = value if len(value) <= _SAID else f"{value[:_SAID]}..."
        raise BudgetError(
            f"{where}: {found} has more than {MOST_DIGITS} digits",
            hint="no budget or share needs so many; write fewer",
        )


def _signs(value: int | str) -> int:
    """How many signs a number has, its exponent written out; no fewer than it has digits."""
    if isinstance(value, int):
        return MOST_DIGITS + 1 if abs(value) >= 10**MOST_DIGITS else MOST_DIGITS
    powers = [digits.replace("_", "").lstrip("0") for digits in _EXPONENT.findall(value)]
    return len(value) + max((int(power[:_EXPONENT_DIGITS]) for power in powers if power), default=0)


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
        at_most: Most records of one contributor, whom the total protects with all of them.

    Raises:
        BudgetError: If the total or a share is not exact and positive, a geolevel stands twice, shares do not sum to 1,
            or the bound is below 1.
    """

    framework: Framework
    total: Fraction
    levels: tuple[LevelBudget, ...]
    at_most: int = 1

    def __post_init__(self) -> None:
        """Check total and geolevels."""
        framework: object = self.framework
        if not isinstance(framework, Framework):
            names = ", ".join(Framework)
            raise BudgetError(f"budget: unknown framework {framework!r}", hint=f"choose one of {names}")
        _check_positive(self.total, "budget: total")
        if not self.levels:
            raise BudgetError("budget: no geolevel has a share")
        if self.at_most < 1:
            raise BudgetError(f"budget: a contributor has at most {self.at_most} records, and may have 1 at least")
        _check_unique((level.geolevel for level in self.levels), "budget")
        _check_sum((level.share for level in self.levels), "budget: geolevels")

    def level(self, geolevel: str) -> LevelBudget:
        """The budget of one geolevel.

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
        """The distribution of the noise of one query of one geolevel.

        Args:
            geolevel: Name of the geolevel.
            query: Name of one of its queries.

        Returns:
            The distribution that spends exactly what `spent` says.

        Raises:
            BudgetError: If there is no such geolevel, or it has no such query, or its noise is too wide.
        """
        return self._noise(geolevel, query, self.spent(geolevel, query))

    def mechanism_at(self, geolevel: str, query: str, share: Fraction) -> Mechanism:
        """The distribution of the noise of a query of geounits that have a share of their own.

        Args:
            geolevel: Their geolevel, which says what part of the share the query has.
            query: The query.
            share: Share of the total of each of the geounits (Theorem 3 of Cumings-Menon et al. 2022), > 0.
        """
        return self._noise(geolevel, query, self.total * share * self.level(geolevel).share_of(query))

    def _noise(self, geolevel: str, query: str, spent: Fraction) -> Mechanism:
        try:
            return mechanism_for(self.framework, spent, self.at_most)
        except BudgetError as error:
            raise BudgetError(f"budget, {query} at {geolevel}: {error.message}", hint=error.hint) from error


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
    if (total := sum_of_shares(shares, where)) != 1:
        raise BudgetError(f"{where}: shares sum to {total}, not 1")


def sum_of_shares(shares: Iterable[Fraction], where: str) -> Fraction:
    """Sum shares exactly.

    Args:
        shares: The shares.
        where: Key path or name of their table, for the message.

    Raises:
        BudgetError: Their common denominator has more digits than anybody needs: denominators without common factors
            make the sum of a few hundred shares take minutes.
    """
    parts, whole = list(shares), 1
    for share in parts:
        whole = lcm(whole, share.denominator)
        if whole >= 10**MOST_DENOMINATOR:
            raise BudgetError(
                f"{where}: the shares have a common denominator of more than {MOST_DENOMINATOR:,} digits",
                hint="write all of them with one denominator, such as 1000",
            )
    return Fraction(sum(share.numerator * (whole // share.denominator) for share in parts), whole)


def _unknown(kind: str, name: str, known: Sequence[str], place: str) -> BudgetError:
    hint = did_you_mean(name, known) or f"known: {listed(known)}"
    return BudgetError(f"no {kind} '{name}'{place}", hint=hint)


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that all runs on a dataset may cost together: an epsilon at a delta, or a rho.

    Args:
        epsilon: Exact, > 0; None where the cap is on rho.
        rho: Exact, > 0; None where the cap is on epsilon.
        delta: At which an epsilon is meant where a run is measured in rho; None takes the published one.

    Raises:
        BudgetError: There is not exactly one of epsilon and rho, or a number is out of range.
    """

    epsilon: Fraction | None = None
    rho: Fraction | None = None
    delta: Fraction | None = None

    def __post_init__(self) -> None:
        """Check that it is one cap, of numbers that can be."""
        if (self.epsilon is None) == (self.rho is None):
            raise BudgetError("a cap is on epsilon or on rho", hint='write { epsilon = "20" } or { rho = "5/2" }')
        if self.limit <= 0:
            raise BudgetError(f"a cap must be greater than 0, is {self.limit}")
        if self.delta is not None and (self.rho is not None or not 0 < self.delta < 1):
            raise BudgetError("delta stands beside epsilon, and lies between 0 and 1")

    @property
    def limit(self) -> Fraction:
        """The number that is not exceeded."""
        return next(each for each in (self.epsilon, self.rho, Fraction(0)) if each is not None)

    @property
    def kind(self) -> str:
        """What the limit is measured in: caps of one kind replace each other, those of two kinds hold both."""
        return "rho" if self.rho is not None else f"epsilon at delta {float(self._delta):g}"

    @property
    def _delta(self) -> Fraction:
        return self.delta or PUBLISHED_DELTA

    def spent(self, total: Composition) -> Fraction:
        """What releases cost, in the measure of this cap."""
        if self.rho is not None:
            return total.joint_rho or total.epsilon * total.epsilon / 2
        return total.epsilon if total.rho == 0 else Fraction(total.joint_epsilon(self._delta))

    def __str__(self) -> str:
        """Such as `rho 5/2`."""
        return f"{self.kind}: {self.limit}"

    def as_record(self) -> dict[str, str]:
        """The cap as JSON values; fractions as text."""
        given = {"epsilon": self.epsilon, "rho": self.rho, "delta": self.delta}
        return {name: str(value) for name, value in given.items() if value is not None}

    @classmethod
    def of(cls, record: Mapping[str, Any] | None) -> Cap | None:
        """The cap of a record.

        Args:
            record: Result of `as_record`, or None for no cap.

        Raises:
            BudgetError: It is none.
        """
        if record is None:
            return None
        return cls(**{name: exact(value, f"cap: {name}") for name, value in record.items()})


def caps_in_force(
    earlier: Iterable[tuple[Cap | None, Cap | None]], cap: Cap | None = None, was: Cap | None = None
) -> tuple[Cap, ...]:
    """The caps that hold for a run: of each kind the tightest one, unless it was raised by naming it."""
    force: dict[str, Cap] = {}
    for own, named in earlier:
        before = None if own is None else force.get(own.kind)
        if own is not None and (before is None or own.limit <= before.limit or _same(named, before)):
            force[own.kind] = own
    if cap is not None:
        before = force.get(cap.kind)
        if before is not None and cap.limit > before.limit and not _same(was, before):
            raise PrivacyGuardError(
                f"ledger.cap ({cap}) is higher than the cap that an earlier run on this dataset has set ({before})",
                hint="whoever answers for the budget raises it by naming both: ledger.cap, and the one that holds as "
                f"ledger.cap_was = {_as_toml(before)}",
            )
        force[cap.kind] = cap
    return tuple(force.values())


def require_below(caps: Iterable[Cap], spent: Iterable[Release], asked: Iterable[Release]) -> None:
    """Refuse what would exceed a cap."""
    before, more = list(spent), list(asked)
    for cap in caps:
        together = cap.spent(compose([*before, *more]))
        if together > cap.limit:
            raise PrivacyGuardError(
                f"the cap of this dataset would be exceeded ({cap}): spent so far"
                f" {_number(cap.spent(compose(before)))}, this run asks {_number(cap.spent(compose(more)))}, together"
                f" {_number(together)}",
                hint="nothing was drawn; ask less (budget), or let whoever answers for the budget raise ledger.cap",
            )


def _same(named: Cap | None, cap: Cap) -> bool:
    return named is not None and (named.kind, named.limit) == (cap.kind, cap.limit)


def _as_toml(cap: Cap) -> str:
    return "{ " + ", ".join(f'{name} = "{value}"' for name, value in cap.as_record().items()) + " }"


def _number(value: Fraction) -> str:
    """Exact where that can be read, and to six digits where it comes from a conversion."""
    longest = 24
    return text if len(text := str(value)) <= longest else f"{float(value):.6g}"
