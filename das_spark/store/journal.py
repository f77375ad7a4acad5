"""The journal of measuring: no number is ever drawn twice without the first draw being destroyed.

An attempt at a level is begun by one file, `<geolevel>.<attempt>.json`, created exclusively and made durable *before*
anything is drawn. Every further state is a file of its own with the next number, `<geolevel>.<attempt>-2.json` and so
on, created exclusively, too: of two drivers that would go on with one attempt, only one does. Earlier versions wrote a
further state in the place of the one before. The states:

    opened ----> staged ----> promoted          drawn, listed with checksums, moved to the public root
       |
       +-------> destroyed                      the driver died while drawing; bytes gone, tombstone set

Every step needs the lock of the run (`das_spark.store.lock.hold_run`). What does not fit this picture is refused:
somebody removed, added or changed files, and going on could publish two draws of one measurement.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.places import Place, disk_errors, inside, system_of
from das_spark.store.commit import (
    create_exclusively,
    discard,
    finished,
    make_folder,
    open_as_marker,
    part_files,
    promote,
    sync_folder,
)
from das_spark.store.digests import FileRecord, appeared, committed_record, record_of

if TYPE_CHECKING:
    from das_spark.store.layout import RunLayout

JOURNAL_VERSION = 1
_HEXADECIMAL = set(b"0123456789abcdef")
#: Stands for an identity of an attempt, in its length.
_WORD = "f" * 32
#: Name of a file: level, attempt, and behind the first state of an attempt the number of the state.
_FILE = re.compile(r"(.+)\.(\d+)(?:-(\d+))?\.json")
_UNKNOWN = "measurements are published that the journal does not know"


class State(StrEnum):
    """How far an attempt came."""

    OPENED = "opened"
    STAGED = "staged"
    PROMOTED = "promoted"
    DESTROYED = "destroyed"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at measuring one level.

    Attributes:
        geolevel: Which level.
        number: 1 for the first.
        state: How far it came.
        files: What was drawn, when it is staged or promoted.
        instance: Random identity of the attempt, by which the ledger knows it; empty where its file was cut short, so
            that nothing was drawn, or an earlier version wrote it.
    """

    geolevel: str
    number: int
    state: State
    files: tuple[FileRecord, ...] = ()
    instance: str = ""


class Step(StrEnum):
    """What to do next with a level."""

    NOTHING = "nothing"
    PROMOTE = "promote"
    DRAW = "draw"


@dataclass(frozen=True, slots=True)
class Decision:
    """What `Journal.next_step` found.

    Attributes:
        step: What to do.
        number: The attempt: the one to open and draw, the one to promote, or the one that is done.
    """

    step: Step
    number: int


@dataclass(frozen=True, slots=True)
class Journal:
    """The attempts of one run.

    Attributes:
        folder: `restricted/journal`.
        staging: The staging folder of (geolevel, attempt).
        target: The final folder of a geolevel's measurements.
    """

    folder: Place
    staging: Callable[[str, int], Place]
    target: Callable[[str], Place]

    @classmethod
    def of(cls, layout: RunLayout) -> Journal:
        """The measurement journal of a run."""
        restricted, public = layout.restricted, layout.public
        return cls(
            folder=restricted.journal,
            staging=lambda geolevel, attempt: restricted.staging("measurements", geolevel, attempt),
            target=lambda geolevel: public.level("measurements", geolevel),
        )

    def geolevels(self) -> tuple[str, ...]:
        """Names of the levels of which it knows attempts."""
        named = (_named(name)[0] for name in system_of(self.folder).names(str(self.folder)))
        return tuple(sorted({level for level in named if level}))

    def attempts(self, geolevel: str) -> tuple[Attempt, ...]:
        """All attempts at a level, oldest first.

        Raises:
            PrivacyGuardError: A file cannot be read, one is missing in between, or an older one was never destroyed.
        """
        names = system_of(self.folder).names(str(self.folder))
        states: dict[int, dict[int, str]] = {}  # number of an attempt -> number of a state -> name of its file
        for name in names:
            level, number, state = _named(name)
            if level == geolevel:
                states.setdefault(number, {})[state] = name
        if any(sorted(of) != list(range(1, len(of) + 1)) for of in states.values()):
            raise _refusal(geolevel, "states of an attempt are missing from the journal")
        found = [self._read(self.folder / of[len(of)]) for _, of in sorted(states.items())]
        if [attempt.number for attempt in found] != list(range(1, len(found) + 1)):
            raise _refusal(geolevel, "attempts are missing from the journal")
        if any(attempt.state is not State.DESTROYED for attempt in found[:-1]):
            raise _refusal(geolevel, "an older attempt was never destroyed")
        return tuple(found)

    def next_step(self, geolevel: str) -> Decision:
        """Find out how far a level is, destroying what a dead driver left half drawn.

        Returns:
            Nothing to do, staged files to promote, or an attempt to open and draw.

        Raises:
            PrivacyGuardError: Files and journal do not agree.
        """
        attempts = self.attempts(geolevel)
        last = attempts[-1] if attempts else None
        if finished(self.target(geolevel)):
            return self._check_finished(geolevel, last)
        if last is None:
            self._refuse_bytes(geolevel, 1)
            return Decision(Step.DRAW, 1)
        if last.state is State.PROMOTED:
            raise _refusal(geolevel, "the measurements were published, and are no longer there")
        if last.state is State.STAGED:
            self._check_staged(last)
            return Decision(Step.PROMOTE, last.number)
        self._refuse_bytes(geolevel, None)
        self._destroy(last)
        return Decision(Step.DRAW, last.number + 1)

    def require_known(self, geolevel: str) -> None:
        """Refuse measurements that are public and of which the journal knows nothing, before the run is charged again.

        Raises:
            PrivacyGuardError: There are such measurements, or the journal of the level cannot be read.
        """
        target = self.target(geolevel)
        if (finished(target) or part_files(target)) and not self.attempts(geolevel):
            raise _refusal(geolevel, _UNKNOWN)

    def open(self, geolevel: str, number: int) -> Attempt:
        """Open an attempt durably and exclusively; draw only after this returned.

        Args:
            geolevel: Name of the level.
            number: Number of the attempt, from 1.

        Raises:
            PrivacyGuardError: It was opened before, or is not the next one.
        """
        if len(self.attempts(geolevel)) != number - 1:
            raise _refusal(geolevel, f"attempt {number} is not the next one")
        attempt = Attempt(geolevel, number, State.OPENED, instance=secrets.token_hex(16))
        path = self._path(geolevel, number)
        with disk_errors(path):
            make_folder(self.folder)
            sync_folder(self.folder.parent)
            if not create_exclusively(path, _encode(attempt), mode=0o600):
                raise _refusal(geolevel, f"attempt {number} was opened before")
        return attempt

    def stage(self, geolevel: str, number: int, written: Sequence[FileRecord] | None = None) -> Attempt:
        """Record the bytes that were drawn: from here on they are the level's measurements, and no others.

        Args:
            geolevel: Name of the level.
            number: Number of the attempt, from 1.
            written: The files, by those who wrote them, with checksums made while writing; `promote` compares the files
                with them. By default they are read.

        Raises:
            PrivacyGuardError: The attempt is not open, nothing was written, or not what is said to have been.
            OutputError: Another driver has gone on with the attempt meanwhile.
        """
        attempt = self._expect(geolevel, number, State.OPENED)
        staging = self.staging(geolevel, number)
        files: tuple[Place, ...] = part_files(staging)
        if not files:
            raise _refusal(geolevel, f"attempt {number} left no files to stage")
        if written is not None and [each.name for each in written] != [path.name for path in files]:
            raise _refusal(geolevel, f"attempt {number} left other files than were written")
        for path in files:
            sync_folder(path)
        sync_folder(staging)
        records = tuple(map(record_of, files)) if written is None else tuple(written)
        return self._write(replace(attempt, state=State.STAGED, files=records), State.OPENED)

    def promote(self, geolevel: str, number: int) -> Attempt:
        """Publish exactly the staged bytes, and record it; safe to repeat after a crash.

        Args:
            geolevel: Name of the level.
            number: Number of the attempt, from 1.

        Raises:
            PrivacyGuardError: The attempt is not staged.
            OutputError: The disk is full, or another driver has gone on with the attempt meanwhile.
        """
        attempt = self._expect(geolevel, number, State.STAGED)
        promote(self.staging(geolevel, number), self.target(geolevel), attempt.files)
        open_as_marker(self.target(geolevel))
        appeared(self.target(geolevel))  # in its new mode
        return self._write(replace(attempt, state=State.PROMOTED), State.STAGED)

    def _check_finished(self, geolevel: str, last: Attempt | None) -> Decision:
        if last is None or last.state not in (State.STAGED, State.PROMOTED):
            raise _refusal(geolevel, _UNKNOWN)
        target = self.target(geolevel)
        if {committed_record(path, path.name) for path in part_files(target)} != set(last.files):
            raise _refusal(geolevel, "the published files are not those of the journal")
        if last.state is State.STAGED:  # the driver died between the marker and the journal
            self.promote(geolevel, last.number)
        return Decision(Step.NOTHING, last.number)

    def _check_staged(self, attempt: Attempt) -> None:
        staging, target = self.staging(attempt.geolevel, attempt.number), self.target(attempt.geolevel)
        for record in attempt.files:
            path = next(
                (folder / record.name for folder in (staging, target) if (folder / record.name).is_file()), None
            )
            if path is None or record_of(path) != record:
                raise _refusal(attempt.geolevel, f"{record.name}: the staged bytes are gone or changed")
        if not {path.name for path in part_files(target)} <= {record.name for record in attempt.files}:
            raise _refusal(attempt.geolevel, "the public folder holds files that were not staged")

    def _destroy(self, attempt: Attempt) -> None:
        if attempt.state is not State.DESTROYED:
            # Recorded before: what another driver has staged meanwhile is the only measurement of the level. Where this
            # one dies in between, the next one finds the record and destroys.
            self._write(replace(attempt, state=State.DESTROYED), State.OPENED)
        discard(self.staging(attempt.geolevel, attempt.number), tombstone=True)

    def _refuse_bytes(self, geolevel: str, number: int | None) -> None:
        """Refuse bytes in the public folder, and in the staging folder of an attempt that was never opened."""
        if part_files(self.target(geolevel)):
            raise _refusal(geolevel, "the public folder holds measurements of an unfinished attempt")
        if number is not None and self.staging(geolevel, number).exists():
            raise _refusal(geolevel, "staged bytes exist that the journal does not know")

    def _expect(self, geolevel: str, number: int, state: State) -> Attempt:
        attempts = self.attempts(geolevel)
        if not attempts or attempts[-1].number != number or attempts[-1].state is not state:
            raise _refusal(geolevel, f"attempt {number} is not {state}")
        return attempts[-1]

    def _path(self, geolevel: str, number: int, state: int = 1) -> Place:
        return inside(self.folder, f"{geolevel}.{number}{'' if state == 1 else f'-{state}'}.json")

    def _write(self, attempt: Attempt, *before: State) -> Attempt:
        """Record a state, unless the attempt is in another one than it may follow: a driver that slept is too late."""
        order, state = self._last(attempt)
        path = self._path(attempt.geolevel, attempt.number, order + 1)
        if state in before and create_exclusively(path, _encode(attempt), mode=0o600):
            return attempt
        raise _gone_on(attempt)

    def _last(self, attempt: Attempt) -> tuple[int, State]:
        """The number of the last state of an attempt, and the state."""
        names, one = system_of(self.folder).names(str(self.folder)), (attempt.geolevel, attempt.number)
        order = max((order for *known, order in map(_named, names) if tuple(known) == one), default=1)
        while self._path(*one, order + 1).is_file():  # a listing may be late
            order += 1
        return order, self._read(self._path(*one, order)).state

    def _read(self, path: Place) -> Attempt:
        geolevel, number, order = _named(path.name)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["schema_version"] != JOURNAL_VERSION:
                raise _refusal(geolevel, f"{path.name} is of version {content['schema_version']}")
            files = tuple(FileRecord(**entry) for entry in content["files"])
            instance = str(content.get("instance", ""))
            attempt = Attempt(content["geolevel"], int(content["number"]), State(content["state"]), files, instance)
        except (ValueError, KeyError, TypeError) as error:
            torn = self._torn(path, geolevel, number) if order == 1 else None
            if torn is None:
                raise _refusal(geolevel, f"{path.name} cannot be read") from error
            return torn
        if self._path(attempt.geolevel, attempt.number, order) != path:
            raise _refusal(geolevel, f"{path.name} speaks of another attempt")
        return attempt

    @staticmethod
    def _torn(path: Place, geolevel: str, number: int) -> Attempt | None:
        """A file whose first writing was cut short: nothing was drawn, since drawing waits for it to be durable."""
        attempt = Attempt(geolevel, number, State.OPENED)
        begun = path.read_bytes().rstrip(b"\0")
        # Whatever word it was to get, the text before and behind it is known.
        before, behind = _encode(replace(attempt, instance=_WORD)).split(_WORD.encode())
        word, rest = begun[len(before) :][: len(_WORD)], begun[len(before) + len(_WORD) :]
        known = before.startswith(begun[: len(before)]) and behind.startswith(rest) and set(word) <= _HEXADECIMAL
        return attempt if known else None


def _named(name: str) -> tuple[str, int, int]:
    """Level, number of the attempt and number of its state, by the name of a file; of any other file nothing."""
    found = _FILE.fullmatch(name)
    return (found[1], int(found[2]), int(found[3] or 1)) if found else ("", 0, 0)


def _encode(attempt: Attempt) -> bytes:
    content: dict[str, object] = {"schema_version": JOURNAL_VERSION, **asdict(attempt)}
    return (json.dumps(content, indent=1) + "\n").encode()


def _gone_on(attempt: Attempt) -> OutputError:
    return OutputError(
        f"measurements of level {attempt.geolevel}: another driver has gone on with attempt {attempt.number}; this one "
        "stops, and publishes nothing",
        hint="see whether the run is finished; if no other driver is at work on it, start it again",
    )


def _refusal(geolevel: str, reason: str) -> PrivacyGuardError:
    return PrivacyGuardError(
        f"measurements of level {geolevel}: {reason}",
        hint="nothing is drawn again here; in a store, whose lists may be late, run the same command again; else start "
        "a new run (it spends its own budget), or restore the files",
    )
