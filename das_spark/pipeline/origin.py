"""Where the measurements of a run come from that draws none itself: what it knows of them, and who spent the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from das_spark.errors import InputError, PrivacyGuardError
from das_spark.privacy import LedgerEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import MeasurementOrigin, RunPlan
    from das_spark.pipeline.context import RunContext


@dataclass(frozen=True, slots=True)
class Origin:
    """Measurements that exist.

    Attributes:
        record: Where they come from, as the configuration of the run that estimates from them says it.
        entry: The ledger entry of the run that measured; for external files, what their budget must have been.
    """

    record: MeasurementOrigin
    entry: LedgerEntry

    @property
    def sentence(self) -> str:
        """What the privacy statement says."""
        record = self.record
        nothing = "This run was given no confidential record and no key; it drew nothing and spent nothing."
        checksum = f"Checksum of what was read: {record.sha256}."
        if record.is_external:
            return (
                f"The noisy measurements were published by others (dataset `{record.run_id}`). {nothing} The budget"
                f" below is the one that the run file states; it agrees with the variances of the files. {checksum}"
            )
        return (
            f"The noisy measurements were made before, by run `{record.run_id}` of {record.created} (ledger entry"
            f" `{self.entry.run_id}`), which spent the budget below, once. {nothing} {checksum}"
        )


class Source(Protocol):
    """Measurements that a run can be started from."""

    @property
    def plan(self) -> RunPlan:
        """The plan of the run that estimates from them."""

    @property
    def origin(self) -> Origin:
        """What is known of them."""

    def check(self, spark: SparkSession) -> None:
        """Examine the rows before anything is written."""

    def adopt(self, context: RunContext) -> None:
        """Write the public tables of a run that come before estimation: those that are not there yet."""


def entry_of(ledger: Mapping[str, Any], where: str) -> LedgerEntry:
    """The ledger entry that a manifest holds."""
    try:
        return LedgerEntry.of(ledger)
    except PrivacyGuardError as error:
        raise InputError(f"{where}: {error.message}") from error
