"""Caps: the most that all runs on a dataset may cost together, beyond which no run is begun."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from das_spark.errors import BudgetError, PrivacyGuardError
from das_spark.privacy.accounting import PUBLISHED_DELTA, Composition, Spending, compose
from das_spark.privacy.budget import exact


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
        """What releases cost, in the measure of this cap.

        Args:
            total: Of all of them together.
        """
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
    """The caps that hold for a run: of each kind the tightest one, unless it was raised by naming it.

    Args:
        earlier: Cap of each earlier run, and the one that it named as what held before.
        cap: That of the run; None for none of its own.
        was: What the run names as the cap before.

    Raises:
        PrivacyGuardError: The run has a higher cap than that in force, and does not name the latter.
    """
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


def require_below(caps: Iterable[Cap], spent: Iterable[Spending], asked: Iterable[Spending]) -> None:
    """Refuse what would exceed a cap.

    Args:
        caps: Those in force.
        spent: All releases that are charged already.
        asked: What is to be charged.

    Raises:
        PrivacyGuardError: Together they cost more than a cap; what is spent, asked and allowed is named.
    """
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
