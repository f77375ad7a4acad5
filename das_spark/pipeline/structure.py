"""The audit of structure: what a run publishes besides its numbers, compared byte by byte between neighbouring inputs.

The whole system runs on synthetic inputs that differ in one record, under one test key, with noise that is measured
without what it shall hide: so the noisy answers of all runs are the same, and every byte below their public roots must
be, names, modes and times of change included. Between the runs everything is varied that confidential sizes could vary:
the order of the input's rows, into how many files and partitions they are cut, how Spark joins and packs them, and
whether it divides levels at all.

Where a run has acknowledged that exact numbers follow from people, a second round of runs derives the synthetic units
from the synthetic people in the same way. There only what decides which geounits are measured, and with which noise,
must be equal: the geounits, the spine and its shares.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.audit import SmallPopulation, allowed_cells, exact_at, geocode_at, told_apart, units_for
from das_spark.config import EvaluationSettings, InputSettings, JointPlan, RunPlan, is_void, plans_in
from das_spark.errors import OutputError
from das_spark.geography import BLOCK, ENTITY_COLUMNS
from das_spark.pipeline.context import RunOptions
from das_spark.pipeline.joint import run_parts
from das_spark.pipeline.measurements import publish_measurements
from das_spark.pipeline.runner import run_stages
from das_spark.places import Place
from das_spark.report import escaped, markdown_page
from das_spark.spark.session import ONE_TASK, temporary_properties
from das_spark.store import write_texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.geography import Spine

#: All runs have the same name, key, instant and place, one after the other.
_RUN: Final = "audited"
_KEY: Final = "audit of structure"
OPTIONS: Final = RunOptions(created="2020-04-01T00:00:00+00:00", nonce="00000000", blind=True)
#: Children of a geounit of the small spine; of the lowest level, and of all others.
_LEAVES, _CHILDREN = 3, 2
#: Public folders of a run that must not follow from people, whatever a run acknowledges.
_DECIDE_MEASUREMENTS: Final = ("geounits", "shares", "spine")
#: Cells in which there are records, about.
_OCCUPIED: Final = 40


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the runs that are compared."""

    text: str  # what is different in it, in a sentence
    #: Leaf and cell of the record that is another one in each variant: positions among the leaves of the same geounit
    #: with an exact total, and among the cells that can hold somebody.
    record: tuple[int, int]
    files: int  # into how many files the rows of the input are cut; their order is another one for each number
    session: Mapping[str, str]  # properties of the Spark session while it runs
    #: Whether units follow from people as in the input of the run, where they do, so that they are others, too.
    derived: bool = False


_SHUFFLE, _ADAPTIVE = "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled"
_PACKED, _OPENING = "spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"
_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
#: The first is what the others are compared with.
VARIANTS: Final = (
    Variant("the first input", (0, 0), 1, {_SHUFFLE: "4", _ADAPTIVE: "true"}),
    Variant(
        "another record, in another geounit, in other attributes; many partitions, of small levels too, each file by "
        "itself",
        (-1, -1),
        5,
        {_SHUFFLE: "7", _ADAPTIVE: "false", _PACKED: "2048", _OPENING: "0", ONE_TASK: "0"},
    ),
    Variant(
        "another record in the same geounit; partitions of many files, no broadcast joins",
        (0, 1),
        3,
        {_SHUFFLE: "3", _ADAPTIVE: "false", _OPENING: "1", _BROADCAST: "-1"},
    ),
)


@dataclass(frozen=True, slots=True)
class PublicDifference:
    """Something public that is not the same in two runs."""

    variant: str  # what was different in the second run
    path: str  # below the folder of the runs
    what: str  # in words


@dataclass(frozen=True, slots=True)
class StructureReport:
    """What an audit of structure found."""

    run: str  # name of the run file's run
    config_hash: tuple[str, ...]  # of its configuration; of a joint run those of its parts
    records: int  # how many synthetic records there are
    variants: tuple[str, ...]  # what was different, run by run
    compared: int  # public files and folders of a run
    differences: tuple[PublicDifference, ...]  # what is not the same

    @property
    def convicts(self) -> bool:
        """Whether something public follows from confidential records by another way than through noise."""
        return bool(self.differences)

    @property
    def verdict(self) -> str:
        """The finding in a sentence."""
        if self.convicts:
            return (
                f"{len(self.differences)} of {self.compared} public files and folders differ between inputs whose "
                "noisy answers are the same: no finite epsilon holds"
            )
        return (
            f"{self.compared} public files and folders are the same to the last byte in {len(self.variants)} runs on "
            "neighbouring inputs: names, sizes, contents, modes and times of change"
        )

    def to_json(self) -> str:
        """The report as text."""
        return json.dumps({"schema_version": 1, "verdict": self.verdict, **asdict(self)}, indent=2) + "\n"

    def to_markdown(self) -> str:
        """The report as a page."""
        lines = [
            f"# Audit of structure: {escaped(self.run)}",
            "",
            f"**{self.verdict}.**",
            "",
            f"{self.records:,} synthetic records; every run has one test key, and noise without what it shall hide.",
            "",
            *(f"{number}. {text}" for number, text in enumerate(self.variants, start=1)),
        ]
        if self.differences:
            lines += ["", "| path | what differs | in the run with |", "|---|---|---|"]
            lines += [
                f"| {escaped(difference.path)} | {escaped(difference.what)} | {escaped(difference.variant)} |"
                for difference in self.differences
            ]
        return "\n".join(lines) + "\n"


def audit_structure(
    plan: RunPlan | JointPlan,
    folder: Path,
    spark: SparkSession,
    progress: Callable[[str], None] = lambda line: None,
    variants: tuple[Variant, ...] = VARIANTS,
) -> StructureReport:
    """Run a plan on neighbouring inputs, and compare what it publishes."""
    if folder.exists():
        raise OutputError(f"{folder}: is there already", hint="name a folder that does not exist")
    parts = plans_in(plan)
    found: list[PublicDifference] = []
    rounds = [variants]
    if any(map(is_void, parts)):
        rounds.append(tuple(replace(variant, derived=True) for variant in variants[:2]))
    number, numbers = 0, list[int]()
    try:
        for some in rounds:
            first: dict[str, Seen] = {}
            for variant in some:
                number += 1
                progress(f"run {number} of {sum(map(len, rounds))}: {variant.text}")
                place = folder / "work"  # the same for all: no path may be the difference
                shutil.rmtree(place, ignore_errors=True)
                with temporary_properties(spark, variant.session):
                    _carry_out(plan, place, variant, spark)
                seen = {path: what for path, what in published(place / "runs") if _is_compared(path, variant)}
                found += compared(first, seen, variant.text) if first else []
                first = first or seen
            numbers.append(len(first))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return StructureReport(
        run=plan.name,
        config_hash=tuple(part.config_hash for part in parts),
        records=sum(int(_population(part, variants[0]).counts.sum()) for part in parts),
        variants=tuple(variant.text for variant in variants),
        compared=numbers[0],
        differences=tuple(found),
    )


def _is_compared(path: str, variant: Variant) -> bool:
    """Whether something public must be equal: all of it, or where units differ what decides about measurements."""
    return not variant.derived or bool(set(path.split("/")) & set(_DECIDE_MEASUREMENTS))


def write_structure(report: StructureReport, folder: Place) -> None:
    """Write structure.json, structure.md and structure.html."""
    text = report.to_markdown()
    texts = {"structure.json": report.to_json(), "structure.md": text, "structure.html": markdown_page(text)}
    write_texts(folder, texts)


def _carry_out(plan: RunPlan | JointPlan, place: Path, variant: Variant, spark: SparkSession) -> None:
    """Run a plan, and publish its measurements where it keeps all of them."""
    if isinstance(plan, JointPlan):
        parts = {record: on_invented(part, place / record, variant) for record, part in plan.parts.items()}
        run_parts(replace(plan, parts=parts), run_id=_RUN, test_key=_KEY, spark=spark, options=OPTIONS)
    else:
        parts = {"": on_invented(plan, place / "input", variant)}
        run_stages(parts[""], run_id=_RUN, test_key=_KEY, spark=spark, options=OPTIONS)
    for record, part in parts.items():
        if part.measurement_rows == "all" and part.spine.is_census:
            name = f"{_RUN}-{record}" if record else _RUN
            publish_measurements(place / "runs" / name, place / "runs" / f"{name}-measurements", spark)


def on_invented(plan: RunPlan, folder: Path, variant: Variant) -> RunPlan:
    """The plan with synthetic records for its input; its resolved configuration, which is public, stays."""
    population = _population(plan, variant)
    schema = plan.product.schema
    leaf, cell = np.nonzero(population.counts)
    codes = np.unravel_index(cell, [attribute.size for attribute in schema.attributes])
    geocodes = np.array(population.geocodes)
    people = {"geocode": pa.array(geocodes[leaf])}
    people |= {attribute.name: pa.array(code) for attribute, code in zip(schema.attributes, codes, strict=True)}
    people["count"] = pa.array(population.counts[leaf, cell])
    _write(folder / "persons", pa.table(people), variant.files)
    known = {"geocode": pa.array(geocodes)}
    if plan.invariants.units and not (variant.derived and plan.input.units_from_people):
        known |= {f"units_{number}": pa.array(column) for number, column in enumerate(population.units.T)}
    _write(folder / "units", pa.table(known), variant.files)
    areas = {"geocode": pa.array(geocodes)}
    for number, name in enumerate(ENTITY_COLUMNS):
        areas[name] = pa.array([_area(name, place // (number + 2)) for place in range(len(geocodes))])
    _write(folder / "areas", pa.table(areas), 1)
    people_are, units_are = str(folder / "persons"), str(folder / "units")
    made = variant.derived and plan.input.units_from_people
    units, geography = (units_are, None) if plan.invariants.units and not made else (None, units_are)
    return replace(
        plan,
        input=InputSettings(
            reader="tidy_counts", persons=people_are, units=units, geography=geography, units_from_people=made
        ),
        geography=replace(plan.geography, reader="tidy", path=str(folder / "areas"), crosswalk=None, parents=None),
        output=replace(plan.output, root=str(folder.parent / "runs"), public=None, restricted=None),
        evaluation=EvaluationSettings(enabled=False),
    )


def _area(column: str, number: int) -> str | None:
    """The code of an area; every third block lies in none."""
    if number % 3 == 0:
        return None
    if column.endswith("fs"):
        return "A"
    return f"{number % 7 + 1:0{4 if column == 'aiannhce' else 5}d}"


def _write(folder: Path, rows: pa.Table, files: int) -> None:
    """Write a table in some files, its rows in an order that is another one for every number of files."""
    keys = [hashlib.sha256(f"{files}/{row}".encode()).hexdigest() for row in range(rows.num_rows)]
    shuffled = rows.take(np.argsort(np.array(keys)))
    folder.mkdir(parents=True)
    for number in range(files):
        begin, end = (rows.num_rows * part // files for part in (number, number + 1))
        pq.write_table(shuffled.slice(begin, end - begin), folder / f"part-{number}.parquet")


def _population(plan: RunPlan, variant: Variant) -> SmallPopulation:
    """The synthetic records: sparse and uneven, but for the one that is another one in each variant."""
    census = plan.product.census(plan.spine)
    leaves = _leaves(census)
    allowed, of_people = allowed_cells(plan), variant.derived and is_void(plan)
    likely = allowed
    if of_people:  # no other record than the replaced one may bring units of another class
        likely = allowed[plan.product.schema.query(plan.product.class_query).row_of(allowed) == 0]
    some = likely[:: max(1, len(likely) // _OCCUPIED)]
    base = np.zeros((len(leaves), plan.product.schema.size), dtype=np.int64)
    leaf, cell = np.meshgrid(np.arange(len(leaves)), np.arange(len(some)), indexing="ij")
    base[:, some] = np.where((leaf + 3 * cell) % 5 == 0, (7 * leaf + 13 * cell) % 11 + 1, 0)
    near = _together(plan, census, leaves)
    ends = [(near[place], int(allowed[at])) for place, at in sorted({each.record for each in VARIANTS})]
    if not of_people:
        for place, at in product({place for place, _ in ends}, {at for _, at in ends}):
            base[place, at] += 3  # wherever the record is, there are others like it, and units for all of them
    place, at = variant.record
    counts = base.copy()
    counts[near[place], allowed[at]] += 1
    units = units_for(plan, counts, counts) if of_people else units_for(plan, base, counts)
    return SmallPopulation(leaves, counts, units)


def _leaves(spine: Spine) -> tuple[str, ...]:
    """The leaves of a small spine, ascending."""
    codes, length = [""], 0
    for level in spine.levels:
        width, length = level.length - length, level.length
        children = _LEAVES if level is spine.leaf else _CHILDREN
        if level.length == BLOCK:  # a block's number begins with the digit of its block group
            codes = [f"{code}{code[-1]}{number:0{width - 1}d}" for code in codes for number in range(1, children + 1)]
        elif width:
            codes = [f"{code}{number:0{width}d}" for code in codes for number in range(1, children + 1)]
    return tuple(told_apart(codes, spine).values())


def _together(plan: RunPlan, spine: Spine, leaves: tuple[str, ...]) -> list[int]:
    """Positions of leaves in one geounit of the level whose totals are exact: a record may move among them."""
    exact = exact_at(plan)
    if exact is None:
        return list(range(len(leaves)))
    depth = spine.index(exact)
    holders = [geocode_at(code, spine, depth) for code in leaves]
    return [place for place, holder in enumerate(holders) if holder == holders[0]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What anybody sees of a public file or folder."""

    kind: str
    size: int
    mode: int
    changed: int
    digest: str


def published(runs: Path) -> Iterator[tuple[str, Seen]]:
    """Everything public below a folder of runs: public roots, folders of measurements, and what joint runs say."""
    for root in sorted(runs.iterdir()):
        public = root / "public" if (root / "restricted").exists() else root
        if root.is_symlink() or public.name == "ledgers":
            continue
        for place, folders, files in os.walk(public):
            for path in (Path(place), *(Path(place, name) for name in files)):
                yield str(path.relative_to(runs)), _seen(path)
            folders.sort()


def _seen(path: Path) -> Seen:
    found = path.stat()
    if path.is_dir():
        return Seen("folder", 0, found.st_mode, found.st_mtime_ns, "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Seen("file", found.st_size, found.st_mode, found.st_mtime_ns, digest)


def compared(first: Mapping[str, Seen], second: Mapping[str, Seen], variant: str) -> list[PublicDifference]:
    """What two results of `published` do not share."""
    found = []
    for path in sorted(first.keys() | second.keys()):
        one, other = first.get(path), second.get(path)
        if one is None or other is None:
            found.append(PublicDifference(variant, path, "is there in one of them only"))
        elif one != other:
            names = {"kind": "kind", "size": "size", "mode": "mode", "changed": "time of change", "digest": "content"}
            what = [text for name, text in names.items() if getattr(one, name) != getattr(other, name)]
            found.append(PublicDifference(variant, path, ", ".join(what)))
    return found
