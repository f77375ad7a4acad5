"""What is known of a run, finished or not, as plain values: what its page and its tables in the terminal show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from das_spark.evaluation.stage_metrics import StageMetrics

#: Work at levels whose times are set side by side.
MEASURE: Final = "measure"
ESTIMATE: Final = "estimate"


@dataclass(frozen=True, slots=True)
class StageLine:
    """A stage of the run, all drivers together. RESTRICTED.

    Attributes:
        name: Such as "measure County".
        seconds: Wall time; of a driver that was killed in it, up to its last line in the log.
        entered: How often a driver began it; a finished stage that is entered again ends at once.
        failed: How often it ended with an error.
        cut_short: How often its driver ended in it without a word.
        metrics: What it cost Spark; None where that is not known.
    """

    name: str
    seconds: float = 0.0
    entered: int = 0
    failed: int = 0
    cut_short: int = 0
    metrics: StageMetrics | None = None

    @property
    def work(self) -> str:
        """What is done: the first word of the name."""
        return self.name.partition(" ")[0]

    @property
    def geolevel(self) -> str:
        """At which level; "" for a stage of the whole run."""
        return self.name.partition(" ")[2] if self.work in (MEASURE, ESTIMATE) else ""


@dataclass(frozen=True, slots=True)
class FamilyLine:
    """A family from the public diagnostics.

    Attributes:
        geolevel: Level of the children.
        family: Geocode of the parent.
        children: How many.
        variables: Unknowns of its problem.
        passes: Passes of estimation.
        iterations: Iterations of the solver.
        attempts: Solvers that were tried.
        status: How it ended.
        solver: Which solver's solution was taken.
        gap: Certified duality gap.
        seconds: Time of its estimation in its task, Spark left out, where the log keeps it. RESTRICTED.
    """

    geolevel: str
    family: str
    children: int
    variables: int
    passes: int
    iterations: int
    attempts: int
    status: str
    solver: str
    gap: float
    seconds: float | None = None

    @property
    def work(self) -> int:
        """Unknowns times iterations: an order by effort for those who may not see times."""
        return self.variables * max(self.iterations, 1)

    @property
    def order(self) -> tuple[float, int, str, str]:
        """Sorts the slowest first, then those of most work."""
        return (-(self.seconds or 0.0), -self.work, self.geolevel, self.family)


#: Figures of a family besides its geolevel and its time, by the names that the diagnostics have for them.
FAMILY_FIGURES: Final = tuple(each.name for each in fields(FamilyLine) if each.name not in ("geolevel", "seconds"))


@dataclass(frozen=True, slots=True)
class EstimatedLevel:
    """The estimates of a level, from the public diagnostics.

    Attributes:
        geolevel: The level.
        statuses: Status and solver -> families.
        gap: Largest certified gap.
        residual: Largest residual of a constraint before rounding.
        slowest: The slowest families, slowest first; those of most work where times are not known.
    """

    geolevel: str
    statuses: Mapping[str, int]
    gap: float
    residual: float
    slowest: tuple[FamilyLine, ...] = ()

    @property
    def families(self) -> int:
        """How many families the level has."""
        return sum(self.statuses.values())


@dataclass(frozen=True, slots=True)
class Opening:
    """One driver at work on the run. RESTRICTED.

    Attributes:
        number: 1 for the first.
        began: Its first line in the log, UTC, ISO 8601.
        last: Its last line.
        application: Its Spark application, with the attempt behind it where the cluster counts them; "" for none.
        end: How it ended.
    """

    number: int
    began: str
    last: str
    application: str
    end: str


@dataclass(frozen=True, slots=True)
class Incident:
    """A warning or an error of the log. RESTRICTED.

    Attributes:
        time: When, UTC, ISO 8601.
        event: Its code.
        text: What it says.
    """

    time: str
    event: str
    text: str


@dataclass(frozen=True, slots=True)
class ShareLine:
    """What a level may spend, of the run's own ledger entry.

    Attributes:
        geolevel: The level.
        share: Its share of the budget, an exact fraction.
        queries: Query -> share of the level.
        released: Whether its measurements are public, so that it is spent.
    """

    geolevel: str
    share: str
    queries: Mapping[str, str]
    released: bool


@dataclass(frozen=True, slots=True)
class SpendingLine:
    """A run in the ledger of an input.

    Attributes:
        run_id: Its name there.
        created: When it began.
        product: What it made.
        record: What it counted.
        framework: What its budget is measured in.
        total: The budget, which is charged from the beginning.
        released: What its finished levels have spent.
        insecure: Whether it was made under a test key.
    """

    run_id: str
    created: str
    product: str
    record: str
    framework: str
    total: str
    released: str
    insecure: bool


@dataclass(frozen=True, slots=True)
class RunRecord:
    """All that is known of a run.

    Attributes:
        run_id: Its name.
        state: How far it is, in words.
        restricted: Whether facts of the restricted root are in the record.
        facts: Further facts by name: product, budget, configuration, software, ... .
        notices: What every output of the run must carry, such as that it is insecure.
        stages: In the order of their beginning.
        levels: Levels that are estimated, from the top.
        shares: What the run may spend, by level.
        spending: All runs on the input, this one among them.
        openings: The drivers that worked on it.
        incidents: Warnings and errors of the log.
        torn: Lines of the log that cannot be read.
    """

    run_id: str
    state: str
    restricted: bool
    facts: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    stages: tuple[StageLine, ...] = ()
    levels: tuple[EstimatedLevel, ...] = ()
    shares: tuple[ShareLine, ...] = ()
    spending: tuple[SpendingLine, ...] = ()
    openings: tuple[Opening, ...] = ()
    incidents: tuple[Incident, ...] = ()
    torn: int = 0

    def slowest(self, most: int) -> list[FamilyLine]:
        """The slowest families over all levels; in the order of their work where times are not known.

        Args:
            most: How many.
        """
        families = [family for level in self.levels for family in level.slowest]
        return sorted(families, key=lambda each: each.order)[:most]
