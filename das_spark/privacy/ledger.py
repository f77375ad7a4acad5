"""The cumulative ledger of a dataset: every run made on it, in exact fractions, and every attempt at drawing noise.

Text in, text out: one JSON object a line. Lines are only ever added; a later line of the same run replaces the
earlier one, so a run writes itself before it publishes its invariants, before it measures, and again whenever a
geolevel is complete. Lines of attempts stand between them.

Lines are chained: every line contains the SHA-256 of all bytes of the file before it (`sha256_before`). A line that was
deleted, inserted, moved or changed breaks the chain at the next line. Empty lines contain nothing, and are hashed like
all others. Lines of earlier versions have no digest; the first chained line seals them, and no line without a digest
may follow it.

The chain does not show that lines at the END were cut off, or that the last one was changed: the rest is a valid
ledger. The runs that wrote these lines notice it from their own folders when they continue. The chain is not a
signature either: anybody who can write the file can compute all digests anew. Each run folder therefore keeps the
digest of the ledger as of when the run last wrote to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from das_spark.errors import BudgetError, PrivacyGuardError
from das_spark.privacy.accounting import Composition, Framework, Release, compose
from das_spark.privacy.budget import Budget, Cap, LevelBudget, QueryShare, caps_in_force, exact, require_below
from das_spark.privacy.exact_accounting import Bounds, compositions_together, rounded_up, worst_epsilon
from das_spark.privacy.relation import ExactCounts, NeighborRelation, same_geounits

#: Says of a line that it is an attempt's; lines of runs say nothing, or `RUN`.
_ATTEMPT: Final = "attempt"
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
            "kind": _ATTEMPT,
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


_FORMAT: Final = 2
#: Entries of this format say nothing of datasets, invariants and caps, and are still read.
_FIRST_FORMAT: Final = 1
#: Format of an entry in a chained line, which is otherwise of format 2. Versions that know no chain refuse the ledger;
#: otherwise they would add lines without a digest.
_CHAINED_FORMAT: Final = 3
#: Key of a line: SHA-256 of all bytes of the ledger before the line. RESTRICTED, since other runs' lines determine it.
_BEFORE: Final = "sha256_before"


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
        paths: Shares of the levels on every kind of path through a spine whose geounits have shares of their own, root
            first, known when the run is charged; empty where a level has one share, or an earlier version made it.

    Raises:
        PrivacyGuardError: If a completed geolevel has no budget, or the run is not charged with it; or if a path has
            not a share for every geolevel, or its shares do not sum to 1.
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
    paths: tuple[tuple[Fraction, ...], ...] = ()

    def __post_init__(self) -> None:
        """Nothing is released that was not budgeted and charged."""
        known = {level.geolevel for level in self.budget.levels} if self.is_charged else set()
        for name in self.completed_levels:
            if name not in known:
                raise PrivacyGuardError(f"run {self.run_id}: geolevel '{name}' was completed without a budget")
        for path in self.paths:
            if len(path) != len(self.budget.levels) or sum(path) != 1 or min(path) < 0:
                raise PrivacyGuardError(
                    f"run {self.run_id}: shares on a path through its spine do not divide the budget over the"
                    f" {len(self.budget.levels)} geolevels: {', '.join(map(str, path))}"
                )

    @property
    def is_charged(self) -> bool:
        """Whether the run is charged with its total; before that it has published its invariants at most."""
        return self.state is EntryState.CHARGED

    @property
    def framework(self) -> Framework:
        """What the total is measured in."""
        return self.budget.framework

    @property
    def at_most(self) -> int:
        """Most records of one contributor, whom the total protects with all of them."""
        return self.budget.at_most

    @property
    def total(self) -> Fraction:
        """What the run may spend, and is charged with before it measures; nothing as long as it is not."""
        return self.budget.total if self.is_charged else Fraction(0)

    @property
    def exact_counts(self) -> ExactCounts | None:
        """What the run publishes exactly, for the neighbour relation; None where an earlier version has not said it."""
        declared = self.invariants
        if declared is None:
            return None
        levels = tuple(level.geolevel for level in self.budget.levels)
        return ExactCounts(self.table, levels, declared.total_at, declared.units, declared.units and declared.vacant)

    @property
    def released(self) -> Fraction:
        """What the completed geolevels have spent so far."""
        shares = (level.share for level in self.budget.levels if level.geolevel in self.completed_levels)
        return self.budget.total * sum(shares, Fraction(0))

    def with_completed(self, geolevel: str) -> LedgerEntry:
        """The entry after one more geolevel is complete; the same entry if it was already.

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
            "format": _FORMAT,
            "run_id": self.run_id,
            "dataset": self.dataset,
            "created": self.created,
            "product": self.product,
            "table": self.table,
            "state": self.state.value,
            "framework": self.framework.value,
            "total": str(self.budget.total),
            **({} if self.at_most == 1 else {"at_most": self.at_most}),
            "levels": [_level_record(level) for level in self.budget.levels],
            **({"paths": [list(map(str, path)) for path in self.paths]} if self.paths else {}),
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
            if record["format"] not in (_FIRST_FORMAT, _FORMAT):
                raise PrivacyGuardError(f"an entry of format {record['format']}, expected {_FORMAT}")
            return _entry(record)
        except (ValueError, KeyError, TypeError, AttributeError, BudgetError) as error:
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


def _no_entry(error: Exception) -> PrivacyGuardError:
    """The refusal of a text that is no entry."""
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
        budget=Budget(
            Framework(record["framework"]), exact(record["total"], "total"), levels, record.get("at_most", 1)
        ),
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
        "paths": tuple(tuple(exact(share, "share") for share in path) for path in record.get("paths", ())),
    }


@dataclass(frozen=True, slots=True)
class Ledger:
    """All runs on one dataset, in the order of their beginning, and all attempts at drawing.

    Args:
        entries: The latest state of every run; no run twice.
        attempts: The latest state of every attempt.
        digests: SHA-256 of the text that was read, up to the end of every line. RESTRICTED.
        sealed: Whether the last line that was read has a digest, so that every later line must have one.

    Raises:
        PrivacyGuardError: If a run stands twice.
    """

    entries: tuple[LedgerEntry, ...] = ()
    attempts: tuple[AttemptLine, ...] = ()
    digests: tuple[str, ...] = field(default=(), compare=False, repr=False)
    sealed: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """A run is charged once."""
        names = [entry.run_id for entry in self.entries]
        if len(set(names)) != len(names):
            raise PrivacyGuardError("a run stands twice in the privacy ledger")

    def find(self, run_id: str) -> LedgerEntry | None:
        """The entry of a run; None where there is none."""
        return next((entry for entry in self.entries if entry.run_id == run_id), None)

    def attempts_at(self, run_id: str, geolevel: str) -> tuple[AttemptLine, ...]:
        """The attempts of a run at measuring a level.

        Args:
            run_id: As in the entry of the run.
            geolevel: Name of the level.
        """
        return tuple(attempt for attempt in self.attempts if (attempt.entry, attempt.geolevel) == (run_id, geolevel))

    def with_line(self, line: LedgerEntry | AttemptLine) -> Ledger:
        """Add a run or an attempt, or replace its earlier state.

        Args:
            line: The run or attempt, as it stands now.

        Returns:
            A new ledger; a run keeps its place, or comes last.

        Raises:
            PrivacyGuardError: The run stands there with another budget or key, or had come further; or the attempt
                contradicts an earlier line, or belongs to no run.
        """
        fold = _Fold.of(self)
        fold.add(line)
        return fold.ledger(self.digests, sealed=self.sealed)

    def news_in(self, lines: Iterable[LedgerEntry | AttemptLine]) -> tuple[LedgerEntry | AttemptLine, ...]:
        """Select the lines that change the ledger if they are added in their order.

        Args:
            lines: Runs and attempts.

        Returns:
            The lines, without those that repeat what stands there.

        Raises:
            PrivacyGuardError: A line contradicts an earlier one.
        """
        fold = _Fold.of(self)
        return tuple(line for line in lines if fold.add(line) != line)

    @property
    def real(self) -> tuple[LedgerEntry, ...]:
        """The runs with a real key."""
        return tuple(entry for entry in self.entries if not entry.insecure)

    def composition(self) -> Composition:
        """What all runs with a real key cost together, each charged with its whole total.

        It holds for neighbours that agree in everything that any of these runs publishes exactly, and that differ in
        one record of each kind that is measured (one person, and one unit) at the same time; where a run is made for
        more records of a contributor, in so many of each kind.
        """
        return compose(self.real)

    def exact_epsilon(self, delta: Fraction) -> Bounds | None:
        """Bounds on the epsilon of the exact composition of all runs with a real key; None where it is not known."""
        charged = [(each.budget, each.paths) for each in self.real if each.is_charged]
        return worst_epsilon(compositions_together(charged), delta)

    @property
    def relation(self) -> NeighborRelation:
        """The neighbours of all runs with a real key together."""
        counts = (entry.exact_counts for entry in self.real)
        return NeighborRelation(tuple(count for count in counts if count is not None))

    def invariants(self) -> tuple[str, ...]:
        """What runs with a real key publish exactly, all of them together, each a sentence."""
        declared = (entry.invariants.sentences for entry in self.real if entry.invariants is not None)
        return tuple(dict.fromkeys(sentence for sentences in declared for sentence in sentences))

    @property
    def insecure_runs(self) -> tuple[str, ...]:
        """Runs under a test key: what they published is not protected at all, at no price that can be summed."""
        return tuple(entry.run_id for entry in self.entries if entry.insecure)

    def caps(self, cap: Cap | None = None, was: Cap | None = None, *, but: str = "") -> tuple[Cap, ...]:
        """The caps that hold for a run: its own, and those under which earlier runs with a real key were charged.

        Args:
            cap: Its own; None for none.
            was: What it names as the cap before.
            but: Identity of a run that is left out, such as the run itself.

        Raises:
            PrivacyGuardError: Its own cap is higher than one in force, and it does not name that.
        """
        earlier = [(each.cap, each.cap_was) for each in self.real if each.is_charged and each.run_id != but]
        return caps_in_force(earlier, cap, was)

    def require_budget(self, entry: LedgerEntry, further: Sequence[Release] = ()) -> None:
        """Refuse a run that, with all that is charged already, would cost more than a cap; under a test key as well.

        Args:
            entry: The run, as it is to be charged.
            further: What is charged together with it, such as the other parts of a joint run.

        Raises:
            PrivacyGuardError: There is no room.
        """
        spent = [each for each in self.real if each.run_id != entry.run_id]
        require_below(self.caps(entry.cap, entry.cap_was, but=entry.run_id), spent, [entry, *further])

    def describe(self, delta: Fraction, own: str = "") -> str:
        """The cumulative cost, in plain sentences.

        Args:
            delta: At which the epsilon of all runs together is said, in (0, 1).
            own: Identity of the run that says it; empty for none.

        Raises:
            BudgetError: If delta is not in (0, 1), and a run with a real key is measured in rho.
        """
        total = self.composition()
        count = sum(entry.is_charged for entry in self.real)
        parts = [f"{count} run{'' if count == 1 else 's'} with a real key on this input."]
        if names := sorted({entry.dataset for entry in self.entries} - {""}):
            parts.insert(0, f"Dataset {', '.join(names)}.")
        if total.epsilon:
            parts.append(f"Pure differential privacy: epsilons sum to {total.epsilon}.")
        if total.rho:
            parts.append(f"Zero-concentrated differential privacy: rhos sum to {total.rho}.")
        if total.epsilon and total.rho:
            parts.append(f"Together they are {total.joint_rho}-zCDP, since epsilon implies rho = epsilon^2/2.")
        if total.rho:
            parts.append(f"All together: epsilon {total.joint_epsilon(delta):.6g} at delta {float(delta):g}.")
        exact = self.exact_epsilon(delta)
        if exact is not None and (total.rho or exact.high < total.epsilon):
            shares = any(entry.paths for entry in self.real)
            where = (
                "on the worst paths through the spines"
                if shares
                else "for geounits that have the share of their geolevel"
            )
            parts.append(
                f"By exact composition of all answers, {where}: epsilon"
                f" {rounded_up(exact.high, 5)} at most at delta {float(delta):g}."
            )
            if count > 1:
                parts.append(
                    "This holds where no budget was chosen by what an earlier run had published; the sums hold anyway."
                )
        parts += self._relation()
        if self.insecure_runs:
            parts.append(f"Under test keys, and so without any protection: {', '.join(self.insecure_runs)}.")
        if own and self.entries and self.entries[0].run_id == own:
            parts.append(
                "This ledger was begun with this run: releases that are counted in other ledgers are not known here."
            )
        return " ".join(parts)

    def _relation(self) -> list[str]:
        """Between which neighbours the sum holds, and what else is published of the dataset."""
        charged = [entry for entry in self.real if entry.is_charged]
        kinds = dict.fromkeys(entry.table for entry in charged)
        said = []
        if charged:
            most = max(each.at_most for each in charged)
            exact = " ".join(self.invariants()) or "nothing."
            said.append(
                f"The sum holds for neighbours that differ in {replaced_records(charged, self.relation)}, and that"
                f" agree in everything that any of the runs publishes exactly: {exact}"
            )
        if fewer := [each.run_id for each in charged if each.at_most < most]:
            names = ", ".join(fewer)
            said.append(f"Made for fewer records of a contributor, and counted as what they cost for so many: {names}.")
        if len(kinds) > 1:
            said += [f"{kind} alone: {_alone(charged, kind)}." for kind in kinds]
        if unknown := [entry.run_id for entry in self.real if entry.invariants is None]:
            said.append(
                f"What the runs {', '.join(unknown)} publish exactly was not recorded by the version that made them:"
                " neighbours agree in that, too; see their manifests."
            )
        if only := [entry.run_id for entry in self.real if not entry.is_charged]:
            said.append(f"Invariants alone were published by: {', '.join(only)}.")
        return said

    @classmethod
    def from_json_lines(cls, text: str, known: Ledger | None = None) -> Ledger:
        """Read a ledger and verify its chain; later lines of a run or an attempt replace earlier ones.

        Args:
            text: One entry or attempt a line; empty lines do not count.
            known: The same ledger as it was read before. Where the text begins with the bytes that were read then, only
                the lines after them are parsed.

        Raises:
            PrivacyGuardError: If a line cannot be read, naming its number, contradicts an earlier one, or does not
                follow the text before it.
        """
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()  # the end of the last line
        fold, before, sealed, digests = _Fold({}, {}), hashlib.sha256(), False, list[str]()
        if known is not None and known.digests:
            begins = hashlib.sha256("".join(f"{line}\n" for line in lines[: len(known.digests)]).encode())
            if begins.hexdigest() == known.digests[-1]:
                fold, before, sealed, digests = _Fold.of(known), begins, known.sealed, [*known.digests]
        for number, line in enumerate(lines[len(digests) :], start=len(digests) + 1):
            if line.strip():
                try:
                    content, digest = _line(line)
                    _require_chained(digest, before.hexdigest(), sealed=sealed)
                    fold.add(content)
                except PrivacyGuardError as error:
                    raise PrivacyGuardError(
                        f"privacy ledger, line {number}: {error.message}",
                        hint="the ledger is never edited by hand; restore it from its copy",
                    ) from error
                sealed = digest is not None
            before.update(line.encode() + b"\n")
            digests.append(before.hexdigest())
        return fold.ledger(tuple(digests), sealed=sealed)


def replaced_records(entries: Sequence[LedgerEntry], relation: NeighborRelation) -> str:
    """Return which records neighbours of some releases may differ in, as an object of a sentence.

    Args:
        entries: The releases.
        relation: Their neighbours, perhaps together with those of others.
    """
    kinds, most = dict.fromkeys(entry.table for entry in entries), max(entry.at_most for entry in entries)
    if most > 1:
        records = f"all records of one contributor, at most {most} of each kind ({', '.join(kinds)}),"
    else:
        records = " and ".join(f"one {kind}{same_geounits(relation.exact_at(kind))}" for kind in kinds)
    return f"{records} at the same time" if len(kinds) > 1 else records


@dataclass(frozen=True, slots=True)
class _Fold:
    """The latest states of runs and attempts, to which lines are added one after the other."""

    entries: dict[str, LedgerEntry]
    attempts: dict[tuple[str, str, int], AttemptLine]

    @classmethod
    def of(cls, ledger: Ledger) -> _Fold:
        return cls({entry.run_id: entry for entry in ledger.entries}, {line.key: line for line in ledger.attempts})

    def ledger(self, digests: tuple[str, ...], *, sealed: bool) -> Ledger:
        return Ledger(tuple(self.entries.values()), tuple(self.attempts.values()), digests, sealed)

    def add(self, line: LedgerEntry | AttemptLine) -> LedgerEntry | AttemptLine | None:
        """Add a line, and return what it replaces; a line that contradicts an earlier one is refused."""
        if isinstance(line, LedgerEntry):
            earlier = self.entries.get(line.run_id)
            if earlier is not None:
                _check_successor(earlier, line)
            self.entries[line.run_id] = line  # a run keeps its place
            return earlier
        if line.entry not in self.entries:
            raise PrivacyGuardError(f"an attempt of run {line.entry}, which does not stand in the privacy ledger")
        known = self.attempts.get(line.key)
        if not line.follows(known):
            raise PrivacyGuardError(
                f"attempt {line.number} of run {line.entry} at level {line.geolevel} stands in the privacy ledger as "
                "another one, or had come further"
            )
        self.attempts.pop(line.key, None)
        self.attempts[line.key] = line
        return known


def chained_lines(lines: Iterable[LedgerEntry | AttemptLine], before: bytes) -> bytes:
    """Write lines that continue a ledger.

    Args:
        lines: Runs and attempts.
        before: The whole ledger, which ends with the end of a line, or is empty.

    Returns:
        One line of JSON for each, with the digest of all bytes before it.
    """
    digest, written = hashlib.sha256(before), []
    for line in lines:
        record = line.as_record()
        if isinstance(line, LedgerEntry):
            record["format"] = _CHAINED_FORMAT
        added = json.dumps({**record, _BEFORE: digest.hexdigest()}, ensure_ascii=False).encode() + b"\n"
        digest.update(added)
        written.append(added)
    return b"".join(written)


def _require_chained(digest: str | None, before: str, *, sealed: bool) -> None:
    """Refuse a line that does not follow what stands before it."""
    if digest is None and sealed:
        raise PrivacyGuardError(
            f"has no {_BEFORE}, and the lines above it do: it was added by hand, or by an earlier version of das_spark"
        )
    if digest not in (None, before):
        raise PrivacyGuardError(
            "does not follow the lines above it: at least one of them was deleted, inserted, moved or changed"
        )


def _line(text: str) -> tuple[LedgerEntry | AttemptLine, str | None]:
    """The content of a line, and the digest that it has of the text before it."""
    try:
        record = json.loads(text)
    except ValueError as error:
        raise _no_entry(error) from error
    digest = record.pop(_BEFORE, None) if isinstance(record, dict) else None
    if digest is not None and record.get("format") == _CHAINED_FORMAT:
        record["format"] = _FORMAT
    if isinstance(record, dict) and record.get("kind") == _ATTEMPT:
        return AttemptLine.of(record), digest
    return LedgerEntry.of(record), digest


def _alone(charged: Sequence[LedgerEntry], kind: str) -> str:
    total = compose(entry for entry in charged if entry.table == kind)
    figures = {"epsilon": total.epsilon, "rho": total.rho}
    return ", ".join(f"{name} = {value}" for name, value in figures.items() if value)


#: What an entry says from when its run is charged on.
_KNOWN_WHEN_CHARGED: Final = ("state", "cap", "cap_was", "paths")


def _check_successor(earlier: LedgerEntry, later: LedgerEntry) -> None:
    """A run keeps its identity, what was released stays released, and what is charged stays charged."""
    later = replace(later, manifest=earlier.manifest)  # may be written anew, of other tables
    back = replace(later, completed_levels=earlier.completed_levels)
    if not earlier.is_charged:  # it gets its caps when it is charged
        back = replace(later, completed_levels=(), **{name: getattr(earlier, name) for name in _KNOWN_WHEN_CHARGED})
    if back != earlier or not set(earlier.completed_levels) <= set(later.completed_levels):
        raise PrivacyGuardError(f"run {later.run_id} stands in the privacy ledger with another budget or state")
