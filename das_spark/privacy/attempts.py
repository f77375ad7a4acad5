"""Attempts at measuring a level, as the ledger holds them: what was drawn, by which attempt, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from das_spark.errors import PrivacyGuardError

#: Says of a line that it is an attempt's; lines of runs say nothing, or `RUN`.
ATTEMPT: Final = "attempt"
_TEXTS: Final = ("entry", "geolevel", "instance", "place")


class DrawState(StrEnum):
    """How far the ledger knows an attempt to be."""

    OPENED = "opened"
    STAGED = "staged"
    DESTROYED = "destroyed"


#: State in the ledger -> states that may follow. What a driver stages that has lost its run is destroyed as well.
_AFTER: Final = {
    None: (DrawState.OPENED, DrawState.DESTROYED),
    DrawState.OPENED: (DrawState.STAGED, DrawState.DESTROYED),
    DrawState.STAGED: (DrawState.DESTROYED,),
    DrawState.DESTROYED: (),
}


@dataclass(frozen=True, slots=True)
class AttemptLine:
    """One attempt at measuring a level of a run.

    Args:
        entry: Identity of the run, as in its entry.
        geolevel: Name of the level.
        number: Of the attempt at this level, from 1.
        instance: Random identity that the attempt got before it drew.
        state: How far it came.
        place: Identity of the folder in which it was opened, on the disk where that folder lay.
    """

    entry: str
    geolevel: str
    number: int
    instance: str
    state: DrawState
    place: str

    @property
    def key(self) -> tuple[str, str, int]:
        """What there may be one attempt of."""
        return self.entry, self.geolevel, self.number

    def follows(self, earlier: AttemptLine | None) -> bool:
        """Whether the attempt may be in this state after an earlier line.

        Args:
            earlier: The last line of the attempt of this number; None for none.
        """
        if earlier is None:
            return self.state in _AFTER[None]
        same = replace(self, state=earlier.state) == earlier
        return same and (self.state is earlier.state or self.state in _AFTER[earlier.state])

    def as_record(self) -> dict[str, Any]:
        """The attempt as JSON values."""
        return {
            "kind": ATTEMPT,
            "entry": self.entry,
            "geolevel": self.geolevel,
            "number": self.number,
            "instance": self.instance,
            "state": self.state.value,
            "place": self.place,
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> AttemptLine:
        """The attempt of a record.

        Args:
            record: Result of `as_record`, as it was read.

        Raises:
            PrivacyGuardError: It is none.
        """
        try:
            texts = {name: record[name] for name in _TEXTS}
            number, state = record["number"], DrawState(record["state"])
        except (KeyError, ValueError, TypeError) as error:
            raise PrivacyGuardError(f"not an attempt of a privacy ledger: {type(error).__name__}: {error}") from error
        if not isinstance(number, int) or not all(isinstance(text, str) for text in texts.values()):
            raise PrivacyGuardError("not an attempt of a privacy ledger: a text or number is of another type")
        return cls(number=number, state=state, **texts)
