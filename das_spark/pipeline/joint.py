"""Joint runs: every part reads its input before any part draws; one ledger, one statement for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from das_spark.config import (
    ANSWERS_ALONE,
    is_preparing,
    names_until,
    notice_of_people,
    part_of,
    plan_from_config,
    published_from_people,
    stage_names,
    stages_of,
)
from das_spark.pipeline.context import RunOptions
from das_spark.pipeline.driver import look_ahead
from das_spark.pipeline.homes import layout_of
from das_spark.pipeline.published import PublishedRun
from das_spark.pipeline.runner import carry_out, charge, opened_run, read_input, usual_run_id
from das_spark.pipeline.statement import releases_held_to
from das_spark.pipeline.summary import RunSummary, figures_of_stop
from das_spark.privacy import JointPart, LedgerEntry, joint_costs, joint_statement
from das_spark.spark.contradictions import count_contradictions
from das_spark.spark.hadoop import place_named
from das_spark.spark.tables import read_table
from das_spark.store import (
    JointLayout,
    PublicManifest,
    at_home,
    disk_errors,
    ledger_with,
    make_folder,
    now,
    set_times,
    write_durably,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from das_spark.config import JointPlan
    from das_spark.pipeline.context import RunContext


@dataclass(frozen=True, slots=True)
class JointSummary:
    """What a finished joint run says of itself.

    Attributes:
        run_id: Name of the joint run.
        parts: What a part counts -> its summary.
        figures: What they cost together, by name.
        paths: What to look at, by name.
        finished: Whether all parts are done and verified; it may have been told to stop before.
        restricted: Exact errors, by name; those of its parts stand with the parts.
    """

    run_id: str
    parts: Mapping[str, RunSummary]
    figures: Mapping[str, str]
    paths: Mapping[str, Path | str]
    finished: bool = True
    restricted: Mapping[str, str] = field(default_factory=dict)


def run_parts(
    plan: JointPlan,
    *,
    run_id: str | None = None,
    test_key: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] = lambda line: None,
    until: str | None = None,
    options: RunOptions | None = None,
) -> JointSummary:
    """Carry out a joint run, or resume it where it stopped.

    Args:
        plan: What to do.
        run_id: Name of the joint run; each part has its own, with what it counts behind it.
        test_key: INSECURE: a text from which all noise follows; every output is marked.
        spark: The session; found or started where None.
        progress: Is given a line at a time.
        until: Name of the last stage to carry out, one of `stage_names`; a later call with the same run id goes on.
        options: How its parts are carried out; by default as those of a run by itself.

    Raises:
        ConfigurationError: The run has no such stage; nothing was begun.
        DasError: See `das_spark.errors`; the run can be resumed after the cause is mended.
    """
    asked = names_until(plan, until)
    last = dict(part_of(each) for each in asked)  # of each part that is asked for, its last stage
    name = run_id or usual_run_id(plan.name)
    output = next(iter(plan.parts.values())).output
    root: Any = place_named(output.public or output.root)  # of either kind
    layout: JointLayout[Any] = JointLayout.at(root, name)
    ids = {record: f"{name}-{record}" for record in plan.parts}
    chosen = options or RunOptions()
    created = layout.created() or chosen.created or now()
    places = {record: layout_of(part.output, ids[record]) for record, part in plan.parts.items()}
    for record in last:
        with at_home(places[record]):
            look_ahead(plan.parts[record], places[record], stages_of(plan.parts[record]), progress)
    with disk_errors(layout.path):
        make_folder(layout.path)
        write_durably(layout.marker, json.dumps({"run_id": name, "created": created, "parts": ids}, indent=1) + "\n")
    how = {
        record: replace(
            chosen,
            created=created,
            tried=True,
            together=tuple((plan.parts[each], place) for each, place in places.items() if each != record),
        )
        for record in places
    }

    def opened(record: str) -> AbstractContextManager[RunContext]:
        return opened_run(plan.parts[record], ids[record], test_key, spark, progress, how[record])

    for record, stage in last.items():
        with opened(record) as context:
            read_input(context, stage)
    if any(not is_preparing(plan.parts[record], stage) for record, stage in last.items()):
        # All parts are charged before any draws: none is drawn that another one, beyond the cap, would make useless.
        for record in plan.parts:
            with opened(record) as context:
                charge(context)
    summaries: dict[str, RunSummary] = {}
    for record, stage in last.items():
        if not is_preparing(plan.parts[record], stage):
            with opened(record) as context:
                summaries[record] = carry_out(context, stage)
    everything = stage_names(plan)
    if asked != everything:
        summary = JointSummary(name, summaries, figures_of_stop(everything, len(asked)), {}, finished=False)
    else:
        with opened(next(iter(last))) as context:
            contradictions = _contradictions(context.spark, summaries)
        summary = _completed(layout, summaries, contradictions)
    set_times(layout.path, datetime.fromisoformat(created))
    return summary


@dataclass(frozen=True, slots=True)
class _Contradictions:
    """In how many geounits the parts contradict each other."""

    leaf: str  # the geolevel that they are counted on, the lowest one
    geounits: int  # number of all its geounits
    numbers: Mapping[str, int]  # what cannot be so -> number of geounits in which it is

    def sentences(self) -> list[str]:
        """Say of each in how many geounits it is so."""
        where = f"of {self.geounits:,} geounits of geolevel {self.leaf}"
        return [f"in {number:,} {where}: {sentence}" for sentence, number in self.numbers.items()]


def _contradictions(spark: SparkSession, summaries: Mapping[str, RunSummary]) -> _Contradictions:
    """Count contradictions in what the parts have published of the lowest geolevel."""
    leaf, frames = "", {}
    for summary in summaries.values():
        public = summary.layout.public
        manifest = PublicManifest.load(public.manifest)
        plan = plan_from_config(manifest.config, source=str(public.manifest))
        table, folder = PublishedRun(public, manifest, plan).leaves()
        leaf = plan.product.census(plan.spine).leaf.name
        frames[plan.product.name] = read_table(spark, table, folder)
    return _Contradictions(leaf, *count_contradictions(frames))


def _completed(
    layout: JointLayout[Any], summaries: Mapping[str, RunSummary], contradictions: _Contradictions
) -> JointSummary:
    """Write the joint statement, ledger and contradictions, from what the parts have made public."""
    parts = [_part(record, summary) for record, summary in summaries.items()]
    entries = [part.entry for part in parts]
    held_to = _held_to(summaries, entries)
    costs = joint_costs([*entries, *held_to])
    ledger = ledger_with(next(iter(summaries.values())).layout)
    record = {
        "run_id": layout.run_id,
        "together": costs,
        "parts": [entry.public_record() for entry in entries],
        "held_to": [entry.public_record() for entry in held_to],
    }
    with disk_errors(layout.path):
        statement = joint_statement(
            layout.run_id, parts, held_to=held_to, ledger=ledger, contradictions=contradictions.sentences()
        )
        write_durably(layout.privacy_statement, statement)
        write_durably(layout.contradictions, json.dumps(asdict(contradictions), indent=1) + "\n")
        write_durably(layout.privacy_ledger, json.dumps(record, indent=1) + "\n")
    spent = {name: str(costs[name]) for name in ("epsilon", "rho") if costs[name] != "0"}
    figures = {
        "privacy loss, together": ", ".join(f"{name} = {value}" for name, value in spent.items()),
        f"epsilon at delta {costs['delta']:g}": f"{costs['joint_epsilon']:.4f}",
    }
    if contradictions.numbers:
        figures["contradictions between parts"] = "; ".join(contradictions.sentences())
    from_people = dict.fromkeys(each for part in parts for each in part.from_people)
    if from_people:
        figures |= {"this is the loss": ANSWERS_ALONE, "published nearly exactly": "; ".join(from_people)}
    paths = {
        name: place if isinstance(place, Path) else place.system.uri(str(place))
        for name, place in (
            ("joint privacy statement", layout.privacy_statement),
            ("joint privacy ledger", layout.privacy_ledger),
            ("contradictions between parts", layout.contradictions),
        )
    }
    return JointSummary(layout.run_id, summaries, figures, paths)


def _held_to(summaries: Mapping[str, RunSummary], parts: Sequence[LedgerEntry]) -> tuple[LedgerEntry, ...]:
    """Return the entries of releases other than the parts that estimates of parts are held to."""
    own = {entry.run_id for entry in parts}
    manifests = (PublicManifest.load(summary.layout.public.manifest) for summary in summaries.values())
    found = {entry.run_id: entry for manifest in manifests for entry in releases_held_to(manifest)}
    return tuple(entry for run_id, entry in found.items() if run_id not in own)


def _part(record: str, summary: RunSummary) -> JointPart:
    manifest = PublicManifest.load(summary.layout.public.manifest)
    entry = LedgerEntry.of(manifest.ledger)
    plan = plan_from_config(manifest.config, source=str(summary.layout.public.manifest))
    from_people = published_from_people(plan.acknowledged, plan.spine.leaf.name)
    # The statement opens with it in other words.
    notices = tuple(each for each in manifest.notices if each not in notice_of_people(from_people))
    return JointPart(record, summary.run_id, entry, manifest.invariants, notices, from_people)
