"""What a run will do, resolved and checked: one frozen value, and the public configuration that it is written as.

A :class:`RunPlan` is made by :func:`das_spark.config.resolve.resolve`, and made again from a manifest by
:func:`das_spark.config.reopen.plan_from_config`. Nothing in it is optional guesswork: every default has been filled in,
every name looked up, every share made an exact fraction. :func:`plan_to_config` writes it as JSON values, which the
public manifest holds, and whose hash binds the folder of a run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final, TypeVar

from das_spark.config.catalog import is_catalog_table, table_parts
from das_spark.config.model import CONFIG_VERSION, DEFAULT_ESTIMATOR, PATH_KEYS, ROOTS, SOURCES
from das_spark.config.product_files import product_to_config
from das_spark.places import is_address, place_of

if TYPE_CHECKING:
    from das_spark.config.features import FeatureSettings
    from das_spark.config.model import (
        EvaluationSettings,
        InputSettings,
        MeasurementRows,
        MicrodataFiles,
        MicrodataFormat,
        Rounding,
        Section,
        TableFormat,
    )
    from das_spark.constraints import AddedConstraint, Invariants
    from das_spark.estimation import OuterPass
    from das_spark.geography import Spine, SpineSettings
    from das_spark.histogram import Query
    from das_spark.privacy import Budget, Cap
    from das_spark.products import Product

_Settings = TypeVar("_Settings", bound="Section")
_Feature = TypeVar("_Feature", bound="FeatureSettings")


@dataclass(frozen=True, slots=True)
class GeographySettings:
    """How the spine of a run is made."""

    spine: SpineSettings  # kind and shape
    # who reads which areas blocks lie in, a name in `AREA_READERS` of `das_spark.config.geography`; None where neither
    # spine nor accuracy report ask for them
    reader: str | None = None
    path: str | None = None  # what it reads
    # table of primitive geounits by block, for a spine of kind "dhc"; None takes the built-in rule (S-9)
    crosswalk: str | None = None
    parents: str | None = None  # table of geounits and those above them, where codes do not nest; None where they do


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """Where a run is written, and as what: `<root>/<run id>/{restricted,public}`, unless the roots are named apart.

    Attributes:
        root: Folder of the runs.
        public: Another root of everything that may be published; None: below `root`.
        restricted: Another root of everything confidential; None: below `root`.
        work: Where a run writes what will be public until it is finished, if that lies in a store; None for a folder
            of the restricted root.
        microdata: Formats of the microdata files.
        microdata_files: Whether those that are text are parts, parts that concatenate to one file, or one file.
        tables: Formats of the published tables; none where the product has no tables, or none are wanted.
        features: Settings of what not every run has, in the order in which it is made.
    """

    root: str = "runs"
    public: str | None = None
    restricted: str | None = None
    work: str | None = None
    microdata: tuple[MicrodataFormat, ...] = ("parquet",)
    microdata_files: MicrodataFiles = "parts"
    tables: tuple[TableFormat, ...] = ()
    features: tuple[FeatureSettings, ...] = ()

    def of(self, kind: type[_Feature]) -> _Feature | None:
        """Return the settings of a feature; None where the run does not have it."""
        return next((feature for feature in self.features if isinstance(feature, kind)), None)

    @property
    def interval_formats(self) -> tuple[TableFormat, ...]:
        """Formats of the tables of intervals: those of the tables, or Parquet where none are written."""
        return self.tables or ("parquet",)

    @property
    def interval_level(self) -> Fraction | None:
        """Probability of the intervals by the measurements alone that are written; None where there are none."""
        levels = (feature.of_measurements for feature in self.features)
        return next((level for level in levels if level is not None), None)


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
    """How families are solved, rounded and certified."""

    solvers: tuple[str, ...]  # chain of solvers, tried in this order until one is certified
    gap_tolerance: float = 1e-6  # largest accepted relative duality gap
    # objective of the rounder: the distance to the real solution ("nearest") or the Bureau's ("released")
    rounding: Rounding = "nearest"
    failsafe: bool = False  # whether an infeasible family may relax consistency with its parent (marks the run)
    # whether a family without a proof is published with its gap (marks the run); may change when a run is resumed
    accept_uncertified: bool = False
    partitions_per_core: int = 4  # Spark partitions of a level for each core, at most
    # geolevel -> its outer passes, by canonical names of queries; geolevels that are missing have one fit of all that
    # is measured and the cell-wise rounder
    passes: Mapping[str, tuple[OuterPass, ...]] = field(default_factory=dict)
    estimator: str = DEFAULT_ESTIMATOR  # name of the estimator, one of `das_spark.core.ESTIMATORS`


class OriginKind(StrEnum):
    """What the measurements of a run that draws none were read from."""

    RUN = "run"
    MEASUREMENTS = "measurements"
    EXTERNAL = "others"


@dataclass(frozen=True, slots=True)
class MeasurementOrigin:
    """Where measurements come from that a run did not draw itself; part of its configuration, and of its hash.

    Attributes:
        kind: The public folder of a run, a folder that a run published, or external files in the published layout.
        run_id: Name of the run that measured, or of the external dataset.
        created: When that run began, ISO 8601; empty where nobody says.
        sha256: Checksum over what was read: two runs with the same one estimate from the same bytes.
        ledger_run_id: Name of the entry of the ledger that was charged.
        earlier: The origin of that run, where it had not measured itself.
    """

    kind: OriginKind
    run_id: str
    created: str
    sha256: str
    ledger_run_id: str
    earlier: MeasurementOrigin | None = None

    @property
    def is_external(self) -> bool:
        """Whether other software drew the noise of what was read."""
        return self.kind is OriginKind.EXTERNAL

    @property
    def began_external(self) -> bool:
        """Whether other software drew the noise, for this run or for one that it has the measurements from."""
        return self.is_external or (self.earlier is not None and self.earlier.began_external)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> MeasurementOrigin:
        """The reverse of `to_json`."""
        earlier = record.get("origin")
        return cls(
            OriginKind(record["kind"]),
            record["run_id"],
            record["created"],
            record["sha256"],
            record["ledger_run_id"],
            None if earlier is None else cls.of(earlier),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values, for the configuration."""
        record: dict[str, Any] = {
            "kind": str(self.kind),
            "run_id": self.run_id,
            "created": self.created,
            "sha256": self.sha256,
            "ledger_run_id": self.ledger_run_id,
        }
        return record if self.earlier is None else {**record, "origin": self.earlier.to_json()}


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A whole run, ready to be carried out.

    Attributes:
        name: Name of the run, part of its run id.
        product: What is published.
        spine: Geolevels of this run, root first. Where it is made of areas, its geocodes have the lengths that the
            census gives them, by which the input is read; those of the spine that was built are known during the run.
        geography: How the spine is made.
        strategy: Name of the strategy that the budget was taken from; None where the run file spells it out.
        budget: Exact budget: total, shares of levels and of queries.
        invariants: What is published exactly.
        queries: Every measured query by its name in the budget.
        added: Constraints that the run file adds; public constants.
        input: Where the confidential records are.
        output: Where the run is written, and as what.
        estimation: How families are solved.
        measurement_rows: Rows of the measurements that are kept: those the support can touch, or all.
        evaluation: The accuracy report.
        acknowledged: What is published exactly although it follows from people, names of
            `das_spark.config.acknowledgements`; the claim does not hold where there are any.
        ledger: Where the privacy ledger is kept, and its cap.
        origin: Where the measurements come from; None where the run draws them itself.
        published_part: The earlier part of its joint run whose published counts its estimates are held to, by what
            that part counts; empty where a run file names a run, or they are held to none.
    """

    name: str
    product: Product
    spine: Spine
    geography: GeographySettings
    strategy: str | None
    budget: Budget
    invariants: Invariants
    queries: Mapping[str, Query]
    added: tuple[AddedConstraint, ...]
    input: InputSettings
    output: OutputSettings
    estimation: EstimationSettings
    measurement_rows: MeasurementRows
    evaluation: EvaluationSettings
    acknowledged: tuple[str, ...] = ()
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    origin: MeasurementOrigin | None = None
    published_part: str = ""

    @property
    def config_hash(self) -> str:
        """Hash of the configuration; a run folder is bound to it for ever."""
        return config_hash(plan_to_config(self))

    @property
    def bound_queries(self) -> dict[str, Query]:
        """The queries whose answers have bounds, by the names of these bounds."""
        schema, classes = self.product.schema, self.product.class_query
        queries = {"total": schema.query("total")} | ({"class": schema.query(classes)} if classes else {})
        return queries | {f"added:{each.name}": schema.query(each.query) for each in self.added}

    @property
    def places(self) -> dict[str, str]:
        """Key path -> absolute path, of every file and root of the run (restricted); none that a manifest tells of."""
        named = {f"{section}.{key}": getattr(getattr(self, section), key) for section, key in PATH_KEYS}
        named |= {
            f"output.{feature.name}.{key}": getattr(feature, key)
            for feature in self.output.features
            for key in feature.sources
        }
        return {
            key: each
            for key, each in named.items()
            if each and (is_address(each) or is_catalog_table(each) or Path(each).is_absolute())
        }


@dataclass(frozen=True, slots=True)
class JointPlan:
    """Several runs on one input that are charged, carried out and answered for together.

    Attributes:
        name: Name of the joint run, part of its run id.
        parts: What the part counts (`person`, `unit`) -> its plan, in the order in which they are carried out.
    """

    name: str
    parts: Mapping[str, RunPlan]


def plans_in(loaded: RunPlan | JointPlan) -> tuple[RunPlan, ...]:
    """The parts of a joint run, in their order, or the one run."""
    return tuple(loaded.parts.values()) if isinstance(loaded, JointPlan) else (loaded,)


def public_plan(plan: RunPlan) -> RunPlan:
    """A plan that tells nothing of the machine, as a manifest has it: files by their names, no roots, no ledger.

    So a run is the same run however its places were typed. (That the input holds the same records is a matter of its
    fingerprint, not of its path.) Where the ledger lies and what its cap is changes nothing that is published.
    """
    area, output = plan.geography, plan.output
    return replace(
        plan,
        input=_with_file_names(plan.input, _sources_of("input")),
        geography=replace(
            area, path=_file_name(area.path), crosswalk=_file_name(area.crosswalk), parents=_file_name(area.parents)
        ),
        output=OutputSettings(
            microdata=output.microdata,
            microdata_files=output.microdata_files,
            tables=output.tables,
            features=tuple(_with_file_names(feature, feature.sources) for feature in output.features),
        ),
        evaluation=_with_file_names(plan.evaluation, _sources_of("evaluation")),
        ledger=LedgerSettings(),
    )


def _sources_of(section: str) -> list[str]:
    return [key for name, key in SOURCES if name == section]


def _with_file_names(settings: _Settings, keys: Iterable[str]) -> _Settings:
    return settings.model_copy(update={key: _file_name(getattr(settings, key)) for key in keys})


def _file_name(value: str | None) -> str | None:
    """The last part of a path, or of the name of a table; of a path that ends in `..`, that of what it leads to."""
    if value is None:
        return None
    if is_catalog_table(value):
        return table_parts(value)[-1]
    place = place_of(value)
    return (place.resolve() if place.name == ".." else place).name


def plan_to_config(plan: RunPlan) -> dict[str, Any]:
    """`public_plan` as JSON values, with every default and every share spelled out: what a manifest holds.

    `das_spark.config.reopen.plan_from_config` is the reverse.
    """
    public = public_plan(plan)
    estimation = public.estimation
    config: dict[str, Any] = {
        "config_version": CONFIG_VERSION,
        "run": {"name": public.name, "product": public.product.name},
        **product_to_config(public.product),
        "input": _input_to_config(public.input),
        "output": {
            "microdata": list(public.output.microdata),
            "microdata_files": public.output.microdata_files,
            "tables": list(public.output.tables),
            **{feature.name: feature.model_dump(mode="json") for feature in public.output.features},
        },
        "geography": _geography_to_config(public),
        "budget": {
            "framework": str(public.budget.framework),
            "total": str(public.budget.total),
            "strategy": public.strategy,
            "levels": [
                {
                    "geolevel": level.geolevel,
                    "share": str(level.share),
                    "queries": {item.query: str(item.share) for item in level.queries},
                }
                for level in public.budget.levels
            ],
        },
        "privacy": {"acknowledge": list(public.acknowledged)},
        "invariants": {"total_at": public.invariants.total_at, "units": public.invariants.units},
        "constraints": [
            {
                "name": rule.name,
                "geolevel": rule.geolevel,
                "query": rule.query,
                "sense": str(rule.sense),
                "right": list(rule.right),
            }
            for rule in public.added
        ],
        "measurement": {"rows": public.measurement_rows},
        "estimation": {
            # Left out of the usual one, so that a run has the hash that it had when there was no other.
            **({} if estimation.estimator == DEFAULT_ESTIMATOR else {"estimator": estimation.estimator}),
            "solvers": list(estimation.solvers),
            "gap_tolerance": estimation.gap_tolerance,
            "rounding": estimation.rounding,
            "failsafe": estimation.failsafe,
            **({"accept_uncertified": True} if estimation.accept_uncertified else {}),
            "partitions_per_core": estimation.partitions_per_core,
            "passes": [
                {
                    "geolevel": level,
                    "least_squares": [list(inner) for inner in outer.least_squares],
                    "rounding": [list(inner) for inner in outer.rounding],
                }
                for level, passes in estimation.passes.items()
                for outer in passes
            ],
        },
        "evaluation": public.evaluation.model_dump(),
    }
    if public.published_part:
        config["published"] = {"part": public.published_part}
    return config if public.origin is None else {**config, "origin": public.origin.to_json()}


#: Keys of `[input]` that there were not always.
_YOUNGER: Final = ("published", "labels", "delimiter", "encoding", "cells", "identity", "expected")


def _input_to_config(settings: InputSettings) -> dict[str, Any]:
    """`[input]`; keys that are younger are left out where they say nothing, so that hashes stay what they were."""
    unsaid = {name for name in _YOUNGER if getattr(settings, name) == type(settings).model_fields[name].default}
    return settings.model_dump(mode="json", exclude=unsaid)


def _geography_to_config(plan: RunPlan) -> dict[str, Any]:
    """`[geography]`; of a spine of the census neither shape nor crosswalk, which it does not have."""
    settings = plan.geography
    found: dict[str, Any] = {"levels": list(plan.spine.names), "spine": plan.spine.kind}
    if settings.reader is not None:
        found |= {"reader": settings.reader, "path": settings.path}
    if settings.parents is not None:
        found |= {"parents": settings.parents}
    if not plan.spine.is_census:
        shape = {key: value for key, value in asdict(settings.spine).items() if key != "kind"}
        shape["aian_categories"] = list(shape["aian_categories"])
        found |= {"crosswalk": settings.crosswalk, "shape": shape}
    return found


def as_begun(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without the one setting that may change when a run is resumed, estimation.accept_uncertified."""
    if "estimation" not in config:
        return dict(config)
    kept = {key: value for key, value in config["estimation"].items() if key != "accept_uncertified"}
    return {**config, "estimation": kept}


def config_hash(config: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a configuration, without what may change when a run is resumed."""
    canonical = json.dumps(as_begun(config), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


#: What decides the distribution of a run's estimates, as key paths of the configuration. Nothing else of [input]: its
#: dataset is a name for the ledger, and runs on the same people may have it or, under a test key, not.
_DECISIVE: Final = (
    "run.product",
    "product",
    "input.published",
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
#: Characters of a value that a message holds at most.
_SHOWN: Final = 80


def differing_settings(one: RunPlan, other: RunPlan) -> dict[str, tuple[Any, Any]]:
    """`differences` of two runs in what decides about estimates; empty where the runs can be pooled."""
    found = differences(*map(_decisive, (one, other)))
    return {key: pair for key, pair in found.items() if key not in _WITHOUT_EFFECT}


def _decisive(plan: RunPlan) -> dict[str, Any]:
    config = plan_to_config(plan)
    found = {}
    for path in _DECISIVE:
        section, _, key = path.partition(".")
        found[path] = config[section].get(key) if key else config.get(section)
    return found


def same_estimation(one: RunPlan, other: RunPlan) -> bool:
    """Whether two runs estimate in the same way, so that the same measurements give the same."""
    return one.estimation == replace(other.estimation, partitions_per_core=one.estimation.partitions_per_core)


def without_total(plan: RunPlan) -> dict[str, Any]:
    """A configuration without the total of the budget and the name of the run: what runs of a sweep have in common."""
    config = plan_to_config(plan)
    del config["budget"]["total"], config["run"]["name"]
    return config


def sweep_config(plan: RunPlan) -> dict[str, Any]:
    """What all runs of a sweep have in common, their roots included: the record of a sweep is restricted."""
    config = without_total(plan)
    roots = {key: getattr(plan.output, key) for _, key in ROOTS}
    return {**config, "output": {**config["output"], **{key: root for key, root in roots.items() if root is not None}}}


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Every key path in which two trees of JSON values differ -> both values; one that is not there is None."""
    flat = [dict(_flat(each)) for each in (one, other)]
    found = {key: (flat[0].get(key), flat[1].get(key)) for key in dict.fromkeys([*flat[0], *flat[1]])}
    return {key: pair for key, pair in found.items() if pair[0] != pair[1]}


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


def difference(one: object, other: object, at: str = "") -> str:
    """The first key in which two trees of JSON values differ, with what stands there; empty where they are the same."""
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        first, second = (json.dumps(value, sort_keys=True) for value in (one, other))
        return "" if first == second else f"{at} ({shorten(first, _SHOWN)}, and {shorten(second, _SHOWN)})"
    for key in sorted({*one, *other}):
        found = difference(one.get(key), other.get(key), f"{at}.{key}" if at else key)
        if found:
            return found
    return ""
