"""How much room a run needs on its disks: a rough estimate, taken for what its tables and files have measured.

Before the input is read little is known, and little is asked for. After ingestion the numbers of geounits, of occupied
cells and of people are known, and nothing is charged yet: then the room for all that is left is asked for. Of the
quickstart the estimate is 2.4 MB for the public root, and 1.8 MB are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc
from pyarrow import parquet

from das_spark.config import FILE_KEYS, lazy_levels, level_plan, needs_of
from das_spark.core.linear import decomposition
from das_spark.errors import OutputError
from das_spark.estimation import Gaussian
from das_spark.io.table_files import CSV, PARQUET
from das_spark.pipeline.features import publications_of
from das_spark.places import Place, as_input, nearest, place_of
from das_spark.spark.session import scratch_of
from das_spark.store import part_files, require_committed, require_space
from das_spark.telemetry import Event

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.estimation import Decomposition
    from das_spark.pipeline.context import RunContext
    from das_spark.store import RunLayout
    from das_spark.tabulation import Table, TableShell

#: Bytes that a run asks for before it begins, on each disk that it writes to.
LEAST_SPACE = 50_000_000
#: Bytes, compressed as files are: of a noisy answer, and of one that is kept with its number, which its siblings share;
#: of an occupied cell. (A tenth of a nation to the block has 1.5 bytes of the second kind.)
_ANSWER: Final = 3
_NUMBERED_ANSWER: Final = 2
_CELL: Final = 6
#: Bytes of a geounit and of its rows in tables that have one or a few for each.
GEOUNIT: Final = 200
#: Bytes of a value of a published table, in each format: 1.3 where most are 0.
_VALUE: Final = 2
#: Bytes of the interval of a value of a published table, in each format: two real numbers and two whole ones.
_INTERVAL: Final[Mapping[str, int]] = {PARQUET: 22, CSV: 42}
#: Bytes of a real number of a linear pass: its digits are noise.
NUMBER: Final = 8
#: Estimates occupy more cells than what they estimate: noise is spread.
_SPREAD: Final = 2


@dataclass(frozen=True, slots=True)
class KnownSizes:
    """What is known of a run when its input is read. RESTRICTED: cells and people tell of the input."""

    geounits: Mapping[str, int]  # Geolevel -> geounits
    cells: Mapping[str, int]  # Geolevel -> occupied cells
    people: int  # what is counted, in all

    @classmethod
    def of(cls, context: RunContext) -> KnownSizes:
        """The sizes of a run, from the footers of its files and from its top."""
        levels = context.spine.names
        cells, people = {}, 0
        for name in levels:
            folder = context.tables.folder("histograms", name)
            require_committed(folder)
            files = [parquet.ParquetFile(as_input(path)) for path in part_files(folder)]
            cells[name] = sum(_values(file, "counts") for file in files)
            if name == levels[0]:
                batches = (batch for file in files for batch in file.iter_batches(columns=["counts"]))
                people = sum(pc.sum(batch.column(0).flatten()).as_py() or 0 for batch in batches)
        return cls(context.tables.geounit_counts(), cells, people)


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that are still to be written, by place."""

    public: int  # below the public root
    restricted: int  # below the restricted root: measurements of a level, before they are promoted
    scratch: int  # in Spark's scratch folder: what is shuffled of the largest level


def room_of(plan: RunPlan, known: KnownSizes) -> Room:
    """Estimate what a run writes after ingestion."""
    levels = _levels(plan, known)
    rooms = [publication.room(known) for publication in publications_of(plan)]
    # What one stage after the other makes lies on the disk that it is promoted on, too, until the stage is done.
    staged = max((room.staged for room in rooms), default=0)
    public = sum(levels.values()) + staged + sum(room.published for room in rooms)
    shuffled = (size + max((room.carried.get(name, 0) for room in rooms), default=0) for name, size in levels.items())
    largest = max(shuffled)
    return Room(public, max(_measured(plan, name, known) for name in levels), largest)


def require_disk_space(context: RunContext) -> None:
    """Refuse a run that its disks cannot hold, when its input is read and nothing is charged.

    The message does not say how much the run needs, which tells of the input: the restricted log does.
    """
    room = room_of(context.plan, KnownSizes.of(context))
    context.progress.log(Event.SPACE_ESTIMATED, public=room.public, restricted=room.restricted, scratch=room.scratch)
    places = [(context.layout.public.path, room.public), (context.layout.restricted.path, room.restricted)]
    scratch = scratch_of(context.spark)
    if scratch is not None:  # elsewhere it is on the disks of executors
        places.append((scratch, room.scratch))
    for place, needed in together(places).items():
        try:
            require_space(place, needed)
        except OutputError as error:
            raise OutputError(
                f"{place}: there is less room than the rest of the run needs; nothing is charged",
                hint=f"make room, or begin the run on another disk; {context.layout.restricted.log} says how much",
            ) from error


def require_beginning(plan: RunPlan, layout: RunLayout) -> None:
    """Refuse to begin, or to go on with, a run where a disk is nearly full."""
    for place, needed in together([(folder, LEAST_SPACE) for folder in roots_of(plan, layout).values()]).items():
        require_space(place, needed)


def together(places: list[tuple[Place, int]]) -> dict[Path, int]:
    """Bytes that are needed on each disk, under the first of the places that lie on it."""
    first: dict[int, Path] = {}
    needed: dict[Path, int] = {}
    for place, size in places:
        if not isinstance(place, Path):
            continue  # nothing limits a store
        disk = first.setdefault(nearest(place).stat().st_dev, place)
        needed[disk] = needed.get(disk, 0) + size
    return needed


def roots_of(plan: RunPlan, layout: RunLayout) -> dict[str, Place]:
    """The folders that a run is written to, by the key of a run file that names them."""
    apart = {"output.public": plan.output.public, "output.restricted": plan.output.restricted}
    final = (layout.published or layout.public).path
    folders = {"output.public": final.parent, "output.restricted": layout.restricted.path.parent}
    roots = {"output.root": layout.root, **{key: folders[key] for key, named in apart.items() if named is not None}}
    if plan.output.work is not None:
        roots["output.work"] = layout.public.path.parent.parent
    return roots


def roots_in_input(plan: RunPlan, layout: RunLayout) -> tuple[str, ...]:
    """Name the folders of the output that lie in a folder of the input, a sentence each."""
    named = {key: getattr(plan.input, key) for key in FILE_KEYS if key not in plan.input.tables}
    inputs = {
        key: folder.resolve()
        for key, place in named.items()
        if place is not None and (folder := place_of(place)).is_dir()
    }
    return tuple(
        f"{root} ({folder}) lies in input.{key} ({place}): what a run writes there may be taken for input; name a "
        f"folder outside of it"
        for root, folder in roots_of(plan, layout).items()
        for key, place in inputs.items()
        if f"{folder.resolve()}/".startswith(f"{place}/")
    )


def run_bytes(plan: RunPlan, known: KnownSizes) -> int:
    """Bytes of what all levels are measured and estimated as."""
    return sum(_levels(plan, known).values())


def _levels(plan: RunPlan, known: KnownSizes) -> dict[str, int]:
    """Bytes of measurements, estimates and the estimator's pass upwards, by level."""
    upward = _upward(plan, known)
    return {
        name: _measured(plan, name, known) + _estimated(known, name) + upward.get(name, 0) for name in plan.spine.names
    }


def _estimated(known: KnownSizes, geolevel: str) -> int:
    """Bytes of the estimates of a level."""
    return known.cells[geolevel] * _CELL * _SPREAD + known.geounits[geolevel] * GEOUNIT


def _measured(plan: RunPlan, geolevel: str, known: KnownSizes) -> int:
    """Bytes of the measurements of a level."""
    return answers_at(plan, geolevel, known) * (_NUMBERED_ANSWER if geolevel in lazy_levels(plan) else _ANSWER)


def answers_at(plan: RunPlan, geolevel: str, known: KnownSizes) -> int:
    """Count the noisy answers of a level, as far as its parents' support needs them."""
    answers = [plan.queries[query.query].rows for query in plan.budget.level(geolevel).queries]
    if geolevel not in lazy_levels(plan):
        return known.geounits[geolevel] * sum(answers)
    above = plan.spine.names[plan.spine.index(geolevel) - 1]
    support = max(1, _SPREAD * known.cells[above] // max(known.geounits[above], 1))
    return known.geounits[geolevel] * sum(min(answer, support) for answer in answers)


def _upward(plan: RunPlan, known: KnownSizes) -> dict[str, int]:
    """Bytes of the tables of the estimator's pass upwards, by level."""
    needs = needs_of(plan)
    return {} if needs.most_sites is None else carried_bytes(plan, known, needs.upward_levels(plan.spine.names))


def carried_bytes(plan: RunPlan, known: KnownSizes, levels: Sequence[str]) -> dict[str, int]:
    """Bytes of the tables of a pass upwards, by level.

    A geounit is in both tables with what lies below it; at the lowest level of the pass there is nothing.
    """
    size = geounit_bytes(algebra_of(plan))
    return {name: known.geounits[name] * (GEOUNIT if name == levels[-1] else 2 * size) for name in levels}


def table_bytes(table: TableShell) -> int:
    """Estimate a row of a published table in one format."""
    return len(table.names) * _VALUE


def interval_bytes(written: Iterable[tuple[Table, str]]) -> int:
    """Bytes of a row of every table of intervals, in every format."""
    return sum(len(table.names) * _INTERVAL[format] for table, format in written)


def of_census(plan: RunPlan, known: KnownSizes, levels: Sequence[str]) -> dict[str, int]:
    """Count the geounits of levels of the census.

    A level that only the census has is taken for as large as the lowest one of the spine but one.
    """
    names = plan.spine.names
    usual = known.geounits[names[max(len(names) - 2, 0)]]
    return {name: known.geounits.get(name, usual) for name in levels}


def algebra_of(plan: RunPlan) -> Decomposition:
    """Return the sites of the queries of a run, as passes in closed form take them."""
    return decomposition(level_plan(plan, plan.spine.names[0]).family)


def geounit_bytes(algebra: Decomposition) -> int:
    """Bytes of what is known of a geounit; at most, since cells in which nobody can be are left out."""
    return Gaussian.numbers(algebra.frame(algebra.possible)) * NUMBER + GEOUNIT


def _values(file: parquet.ParquetFile, column: str) -> int:
    """Values in a column of lists, from the footer; an empty list counts as one."""
    metadata = file.metadata
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    return sum(each.num_values for each in columns if each.path_in_schema.split(".")[0] == column)
