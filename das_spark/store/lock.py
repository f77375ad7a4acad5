"""Hold a run: one driver at a time, and a driver that has lost its run finds out before it publishes anything."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from das_spark.errors import OutputError
from das_spark.places import Place, system_of
from das_spark.store.commit import close_to_others, discard, names_in
from das_spark.store.digests import Commits, hold_commits, release_commits
from das_spark.store.layout import MARKER, STAGING
from das_spark.store.ledger import OwnEntry, require_covered
from das_spark.store.runs import RunMarker

if TYPE_CHECKING:
    from das_spark.store.layout import PublicLayout, RestrictedLayout, RunLayout

#: Lock files that this process holds, and the word that it wrote into each: a lock belongs to a process.
_HELD: dict[Place, str] = {}
#: Seconds after which a lock is tried again: `is_held` holds it for an instant, which is no driver.
_GLANCES = (0.05, 0.2)
#: Stands for the word where this process holds no lock of the run.
_NOBODY = "unheld"
#: What a verification that holds no run writes into beside the drivers: a run may be verified while one is at work.
_VERIFYING = "verification-"


@dataclass(frozen=True, slots=True)
class Staging:
    """Where something is written before it is published, for those who know nothing of runs and their locks.

    Attributes:
        folder: A folder that nobody else writes to; need not exist.
        guard: Asked directly before anything is published or destroyed: raises where the run was lost.
    """

    folder: Place
    guard: Callable[[], None] = lambda: None


@contextmanager
def hold_run(layout: RunLayout) -> Iterator[None]:
    """Hold the lock of a run while the driver lives; the system releases it when the process ends, however it ends.

    Whatever Spark wrote into the restricted root gets the modes of private files then: at the end, and at the beginning
    for a driver that was killed. In between the mode of the root alone keeps others out.

    The holder writes a word of its own into the lock file, by which `require_held` finds out that the lock was lost.
    What earlier holders left in their staging folders is discarded.

    Args:
        layout: The run; its restricted root exists.

    Raises:
        OutputError: Another driver works on this run.
    """
    word = secrets.token_hex(8)
    with _held(layout, word):
        _HELD[layout.restricted.lock] = word
        _discard_staged_by_others(layout)
        close_to_others(layout.restricted.path)
        failed = True
        try:
            hold_commits(_commits(layout))
            yield
            failed = False
        finally:
            release_commits(layout.restricted.path)
            _HELD.pop(layout.restricted.lock, None)  # here: a driver that was refused has no word to take away
            with suppress(OSError) if failed else nullcontext():  # the error that ends the run is the one to tell
                close_to_others(layout.restricted.path)


def _commits(layout: RunLayout) -> Commits:
    return Commits(
        file=layout.restricted.committed,
        public=layout.public.path,
        restricted=layout.restricted.path,
        staging=STAGING,
        guard=partial(require_held, layout),
        gate=partial(require_covered, layout),
    )


def make_way(layout: RunLayout, config_hash: str, config: Mapping[str, Any]) -> bool:
    """Find out whether a run may have its id, and remove a run of another configuration that has come to nothing.

    A run has come to nothing where it has no entry in the ledger and nothing public: it was refused, or failed, before
    it was charged.

    Args:
        layout: Where the run will lie.
        config_hash: Hash of its resolved configuration.
        config: The resolved configuration, from which is told what differs.

    Returns:
        Whether such a run was removed.

    Raises:
        OutputError: The id belongs to another run, which has come to something, or has a driver at work.
    """
    own, word = RunMarker(layout.run_id, config_hash, config=config), secrets.token_hex(8)
    if not _has_come_to_nothing(layout, own):
        for root in (layout.restricted.path, layout.public.path):
            own.marks(root)
        return False
    with _held(layout, word):
        # Whoever was quicker has made a new lock file with his own roots.
        lock = layout.restricted.lock
        void = system_of(lock).holder(str(lock)) == word and _has_come_to_nothing(layout, own)
        if void:
            discard(layout.public.path)
            discard(layout.restricted.path)
    return void


def _has_come_to_nothing(layout: RunLayout, own: RunMarker) -> bool:
    """Return whether an id is that of another configuration's run without an entry and without public tables."""
    found = RunMarker.find(layout.restricted.path)
    if found is None or found.run_id != own.run_id or own.is_of_run(found):
        return False
    public = names_in(layout.public.path) - {MARKER, STAGING}
    return not public and OwnEntry.find(layout.restricted) is None


@contextmanager
def _held(layout: RunLayout, word: str) -> Iterator[None]:
    """Hold the lock of a run, or refuse."""
    lock = layout.restricted.lock
    with ExitStack() as stack:
        for pause in (*_GLANCES, 0.0):
            try:
                stack.enter_context(system_of(lock).hold(str(lock), word))
                break
            except BlockingIOError as error:
                if not pause:
                    raise OutputError(
                        f"{layout.folder}: another driver is at work on this run", hint=_other_driver(layout)
                    ) from error
                time.sleep(pause)
        yield


def _other_driver(layout: RunLayout) -> str:
    """What to do where the run is held."""
    wait = "wait until it ends, or start a run of another name"
    if system_of(layout.restricted.lock).capabilities.locks:
        return wait
    return f"{wait}; one that has died is found out when it has given no sign of life for a while"


def is_held(layout: RunLayout) -> bool:
    """Whether a driver is at work on a run, on this machine or on one that shares the disk and its locks."""
    return system_of(layout.restricted.lock).is_held(str(layout.restricted.lock))


def require_held(layout: RunLayout) -> None:
    """Refuse to go on with a run that this process held and another one has taken over.

    A stopped or cut-off driver can lose its lock: a network file system lets go of the locks of machines that do not
    answer, and an operator may remove the file. When such a driver wakes up it must not publish anything any more.
    Where this process holds no lock of the run, there is nothing to lose.

    Raises:
        OutputError: The lock file is gone, or another driver has written its word into it.
    """
    word = _HELD.get(layout.restricted.lock)
    if word is None:
        return
    lock = layout.restricted.lock
    if system_of(lock).holder(str(lock)) != word:
        raise OutputError(
            f"{layout.folder}: another driver has taken over this run; this one stops, and publishes nothing",
            hint="see whether the run is finished; if no other driver is at work on it, start it again by its run id",
        )


def staging_of(layout: RunLayout, side: PublicLayout | RestrictedLayout) -> Place:
    """The folder in which the driver that holds a run writes what it will publish on one of its sides.

    The holder's word is part of the path: a driver that has lost the run and does not know it yet shares no folder with
    the one that took over. Two jobs of Spark that commit into one folder would double rows there, or lose them.
    """
    return side.path / STAGING / _HELD.get(layout.restricted.lock, _NOBODY)


def guarded_staging(layout: RunLayout, side: PublicLayout | RestrictedLayout, name: str) -> Staging:
    """A folder in `staging_of`, with the question whether this driver still holds the run."""
    return Staging(staging_of(layout, side) / name, partial(require_held, layout))


def verification_staging(side: PublicLayout) -> Staging:
    """A folder for verifying a run without holding it, of this process alone: a run may be verified twice at once."""
    return Staging(side.path / STAGING / f"{_VERIFYING}{os.getpid()}")


def clear_staging(layout: RunLayout) -> None:
    """Remove the staging folders of this driver, and the folder around them where nobody else has one.

    Raises:
        OutputError: Something cannot be removed.
    """
    for side in (layout.public, layout.restricted):
        discard(staging_of(layout, side))
        system_of(side.path).remove_empty(str(side.path / STAGING))  # another driver may write in it by now


def _discard_staged_by_others(layout: RunLayout) -> None:
    for side in (layout.public, layout.restricted):
        staging = side.path / STAGING
        for name in system_of(staging).names(str(staging)):
            if not name.startswith(_VERIFYING):
                with suppress(OSError):  # its driver may still be writing: it is in nobody's way
                    discard(staging / name)
