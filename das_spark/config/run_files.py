"""From run files to plans: of single runs, and of joint runs, such as persons and their housing units from one input.

The run file of a joint run names those of its parts; every other table in it is laid over each of them, and so are
overlays and settings. Of what it acknowledges, every part is given what it needs.

    [run]
    name = "pl94-2020"
    parts = ["pl94_2020_person.toml", "pl94_2020_unit.toml"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, Strict, ValidationError

from das_spark.config.acknowledgements import GIVEN_UP, KEY, given_up, may_acknowledge
from das_spark.config.load import merged, path_alone, read_tables, run_file_of, run_file_path, sentence_of
from das_spark.config.model import ConfigVersion, Name, Section
from das_spark.config.plan import JointPlan, RunPlan
from das_spark.config.product_files import find_product
from das_spark.config.resolve import NO_PARTS, resolve
from das_spark.errors import ConfigurationError

#: Key of `[run]` that makes a file that of a joint run.
PARTS: Final = "parts"


class JointRun(Section):
    """`[run]` of a joint run."""

    name: Name
    parts: Annotated[tuple[str, ...], Strict(False), Field(min_length=2)]


class JointFile(Section):
    """A run file of a joint run; its other tables are checked as those of the parts."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    config_version: ConfigVersion
    run: JointRun


def load_run(
    path: str | Path,
    overlays: Sequence[str | Path] = (),
    settings: Sequence[str] = (),
    *,
    files: bool = True,
    named: bool = False,
) -> RunPlan | JointPlan:
    """Read a run file of either kind and resolve it.

    Args:
        path: The TOML file.
        overlays: Further TOML files, each laid over what came before.
        settings: Texts `key.path=value`, applied last; in a joint run to every part, and `run.name` to the whole.
        files: Whether the input files must be there; a plan can be looked at without them.
        named: Whether files must have the name of a dataset: a real key is used on them.

    Raises:
        ConfigurationError: With all problems of a file together, each with its key path.
    """
    data = read_tables(path, overlays, settings)
    if _names_parts(data):
        return _joined(data, run_file_path(path), files=files, named=named)
    return plan_of(data, str(path), files=files, named=named)


def load_plan(
    path: str | Path,
    overlays: Sequence[str | Path] = (),
    settings: Sequence[str] = (),
    *,
    files: bool = True,
    named: bool = False,
) -> RunPlan:
    """`load_run` where nothing but the run file of a single run will do."""
    return plan_of(read_tables(path, overlays, settings), str(path), files=files, named=named)


def load_parts(
    path: str | Path, overlays: Sequence[str | Path] = (), settings: Sequence[str] = (), *, files: bool = True
) -> JointPlan:
    """`load_run` where nothing but the run file of a joint run will do."""
    return _joined(read_tables(path, overlays, settings), run_file_path(path), files=files)


def plan_of(
    data: dict[str, Any],
    source: str,
    *,
    files: bool = True,
    named: bool = False,
    earlier: Mapping[str, str] = NO_PARTS,
) -> RunPlan:
    """Resolve the tables of the run file of a single run.

    Args:
        data: The tables.
        source: The file, for messages.
        files: As for `load_run`.
        named: As for `load_run`.
        earlier: Parts before it in its joint run: name of the product -> what is counted.

    Raises:
        ConfigurationError: With all problems together, each with its key path.
    """
    refuse_parts(data, source)
    run_file, problems = run_file_of(data, source)
    plan = resolve(run_file, problems, files=files, named=named, earlier=earlier) if run_file is not None else None
    problems.raise_if_any()
    if plan is None:
        raise ConfigurationError(f"{source}: is not a run file")
    return plan


def _names_parts(data: Mapping[str, Any]) -> bool:
    run = data.get("run")
    return isinstance(run, Mapping) and PARTS in run


def refuse_parts(data: Mapping[str, Any], source: str) -> None:
    """Refuse a run file of several runs where one is asked for."""
    if _names_parts(data):
        raise ConfigurationError(
            f"{source}: names several runs (run.{PARTS}), and one is asked for", hint="name the run file of one part"
        )


def _joint_file(data: dict[str, Any], path: str | Path) -> JointFile:
    try:
        return JointFile.model_validate(data)
    except ValidationError as error:
        said = [f"{'.'.join(map(str, each['loc']))}: {sentence_of(each)}" for each in error.errors(include_url=False)]
        hint = "a joint run has run.name and run.parts, a list of two run files or more; products stand in those"
        raise ConfigurationError(f"{path}: " + "; ".join(said), hint=hint) from error


def _part(
    name: str, data: dict[str, Any], path: Path, earlier: Mapping[str, str], *, files: bool, named: bool
) -> RunPlan:
    """The plan of a part: its own file, under all tables of the joint one but [run]."""
    own = path.parent / path_alone(name, "a run file")
    shared = {key: value for key, value in data.items() if key != "run"}
    tables = merged(read_tables(own), shared)
    if isinstance(tables.get("run"), dict):
        tables["run"].pop("name", None)  # the joint run has the name
    source, acknowledged = f"{path}, part {name}", shared_acknowledgement(data)
    if acknowledged is not None:
        tables = acknowledging(tables, acknowledged, source)
    return plan_of(tables, source, files=files, named=named, earlier=earlier)


def shared_acknowledgement(data: dict[str, Any]) -> list[str] | None:
    """What a run file acknowledges for all the runs made of it; None where nothing can be read of it."""
    section = data.get("privacy")
    names = section.get("acknowledge") if isinstance(section, dict) else None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def acknowledging(tables: dict[str, Any], shared: Sequence[str], source: str) -> dict[str, Any]:
    """The tables of a run with those names of a shared acknowledgement that this run needs."""
    run_file, _ = run_file_of(deepcopy(tables), source)
    if run_file is None:
        return tables  # is refused with all that is wrong
    try:
        product = find_product(run_file.run.product)
    except ConfigurationError:
        return tables
    needed = given_up(run_file.input, product, units_invariant=run_file.invariants.units)
    needed = (*needed, *may_acknowledge(run_file.input, product, run_file.output))
    return {**tables, "privacy": {**tables["privacy"], "acknowledge": [name for name in shared if name in needed]}}


def _joined(data: dict[str, Any], path: Path, *, files: bool, named: bool = False) -> JointPlan:
    joint = _joint_file(data, path)
    plans: list[RunPlan] = []
    for name in joint.run.parts:
        earlier = {plan.product.name: str(plan.product.record) for plan in plans}
        plans.append(_part(name, data, path, earlier, files=files, named=named))
    known = {name for plan in plans for name in plan.acknowledged}
    for name in shared_acknowledgement(data) or ():
        if name not in known:
            raise ConfigurationError(
                f"{path}: {KEY}: '{name}' is acknowledged, and no part gives up anything of that name",
                hint=f"known: {', '.join(GIVEN_UP)}",
            )
    parts: dict[str, RunPlan] = {plan.product.record: plan for plan in plans}
    if len(parts) < len(plans):
        raise ConfigurationError(
            f"{path}: run.parts: two of its runs count the same, {', '.join(plan.product.counted for plan in plans)}",
            hint="a joint run publishes each kind of record once",
        )
    for plan in plans:
        if plan.budget.at_most > 1:
            raise ConfigurationError(
                f"{path}: run.parts: {plan.product.name} protects several records of a contributor, and what a joint "
                "run costs is said for one record of each part",
                hint="run it by itself",
            )
    places = {(plan.output.root, plan.output.public, plan.output.restricted) for plan in plans}
    if len(places) > 1:
        raise ConfigurationError(
            f"{path}: run.parts: its runs are written to different places", hint="give [output] in the joint file"
        )
    # One dataset, one ledger: what the parts cost is summed and capped there, whatever happens between two of them.
    datasets = {(plan.input.dataset, plan.input.population) for plan in plans}
    ledgers = {(plan.ledger.path, plan.ledger.cap, plan.ledger.cap_was) for plan in plans}
    if len(datasets) > 1 or len(ledgers) > 1:
        raise ConfigurationError(
            f"{path}: run.parts: its runs name different datasets or ledgers",
            hint="give input.dataset and [ledger] in the joint file",
        )
    return JointPlan(joint.run.name, parts)
