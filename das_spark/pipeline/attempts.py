"""Whether this folder may draw or publish a level, by what the ledger of the dataset knows of all attempts at it.

The ledger lies outside the run folder. A folder that was copied, restored or rolled back therefore finds attempts there
that its own journal does not know, or not so far, or that are open in another place: nothing is drawn then.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import TYPE_CHECKING, Final

from das_spark.errors import PrivacyGuardError
from das_spark.privacy import AttemptLine, DrawState, Ledger
from das_spark.store import Attempt, State, write_durably

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.store import RunLayout

#: State of the journal -> what the ledger is told of it.
_TOLD: Final = {
    State.OPENED: DrawState.OPENED,
    State.STAGED: DrawState.STAGED,
    State.PROMOTED: DrawState.STAGED,
    State.DESTROYED: DrawState.DESTROYED,
}
#: State in the ledger -> states of the journal that are not behind it.
_NOT_BEHIND: Final = {
    DrawState.OPENED: frozenset(State),
    DrawState.STAGED: frozenset({State.STAGED, State.PROMOTED, State.DESTROYED}),
    DrawState.DESTROYED: frozenset({State.DESTROYED}),
}
#: State of the journal -> states of the ledger that it has been in before: it draws after `opened` is in the ledger,
#: and publishes after `staged` is.
_BEFORE: Final = {
    State.OPENED: (None, *DrawState),
    State.STAGED: (DrawState.OPENED, DrawState.STAGED),
    State.PROMOTED: (DrawState.STAGED,),
    State.DESTROYED: (None, *DrawState),
}
_ON = "go on in the folder in which the run was begun; or start a new run, which spends its own budget"


def place_of(layout: RunLayout) -> str:
    """Identity of a run folder where it lies: that of a random word in it, and of the very file that holds the word.

    A copy of the file, or one that was restored, has another number on its disk or another time of change. The identity
    stands in the ledger alone, so that no copy can bring it along.

    Args:
        layout: Of the run.

    Raises:
        OutputError: The disk is full.
    """
    file = layout.restricted.instance
    if not file.is_file():
        # Closed to others from the first: a later change of its mode would make it another place.
        write_durably(file, json.dumps({"instance": secrets.token_hex(16)}) + "\n", mode=0o600)
    found = file.stat()
    word = file.read_bytes()
    return hashlib.sha256(word + f"{found.st_ino} {found.st_ctime_ns}".encode()).hexdigest()[:32]


def new_lines(
    ledger: Ledger, run_id: str, geolevel: str, journal: Sequence[Attempt], place: str
) -> tuple[AttemptLine, ...]:
    """What the ledger lacks of the attempts in a journal, if both can be true.

    Args:
        ledger: As it is.
        run_id: Identity of the run in it.
        geolevel: The level.
        journal: The attempts of the run at it.
        place: Result of `place_of`.

    Raises:
        PrivacyGuardError: See `require_agreement`.
    """
    require_agreement(ledger, run_id, geolevel, journal, place)
    known = {each.number: each for each in ledger.attempts_at(run_id, geolevel)}
    lines = []
    for attempt in journal:
        if not attempt.instance:
            continue  # nothing was drawn under it
        line = known.get(attempt.number)
        state, where = _TOLD[attempt.state], place if line is None else line.place
        if line is None or line.state is not state:
            lines.append(AttemptLine(run_id, geolevel, attempt.number, attempt.instance, state, where))
    return tuple(lines)


def require_agreement(ledger: Ledger, run_id: str, geolevel: str, journal: Sequence[Attempt], place: str) -> None:
    """Refuse a folder that is behind the ledger, a ledger that is behind the folder, and an attempt open elsewhere.

    A driver may have died between the step of the journal and that of the ledger: then one is a single step ahead,
    which is no contradiction.

    Args:
        ledger: As it is.
        run_id: Identity of the run in it.
        geolevel: The level.
        journal: The attempts of the run at it.
        place: Result of `place_of`.

    Raises:
        PrivacyGuardError: Both cannot be true.
    """
    own = {each.number: each for each in journal}
    known = {each.number: each for each in ledger.attempts_at(run_id, geolevel)}
    for number, line in known.items():
        attempt = own.get(number)
        if attempt is None or attempt.instance != line.instance or attempt.state not in _NOT_BEHIND[line.state]:
            raise PrivacyGuardError(
                f"measurements of level {geolevel}: the ledger knows of attempt {number} as {line.state}, and the "
                f"journal of this folder {_said(attempt, line)}. The folder was copied, restored or rolled back: "
                "another one has gone on with the run, and may have published what it drew",
                hint=f"nothing is drawn again here; {_ON}",
            )
        if attempt.state is State.OPENED and line.place != place:
            raise PrivacyGuardError(
                f"measurements of level {geolevel}: attempt {number} was opened in another place; this folder is a "
                "copy, or was restored. Where it was opened it may still be drawn and published",
                hint=f"nothing is drawn again here; {_ON}",
            )
    for number, attempt in own.items():
        line_state = known[number].state if number in known else None
        if attempt.instance and line_state not in _BEFORE[attempt.state]:
            raise PrivacyGuardError(
                f"measurements of level {geolevel}: the journal has attempt {number} as {attempt.state}, and the "
                f"ledger {'does not know it' if line_state is None else f'as {line_state}'}. The ledger was rolled "
                "back, or replaced by an older copy",
                hint="bring back the ledger as it was; releases that it does not count cannot be charged by guessing",
            )


def _said(attempt: Attempt | None, line: AttemptLine) -> str:
    if attempt is None:
        return "does not know it"
    return "has another one in its place" if attempt.instance != line.instance else f"as {attempt.state}"
