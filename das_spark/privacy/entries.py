"""The entry of a run in the ledger of a dataset: what it may spend, what it publishes exactly, how far it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from das_spark.errors import BudgetError, PrivacyGuardError
from das_spark.privacy.budget import Budget, Framework, LevelBudget, QueryShare, exact
from das_spark.privacy.caps import Cap

LEDGER_FORMAT: Final = 2
#: Entries of this format say nothing of datasets, invariants and caps, and are still read.
_FIRST_FORMAT: Final = 1


class EntryState(StrEnum):
    """What a run has come to publish."""

    INVARIANTS = "invariants"
    CHARGED = "charged"


@dataclass(frozen=True, slots=True)
class DeclaredInvariants:
    """What a run publishes exactly.

    Args:
        total_at: Geolevel whose totals are exact, and which a record does not leave between neighbours; None for none.
        units: Whether the units of each class are exact in every geounit of the lowest geolevel.
        vacant: Whether the vacant ones are.
        sentences: The same in words.
    """

    total_at: str | None
    units: bool
    vacant: bool
    sentences: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """The invariants as JSON values."""
        flags = {"total_at": self.total_at, "units": self.units, "vacant": self.vacant}
        return flags | {"sentences": list(self.sentences)}


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One run on the dataset.

    Args:
        run_id: Name of the run, unique on this dataset.
        created: When it began, ISO 8601 with time zone.
        product: Name of the product.
        table: What one record is that was measured: person, unit, ... .
        budget: The whole budget of the run, with every share.
        insecure: Whether its noise came from a test key, so that nothing protects what it published.
        completed_levels: Geolevels whose measurements were released, in the order of the budget.
        dataset: Name that the operator gave the dataset; empty where none was given.
        contents: SHA-256 of the contents of its confidential files, sorted. RESTRICTED: left out of public records.
        invariants: What the run publishes exactly; None where an earlier version has not said it.
        state: Whether the run is charged, or has published its invariants alone.
        cap: Cap on the cost of all runs that the run was charged under; None for none of its own.
        cap_was: The cap before that the run named, to raise it.
        acknowledged: What whoever began the run has acknowledged of it.
        manifest: SHA-256 of the public manifest, which lists every public file with its own; empty until it is written.

    Raises:
        PrivacyGuardError: If a completed geolevel has no budget, or the run is not charged with it.
    """

    run_id: str
    created: str
    product: str
    table: str
    budget: Budget
    insecure: bool
    completed_levels: tuple[str, ...] = ()
    dataset: str = ""
    contents: tuple[str, ...] = ()
    invariants: DeclaredInvariants | None = None
    state: EntryState = EntryState.CHARGED
    cap: Cap | None = None
    cap_was: Cap | None = None
    acknowledged: tuple[str, ...] = ()
    manifest: str = ""

    def __post_init__(self) -> None:
        """Nothing is released that was not budgeted and charged."""
        known = {level.geolevel for level in self.budget.levels} if self.is_charged else set()
        for name in self.completed_levels:
            if name not in known:
                raise PrivacyGuardError(f"run {self.run_id}: geolevel '{name}' was completed without a budget")

    @property
    def is_charged(self) -> bool:
        """Whether the run is charged with its total; before that it has published its invariants at most."""
        return self.state is EntryState.CHARGED

    @property
    def framework(self) -> Framework:
        """What the total is measured in."""
        return self.budget.framework

    @property
    def total(self) -> Fraction:
        """What the run may spend, and is charged with before it measures; nothing as long as it is not."""
        return self.budget.total if self.is_charged else Fraction(0)

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
        """The entry as JSON values; fractions as text. RESTRICTED: it tells what the confidential files hold."""
        return self.public_record() | {"contents": list(self.contents), "manifest": self.manifest}

    def public_record(self) -> dict[str, Any]:
        """The entry as JSON values, without what tells of the confidential files; the manifest holds it."""
        return {
            "format": LEDGER_FORMAT,
            "run_id": self.run_id,
            "dataset": self.dataset,
            "created": self.created,
            "product": self.product,
            "table": self.table,
            "state": self.state.value,
            "framework": self.framework.value,
            "total": str(self.budget.total),
            "levels": [_level_record(level) for level in self.budget.levels],
            "invariants": None if self.invariants is None else self.invariants.as_record(),
            "cap": None if self.cap is None else self.cap.as_record(),
            "cap_was": None if self.cap_was is None else self.cap_was.as_record(),
            "acknowledged": list(self.acknowledged),
            "insecure": self.insecure,
            "completed_levels": list(self.completed_levels),
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> LedgerEntry:
        """The entry of a record, such as a manifest holds.

        Args:
            record: Result of `as_record` or `public_record`, or one of the first format, as it was read.

        Raises:
            PrivacyGuardError: If the record is no entry of these formats.
        """
        try:
            if record["format"] not in (_FIRST_FORMAT, LEDGER_FORMAT):
                raise PrivacyGuardError(f"an entry of format {record['format']}, expected {LEDGER_FORMAT}")
            return _entry(record)
        except (ValueError, KeyError, TypeError, AttributeError, BudgetError) as error:
            raise no_entry(error) from error

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
            raise no_entry(error) from error
        return cls.of(record)


def no_entry(error: Exception) -> PrivacyGuardError:
    """The refusal of a text that is no entry.

    Args:
        error: Why it is none.
    """
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
        **({} if record["format"] == _FIRST_FORMAT else _second_format(record)),
    )


def _second_format(record: Mapping[str, Any]) -> dict[str, Any]:
    declared = record["invariants"]
    return {
        "dataset": record["dataset"],
        "contents": tuple(record.get("contents", ())),  # not in public records
        "invariants": None
        if declared is None
        else DeclaredInvariants(
            declared["total_at"], declared["units"], declared["vacant"], tuple(declared["sentences"])
        ),
        "state": EntryState(record["state"]),
        "cap": Cap.of(record["cap"]),
        "cap_was": Cap.of(record["cap_was"]),
        "acknowledged": tuple(record["acknowledged"]),
        "manifest": record.get("manifest", ""),
    }
