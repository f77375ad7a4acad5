"""A joint run, told from the public roots of its parts: losses, statement, contradictions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from das_spark.config import notice_of_people, plan_from_config, published_from_people
from das_spark.pipeline.published import PublishedRun
from das_spark.pipeline.statement import releases_held_to
from das_spark.privacy import JointPart, LedgerEntry, joint_costs, joint_statement
from das_spark.spark.contradictions import count_contradictions
from das_spark.spark.tables import read_table
from das_spark.store import PublicManifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from das_spark.privacy import Ledger
    from das_spark.store import PublicLayout


@dataclass(frozen=True, slots=True)
class Contradictions:
    """In how many geounits the parts contradict each other."""

    leaf: str  # the geolevel that they are counted on, the lowest one
    geounits: int  # number of all its geounits
    numbers: Mapping[str, int]  # what cannot be so -> number of geounits in which it is

    def sentences(self) -> list[str]:
        """Say of each in how many geounits it is so."""
        where = f"of {self.geounits:,} geounits of geolevel {self.leaf}"
        return [f"in {number:,} {where}: {sentence}" for sentence, number in self.numbers.items()]

    def to_json(self) -> str:
        """The file of a joint run that says it."""
        return json.dumps(asdict(self), indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class JointRelease:
    """The published parts of a joint run."""

    run_id: str  # of the joint run
    parts: Mapping[str, PublishedRun]  # what a part counts -> the part

    @classmethod
    def of(cls, run_id: str, publics: Mapping[str, PublicLayout]) -> JointRelease:
        """Read the manifests of finished parts.

        Args:
            run_id: Name of the joint run.
            publics: What a part counts -> its public root.
        """
        parts = {}
        for record, public in publics.items():
            manifest = PublicManifest.load(public.manifest)
            parts[record] = PublishedRun(
                public, manifest, plan_from_config(manifest.config, source=str(public.manifest))
            )
        return cls(run_id, parts)

    def contradictions(self, spark: SparkSession) -> Contradictions:
        """Count contradictions in what the parts have published of the lowest geolevel."""
        leaf, frames = "", {}
        for part in self.parts.values():
            table, folder = part.leaves()
            leaf = part.plan.product.census(part.plan.spine).leaf.name
            frames[part.plan.product.name] = read_table(spark, table, folder)
        return Contradictions(leaf, *count_contradictions(frames))

    def costs(self) -> dict[str, object]:
        """Compute what the parts, and all releases that they are held to, cost together."""
        return joint_costs([*self._entries(), *self._held_to()])

    def from_people(self) -> list[str]:
        """List what is published nearly exactly although it follows from people."""
        return list(dict.fromkeys(sentence for record in self.parts for sentence in self._part(record).from_people))

    def ledger_record(self, costs: Mapping[str, object]) -> str:
        """Write the file that says what the parts cost, alone and together.

        Args:
            costs: Result of `costs`.
        """
        record = {
            "run_id": self.run_id,
            "together": costs,
            "parts": [entry.public_record() for entry in self._entries()],
            "held_to": [entry.public_record() for entry in self._held_to()],
        }
        return json.dumps(record, indent=1) + "\n"

    def statement(self, contradictions: Contradictions, ledger: Ledger | None = None) -> str:
        """Write what is claimed of the parts together.

        Args:
            contradictions: Between them.
            ledger: All runs on the dataset, these included.
        """
        parts = [self._part(record) for record in self.parts]
        said = contradictions.sentences()
        return joint_statement(self.run_id, parts, held_to=self._held_to(), ledger=ledger, contradictions=said)

    def _entries(self) -> list[LedgerEntry]:
        return [LedgerEntry.of(part.manifest.ledger) for part in self.parts.values()]

    def _held_to(self) -> tuple[LedgerEntry, ...]:
        """Return the entries of releases other than the parts that estimates of parts are held to."""
        own = {entry.run_id for entry in self._entries()}
        releases = {entry.run_id: entry for part in self.parts.values() for entry in releases_held_to(part.manifest)}
        return tuple(entry for run_id, entry in releases.items() if run_id not in own)

    def _part(self, record: str) -> JointPart:
        manifest, plan = self.parts[record].manifest, self.parts[record].plan
        from_people = published_from_people(plan.acknowledged, plan.spine.leaf.name)
        # The statement opens with it in other words.
        notices = tuple(notice for notice in manifest.notices if notice not in notice_of_people(from_people))
        entry = LedgerEntry.of(manifest.ledger)
        return JointPart(record, manifest.run_id, entry, manifest.invariants, notices, from_people)
