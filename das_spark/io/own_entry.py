"""A run's own record of what it is charged with: never behind the ledger of its dataset."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from das_spark.errors import PrivacyGuardError
from das_spark.io.files import write_durably
from das_spark.privacy import LedgerEntry

if TYPE_CHECKING:
    from das_spark.io.restricted_layout import RestrictedLayout

#: Key that says whether the ledger is known to have the entry, and its value as long as it is not.
_LEDGER: Final = "ledger"
_CHARGING: Final = "charging"
_CHARGED: Final = "charged"


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """The entry of a run in its restricted root.

    Attributes:
        entry: The run, as it stands or is about to stand in the ledger.
        entered: Whether the ledger is known to have an entry of the run: one without has been lost, or rolled back.
    """

    entry: LedgerEntry
    entered: bool

    @property
    def is_charged(self) -> bool:
        """Whether the ledger is known to have the run as charged."""
        return self.entered and self.entry.is_charged

    @classmethod
    def find(cls, restricted: RestrictedLayout) -> Self | None:
        """The own entry of a run as it was last written; None where the run is not entered yet.

        Args:
            restricted: Its restricted root.

        Raises:
            PrivacyGuardError: It cannot be understood.
        """
        file = restricted.ledger_entry
        if not file.is_file():
            return None
        text = file.read_text(encoding="utf-8")
        entry = LedgerEntry.from_json(text)
        state = json.loads(text).get(_LEDGER, _CHARGED)  # earlier versions did not say it
        if state not in (_CHARGING, _CHARGED):
            raise PrivacyGuardError(f"{file}: '{state}' is no state of a run in its ledger")
        return cls(entry, state == _CHARGED)

    def save(self, restricted: RestrictedLayout) -> None:
        """Write the own entry, durably.

        Args:
            restricted: The restricted root of the run.

        Raises:
            OutputError: The disk is full.
        """
        state = _CHARGED if self.entered else _CHARGING
        record = {_LEDGER: state, **self.entry.as_record()}
        write_durably(restricted.ledger_entry, json.dumps(record, ensure_ascii=False), mode=0o600)
