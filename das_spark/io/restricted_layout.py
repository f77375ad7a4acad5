"""Where the restricted files of a run lie: everything that tells of the confidential input."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from das_spark.io.run_marker import MARKER


@dataclass(frozen=True, slots=True)
class RestrictedLayout:
    """Paths of the restricted root of one run: everything that tells of the confidential input.

    Attributes:
        path: The restricted folder of the run, mode 0700.
    """

    path: Path

    def table(self, name: str) -> Path:
        """The folder of a restricted table.

        Args:
            name: Name of the table.
        """
        return self.path / name

    def level(self, table: str, geolevel: str) -> Path:
        """The folder of one level of a restricted table.

        Args:
            table: Name of the table.
            geolevel: Name of the level.
        """
        return self.table(table) / f"level={geolevel}"

    def staging(self, table: str, geolevel: str, attempt: int) -> Path:
        """Where one attempt at a level is written before it is promoted; never shared between attempts.

        Args:
            table: Name of the table.
            geolevel: Name of the level.
            attempt: Number of the attempt, from 1.
        """
        return self.path / "staging" / table / f"level={geolevel}.attempt={attempt}"

    @property
    def journal(self) -> Path:
        """The folder of the measurement journal."""
        return self.path / "journal"

    @property
    def input_record(self) -> Path:
        """What ingestion read and found wrong, and the identity of the input."""
        return self.path / "input.json"

    @property
    def ledger_entry(self) -> Path:
        """What the run is charged with, and which of its levels are public: never behind the ledger of the input."""
        return self.path / "ledger_entry.json"

    @property
    def instance(self) -> Path:
        """A random word of the run folder in this place, by which a copy of the folder is told from it."""
        return self.path / "instance.json"

    @property
    def begun(self) -> Path:
        """When a run began that is charged with nothing: one from measurements that exist."""
        return self.path / "begun.json"

    @property
    def concluded(self) -> Path:
        """What was verified and evaluated, and of which files."""
        return self.path / "concluded.json"

    @property
    def removed(self) -> Path:
        """When what is confidential was removed from a finished run; there only where it was."""
        return self.path / "removed.json"

    @property
    def lock(self) -> Path:
        """The file that the live driver holds locked."""
        return self.path / "run.lock"

    @property
    def manifest(self) -> Path:
        """The restricted manifest: checksums and row counts of the input, times, accuracy."""
        return self.path / "manifest.json"

    @property
    def accuracy_json(self) -> Path:
        """The accuracy report as data."""
        return self.path / "accuracy.json"

    @property
    def accuracy_html(self) -> Path:
        """The accuracy report as a page."""
        return self.path / "accuracy.html"

    @property
    def input_problems(self) -> Path:
        """What was wrong in the input, with numbers of rows: one JSON object a problem and line."""
        return self.path / "input_problems.jsonl"

    @property
    def log(self) -> Path:
        """What the drivers of the run did, and when: one JSON object an event and line."""
        return self.path / "log.jsonl"

    @property
    def page(self) -> Path:
        """The run as a page."""
        return self.path / "run.html"

    @property
    def marker(self) -> Path:
        """The file that makes the folder a run folder."""
        return self.path / MARKER

    @property
    def kept(self) -> tuple[Path, ...]:
        """What stays when all that is confidential is removed: without the journal, a level could be drawn twice.

        Of `staging` only the plain files stay, without which an executor that was lost could still write there when it
        wakes up.
        """
        return (
            self.journal,
            self.ledger_entry,
            self.instance,
            self.removed,
            self.marker,
            self.lock,
            self.path / "staging",
        )
