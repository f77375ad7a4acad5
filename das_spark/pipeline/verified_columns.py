"""Verification of columns and texts that no rule on estimates reads: what each must be, by the run's configuration.

Nothing here trusts the writer of a file: expectations come from the configuration in the manifest, from geocodes, and
from the other tables. Bounds are made again of the published invariants by the formulas of the run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.config import GEOUNITS_OF_UNITS, config_hash, lazy_levels, needs_of
from das_spark.core import UNMEASURED
from das_spark.io.dictionary import data_dictionary
from das_spark.io.microdata_files import files_of
from das_spark.io.microdata_formats import SINGLE, WRITERS, heads_of
from das_spark.io.table_files import ABOUT, PARQUET, about_text
from das_spark.pipeline.publish import planned_notices, public_rules_of, solver_facts_of
from das_spark.pipeline.tabulate import PLACE, facts_of_run
from das_spark.privacy import LedgerEntry
from das_spark.spark import bounds, tables
from das_spark.spark.census import published_estimates, read_spine
from das_spark.spark.checks import Check
from das_spark.spark.published_bounds import published_class_bounds
from das_spark.spark.tabulate import read_levels, table_schema
from das_spark.spark.verify import RunTables, present
from das_spark.spark.verify_columns import (
    MeasuredQuery,
    array_columns,
    bound_columns,
    diagnostic_columns,
    geounit_columns,
    invariant_columns,
    looser_bounds,
    measurement_columns,
    parent_columns,
)
from das_spark.spark.verify_spine import block_columns, share_columns
from das_spark.store import RunMarker, disk_errors, part_files
from das_spark.store.spine import BLOCKS, SpineRecord
from das_spark.store.tables import of_estimator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from das_spark.config import RunPlan
    from das_spark.geography import Spine
    from das_spark.spark.checks import Rule
    from das_spark.store import PublicLayout, PublicManifest


#: Names and types of the columns of Parquet files.
SCHEMAS = "columns of Parquet files"
#: Texts beside the tables, and what the manifest says besides.
TEXTS = "texts follow from the manifest"


@dataclass(frozen=True, slots=True)
class Verified:
    """A run that is verified.

    Attributes:
        spark: The session.
        layout: Its public root.
        manifest: What it says of itself.
        plan: What its configuration says.
        spine: Its levels, with the lengths of its geocodes.
        scratch: A folder of this process that every worker can write to.
    """

    spark: SparkSession
    layout: PublicLayout
    manifest: PublicManifest
    plan: RunPlan
    spine: Spine
    scratch: Path

    @property
    def is_external(self) -> bool:
        """Whether the measurements were published by others, in this run or in one that it has them from."""
        return self.plan.origin is not None and self.plan.origin.began_external

    @property
    def census(self) -> Spine:
        """The levels of the census."""
        return self.plan.product.census(self.spine)

    def read(self, table: str, levels: Sequence[str] = ()) -> DataFrame:
        """A table, some levels of the spine."""
        return read_levels(self.spark, self.layout, table, levels or self.spine.names)


def column_rules(run: Verified, read: RunTables, told: RunTables) -> list[Rule]:
    """The rules on the columns of every table of a run."""
    plan, spine = run.plan, run.spine
    shares = None if spine.is_census else run.read("shares")
    rules = [
        geounit_columns(read, spine),
        invariant_columns(
            read,
            spine,
            plan.invariants,
            len(plan.product.unit_classes),
            counts_units=plan.product.record == "unit",
        ),
        *_bound_rules(run, read),
        measurement_columns(
            run.read("measurements"),
            read,
            spine,
            _asked(run, shares),
            plan.product.schema.size,
            lazy=() if run.is_external else lazy_levels(plan),
            shares=shares,
        ),
        diagnostic_columns(
            run.read("diagnostics"),
            read,
            spine,
            plan.estimation.solvers,
            plan.estimation.gap_tolerance,
            spine.total_key_at(spine.names[0]),
        ),
    ]
    for added, levels in of_estimator(needs_of(plan), spine.names).items():
        rules.append(array_columns(run.read(added.name, levels), added.name, read, levels))
    if shares is not None:
        blocks = read_spine(run.spark, run.layout.spine).blocks
        rules += [block_columns(blocks, spine), share_columns(shares, blocks, read, spine)]
        rules.append(parent_columns(told.estimates, published_estimates(spine), run.census))
    return [rule for rule in rules if rule is not None]


def _asked(run: Verified, shares: DataFrame | None) -> dict[str, dict[str, MeasuredQuery]]:
    """Level -> query -> what the budget says of it, for every share that geounits of the level have."""
    budget = run.plan.budget
    known: dict[str, dict[str, Fraction]] = {level.geolevel: {"": level.share} for level in budget.levels}
    if shares is not None:
        known = {name: {} for name in run.spine.names}
        for row in shares.select("level", "share").distinct().collect():  # a handful
            if row["share"] != UNMEASURED:
                known[row["level"]][row["share"]] = Fraction(row["share"])
    return {
        level.geolevel: {
            each.query: MeasuredQuery(
                run.plan.queries[each.query],
                {
                    text: budget.mechanism_at(level.geolevel, each.query, share).variance()
                    for text, share in known[level.geolevel].items()
                },
            )
            for each in level.queries
        }
        for level in budget.levels
    }


def _bound_rules(run: Verified, read: RunTables) -> list[Rule | None]:
    """The bounds as they follow from the invariants, or, of others, from the class bounds that they published."""
    plan, spine, declared = run.plan, run.spine, run.plan.invariants
    formulas = plan.product.unit_bounds
    invariants = read.invariants
    if invariants is None:
        invariants = run.spark.createDataFrame([], _with_level(tables.INVARIANTS))
    boxes = None
    if declared.units and formulas is not None:
        computed = bounds.class_boxes(invariants, spine, formulas)
        with disk_errors(run.scratch):
            computed.write.parquet(str(run.scratch / "boxes"))
        boxes = run.spark.read.schema(computed.schema).parquet(str(run.scratch / "boxes"))
    expected = bounds.all_bounds(
        invariants,
        read.geounits,
        spine,
        declared,
        boxes,
        formulas,
        tuple((each, plan.product.schema.query(each.query)) for each in plan.added),
        spine.total_key_at(declared.total_at),
    )
    levels = [name for name in spine.names if run.manifest.rows.get(f"bounds/{name}", 0)]
    if not (run.is_external and read.bounds is not None and not read.bounds.where("name = 'class'").isEmpty()):
        return [bound_columns(read, spine, expected, levels)]
    expected = expected.unionByName(_published(run, read, invariants))
    classes = plan.product.schema.query(plan.product.class_query).rows
    more = [looser_bounds(read, spine, classes)] if len(spine.names) > 1 else []
    return [bound_columns(read, spine, expected, levels), *more]


def _published(run: Verified, read: RunTables, invariants: DataFrame) -> DataFrame:
    """Class bounds of others, one for each geounit, and the flows that follow from them."""
    rows = present(read.bounds, "bounds").where("name = 'class'").select("level", "geocode", "lower", "upper")
    totals = invariants.where("name = 'total'").select("level", "geocode", F.get("values", F.lit(0)).alias("total"))
    depths = F.create_map(*[F.lit(each) for pair in enumerate(run.spine.names) for each in reversed(pair)])
    boxes = (
        read.geounits.select("level", "geocode", "parent")
        .join(rows, ["level", "geocode"], "left")
        .join(totals, ["level", "geocode"], "left")
        .withColumn("depth", depths[F.col("level")])
    )
    return published_class_bounds(boxes, run.spine, run.plan.invariants.total_at)


def _with_level(schema: StructType) -> StructType:
    return type(schema)([*schema.fields]).add("level", "string", nullable=False)


def schema_check(run: Verified) -> Check:
    """Every Parquet file of a table has the columns of the table, of their types and in their order, and no others."""
    folders: dict[Path, StructType] = {}
    names = ["geounits", "invariants", "bounds", "measurements", "estimates", "diagnostics"]
    names += [] if run.spine.is_census else ["shares"]
    for name in names:
        folders |= {run.layout.level(name, level): tables.LEVEL_TABLES[name] for level in run.spine.names}
    for added, levels in of_estimator(needs_of(run.plan), run.spine.names).items():
        folders |= {run.layout.level(added.name, level): tables.LEVEL_TABLES[added.name] for level in levels}
    if not run.spine.is_census:
        published = published_estimates(run.spine)
        folders |= {run.layout.level(published, level): tables.ESTIMATES for level in run.census.names}
        folders[run.layout.spine / BLOCKS] = tables.BLOCKS
    for table, format in tables_written(run.manifest):
        if format == PARQUET:
            schema = table_schema([each for each in run.plan.product.tables if each.name == table])
            folders |= {run.layout.tables.level(table, format, level): schema for level in run.census.names}
    failing, compared = [], 0
    for folder, schema in folders.items():
        declared = _columns_of(to_arrow_schema(schema))
        compared += len(declared)
        for path in part_files(folder):
            columns = _columns_of(parquet.read_schema(path))
            odd = sorted({name for name, _ in set(declared) ^ set(columns)})
            if columns != declared:
                failing.append(f"{path.relative_to(run.layout.path)}: {', '.join(odd) or 'their order'}")
    return Check.of((SCHEMAS, "", ""), compared, failing)


def _columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """Names and types; how the elements of a list are called, and whether one may be missing, is no matter."""
    types = (f"list of {kind.value_type}" if pa.types.is_list(kind) else str(kind) for kind in schema.types)
    return list(zip(schema.names, types, strict=True))


def tables_written(manifest: PublicManifest) -> list[tuple[str, str]]:
    """Name and format of every published table that the manifest counts."""
    names = [name.removeprefix(f"{PLACE}/") for name in manifest.rows if name.startswith(f"{PLACE}/")]
    return [(name.split(".")[0], name.split(".")[1]) for name in names]


def text_check(run: Verified) -> Check:
    """What the manifest says follows from configuration and tables, and the texts beside tables from the manifest."""
    failing = [f"manifest.json: {name}" for name, right in _manifest_follows(run).items() if not right]
    whole, begun = _texts(run)
    wrong = [path for path, text in whole.items() if not _begins(path, text, whole=True)]
    wrong += [path for path, text in begun.items() if not _begins(path, text, whole=False)]
    failing += [str(path.relative_to(run.layout.path)) for path in wrong]
    if not _marked(run):
        failing.append(run.layout.marker.name)
    rows = {
        name.removeprefix("microdata/"): n for name, n in run.manifest.rows.items() if name.startswith("microdata/")
    }
    if _json(run.layout.microdata_rows) != rows:
        failing.append(str(run.layout.microdata_rows.relative_to(run.layout.path)))
    if not run.spine.is_census:
        failing += [f"spine/spine.json: {name}" for name in _odd_spine(run)]
    return Check.of((TEXTS, "", ""), len(whole) + len(begun) + 1, failing)


def _manifest_follows(run: Verified) -> dict[str, bool]:
    manifest, plan = run.manifest, run.plan
    status, worst, relaxed = solver_facts_of(run.layout, run.spine.names)
    told = data_dictionary(
        plan.product,
        plan.output.microdata,
        units=plan.invariants.units,
        tabulated=bool(tables_written(manifest)),
        areas=not run.spine.is_census,
        added=of_estimator(needs_of(plan), plan.spine.names),
    )
    return {
        "product": manifest.product == plan.product.name,
        "config_hash": manifest.config_hash == config_hash(manifest.config),
        "public_rules": _without_input(manifest.public_rules) == _without_input(public_rules_of(plan)),
        "notices": manifest.notices == planned_notices(plan, insecure=LedgerEntry.of(manifest.ledger).insecure),
        "solver_status": manifest.solver_status == status,
        "worst_residuals": manifest.worst_residuals == worst,
        "relaxed": manifest.relaxed == relaxed,
        "data_dictionary": json.dumps(list(manifest.data_dictionary)) == json.dumps(list(told)),
    }


def _without_input(rules: tuple[str, ...]) -> tuple[str, ...]:
    """All rules but the one that the files of the input decide about, which are not here."""
    return tuple(rule for rule in rules if rule != GEOUNITS_OF_UNITS)


def _texts(run: Verified) -> tuple[dict[Path, str], dict[Path, str]]:
    """Texts by the files that they are, and by those that begin with them and go on with records."""
    manifest, product = run.manifest, run.plan.product
    facts = facts_of_run(manifest.run_id, product.name, manifest.created, manifest.notices)
    written = tables_written(manifest)
    begun: dict[Path, str] = {}
    whole = {
        run.layout.tables.table(table.name, format) / ABOUT: about_text(table, facts)
        for table in product.tables
        for format in dict.fromkeys(format for _, format in written)
    }
    form = run.plan.output.microdata_files
    known = run.plan.invariants.units
    for format, columns in files_of(product, run.plan.output.microdata, units=known, form=form):
        heads = heads_of(
            product,
            format,
            columns,
            form,
            rows=manifest.rows[f"microdata/{columns.kind}.{format}"],
            created=manifest.created,
            notices=manifest.notices,
            software=str(manifest.versions.get("das_spark", "")),
        )
        folder = run.layout.microdata(columns.kind, format)
        whole |= {folder / name: text for name, text in heads.beside.items()}
        if form == SINGLE and WRITERS[format].has_metadata_file:
            begun[run.layout.microdata_single(columns.kind, format)] = heads.before
    return whole, begun


def _begins(path: Path, text: str, *, whole: bool) -> bool:
    """Whether a file begins with a text, and, where that is the whole of it, ends with it."""
    if not path.is_file():
        return False
    expected = text.encode()
    with path.open("rb") as file:
        return file.read(len(expected)) == expected and not (whole and file.read(1))


def _marked(run: Verified) -> bool:
    """Whether the marker of the public root is of this run."""
    manifest = run.manifest
    found = RunMarker.find(run.layout.path)
    expected = RunMarker(manifest.run_id, manifest.config_hash, created=manifest.created, config=manifest.config)
    return found is not None and replace(found, config=dict(found.config) or expected.config) == expected


def _odd_spine(run: Verified) -> list[str]:
    """What the record of a spine says otherwise than configuration and tables."""
    path = run.layout.spine / "spine.json"
    record = SpineRecord.from_json(path.read_text(encoding="utf-8"), str(path))
    rows, names = run.manifest.rows, run.spine.names
    sizes = [rows.get(f"geounits/{name}", 0) for name in names]
    right = {
        "settings": asdict(record.settings) == asdict(run.plan.geography.spine),
        "framework": record.framework == str(run.plan.budget.framework),
        "geounits": [level.geounits for level in record.levels] == sizes,
        "children": [level.children for level in record.levels] == [*sizes[1:], 0],
        "share": {level.name: level.share for level in record.levels}
        == {level.geolevel: level.share for level in run.plan.budget.levels},
    }
    return [name for name, good in right.items() if not good]


def _json(path: Path) -> Any:  # noqa: ANN401 - whatever it holds
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
