"""What every stage of a run is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from das_spark.errors import PrivacyGuardError
from das_spark.pipeline.statement import notices_of
from das_spark.spark.run_tables import LevelTables
from das_spark.store.tables import published_estimates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.geography import Spine
    from das_spark.pipeline.charge import RunLedger
    from das_spark.pipeline.progress import Progress
    from das_spark.privacy import LedgerEntry, RunKey
    from das_spark.store import RunLayout


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What decides how a run is carried out besides its plan."""

    #: When it begins, ISO 8601, where several runs begin together: the time at which a later one begins tells how long
    #: the earlier ones took over confidential data. None for now.
    created: str | None = None
    #: The other parts of a joint run, which the cap of the ledger must leave room for, each with its place.
    together: tuple[tuple[RunPlan, RunLayout], ...] = ()
    #: A run of the same configuration but for the total of the budget, whose ingested input is reused; by default the
    #: input is read.
    ingested_by: RunLayout | None = None
    nonce: str = ""  # what tells its entry in the ledger from those of other runs of its name; random by default
    #: Whether noise is measured without what it shall hide, so that two inputs have the same noisy answers and whatever
    #: else differs is a leak; for the audit of structure, and under a test key only.
    blind: bool = False
    until: str | None = None  # the last stage that its driver carries out; the last one of all by default
    #: Whether whoever begins the run has tried already what its stages will need (`pipeline.preflight`).
    tried: bool = False


@dataclass(slots=True)
class RestrictedFacts:
    """What stages found out for the restricted manifest: it tells of the input."""

    #: Path -> size, time of change and SHA-256; None where the input was not examined.
    input_files: Mapping[str, Mapping[str, Any]] | None = None
    #: The same of what the spine is made of besides the input.
    geography_files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    input_rows: Mapping[str, int] = field(default_factory=dict)  # what was read -> rows
    problems: list[Mapping[str, Any]] = field(default_factory=list)  # what was wrong in the input, and how often
    #: The few accuracy figures that are printed, by name; empty where nothing was evaluated.
    accuracy: Mapping[str, str] = field(default_factory=dict)


def is_insecure(key: RunKey | None, measured_by: LedgerEntry | None) -> bool:
    """Whether the noise of a run comes from a test key."""
    return key.is_insecure if key is not None else measured_by is not None and measured_by.insecure


@dataclass(slots=True)
class RunContext:
    """One run at work."""

    plan: RunPlan
    layout: RunLayout
    spark: SparkSession
    #: The run key: given to measure tasks (as derived streams) and to nothing else; None where nothing is drawn.
    key: RunKey | None
    progress: Progress  # says how far the run is, and names jobs in Spark's own displays
    #: When the run was opened for the first time, UTC, ISO 8601 to the second: the only instant that anything public
    #: names, since all later ones tell how long confidential data took.
    created: str
    #: The ledger entry of the run that measured, where this one estimates from measurements that exist.
    measured_by: LedgerEntry | None = None
    ledger: RunLedger | None = None  # the ledger of its dataset, opened for the run; None where the run has no key
    options: RunOptions = RunOptions()  # how it is carried out
    #: Rows of the microdata, by `<kind>.<format>`, for the public manifest.
    #: What is said in public of the run whose published counts the estimates are held to; empty without one.
    published_run: Mapping[str, Any] = field(default_factory=dict)
    #: What stages found out for the restricted manifest.
    restricted_facts: RestrictedFacts = field(default_factory=RestrictedFacts)
    #: The spine that was built of areas, once it is; see `spine`.
    built_spine: Spine | None = None
    _tables: LevelTables | None = None

    @property
    def spine(self) -> Spine:
        """The geolevels under the lengths of their geocodes: those of the plan, until a spine is built of areas."""
        return self.plan.spine if self.built_spine is None else self.built_spine

    @property
    def is_insecure(self) -> bool:
        """Whether the noise comes from a test key, of this run or of the one that measured."""
        return is_insecure(self.key, self.measured_by)

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences that every public file of the run must carry."""
        return notices_of(self.plan, insecure=self.is_insecure)

    def required_key(self) -> RunKey:
        """The run key, for what draws."""
        if self.key is None:
            raise PrivacyGuardError(
                f"run {self.layout.run_id} estimates from measurements that exist; it draws nothing"
            )
        return self.key

    def required_ledger(self) -> RunLedger:
        """The ledger of the dataset, for what charges it."""
        if self.ledger is None:
            raise PrivacyGuardError(f"run {self.layout.run_id}: the ledger of its dataset was not opened")
        return self.ledger

    @property
    def tables(self) -> LevelTables:
        """The tables of the run by geolevel, of the spine that it has by now."""
        if self._tables is None or self._tables.spine is not self.spine:
            self._tables = LevelTables(self.spark, self.layout, self.spine, self.census)
        return self._tables

    @property
    def has_shares(self) -> bool:
        """Whether geounits have shares of the budget of their own, on a spine that is made of areas."""
        return not self.spine.is_census

    def shares_of(self, geolevel: str) -> Mapping[str, Fraction]:
        """The shares of the budget that measured geounits of a level have, by their text; "" stands for the level's."""
        if not self.has_shares:
            return {"": self.plan.budget.level(geolevel).share}
        return self.tables.measured_shares(geolevel)

    @property
    def census(self) -> Spine:
        """The levels of the census, in which microdata, tables and accuracy are given."""
        return self.plan.product.census(self.spine)

    @property
    def published(self) -> str:
        """The table of estimates by geounits of the census."""
        return published_estimates(self.spine)
