"""Charge a dataset with a run: before its invariants are public, before anything is drawn, and level by level.

Two records are kept of it: the ledger of the dataset, and the run's own entry in its restricted root. The own entry is
written first, as `charging`, then the ledger, then the own entry as `charged`: a run that died in between is entered
when it goes on, and a ledger that lacks a run which was charged has been lost or rolled back. The own entry also keeps
the digest of the ledger as of when the run last wrote to it: a ledger that no longer begins with these bytes was cut
off and continued, or computed anew.

The ledger lies outside the run folder. A folder that was copied, restored or rolled back therefore finds attempts there
that its own journal does not know, or not so far, or that are open in another place: nothing is drawn then.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from das_spark.errors import PrivacyGuardError
from das_spark.pipeline.input_record import contents_of, identity_of_input, is_measured
from das_spark.pipeline.published import open_published_run, releases_of
from das_spark.pipeline.statement import declared_invariants
from das_spark.places import Place, place_of
from das_spark.privacy import AttemptLine, DeclaredInvariants, DrawState, EntryState, Ledger, LedgerEntry, compose
from das_spark.store import (
    Attempt,
    Change,
    DatasetLedger,
    Journal,
    OwnEntry,
    RunLayout,
    State,
    created_at,
    ledger_folder,
    left_behind,
    require_held,
    update_ledger,
    write_durably,
)
from das_spark.telemetry import Event

if TYPE_CHECKING:
    from fractions import Fraction

    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.progress import Progress


@dataclass(frozen=True, slots=True)
class RunLedger:
    """The ledger of a run's dataset, opened for the run."""

    plan: RunPlan
    layout: RunLayout
    progress: Progress  # reports what is entered
    insecure: bool  # whether its key is a test key
    #: What tells a new entry from those of other runs of its name: two runs of one name in two folders are two runs.
    #: Random by default.
    nonce: str
    book: DatasetLedger  # the ledger
    identity: str  # of the input, as `ledgers.fingerprint` gives it
    files: Sequence[Mapping[str, object]] = ()  # the same
    contents: tuple[str, ...] = ()  # of its confidential files
    #: Other parts of a joint run, which the cap must leave room for: each with its place.
    together: tuple[tuple[RunPlan, RunLayout], ...] = ()
    #: Whether its driver has a level to measure: one that has none writes no entry that says nothing new, since it may
    #: lack the right to.
    draws: bool = True


def open_ledger(
    plan: RunPlan,
    layout: RunLayout,
    progress: Progress,
    *,
    insecure: bool,
    nonce: str = "",
    together: tuple[tuple[RunPlan, RunLayout], ...] = (),
    session: Callable[[], SparkSession] | None = None,
    until: str | None = None,
) -> RunLedger:
    """Find the ledger of a run, and whatever in it forbids the run, before the input is read or Spark is started.

    `session` is asked for where tables of its catalog are the input, which are known by their rows; `until` is the
    last stage of the driver.
    """
    folder = ledger_folder(plan, layout)
    if plan.ledger.path is not None and place_of(plan.ledger.path).absolute() != folder:
        progress.report(f"ledger: the run goes on with that of {folder}, with which it was begun")
    book = DatasetLedger(folder, plan.input.dataset or "")
    draws = not is_measured(plan, layout, until)
    run = RunLedger(plan, layout, progress, insecure, nonce, book, "", together=together, draws=draws)
    if plan.input.dataset:
        _require_possible(run)
    identity, files = identity_of_input(plan, layout, session, until)
    contents = contents_of(plan.input, identity, files)
    book = DatasetLedger.of(folder, plan.input, contents)
    run = replace(run, book=book, identity=identity, files=files, contents=contents)
    if not plan.input.dataset:  # its ledger could not be found before
        _require_possible(run)
    if not insecure and OwnEntry.find(layout.restricted) is None:
        _count_earlier(run, book.same_people(contents, identity))
    return run


def enter_invariants(run: RunLedger) -> LedgerEntry:
    """Enter the run in the ledger before its invariants are public; a run that was entered finds its entry again."""
    own = OwnEntry.find(run.layout.restricted)
    entry = _new_entry(run) if own is None else own.entry
    return _enter(run, own, entry)[0]


def is_charged(layout: RunLayout) -> bool:
    """Whether the budget of a run is spent: the ledger of its dataset is known to have it as charged."""
    own = OwnEntry.find(layout.restricted)
    return own is not None and own.is_charged


def enter_run(run: RunLedger, paths: tuple[tuple[Fraction, ...], ...] = ()) -> tuple[LedgerEntry, Ledger]:
    """Charge the dataset with this run before anything is drawn; a resumed run finds its own entry again.

    Args:
        run: The ledger, opened for the run.
        paths: Shares on the paths through its spine, where geounits have shares of their own.
    """
    own = OwnEntry.find(run.layout.restricted)
    _require_same(run, own)
    entry, ledger = _enter(run, own, _as_charged(run, own, paths))
    cost = {"framework": entry.framework.value, "total": str(entry.total)}
    run.progress.log(Event.LEDGER_ENTERED, entry=entry.run_id, **cost)
    return entry, ledger


def enter_level(run: RunLedger, entry: LedgerEntry, geolevel: str) -> tuple[LedgerEntry, Ledger]:
    """Enter in the ledger that the measurements of a level are public."""
    require_held(run.layout)  # another driver may be further
    # The run's own entry goes first: it is never behind the ledger, which refuses to lose a level.
    entry, ledger = _enter(run, OwnEntry.find(run.layout.restricted), entry.with_completed(geolevel))
    run.progress.log(Event.LEDGER_COMPLETED, geolevel=geolevel)
    return entry, ledger


def enter_manifest(run: RunLedger, entry: LedgerEntry, sha256: str) -> None:
    """Enter in the ledger which public manifest answers for the files of the run."""
    require_held(run.layout)
    _enter(run, OwnEntry.find(run.layout.restricted), replace(entry, manifest=sha256))


def agree(run: RunLedger, journal: Journal, geolevel: str) -> None:
    """Bring the ledger up to what the journal says of a level, or refuse where the two cannot both be true.

    Called before an attempt is destroyed or opened and before one is promoted, and after each step of the journal.
    """
    own = OwnEntry.find(run.layout.restricted)
    if own is None or not own.is_charged:
        raise PrivacyGuardError(
            f"measurements of level {geolevel}: the run is not charged, and draws nothing before it is"
        )
    run_id, place = own.entry.run_id, identity_of_place(run.layout)

    def change(ledger: Ledger) -> Sequence[AttemptLine]:
        _require_entered(run, own, ledger)
        return new_lines(ledger, run_id, geolevel, journal.attempts(geolevel), place)

    _updated(run, change)


def spending_against_caps(plans: Sequence[tuple[RunPlan, RunLayout]], contents: Sequence[str]) -> tuple[str, ...]:
    """What runs on one input cost, those that are not charged yet, against the caps that hold for them."""
    plan, layout = plans[0]
    ledger = DatasetLedger.of(ledger_folder(plan, layout), plan.input, contents).read()
    left = []
    for each, place in plans:
        own = OwnEntry.find(place.restricted)
        known = None if own is None else ledger.find(own.entry.run_id)
        if known is None or not known.is_charged:
            left.append(each.budget)
    sentences = []
    for cap in ledger.caps(plan.ledger.cap, plan.ledger.cap_was):
        spent, asked = cap.spent(ledger.composition()), cap.spent(compose([*ledger.real, *left]))
        beyond = "; the run that exceeds it will be refused" if asked > cap.limit else ""
        sentences.append(
            f"cap of the dataset ({cap}): spent so far {spent}, with all runs that are left {asked}{beyond}"
        )
    return tuple(sentences)


def _require_possible(run: RunLedger) -> None:
    """Refuse, by what the ledger says, a run that could not be charged or could not draw."""
    _count_earlier(run, left_behind(run.plan.input))
    ledger, own = run.book.read(), OwnEntry.find(run.layout.restricted)
    _require_same(run, own)
    _require_entered(run, own, ledger)
    _require_budget(run, own, ledger, _as_charged(run, own))
    named = run.plan.input.published
    if own is None and named is not None:  # a run that is entered has examined it, or will before it is charged
        releases_of(open_published_run(run.plan, named), ledger, run.plan)
    if own is not None:
        journal, place = Journal.of(run.layout), identity_of_place(run.layout)
        for geolevel in run.plan.spine.names:
            require_agreement(ledger, own.entry.run_id, geolevel, journal.attempts(geolevel), place)


def _count_earlier(run: RunLedger, files: Sequence[Place]) -> None:
    """Count in the ledger of the run what earlier versions counted elsewhere, on the same people and without a name."""
    if counted := run.book.count_earlier(files):
        run.progress.report(
            f"ledger: runs that earlier versions counted elsewhere are counted with this one: {', '.join(counted)}"
        )
        run.progress.log(Event.LEDGER_COUNTED, entries=list(counted))


def _require_same(run: RunLedger, own: OwnEntry | None) -> None:
    """Refuse a run that was entered with another budget, or under another kind of key."""
    if own is None:
        return
    plan, entry = run.plan, own.entry
    if (entry.budget, entry.product, entry.table) != (plan.budget, plan.product.name, plan.product.noun):
        raise PrivacyGuardError(
            f"run {run.layout.run_id} was charged with another budget than that of its configuration",
            hint="something changed its folder; start a new run (it spends its own budget)",
        )
    if entry.insecure != run.insecure:
        kind = "a test key" if entry.insecure else "a real key"
        raise PrivacyGuardError(
            f"run {run.layout.run_id} was begun under {kind} and cannot go on under the other kind",
            hint="resume it as it was begun, or start a new run",
        )


def _require_entered(run: RunLedger, own: OwnEntry | None, ledger: Ledger) -> None:
    """Refuse a ledger that has lost the run, or what stood before the last line of the run."""
    if own is not None and own.entered and ledger.find(own.entry.run_id) is None:
        raise PrivacyGuardError(
            f"run {run.layout.run_id} was entered in the ledger of its dataset as {own.entry.run_id}, and "
            f"{run.book.file} does not have it: the ledger was lost or rolled back, or is another one",
            hint="bring back the ledger as it was; or start a new run, which spends its own budget",
        )
    if own is not None and own.sha256 and own.sha256 not in ledger.digests:
        raise PrivacyGuardError(
            f"{run.book.file} does not begin with the lines that were there when run {run.layout.run_id} last wrote to "
            "it. The ledger was rolled back, or replaced by an older copy, or lines of it were changed",
            hint="bring back the ledger as it was: restore it from its copy, with all lines that were added since",
        )


def _require_budget(run: RunLedger, own: OwnEntry | None, ledger: Ledger, entry: LedgerEntry) -> None:
    """Refuse a run that is not charged yet and would exceed a cap, with those that are charged together with it."""
    known = None if own is None else ledger.find(own.entry.run_id)
    if known is not None and known.is_charged:
        return
    further = []
    for plan, layout in run.together:
        other = OwnEntry.find(layout.restricted)
        counted = None if other is None else ledger.find(other.entry.run_id)
        if counted is None or not counted.is_charged:
            further.append(plan.budget)
    ledger.require_budget(entry, further)


def _new_entry(run: RunLedger) -> LedgerEntry:
    """The entry of a run that is not in the ledger yet, and has not measured."""
    plan = run.plan
    declared = plan.invariants
    return LedgerEntry(
        run_id=f"{run.layout.run_id}#{run.nonce or secrets.token_hex(4)}",
        created=created_at(run.layout),
        product=plan.product.name,
        table=plan.product.noun,
        budget=plan.budget,
        insecure=run.insecure,
        dataset=plan.input.dataset or "",
        contents=run.contents,
        invariants=DeclaredInvariants(
            declared.total_at, declared.units, declared.units and declared.vacant, declared_invariants(plan)
        ),
        acknowledged=plan.acknowledged,
        state=EntryState.INVARIANTS,
    )


def _as_charged(run: RunLedger, own: OwnEntry | None, paths: tuple[tuple[Fraction, ...], ...] = ()) -> LedgerEntry:
    """The entry of a run that is charged with its budget, under the caps of its configuration; as it is if it was."""
    entry = _new_entry(run) if own is None else own.entry
    if entry.is_charged:
        return entry
    caps = run.plan.ledger
    return replace(entry, state=EntryState.CHARGED, cap=caps.cap, cap_was=caps.cap_was, paths=paths)


def _enter(run: RunLedger, own: OwnEntry | None, entry: LedgerEntry) -> tuple[LedgerEntry, Ledger]:
    """Enter the run in the ledger as it stands now, between the two states of its own entry."""
    require_held(run.layout)
    entry = _caught_up(run, entry)
    entered = own is not None and own.entered
    if own != OwnEntry(entry, entered):
        OwnEntry(entry, entered, "" if own is None else own.sha256).save(run.layout.restricted)

    before: tuple[str, ...] = ()

    def change(ledger: Ledger) -> Sequence[LedgerEntry]:
        nonlocal before
        before = ledger.digests
        _require_entered(run, own, ledger)
        if entry.is_charged:
            _require_budget(run, own, ledger, entry)
        if not ledger.entries:
            _say_begun(run)
        return [entry]

    ledger = _updated(run, change)
    if not entered and not run.insecure:  # another run may have entered the same records under another name meanwhile
        _count_earlier(run, run.book.same_people(entry.contents, run.identity))
    after = OwnEntry(entry, entered=True, sha256=ledger.digests[-1])
    if run.draws or after != own or ledger.digests != before:
        after.save(run.layout.restricted)
    return entry, ledger


def _caught_up(run: RunLedger, entry: LedgerEntry) -> LedgerEntry:
    """The entry with all that the ledger knows of it.

    A driver that slept while it wrote the own entry, and had lost the run, has put its older state in the place of that
    of the driver which took over.
    """
    known = run.book.read().find(entry.run_id)
    if known is None or (entry.is_charged and not known.is_charged):
        return entry
    if not set(known.completed_levels) >= set(entry.completed_levels):
        return entry
    changing = ("state", "completed_levels", "cap", "cap_was", "paths")
    return known if replace(entry, **{name: getattr(known, name) for name in changing}) == known else entry


def _say_begun(run: RunLedger) -> None:
    """A ledger that was not there is no proof that nothing was ever released: whoever knows of others must stop.

    Of people that a seed has made nobody has ever released anything that matters.
    """
    dataset = f"dataset {run.plan.input.dataset}" if run.plan.input.dataset else "this input"
    if not run.plan.input.is_simulated:
        run.progress.report(
            f"WARNING: no release of {dataset} was counted in {run.book.folder} before. If there are any, stop this"
            " run, and name the folder of their ledger: [ledger] path"
        )
    run.progress.log(Event.LEDGER_BEGUN, file=str(run.book.file))


def _updated(run: RunLedger, change: Change) -> Ledger:
    """The ledger after a change; that a torn line was cut off is reported."""

    def report_repair(file: Place) -> None:
        run.progress.report("ledger: a last line that was half written is cut off; nothing was drawn under it")
        run.progress.log(Event.LEDGER_MENDED, file=str(file))

    return update_ledger(run.book.file, change, report_repair)


#: State of the journal -> what the ledger records of it.
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


def identity_of_place(layout: RunLayout) -> str:
    """Identity of a run folder where it lies: that of a random word in it, and of the very file that holds the word.

    A copy of the file, or one that was restored, has another number on its disk or another time of change. The identity
    stands in the ledger alone, so that no copy can bring it along.
    """
    file = layout.restricted.instance
    if not file.is_file():
        # Closed to others from the first: a later change of its mode would make it another place.
        write_durably(file, json.dumps({"instance": secrets.token_hex(16)}) + "\n", mode=0o600)
    word = file.read_bytes()
    if isinstance(file, Path):
        found = file.stat()
        place = f"{found.st_ino} {found.st_ctime_ns}"
    else:
        place = f"{file} {file.system.version(str(file))}"
    return hashlib.sha256(word + place.encode()).hexdigest()[:32]


def new_lines(
    ledger: Ledger, run_id: str, geolevel: str, journal: Sequence[Attempt], place: str
) -> tuple[AttemptLine, ...]:
    """What the ledger lacks of the attempts in a journal, if both can be true."""
    require_agreement(ledger, run_id, geolevel, journal, place)
    known = {attempt.number: attempt for attempt in ledger.attempts_at(run_id, geolevel)}
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
    """
    own = {each.number: each for each in journal}
    known = {attempt.number: attempt for attempt in ledger.attempts_at(run_id, geolevel)}
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
