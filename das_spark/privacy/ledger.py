"""The cumulative ledger of a dataset: every run ever made on it, in exact fractions, and every attempt at drawing.

Text in, text out: one JSON object a line. Lines are only ever added; a later line of the same run replaces the
earlier one, so a run writes itself before it publishes its invariants, before it measures, and again whenever a
geolevel is complete. Lines of attempts (`das_spark.privacy.attempts`) stand between them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from das_spark.errors import PrivacyGuardError
from das_spark.privacy.accounting import Composition, Spending, compose
from das_spark.privacy.attempts import ATTEMPT, AttemptLine
from das_spark.privacy.caps import Cap, caps_in_force, require_below
from das_spark.privacy.entries import DeclaredInvariants, EntryState, LedgerEntry, no_entry

__all__ = ["DeclaredInvariants", "EntryState", "Ledger", "LedgerEntry", "line_of"]


@dataclass(frozen=True, slots=True)
class Ledger:
    """All runs on one dataset, in the order of their beginning, and all attempts at drawing.

    Args:
        entries: The latest state of every run; no run twice.
        attempts: The latest state of every attempt.

    Raises:
        PrivacyGuardError: If a run stands twice.
    """

    entries: tuple[LedgerEntry, ...] = ()
    attempts: tuple[AttemptLine, ...] = ()

    def __post_init__(self) -> None:
        """A run is charged once."""
        names = [entry.run_id for entry in self.entries]
        if len(set(names)) != len(names):
            raise PrivacyGuardError("a run stands twice in the privacy ledger")

    def find(self, run_id: str) -> LedgerEntry | None:
        """The entry of a run; None where there is none.

        Args:
            run_id: As in its entry.
        """
        return next((entry for entry in self.entries if entry.run_id == run_id), None)

    def attempts_at(self, run_id: str, geolevel: str) -> tuple[AttemptLine, ...]:
        """The attempts of a run at measuring a level.

        Args:
            run_id: As in the entry of the run.
            geolevel: Name of the level.
        """
        return tuple(each for each in self.attempts if (each.entry, each.geolevel) == (run_id, geolevel))

    def with_line(self, line: LedgerEntry | AttemptLine) -> Ledger:
        """Add a run or an attempt, or replace its earlier state.

        Args:
            line: As it stands now.

        Raises:
            PrivacyGuardError: It contradicts what stands there.
        """
        return self.with_entry(line) if isinstance(line, LedgerEntry) else self._with_attempt(line)

    def with_entry(self, entry: LedgerEntry) -> Ledger:
        """Add a run, or replace its earlier state.

        Args:
            entry: The run, as it stands now.

        Returns:
            A new ledger; the run keeps its place, or comes last.

        Raises:
            PrivacyGuardError: If the run stands there with another budget or key, or had come further.
        """
        for place, earlier in enumerate(self.entries):
            if earlier.run_id == entry.run_id:
                _check_successor(earlier, entry)
                return replace(self, entries=(*self.entries[:place], entry, *self.entries[place + 1 :]))
        return replace(self, entries=(*self.entries, entry))

    def _with_attempt(self, line: AttemptLine) -> Ledger:
        if self.find(line.entry) is None:
            raise PrivacyGuardError(f"an attempt of run {line.entry}, which does not stand in the privacy ledger")
        earlier = next((each for each in self.attempts if each.key == line.key), None)
        if not line.follows(earlier):
            raise PrivacyGuardError(
                f"attempt {line.number} of run {line.entry} at level {line.geolevel} stands in the privacy ledger as "
                "another one, or had come further"
            )
        others = tuple(each for each in self.attempts if each is not earlier)
        return replace(self, attempts=(*others, line))

    @property
    def real(self) -> tuple[LedgerEntry, ...]:
        """The runs with a real key."""
        return tuple(entry for entry in self.entries if not entry.insecure)

    def composition(self) -> Composition:
        """What all runs with a real key cost together, each charged with its whole total.

        It holds for neighbours that agree in everything that any of these runs publishes exactly, and that differ in
        one record of each kind that is measured (one person, and one unit) at the same time.
        """
        return compose(self.real)

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

    def require_room(self, entry: LedgerEntry, further: Sequence[Spending] = ()) -> None:
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
            said.append(
                f"The sum holds for neighbours that differ in {' and '.join(f'one {kind}' for kind in kinds)}"
                f"{' at the same time' if len(kinds) > 1 else ''}, and that agree in everything that any of the runs"
                f" publishes exactly: {' '.join(self.invariants()) or 'nothing.'}"
            )
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
    def from_json_lines(cls, text: str) -> Ledger:
        """Read a ledger; later lines of a run or an attempt replace earlier ones.

        Args:
            text: One entry or attempt a line; empty lines do not count.

        Raises:
            PrivacyGuardError: If a line cannot be read, naming its number, or contradicts an earlier one.
        """
        ledger = cls()
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                ledger = ledger.with_line(_line(line))
            except PrivacyGuardError as error:
                raise PrivacyGuardError(
                    f"privacy ledger, line {number}: {error.message}",
                    hint="the ledger is never edited by hand; restore it from its copy",
                ) from error
        return ledger


def line_of(line: LedgerEntry | AttemptLine) -> str:
    """One line of JSON.

    Args:
        line: A run or an attempt.
    """
    return json.dumps(line.as_record(), ensure_ascii=False)


def _line(text: str) -> LedgerEntry | AttemptLine:
    try:
        record = json.loads(text)
    except ValueError as error:
        raise no_entry(error) from error
    if isinstance(record, dict) and record.get("kind") == ATTEMPT:
        return AttemptLine.of(record)
    return LedgerEntry.of(record)


def _alone(charged: Sequence[LedgerEntry], kind: str) -> str:
    total = compose(entry for entry in charged if entry.table == kind)
    figures = {"epsilon": total.epsilon, "rho": total.rho}
    return ", ".join(f"{name} = {value}" for name, value in figures.items() if value)


def _check_successor(earlier: LedgerEntry, later: LedgerEntry) -> None:
    """A run keeps its identity, what was released stays released, and what is charged stays charged."""
    later = replace(later, manifest=earlier.manifest)  # may be written anew, of other tables
    back = replace(later, completed_levels=earlier.completed_levels)
    if not earlier.is_charged:  # it gets its caps when it is charged
        back = replace(later, completed_levels=(), state=earlier.state, cap=earlier.cap, cap_was=earlier.cap_was)
    if back != earlier or not set(earlier.completed_levels) <= set(later.completed_levels):
        raise PrivacyGuardError(f"run {later.run_id} stands in the privacy ledger with another budget or state")
