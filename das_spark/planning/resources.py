"""What a run needs of machines (cores, memory, disk, hours), reckoned from its plan and the costs of measured runs.

The costs are those of the nation to the block and of single families, on a core of the machine that
`tests/benchmarks/README.md` names. Of a run that was measured there the hours come out within a factor of two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from das_spark.config import READER_NEEDS, StageKind, stages_of
from das_spark.pipeline.space import KnownSizes, Room, answers_at, room_of
from das_spark.planning.geounits import known_geounits, require_geounits

if TYPE_CHECKING:
    from das_spark.config import RunPlan

#: A geounit of n people in a schema of S cells occupies about sqrt(n S / 2000) of them: measured for 192, 2,016 and
#: 1.2 million cells, from block groups to states.
_CELLS_OF_LAW: Final = 2000
#: Seconds of CPU: of a child with a cell that its parent occupies (a family that is estimated), the dearest kind.
_CHILD_CELL: Final = 5e-6
#: Of a record that is read, where the input has a row for each.
_RECORD_READ: Final = 7e-6
#: Of a geounit that is measured, and of an answer that is drawn and stored for it.
_MEASURED: Final = 1.5e-5
_ANSWER: Final = 7e-8
#: Of the driver, which more cores do not shorten: of the beginning and the end, of a stage, of a leaf.
_BEGINNING: Final = 25.0
_STAGE: Final = 0.7
_LEAF_OF_DRIVER: Final = 1.8e-5
#: Bytes of a Python worker before it works, and of a child with a cell of its parent in the family that it works on.
_WORKER: Final = 300_000_000
_CHILD_CELL_BYTES: Final = 110
#: Bytes of the heap and of what else a JVM takes; a nation to the block had enough with so much for two cores.
JVM: Final = 5_200_000_000
#: Cores for which hours are told.
CORES: Final = (2, 8, 32, 128, 512)


@dataclass(frozen=True, slots=True)
class _Cost:
    """Seconds of CPU of a stage for each record, leaf geounit, and occupied cell of a leaf."""

    record: float = 0.0
    leaf: float = 0.0
    cell: float = 0.0


_COSTS: Final[Mapping[str, _Cost]] = MappingProxyType(
    {
        StageKind.SPINE: _Cost(leaf=9.3e-5),
        StageKind.INGEST: _Cost(leaf=5e-5, cell=5e-6),
        StageKind.PUBLISHED: _Cost(leaf=1e-5),
        StageKind.CENSUS: _Cost(leaf=3.5e-5),
        StageKind.MICRODATA: _Cost(record=4.5e-7),
        StageKind.TABULATE: _Cost(leaf=3.9e-5),
        StageKind.VERIFY: _Cost(record=7e-7, leaf=1.4e-4, cell=5e-6),
        StageKind.EVALUATE: _Cost(leaf=1.5e-5),
    }
)


@dataclass(frozen=True, slots=True)
class StageResources:
    """What a stage takes.

    Attributes:
        stage: Its name.
        seconds: Of CPU, of all its tasks.
        longest: Of its longest task, which is the dearest family of a level; 0 elsewhere.
    """

    stage: str
    seconds: float
    longest: float = 0.0


@dataclass(frozen=True, slots=True)
class Resources:
    """What a run takes.

    Attributes:
        stages: The stages of which the cost is known.
        unknown: Names of the others, which no run has been measured with.
        driver: Seconds that the driver works alone.
        worker: Bytes of the largest Python worker, of which there is one for each core.
        room: Bytes that are written.
    """

    stages: tuple[StageResources, ...]
    unknown: tuple[str, ...]
    driver: float
    worker: int
    room: Room

    def seconds(self, cores: int) -> float:
        """Return how long the run takes on so many cores; no stage is shorter than its longest task."""
        return self.driver + sum(max(stage.seconds / cores, stage.longest) for stage in self.stages)


def resources_of(plan: RunPlan, records: int, geounits: Mapping[str, int], largest: Mapping[str, int]) -> Resources:
    """Reckon what a run takes.

    Args:
        plan: The run.
        records: How many people, units or households the input has.
        geounits: How many geounits each geolevel has.
        largest: Children of the largest family of a geolevel, as far as they are known; else four times the mean.
    """
    cells = {name: _cells(plan, records / count) for name, count in geounits.items()}
    known = KnownSizes(geounits, {name: math.ceil(cells[name] * count) for name, count in geounits.items()}, records)
    families = {name: _Family.of(plan, name, known, cells, largest) for name in plan.spine.names}
    leaf = plan.spine.leaf.name
    stages, unknown = [], []
    for stage in stages_of(plan):
        cost = _COSTS.get(stage.kind)
        if stage.kind == StageKind.MEASURE:
            drawn = geounits[stage.geolevel] * _MEASURED + answers_at(plan, stage.geolevel, known) * _ANSWER
            stages.append(StageResources(stage.name, drawn))
        elif stage.kind == StageKind.ESTIMATE:
            family = families[stage.geolevel]
            stages.append(StageResources(stage.name, family.all * _CHILD_CELL, family.largest * _CHILD_CELL))
        elif cost is not None:
            of_leaves = geounits[leaf] * cost.leaf + known.cells[leaf] * cost.cell
            read = _RECORD_READ if stage.kind == StageKind.INGEST and _reads_records(plan) else 0.0
            stages.append(StageResources(stage.name, records * (cost.record + read) + of_leaves))
        else:
            unknown.append(stage.name)
    driver = _BEGINNING + len(stages) * _STAGE + geounits[leaf] * _LEAF_OF_DRIVER
    worker = _WORKER + max(family.largest for family in families.values()) * _CHILD_CELL_BYTES
    return Resources(tuple(stages), tuple(unknown), driver, round(worker), room_of(plan, known))


def resources_record(plan: RunPlan, records: int, geounits: Sequence[str]) -> dict[str, Any]:
    """Reckon what a run needs, as JSON values.

    Raises:
        ConfigurationError: It is not known how many geounits there are.
    """
    known = known_geounits(plan, geounits)
    require_geounits(plan, known.counts, "--records")
    needed = resources_of(plan, records, known.counts, known.largest)
    return {
        "run": plan.name,
        "records": records,
        "geounits": dict(known.counts),
        "stages": [
            {"stage": stage.stage, "cpu_seconds": stage.seconds, "longest_task_seconds": stage.longest}
            for stage in needed.stages
        ],
        "not_counted": list(needed.unknown),
        "driver_seconds": needed.driver,
        "hours": {str(cores): needed.seconds(cores) / 3600 for cores in CORES},
        "memory": {"jvm_bytes": JVM, "bytes_per_core": needed.worker},
        "disk": {
            "public_bytes": needed.room.public,
            "restricted_bytes": needed.room.restricted,
            "scratch_bytes": needed.room.scratch,
        },
    }


@dataclass(frozen=True, slots=True)
class _Family:
    """Children times cells that their parent occupies: of all families of a level, and of its largest one."""

    all: float
    largest: float

    @classmethod
    def of(
        cls, plan: RunPlan, geolevel: str, known: KnownSizes, cells: Mapping[str, float], largest: Mapping[str, int]
    ) -> _Family:
        depth, names = plan.spine.index(geolevel), plan.spine.names
        if depth == 0:
            return cls(cells[geolevel], cells[geolevel])
        above, children = names[depth - 1], known.geounits[geolevel]
        mean = children / known.geounits[above]
        most = min(largest.get(geolevel, 4 * mean), children)
        # The largest family has the more people for it.
        people = known.people / known.geounits[above] * max(most / mean, 1.0)
        return cls(children * cells[above], most * _cells(plan, min(people, known.people)))


def _reads_records(plan: RunPlan) -> bool:
    needs = READER_NEEDS.get(plan.input.reader)
    return needs is not None and needs.rows_are_records


def _cells(plan: RunPlan, people: float) -> float:
    """Cells that a geounit of so many people occupies."""
    size = plan.product.schema.size
    return min(size, people, math.sqrt(people * size / _CELLS_OF_LAW))
