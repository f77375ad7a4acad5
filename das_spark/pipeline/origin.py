"""Where the measurements of a run come from that draws none itself: what it knows of them, and who spent the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from das_spark.errors import InputError, PrivacyGuardError
from das_spark.privacy import LedgerEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext


class OriginKind(StrEnum):
    """What the measurements were read from."""

    RUN = "run"
    MEASUREMENTS = "measurements"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Origin:
    """Measurements that exist.

    Attributes:
        kind: The public folder of a run, a folder that a run published, or files of others in the published layout.
        run_id: Name of the run that measured, or of the dataset of others.
        created: When that run began, ISO 8601; empty where nobody says.
        sha256: Checksum over what was read: two runs with the same one estimate from the same bytes.
        entry: The ledger entry of the run that measured; for files of others, what their budget must have been.
        earlier: The origin of that run, where it had not measured itself.
    """

    kind: OriginKind
    run_id: str
    created: str
    sha256: str
    entry: LedgerEntry
    earlier: Mapping[str, Any] | None = None

    @property
    def of_others(self) -> bool:
        """Whether other software drew the noise."""
        return self.kind is OriginKind.OTHERS

    @property
    def sentence(self) -> str:
        """What the privacy statement says."""
        nothing = "This run was given no confidential record and no key; it drew nothing and spent nothing."
        checksum = f"Checksum of what was read: {self.sha256}."
        if self.of_others:
            return (
                f"The noisy measurements were published by others (dataset `{self.run_id}`). {nothing} The budget below"
                f" is the one that the run file states; it agrees with the variances of the files. {checksum}"
            )
        return (
            f"The noisy measurements were made before, by run `{self.run_id}` of {self.created} (ledger entry"
            f" `{self.entry.run_id}`), which spent the budget below, once. {nothing} {checksum}"
        )

    @classmethod
    def of(cls, record: Mapping[str, Any], entry: LedgerEntry) -> Origin:
        """The origin that a resolved configuration tells of.

        Args:
            record: Result of `as_json`, as it was read.
            entry: The ledger entry of the run that measured.
        """
        kind = OriginKind(record["kind"])
        return cls(kind, record["run_id"], record["created"], record["sha256"], entry, record.get("origin"))

    def as_json(self) -> dict[str, Any]:
        """The origin as JSON values, for the resolved configuration."""
        record: dict[str, Any] = {
            "kind": str(self.kind),
            "run_id": self.run_id,
            "created": self.created,
            "sha256": self.sha256,
            "ledger_run_id": self.entry.run_id,
        }
        return record if self.earlier is None else {**record, "origin": dict(self.earlier)}


class Source(Protocol):
    """Measurements that a run can be started from."""

    @property
    def plan(self) -> RunPlan:
        """The plan of the run that estimates from them."""

    @property
    def origin(self) -> Origin:
        """What is known of them."""

    def check(self, spark: SparkSession) -> None:
        """Examine the rows before anything is written.

        Args:
            spark: The session.

        Raises:
            InputError: They are not what they must be.
        """

    def adopt(self, context: RunContext) -> None:
        """Write the public tables of a run that come before estimation: those that are not there yet.

        Args:
            context: The run that estimates from them.

        Raises:
            InputError: They are not what they must be.
            OutputError: The disk is full.
        """


def entry_of(ledger: Mapping[str, Any], where: str) -> LedgerEntry:
    """The ledger entry that a manifest holds.

    Args:
        ledger: The entry as JSON values.
        where: What holds it, for the message.

    Raises:
        InputError: It is none.
    """
    try:
        return LedgerEntry.of(ledger)
    except PrivacyGuardError as error:
        raise InputError(f"{where}: {error.message}") from error
