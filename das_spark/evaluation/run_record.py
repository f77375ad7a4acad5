"""What is known of a run, finished or not, and what its page and the terminal say of it; what its stages cost Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from das_spark.report import (
    PAGE,
    PEOPLE,
    Axis,
    Bars,
    Figure,
    Panel,
    Report,
    ReportSection,
    ReportTable,
)

#: Of these the largest counts where figures are put together; all others are sums.
_LARGEST: Final = ("execution_memory_bytes", "heap_bytes", "python_bytes", "slowest_task_seconds")


@dataclass(frozen=True, slots=True)
class StageMetrics:
    """The cost of the Spark jobs of one stage."""

    jobs: int = 0  #: Spark jobs
    spark_stages: int = 0  #: stages of those jobs that ran, each attempt counted
    tasks: int = 0  #: tasks that ended well
    failed_tasks: int = 0  #: tasks that failed; each was tried again, or the stage failed
    killed_tasks: int = 0  #: tasks that were stopped, such as the slower one of two copies
    speculative_tasks: int = 0  #: second copies of slow tasks
    run_seconds: float = 0.0  #: time of all tasks together
    cpu_seconds: float = 0.0  #: CPU time of the JVM in them; Python workers are not in it
    gc_seconds: float = 0.0  #: time of garbage collection in the JVM
    shuffle_read_bytes: int = 0  #: read from other tasks
    shuffle_write_bytes: int = 0  #: written for other tasks
    memory_spilled_bytes: int = 0  #: what did not fit, as it was in memory
    disk_spilled_bytes: int = 0  #: the same as it was on the disk
    #: Peaks of sorts, joins and aggregates, summed over tasks; of the largest Spark stage.
    execution_memory_bytes: int = 0
    heap_bytes: int = 0  #: largest heap of an executor that a heartbeat saw (every 10 seconds); 0 where none did
    python_bytes: int = 0  #: the same of Python workers, where spark.executor.processTreeMetrics.enabled is on
    input_bytes: int = 0  #: read from files
    output_bytes: int = 0  #: written to files by Spark itself; tables that tasks write from Python are not counted
    slowest_task_seconds: float = 0.0  #: time of the task that took longest
    lost_stages: int = 0  #: Spark stages that Spark had forgotten when it was asked; the sums lack them

    def plus(self, other: StageMetrics) -> StageMetrics:
        """What two drivers spent on one stage."""
        mine, theirs = asdict(self), asdict(other)
        return replace(
            self,
            **{
                name: max(value, theirs[name]) if name in _LARGEST else round(value + theirs[name], 3)
                for name, value in mine.items()
            },
        )

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> StageMetrics:
        """Read the figures of a log or manifest; figures of later versions are left out."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in record.items() if name in known})


#: Work at levels whose times are set side by side.
MEASURE: Final = "measure"
ESTIMATE: Final = "estimate"


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage of the run, all drivers together. RESTRICTED."""

    name: str  #: such as "measure County"
    seconds: float = 0.0  #: wall time; of a driver that was killed in it, up to its last line in the log
    entered: int = 0  #: how often a driver began it; a finished stage that is entered again ends at once
    failed: int = 0  #: how often it ended with an error
    cut_short: int = 0  #: how often its driver ended in it without a word
    metrics: StageMetrics | None = None  #: what it cost Spark; None where that is not known

    @property
    def work(self) -> str:
        """What is done: the first word of the name."""
        return self.name.partition(" ")[0]

    @property
    def geolevel(self) -> str:
        """At which level; "" for a stage of the whole run."""
        return self.name.partition(" ")[2] if self.work in (MEASURE, ESTIMATE) else ""


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """A family from the public diagnostics."""

    geolevel: str  #: level of the children
    family: str  #: geocode of the parent
    children: int  #: how many
    variables: int  #: unknowns of its problem
    passes: int  #: passes of estimation
    iterations: int  #: iterations of the solver
    attempts: int  #: solvers that were tried
    status: str  #: how it ended
    solver: str  #: which solver's solution was taken
    gap: float  #: certified duality gap
    #: Time of its estimation in its task, Spark left out, where the log keeps it. RESTRICTED.
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
FAMILY_FIGURES: Final = tuple(each.name for each in fields(FamilyRow) if each.name not in ("geolevel", "seconds"))


@dataclass(frozen=True, slots=True)
class EstimatedLevel:
    """The estimates of a level, from the public diagnostics."""

    geolevel: str
    statuses: Mapping[str, int]  #: status and solver -> families
    gap: float  #: largest certified gap
    residual: float  #: largest residual of a constraint before rounding
    #: The slowest families, slowest first; those of most work where times are not known.
    slowest: tuple[FamilyRow, ...] = ()

    @property
    def families(self) -> int:
        """How many families the level has."""
        return sum(self.statuses.values())


@dataclass(frozen=True, slots=True)
class DriverAttempt:
    """One driver at work on the run. RESTRICTED."""

    number: int  #: 1 for the first
    began: str  #: its first line in the log, UTC, ISO 8601
    last: str  #: its last line
    application: str  #: its Spark application, with the attempt behind it where the cluster counts them; "" for none
    end: str  #: how it ended


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A warning or an error of the log. RESTRICTED."""

    time: str  #: when, UTC, ISO 8601
    event: str  #: its code
    text: str  #: what it says


@dataclass(frozen=True, slots=True)
class ShareRow:
    """What a level may spend, of the run's own ledger entry."""

    geolevel: str
    share: str  #: its share of the budget, an exact fraction
    queries: Mapping[str, str]  #: query -> share of the level
    released: bool  #: whether its measurements are public, so that it is spent


@dataclass(frozen=True, slots=True)
class SpendingRow:
    """A run in the ledger of an input."""

    run_id: str  #: its name there
    created: str  #: when it began
    product: str  #: what it made
    record: str  #: what it counted
    framework: str  #: what its budget is measured in
    total: str  #: the budget, which is charged from the beginning
    released: str  #: what its finished levels have spent
    insecure: bool  #: whether it was made under a test key


@dataclass(frozen=True, slots=True)
class RunRecord:
    """All that is known of a run."""

    run_id: str
    state: str  #: how far it is, in words
    restricted: bool  #: whether facts of the restricted root are in the record
    #: Further facts by name: product, budget, configuration, software, ... .
    facts: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()  #: what every output of the run must carry, such as that it is insecure
    stages: tuple[StageRow, ...] = ()  #: in the order of their beginning
    levels: tuple[EstimatedLevel, ...] = ()  #: levels that are estimated, from the top
    shares: tuple[ShareRow, ...] = ()  #: what the run may spend, by level
    spending: tuple[SpendingRow, ...] = ()  #: all runs on the input, this one among them
    drivers: tuple[DriverAttempt, ...] = ()  #: the drivers that worked on it
    warnings: tuple[LogEntry, ...] = ()  #: warnings and errors of the log
    torn: int = 0  #: lines of the log that cannot be read

    def slowest(self, most: int) -> list[FamilyRow]:
        """The slowest families over all levels; in the order of their work where times are not known."""
        families = [family for level in self.levels for family in level.slowest]
        return sorted(families, key=lambda family: family.order)[:most]


#: Slowest families that are shown.
_MOST_FAMILIES: Final = 20
RESTRICTED_RECORD: Final = "RESTRICTED: times, Spark's figures and the ledger of the input tell of confidential data."
PUBLIC_RECORD: Final = "Made from the public root alone: no times, no log, no ledger of the input."
_WORK: Final = (
    "unknowns of a family's problem times iterations of its solver: an order by effort for those who may not see times"
)
_FAMILY_SECONDS: Final = (
    "time of a family's estimation in its task, Spark left out; measured, so another run has others"
)
_DEFINITIONS: Final[Mapping[str, str]] = {
    "stage": "what a driver does between two lines of progress; its Spark jobs carry its name as their job group",
    "driver": "one process that opened the run; a run that is resumed has several",
    "entered": "how often a driver began the stage; a finished one that is entered again ends at once",
    "cut short": "the driver ended in the stage without a word; its time counts up to its last line in the log",
    "task time": "of all tasks together, with their Python workers; CPU and garbage collection are the JVM's alone",
    "family seconds": _FAMILY_SECONDS,
    "work": _WORK,
    "gap": "certified duality gap of a family's solution, as a share of max(1, the centred objective)",
    "residual": "largest amount by which a solution breaks a constraint before it is rounded, in people or units",
    "charged": "what the ledger of the input counts of a run, from its beginning",
    "released": "what its finished levels have spent",
}


def present_run(record: RunRecord) -> Report:
    """What the page and the terminal say of a run."""
    facts = (("state", record.state), *record.facts.items())
    restricted = record.restricted
    return Report(
        f"Run {record.run_id}",
        (
            ReportSection("Facts", (ReportTable.of("facts", "", ("what", "value"), facts, media=PEOPLE),)),
            *(_stages(record) if restricted else ()),
            *_estimates(record),
            _shares(record.shares),
            *((_spending(record.spending), *_log(record)) if restricted else ()),
        ),
        restricted=RESTRICTED_RECORD if restricted else "",
        notices=record.notices,
        lead=() if restricted else (PUBLIC_RECORD,),
        definitions=_DEFINITIONS,
        verdict=_verdict(record),
    )


def _verdict(record: RunRecord) -> str:
    """How far the run is, what was checked, and what it cost, in a sentence."""
    parts = [record.state, *(record.facts[name] for name in ("verification",) if name in record.facts)]
    spent = f" Budget: {record.facts['budget']}." if "budget" in record.facts else ""
    return f"This run is {', '.join(parts)}.{spent}"


def _stages(record: RunRecord) -> Iterable[ReportSection]:
    if not record.stages:
        yield ReportSection("Stages", ("No stage is in the log of the run.",), media=PAGE)
        return
    columns = (("name", "stage"), ("seconds", "time", "duration"), "entered", "failed", ("cut_short", "cut short"))
    title = "Stages, all drivers together"
    table = ReportTable.of("stages", title, columns, map(asdict, record.stages), media=PEOPLE)
    yield ReportSection("Stages", (_stage_times(record.stages), table))
    times: dict[str, dict[str, float]] = {}
    for stage in record.stages:
        if stage.geolevel:
            times.setdefault(stage.geolevel, {})[stage.work] = stage.seconds
    if times:
        yield ReportSection("Time by geolevel", (_level_times(times),), media=PAGE)
    metered = [(stage.name, stage.metrics) for stage in record.stages if stage.metrics is not None]
    if metered:
        yield ReportSection("What the stages cost Spark", (_cost_table(metered),))


#: Attribute, heading and form of the cost of a stage, for the page; and what the terminal leaves out.
_COST: Final = (
    *("jobs", "tasks", ("failed_tasks", "failed"), ("killed_tasks", "killed"), ("speculative_tasks", "copies")),
    *(("run_seconds", "task time", "duration"), ("cpu_seconds", "CPU", "duration"), ("gc_seconds", "GC", "duration")),
    *(("slowest_task_seconds", "slowest task", "duration"), ("shuffle_write_bytes", "shuffled", "size")),
    *(("disk_spilled_bytes", "spilled", "size"), ("execution_memory_bytes", "memory of sorts", "size")),
    *(("heap_bytes", "heap", "size"), ("input_bytes", "read", "size"), ("output_bytes", "written", "size")),
)
_COST_OF_PAGE: Final = ("killed", "copies", "CPU", "memory of sorts", "heap", "read", "written")


def _cost_table(metered: Sequence[tuple[str, StageMetrics]]) -> ReportTable:
    rows = ({"stage": name, **asdict(cost), "heap_bytes": cost.heap_bytes or None} for name, cost in metered)
    lost = sum(cost.lost_stages for _, cost in metered)
    note = (
        f"Spark had forgotten {lost} of its stages when it was asked: raise spark.ui.retainedStages and "
        "spark.ui.retainedJobs. The sums lack them."
    )
    table = ReportTable.of(
        "cost", "Cost of the stages", ("stage", *_COST), rows, note=note if lost else "", media=PEOPLE
    )
    columns = (replace(column, media=PAGE) if column.heading in _COST_OF_PAGE else column for column in table.columns)
    return replace(table, columns=tuple(columns))


def _estimates(record: RunRecord) -> Iterable[ReportSection]:
    if not record.levels:
        yield ReportSection("Families by geolevel", ("No level is estimated yet.",), media=PAGE)
        return
    columns = (
        *("geolevel", "families", "status (solver): families"),
        *(("gap", "worst gap", ".1e"), ("residual", "worst residual", ".1e")),
    )
    rows = (
        (level.geolevel, level.families, _listed(level.statuses), level.gap, level.residual) for level in record.levels
    )
    table = ReportTable.of("levels", "Families by geolevel", columns, rows, media=PEOPLE)
    yield ReportSection("Families by geolevel", (table,))
    slowest = record.slowest(_MOST_FAMILIES)
    timed = any(family.seconds is not None for family in slowest)
    note = f"Seconds: {_FAMILY_SECONDS}." if timed else f"Work: {_WORK}."
    title = f"The {len(slowest)} slowest families" if timed else f"The {len(slowest)} families of most work"
    columns = (
        *("family", "geolevel", *((("seconds", "", ".3f"),) if timed else ())),
        *("children", ("variables", "unknowns"), "passes", "iterations", ("attempts", "solvers tried"), "status"),
        *("solver", ("gap", "", ".1e")),
    )
    families = ({**asdict(each), "family": each.family or "(root)", "solver": each.solver or "-"} for each in slowest)
    table = ReportTable.of("families", title, columns, families, note=note, media=PEOPLE)
    yield ReportSection("Slowest families" if timed else "Largest families", (table,))


def _shares(shares: Sequence[ShareRow]) -> ReportSection:
    columns = ("geolevel", ("share", "share of the budget"), ("queries", "query: share of the level"), "spent")
    rows = ({**asdict(share), "queries": _listed(share.queries), "spent": _SPENT[share.released]} for share in shares)
    table = ReportTable.of("shares", "Shares of the budget", columns, rows, media=PEOPLE)
    return ReportSection("Privacy ledger of the run", (table,) if shares else ("Nothing is charged yet.",))


def _spending(spending: Sequence[SpendingRow]) -> ReportSection:
    columns = (
        *(("run_id", "run"), ("created", "begun"), "product", ("record", "counted"), "framework"),
        *(("total", "charged"), "released", "key"),
    )
    rows = ({**asdict(each), "key": _KEY[each.insecure]} for each in spending)
    note = "All runs on this input that the copy of the ledger with the runs knows."
    table = ReportTable.of("spending", "Runs on this input", columns, rows, note=note, media=PEOPLE)
    return ReportSection("Privacy ledger of the input", (table,) if spending else ("No ledger of an input is known.",))


_SPENT: Final = {True: "yes", False: "not yet"}
_KEY: Final = {True: "test (insecure)", False: "real"}
_DRIVER_COLUMNS: Final = (
    *(("number", "driver"), ("began", "began (UTC)"), ("last", "last line"), ("application", "Spark application")),
    "end",
)


def _log(record: RunRecord) -> Iterable[ReportSection]:
    drivers = [{**asdict(driver), "application": driver.application or "-"} for driver in record.drivers]
    torn = (
        f"{record.torn} torn line{'s' if record.torn > 1 else ''} in the log: a driver or a machine died while writing."
    )
    note = torn if record.torn else ""
    table = ReportTable.of("drivers", "Drivers", _DRIVER_COLUMNS, drivers, note=note, media=PEOPLE)
    yield ReportSection("Drivers", (table,) if drivers else ("The run has no log.",))
    columns = (("time", "time (UTC)"), "event", ("text", "what"))
    table = ReportTable.of("warnings", "Warnings and errors", columns, map(asdict, record.warnings), media=PEOPLE)
    yield ReportSection("Warnings and errors", (table,) if table.rows else ("None.",))


def _listed(parts: Mapping[str, object]) -> str:
    return "; ".join(
        f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}" for name, value in parts.items()
    )


def _stage_times(stages: Sequence[StageRow]) -> Figure:
    seconds = [stage.seconds for stage in stages]
    bars = Bars(range(len(stages)), seconds, texts=tuple(f"{time:,.1f} s" for time in seconds))
    axis = Axis("wall time (seconds)", low=0, high=max([*seconds, 0.1]) * 1.15)
    panel = Panel((bars,), axis, rows=tuple(stage.name for stage in stages))
    return Figure("Wall time by stage, all drivers together.", (panel,), title="Time by stage")


def _level_times(levels: Mapping[str, Mapping[str, float]]) -> Figure:
    places = np.arange(len(levels))
    bars = []
    for shift, color, work in ((-0.19, 1, MEASURE), (0.19, 0, ESTIMATE)):
        times = [level.get(work, 0.0) for level in levels.values()]
        texts = tuple(f"{time:,.1f} s" for time in times)
        bars.append(Bars((places + shift).tolist(), times, work, color, texts, 0.36))
    longest = max(max(level.values()) for level in levels.values())
    panel = Panel(tuple(bars), Axis("wall time (seconds)", low=0, high=max(longest, 0.1) * 1.15), rows=tuple(levels))
    caption = "Wall time by geolevel: measuring (with reading and promoting) and estimating."
    return Figure(caption, (panel,), height=1.6 * len(levels), legend="above", title="Time by geolevel")
