"""The identity of an input, what was read of it, and what was wrong with it: kept beside the leaves, restricted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind, stages_until
from das_spark.errors import ConfigurationError, InputError, OutputError
from das_spark.io.input_places import readable
from das_spark.io.listed_files import ListedFile
from das_spark.pipeline.delivery import examined_files, geography_files, input_files
from das_spark.places import disk_errors, place_of
from das_spark.spark.catalog import table_digest
from das_spark.spark.problems import BadInputError
from das_spark.store import Lines, OwnEntry, finished, require_held, write_durably

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import InputSettings, RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.spark.leaves import LeafFacts
    from das_spark.spark.problems import Problem
    from das_spark.spark.readers import IngestedTables
    from das_spark.store import RunLayout


def save_input_record(
    context: RunContext,
    identity: str,
    facts: LeafFacts,
    problems: Sequence[Problem],
    geography: Sequence[Mapping[str, object]] = (),
    records: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Keep what ingestion found, before its leaves appear."""
    if facts.twice:
        # Each person would be counted as often: a loss of privacy that no ledger knows.
        raise OutputError(
            f"{context.layout.restricted.path}: the leaves that were written hold geounits more than once",
            hint="nothing is drawn from them; see that no other driver writes there, and run the same command again",
        )
    if not facts.people:
        raise InputError(
            f"the input holds no {context.plan.product.counted}: no record to protect, and nothing is drawn",
            hint="are the files those that were delivered, whole, and named by the right keys of [input]?",
        )
    require_held(context.layout)
    hashed = context.restricted_facts.input_files
    record = {
        "identity": identity,
        "files": None if hashed is None else [_with_records(each, records) for each in hashed.values()],
        "geography": list(geography),
        "rows": facts.rows(),
        "problems": [asdict(problem) for problem in problems],
    }
    write_durably(context.layout.restricted.input_record, json.dumps(record, indent=1))


def _with_records(file: Mapping[str, object], records: Mapping[str, int]) -> dict[str, object]:
    known = {"records": records[str(file["file"])]} if file["file"] in records else {}
    return {**file, **known}


def load_input_record(context: RunContext, identity: str) -> None:
    """Give a run what its ingestion found, for the restricted manifest."""
    record = json.loads(context.layout.restricted.input_record.read_text(encoding="utf-8"))
    if record["identity"] != identity:
        raise InputError(
            f"the input has changed since run {context.layout.run_id} read it",
            hint="put back the files that the run began with, or start a new run on the new ones",
        )
    facts = context.restricted_facts
    facts.input_rows, facts.problems = record["rows"], record["problems"]
    facts.geography_files = {str(each["file"]): each for each in record.get("geography", ())}


def geography_files_of(context: RunContext) -> list[dict[str, object]]:
    """List what the spine of a run is made of besides its input."""
    return geography_files(context.plan, context.restricted_facts.input_files or ())


def keep_geography(context: RunContext, files: Sequence[Mapping[str, object]]) -> None:
    """Keep what the spine was made of, which may have been corrected since the input was read."""
    place = context.layout.restricted.input_record
    record = json.loads(place.read_text(encoding="utf-8")) | {"geography": list(files)}
    require_held(context.layout)
    write_durably(place, json.dumps(record, indent=1))
    context.restricted_facts.geography_files = {str(file["file"]): file for file in files}


def require_same_geography(context: RunContext, before: Iterable[Mapping[str, object]]) -> None:
    """Refuse files of geography that are not, after they were read, what they were before."""
    files = before, geography_files_of(context)
    recorded, now = ({str(each["file"]): each["sha256"] for each in some} for some in files)
    changed = sorted(name for name in recorded.keys() | now.keys() if recorded.get(name) != now.get(name))
    if changed:
        raise InputError(
            f"{changed[0]}: changed while it was read; nothing of it is kept",
            hint="let no file be delivered to [geography] while a run reads it, and run the same command again",
        )


def identity_of_input(
    plan: RunPlan, layout: RunLayout, session: Session | None = None, until: str | None = None
) -> tuple[str, list[dict[str, object]]]:
    """What `fingerprint` gives, without reading the files again where the leaves were made of them.

    They are asked for their sizes and times of change as long as something is to be measured by a driver that stops
    after the stage `until`; tables of a catalog have none, and are read again. After that the input may be withdrawn,
    and may be denied to a driver that measures nothing: it is what the run has recorded.
    """
    restricted = layout.restricted
    if finished(restricted.table("leaves")) and restricted.input_record.is_file():
        record = json.loads(restricted.input_record.read_text(encoding="utf-8"))
        files = record.get("files")
        if files is not None and is_measured(plan, layout, until):
            return record["identity"], files
        if files is not None and not plan.input.tables and is_unchanged(plan.input, files):
            return record["identity"], files
    return fingerprint(plan.input, session) if plan.input.tables else fingerprint(plan.input)


def is_measured(plan: RunPlan, layout: RunLayout, until: str | None = None) -> bool:
    """Whether the measurements of every level up to a stage are public, by the run's own entry: none is drawn there."""
    own, levels = OwnEntry.find(layout.restricted), {level.geolevel for level in plan.budget.levels}
    if until is not None:
        levels &= {stage.geolevel for stage in stages_until(plan, until) if stage.kind == StageKind.MEASURE}
    return own is not None and own.is_charged and set(own.entry.completed_levels) >= levels


def read_identity(layout: RunLayout) -> str:
    """Identity of the input that a run has read; empty where the record was removed."""
    if not layout.restricted.input_record.is_file():
        return ""
    return str(json.loads(layout.restricted.input_record.read_text(encoding="utf-8"))["identity"])


@contextmanager
def problems_kept(context: RunContext) -> Iterator[None]:
    """Keep what makes the input unusable, and tell where."""
    try:
        yield
    except BadInputError as error:
        keep_problems(context, error.problems)
        error.hint = f"{context.layout.restricted.input_problems} says in how many rows, and in which; {error.hint}"
        raise


def keep_problems(context: RunContext, problems: Sequence[Problem]) -> None:
    """Write down what is wrong in the input: numbers of rows go to this restricted file and nowhere else."""
    if not problems:
        return
    place = context.layout.restricted.input_problems
    with disk_errors(place):
        Lines(place).append("".join(json.dumps(asdict(problem)) + "\n" for problem in problems).encode())


#: Gives the session of which the catalog is meant; it is not started before it is asked for.
Session = Callable[[], "SparkSession"]


def fingerprint(settings: InputSettings, session: Session | None = None) -> tuple[str, list[dict[str, object]]]:
    """Identity of an input: a checksum over the contents of its files and tables, or over the simulator's arguments."""
    whole = hashlib.sha256()
    if settings.is_simulated:
        whole.update(json.dumps(settings.population.to_json(), sort_keys=True).encode())
        return whole.hexdigest(), []
    files = examined_files(settings) + _examined_tables(settings, session)
    for content in sorted(str(file["sha256"]) for file in files):
        whole.update(content.encode())
    return whole.hexdigest(), files


def _examined_tables(settings: InputSettings, session: Session | None) -> list[dict[str, object]]:
    """How many rows the tables of the input have, and the digests of these."""
    tables = settings.tables
    if not tables:
        return []
    if session is None:
        raise ConfigurationError(
            f"{next(iter(tables.values()))}: a table of a catalog is known by its rows, which need a session",
            hint="name files in [input], or carry out the run by itself",
        )
    spark, found = session(), dict[str, dict[str, object]]()
    for key, place in tables.items():
        if place not in found:
            digest = table_digest(spark, place)
            found[place] = {"file": place, "rows": digest.rows, "sha256": digest.sha256, "confidential": False}
        found[place]["confidential"] = found[place]["confidential"] or key != "geography"
    return list(found.values())


def is_unchanged(settings: InputSettings, files: Iterable[Mapping[str, object]]) -> bool:
    """Whether the files of an input are those that they were, and there is no other one; none is read."""
    return not _changed(settings, files)


def require_unchanged(
    settings: InputSettings,
    files: Iterable[Mapping[str, object]],
    session: Session | None = None,
    read: IngestedTables | None = None,
) -> None:
    """Refuse an input that is not, after it was read, what its identity was taken from before.

    Args:
        settings: Where it is.
        files: What its identity was taken from.
        session: Gives the session that knows its tables of a catalog.
        read: What tasks tell of what they have read.
    """
    before = list(files)
    changed = _changed(settings, [each for each in before if "rows" not in each])
    now = _examined_tables(settings, session)
    changed += [str(each["file"]) for each in now if each not in before]
    hashed = {str(each["file"]): each["sha256"] for each in before}
    digests = {} if read is None else {str(place_of(path)): digest for path, digest in read.digests.items()}
    changed += [path for path, digest in digests.items() if path not in hashed or digest not in ("", hashed[path])]
    rows = {} if read is None else read.records
    changed += [str(each["file"]) for each in now if rows.get(str(each["file"]), each["rows"]) != each["rows"]]
    if changed:
        raise InputError(
            f"{changed[0]}: changed while it was read; nothing of it is kept",
            hint="let no file be delivered to [input] while a run reads it, and run the same command again",
        )


#: What tells a file from another one of its path.
_TOLD: Final = ("bytes", "mtime_ns", "node", "version")


def _changed(settings: InputSettings, files: Iterable[Mapping[str, object]]) -> list[str]:
    before = {str(file["file"]): {name: file[name] for name in _TOLD if name in file} for file in files}
    now: dict[str, dict[str, object]] = {}
    for place in () if settings.is_simulated else input_files(settings):
        path = str(place)
        with readable(path), suppress(FileNotFoundError):  # gone since its folder was listed
            now[path] = {**ListedFile.found(path).facts}
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def contents_of(settings: InputSettings, identity: str, files: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """What the confidential files hold, whatever else lies beside them: by this the same people are known again."""
    if settings.is_simulated:
        return (identity,)
    return tuple(sorted({str(file["sha256"]) for file in files if file.get("confidential", True)}))
