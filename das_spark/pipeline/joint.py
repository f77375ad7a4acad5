"""Joint runs: every part reads its input before any part draws; one ledger, one statement for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.config import (
    ANSWERS_ALONE,
    is_preparing,
    names_until,
    part_of,
    stage_names,
    stages_of,
)
from das_spark.pipeline.context import RunOptions
from das_spark.pipeline.driver import look_ahead
from das_spark.pipeline.joint_release import JointRelease
from das_spark.pipeline.runner import carry_out, charge, opened_run, read_input, usual_run_id
from das_spark.pipeline.summary import RunSummary, figures_of_stop
from das_spark.places import Place, disk_errors
from das_spark.store import JointLayout, RunLayout, ledger_with, make_folder, now, set_times, write_durably

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
    paths: Mapping[str, Place | str]
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
    layout = JointLayout.at(output.public or output.root, name)
    ids = {record: f"{name}-{record}" for record in plan.parts}
    chosen = options or RunOptions()
    created = layout.created() or chosen.created or now()
    places = {record: RunLayout.of(part.output, ids[record]).as_published() for record, part in plan.parts.items()}
    for record, stage in last.items():
        look_ahead(plan.parts[record], places[record], stages_of(plan.parts[record]), progress, stage)
    with disk_errors(layout.path):
        make_folder(layout.path)
        write_durably(layout.marker, json.dumps({"run_id": name, "created": created, "parts": ids}, indent=1) + "\n")
    how = {
        record: replace(
            chosen,
            created=created,
            tried=True,
            until=last.get(record),
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
            summary = _completed(layout, summaries, context.spark)
    set_times(layout.path, datetime.fromisoformat(created))
    return summary


def _completed(layout: JointLayout, summaries: Mapping[str, RunSummary], spark: SparkSession) -> JointSummary:
    """Write the joint statement, ledger and contradictions, from what the parts have made public."""
    release = JointRelease.of(layout.run_id, {record: summary.layout.public for record, summary in summaries.items()})
    contradictions, costs = release.contradictions(spark), release.costs()
    ledger = ledger_with(next(iter(summaries.values())).layout)
    with disk_errors(layout.path):
        write_durably(layout.privacy_statement, release.statement(contradictions, ledger))
        write_durably(layout.contradictions, contradictions.to_json())
        write_durably(layout.privacy_ledger, release.ledger_record(costs))
    spent = {name: str(costs[name]) for name in ("epsilon", "rho") if costs[name] != "0"}
    figures = {
        "privacy loss, together": ", ".join(f"{name} = {value}" for name, value in spent.items()),
        f"epsilon at delta {costs['delta']:g}": f"{costs['joint_epsilon']:.4f}",
    }
    if contradictions.numbers:
        figures["contradictions between parts"] = "; ".join(contradictions.sentences())
    from_people = release.from_people()
    if from_people:
        figures |= {"this is the loss": ANSWERS_ALONE, "published nearly exactly": "; ".join(from_people)}
    paths = {
        name: place if isinstance(place, Path) else str(place)
        for name, place in (
            ("joint privacy statement", layout.privacy_statement),
            ("joint privacy ledger", layout.privacy_ledger),
            ("contradictions between parts", layout.contradictions),
        )
    }
    return JointSummary(layout.run_id, summaries, figures, paths)
