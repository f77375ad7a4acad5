"""What a run will do, resolved and checked: the frozen values that stages read and workers receive.

A :class:`RunPlan` is made by :func:`das_spark.config.resolve.resolve` only. Nothing in it is optional guesswork: every
default has been filled in, every name looked up, every share made an exact fraction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from das_spark.constraints import AddedConstraint, Invariants
    from das_spark.estimation import OuterPass
    from das_spark.geography import Spine, SpineSettings
    from das_spark.histogram import Query
    from das_spark.privacy import Budget, Cap
    from das_spark.products import Product

UnitConflicts = Literal["fail", "from_people"]
Rounding = Literal["nearest", "released"]
MeasurementRows = Literal["support", "all"]
MicrodataFormat = Literal["parquet", "text", "ppmf"]
MicrodataFiles = Literal["parts", "concatenate", "single"]
TableFormat = Literal["parquet", "csv"]


@dataclass(frozen=True, slots=True)
class InputSettings:
    """Where the confidential records are and how their columns are called.

    Attributes:
        reader: Name in the registry of readers.
        dataset: What the operator calls the people of the input: all runs on them are counted together under this name.
        path: File or folder of a reader that takes one; None otherwise.
        persons: Person records or counts, for readers that take files one by one.
        units: Housing units and group quarters by class.
        geography: Table of the geounits that exist, where no unit file says so.
        columns: Field of the system -> column of the file; a field without a row here is named alike in the file.
        code_base: Field -> first code in the file (1 where the file counts from one); 0 where missing.
        unit_conflicts: Where units and people contradict each other: "fail", or take the units "from_people".
        units_from_people: Whether the units of each class are made from the people, where no counts are published.
        simulate: Arguments of the simulator, for the reader "simulated".
    """

    reader: str
    path: str | None = None
    persons: str | None = None
    units: str | None = None
    geography: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    code_base: Mapping[str, int] = field(default_factory=dict)
    unit_conflicts: UnitConflicts = "fail"
    units_from_people: bool = False
    simulate: Mapping[str, Any] = field(default_factory=dict)
    dataset: str | None = None


@dataclass(frozen=True, slots=True)
class GeographySettings:
    """How the spine of a run is made.

    Attributes:
        spine: Kind and shape.
        reader: Who reads which areas blocks lie in, a name in `AREA_READERS` of `das_spark.config.geography`; None
            where neither spine nor accuracy report ask for them.
        path: What it reads.
        crosswalk: Table of primitive geounits by block, for a spine of kind "dhc"; None takes the built-in rule (S-9).
    """

    spine: SpineSettings
    reader: str | None = None
    path: str | None = None
    crosswalk: str | None = None


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """Where a run is written: `<root>/<run id>/{restricted,public}`, unless the two roots are named apart.

    Attributes:
        root: Folder of the runs.
        public: Another root of everything that may be published; None: below `root`.
        restricted: Another root of everything confidential; None: below `root`.
    """

    root: str = "runs"
    public: str | None = None
    restricted: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Where the privacy ledger of the dataset is kept. No part of the configuration of a run: it changes no output.

    Attributes:
        path: Folder of the operator's ledgers; None: `ledgers` beside the runs.
        cap: The most that all runs on the dataset may cost together; None for no cap of this run's own.
        cap_was: The cap that holds so far, where `cap` is a higher one.
    """

    path: str | None = None
    cap: Cap | None = None
    cap_was: Cap | None = None


@dataclass(frozen=True, slots=True)
class EstimationSettings:
    """How families are solved, rounded and certified.

    Attributes:
        solvers: Chain of solvers, tried in this order until one is certified.
        gap_tolerance: Largest accepted relative duality gap.
        rounding: Objective of the rounder: the distance to the real solution ("nearest") or the Bureau's ("released").
        failsafe: Whether an infeasible family may relax consistency with its parent (marks the run).
        partitions_per_core: Spark partitions of a level for each core, at most.
        passes: Geolevel -> its outer passes, by canonical names of queries; geolevels that are missing have one fit of
            all that is measured and the cell-wise rounder.
        estimator: Name of the estimator, one of `das_spark.core.ESTIMATORS`.
    """

    solvers: tuple[str, ...]
    gap_tolerance: float = 1e-6
    rounding: Rounding = "nearest"
    failsafe: bool = False
    partitions_per_core: int = 4
    passes: Mapping[str, tuple[OuterPass, ...]] = field(default_factory=dict)
    estimator: str = "top_down"


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """Whether estimates are compared with the confidential histograms (restricted).

    Attributes:
        enabled: Whether `run` writes the accuracy report.
        areas: CSV of leaf geocode and area (such as a precinct), for errors of areas off the spine; None for none.
    """

    enabled: bool = True
    areas: str | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A whole run, ready to be carried out.

    Attributes:
        name: Name of the run, part of its run id.
        product: What is published.
        spine: Geolevels of this run, root first. Where it is made of areas, its geocodes have the lengths that the
            census gives them, by which the input is read, until it is built.
        geography: How the spine is made.
        budget: Exact budget: total, shares of levels and of queries.
        invariants: What is published exactly.
        queries: Every measured query by its name in the budget.
        added: Constraints that the run file adds; public constants.
        input: Where the confidential records are.
        output: Where the run is written.
        estimation: How families are solved.
        measurement_rows: Rows of the measurements that are kept: those the support can touch, or all.
        microdata_formats: Formats of the microdata files.
        microdata_files: Whether those that are text are parts, parts that concatenate to one file, or one file.
        table_formats: Formats of the published tables; none where the product has no tables, or none are wanted.
        evaluation: The accuracy report.
        config_hash: SHA-256 of the canonical JSON of `resolved`.
        acknowledged: What is published exactly although it follows from people, names of
            `das_spark.config.acknowledgements`; the claim does not hold where there are any.
        ledger: Where the privacy ledger is kept, and its cap.
        resolved: The whole configuration, defaults filled in, as JSON values (for the public manifest); files by their
            names alone, and no roots.
        places: Key path -> absolute path, of every file and root that the run file names (restricted).
    """

    name: str
    product: Product
    spine: Spine
    geography: GeographySettings
    budget: Budget
    invariants: Invariants
    queries: Mapping[str, Query]
    added: tuple[AddedConstraint, ...]
    input: InputSettings
    output: OutputSettings
    estimation: EstimationSettings
    measurement_rows: MeasurementRows
    microdata_formats: tuple[MicrodataFormat, ...]
    microdata_files: MicrodataFiles
    table_formats: tuple[TableFormat, ...]
    evaluation: EvaluationSettings
    config_hash: str
    resolved: Mapping[str, Any]
    acknowledged: tuple[str, ...] = ()
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JointPlan:
    """Several runs on one input that are charged, carried out and answered for together.

    Attributes:
        name: Name of the joint run, part of its run id.
        parts: What the part counts (`person`, `unit`) -> its plan, in the order in which they are carried out.
    """

    name: str
    parts: Mapping[str, RunPlan]


#: What decides the distribution of a run's estimates, as key paths of the resolved configuration. Nothing of [input]:
#: its dataset is a name for the ledger, and runs on the same people may have it or, under a test key, not.
DECISIVE: Final = (
    "run.product",
    "geography.levels",
    "geography.spine",
    "geography.shape",
    "budget",
    "invariants",
    "constraints",
    "estimation",
)
#: Settings below those that decide nothing.
_WITHOUT_EFFECT: Final = frozenset({"budget.strategy", "estimation.partitions_per_core"})


def differing_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings in which two runs differ, of those that decide what estimates look like.

    Args:
        one: A resolved configuration.
        other: Another one.

    Returns:
        Key path -> both values; a value that is not there is None. Empty where the runs can be pooled.
    """
    found = differences(_decisive(one), _decisive(other))
    return {key: pair for key, pair in found.items() if key not in _WITHOUT_EFFECT}


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Every key in which two trees of JSON values differ.

    Args:
        one: Such as a resolved configuration.
        other: Another one.

    Returns:
        Key path -> both values; a value that is not there is None.
    """
    # As JSON: what was read from a file has lists where a plan has tuples.
    flat = [dict(_flat(json.loads(json.dumps(each)))) for each in (one, other)]
    found = {key: (flat[0].get(key), flat[1].get(key)) for key in dict.fromkeys([*flat[0], *flat[1]])}
    return {key: pair for key, pair in found.items() if pair[0] != pair[1]}


def _decisive(resolved: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in DECISIVE:
        value: Any = resolved
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        found[path] = value
    return found


def _flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Values by key path; lists of tables by the name that stands first in each table."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        key = f"{before}{name}"
        if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            value = {str(next(iter(each.values()), place)): each for place, each in enumerate(value)}  # noqa: PLW2901
        if isinstance(value, Mapping):
            found += _flat(value, f"{key}.")
        else:
            found.append((key, value))
    return found
