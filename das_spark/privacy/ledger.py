"""The cumulative ledger of an input: every run ever made on it, in exact fractions.

Text in, text out: one JSON object a line. Lines are only ever added; a later line of the same run replaces the
earlier one, so a run writes itself when it begins to measure and again whenever a geolevel is complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from das_spark.errors import BudgetError, PrivacyGuardError
from das_spark.privacy.accounting import Composition, compose
from das_spark.privacy.budget import Budget, Framework, LevelBudget, QueryShare, exact

LEDGER_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One run on the input.

    Args:
        run_id: Name of the run, unique on this input.
        created: When it began, ISO 8601 with time zone.
        product: Name of the product.
        table: What was measured: persons, units, ... .
        budget: The whole budget of the run, with every share.
        insecure: Whether its noise came from a test key, so that nothing protects what it published.
        completed_levels: Geolevels whose measurements were released, in the order of the budget.

    Raises:
        PrivacyGuardError: If a completed geolevel has no budget.
    """

    run_id: str
    created: str
    product: str
    table: str
    budget: Budget
    insecure: bool
    completed_levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Nothing is released that was not budgeted."""
        known = {level.geolevel for level in self.budget.levels}
        for name in self.completed_levels:
            if name not in known:
                raise PrivacyGuardError(f"run {self.run_id}: geolevel '{name}' was completed without a budget")

    @property
    def framework(self) -> Framework:
        """What the total is measured in."""
        return self.budget.framework

    @property
    def total(self) -> Fraction:
        """What the run may spend, and is charged with from its beginning."""
        return self.budget.total

    @property
    def released(self) -> Fraction:
        """What the completed geolevels have spent so far."""
        shares = (level.share for level in self.budget.levels if level.geolevel in self.completed_levels)
        return self.budget.total * sum(shares, Fraction(0))

    def with_completed(self, geolevel: str) -> LedgerEntry:
        """The entry after one more geolevel is complete; the same entry if it was already.

        Args:
            geolevel: Name of the geolevel.

        Raises:
            PrivacyGuardError: If the geolevel has no budget.
        """
        done = {*self.completed_levels, geolevel}
        known = [level.geolevel for level in self.budget.levels]
        if geolevel not in known:
            raise PrivacyGuardError(f"run {self.run_id}: geolevel '{geolevel}' was completed without a budget")
        return replace(self, completed_levels=tuple(name for name in known if name in done))

    def as_record(self) -> dict[str, Any]:
        """The entry as JSON values; fractions as text."""
        return {
            "format": LEDGER_FORMAT,
            "run_id": self.run_id,
            "created": self.created,
            "product": self.product,
            "table": self.table,
            "framework": self.framework.value,
            "total": str(self.total),
            "levels": [_level_record(level) for level in self.budget.levels],
            "insecure": self.insecure,
            "completed_levels": list(self.completed_levels),
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> LedgerEntry:
        """The entry of a record, such as a manifest holds.

        Args:
            record: Result of `as_record`, as it was read.

        Raises:
            PrivacyGuardError: If the record is no entry of this format.
        """
        try:
            if record["format"] != LEDGER_FORMAT:
                raise PrivacyGuardError(f"an entry of format {record['format']}, expected {LEDGER_FORMAT}")
            return _entry(record)
        except (ValueError, KeyError, TypeError, BudgetError) as error:
            raise _no_entry(error) from error

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.as_record(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> LedgerEntry:
        """Read one entry.

        Args:
            text: One line of JSON, as `to_json` writes it.

        Raises:
            PrivacyGuardError: If the text is no entry of this format.
        """
        try:
            record = json.loads(text)
        except ValueError as error:
            raise _no_entry(error) from error
        return cls.of(record)


@dataclass(frozen=True, slots=True)
class Ledger:
    """All runs on one input, in the order of their beginning.

    Args:
        entries: The latest state of every run; no run twice.

    Raises:
        PrivacyGuardError: If a run stands twice.
    """

    entries: tuple[LedgerEntry, ...] = ()

    def __post_init__(self) -> None:
        """A run is charged once."""
        names = [entry.run_id for entry in self.entries]
        if len(set(names)) != len(names):
            raise PrivacyGuardError("a run stands twice in the privacy ledger")

    def with_entry(self, entry: LedgerEntry) -> Ledger:
        """Add a run, or replace its earlier state.

        Args:
            entry: The run, as it stands now.

        Returns:
            A new ledger; the run keeps its place, or comes last.

        Raises:
            PrivacyGuardError: If the run stands there with another budget or key, or had completed more geolevels.
        """
        for place, earlier in enumerate(self.entries):
            if earlier.run_id == entry.run_id:
                _check_successor(earlier, entry)
                return Ledger((*self.entries[:place], entry, *self.entries[place + 1 :]))
        return Ledger((*self.entries, entry))

    def union(self, other: Ledger) -> Ledger:
        """The runs of two copies of a ledger; of a run in both, the state that is further on.

        Args:
            other: The other copy.

        Returns:
            A new ledger: the runs of this copy in their order, then those that only the other has.

        Raises:
            PrivacyGuardError: If a run stands in both with different budgets or keys.
        """
        whole = self
        for entry in other.entries:
            own = next((each for each in self.entries if each.run_id == entry.run_id), entry)
            behind, ahead = sorted((own, entry), key=lambda each: len(each.completed_levels))
            _check_successor(behind, ahead)
            whole = whole.with_entry(ahead)
        return whole

    def composition(self) -> Composition:
        """What all runs with a real key cost together, each charged with its whole total."""
        return compose(entry for entry in self.entries if not entry.insecure)

    @property
    def insecure_runs(self) -> tuple[str, ...]:
        """Runs under a test key: what they published is not protected at all, at no price that can be summed."""
        return tuple(entry.run_id for entry in self.entries if entry.insecure)

    def describe(self, delta: Fraction) -> str:
        """The cumulative cost, in plain sentences.

        Args:
            delta: At which the epsilon of all runs together is said, in (0, 1).

        Raises:
            BudgetError: If delta is not in (0, 1), and a run with a real key is measured in rho.
        """
        total = self.composition()
        count = len(self.entries) - len(self.insecure_runs)
        parts = [f"{count} run{'' if count == 1 else 's'} with a real key on this input."]
        if total.epsilon:
            parts.append(f"Pure differential privacy: epsilons sum to {total.epsilon}.")
        if total.rho:
            parts.append(f"Zero-concentrated differential privacy: rhos sum to {total.rho}.")
        if total.epsilon and total.rho:
            parts.append(f"Together they are {total.joint_rho}-zCDP, since epsilon implies rho = epsilon^2/2.")
        if total.rho:
            parts.append(f"All together: epsilon {total.joint_epsilon(delta):.6g} at delta {float(delta):g}.")
        if self.insecure_runs:
            parts.append(f"Under test keys, and so without any protection: {', '.join(self.insecure_runs)}.")
        return " ".join(parts)

    @classmethod
    def from_json_lines(cls, text: str) -> Ledger:
        """Read a ledger; later lines of a run replace earlier ones.

        Args:
            text: One entry a line; empty lines do not count.

        Raises:
            PrivacyGuardError: If a line cannot be read, naming its number, or contradicts an earlier one.
        """
        ledger = cls()
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                ledger = ledger.with_entry(LedgerEntry.from_json(line))
            except PrivacyGuardError as error:
                raise PrivacyGuardError(
                    f"privacy ledger, line {number}: {error.message}",
                    hint="the ledger is never edited by hand; restore it from its copy",
                ) from error
        return ledger


def _check_successor(earlier: LedgerEntry, later: LedgerEntry) -> None:
    """A run keeps its identity, and what was released stays released."""
    same = replace(later, completed_levels=earlier.completed_levels) == earlier
    if not same or not set(earlier.completed_levels) <= set(later.completed_levels):
        raise PrivacyGuardError(f"run {later.run_id} stands in the privacy ledger with another budget or state")


def _no_entry(error: Exception) -> PrivacyGuardError:
    return PrivacyGuardError(f"not an entry of a privacy ledger: {type(error).__name__}: {error}")


def _level_record(level: LevelBudget) -> dict[str, Any]:
    queries = [{"query": item.query, "share": str(item.share)} for item in level.queries]
    return {"geolevel": level.geolevel, "share": str(level.share), "queries": queries}


def _entry(record: Mapping[str, Any]) -> LedgerEntry:
    levels = tuple(
        LevelBudget(
            level["geolevel"],
            exact(level["share"], "share"),
            tuple(QueryShare(item["query"], exact(item["share"], "share")) for item in level["queries"]),
        )
        for level in record["levels"]
    )
    return LedgerEntry(
        run_id=record["run_id"],
        created=record["created"],
        product=record["product"],
        table=record["table"],
        budget=Budget(Framework(record["framework"]), exact(record["total"], "total"), levels),
        insecure=record["insecure"],
        completed_levels=tuple(record["completed_levels"]),
    )
