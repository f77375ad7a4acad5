"""The protected microdata: one record of whatever is counted and, where people are dealt to units, one a unit.

Spark cuts the leaf geounits, in the order of their geocodes, into slices of about equal numbers of records; each task
writes the files of its slice itself (a row-wise writer would cost microseconds a person) under a name of its own
attempt and reports them; the driver promotes exactly the reported files, destroys all others and sets the marker last.

Part n of the person file holds the people of the units in part n of the unit file, and no others: whoever reads one
geounit, or checks the files, needs no other part. Unit numbers run through the parts in the order of their own.

Without units the person file alone is written: in text its unit number is 999999999 and its person number 99999 in
every record, in Parquet both columns are left out.

Workers write to the staging folder themselves, so it must lie on a file system that all of them mount.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.errors import OutputError, without_values
from das_spark.io.microdata_heads import HEADER, METADATA, PARTS, SINGLE, Heads, heads_of
from das_spark.io.writers import WRITERS
from das_spark.io.writers._columns import class_codes, lists_quarters, record_columns, unit_columns
from das_spark.io.writers._task import PROBLEM, REPORT, WriteTask
from das_spark.store import FileRecord, discard, disk_errors, promote, record_of, write_durably

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from das_spark.io.writers._columns import FileColumns
    from das_spark.products.base import Product
    from das_spark.store import PublicLayout, Staging

__all__ = ["HEADER", "METADATA", "WrittenFolder", "files_of", "records_of", "write_microdata", "write_one_slice"]

#: Records (persons and units) that a file holds, about.
RECORDS_A_FILE = 4_000_000
#: Files that there are at least: enough for a small machine.
LEAST_FILES = 4
#: Bytes that are copied at once where parts are joined.
_COPIED = 1 << 22
#: Columns that say which slice rows are of, and the numbers that it begins with.
_OF_SLICE = {"slice": pa.int32(), "first_record": pa.int64(), "first_unit": pa.int64()}
#: What a geounit costs besides its records, in records.
_GEOUNIT_COST = 20


@dataclass(frozen=True, slots=True)
class WrittenFolder:
    """One finished microdata file: a folder of parts.

    Attributes:
        kind: `person` or `unit`.
        flavour: Name in `WRITERS`.
        rows: Records.
        files: Its parts.
    """

    kind: str
    flavour: str
    rows: int
    files: tuple[FileRecord, ...]


def write_microdata(  # noqa: PLR0913 - each is what another room decides
    estimates: DataFrame,
    invariants: DataFrame | None,
    product: Product,
    layout: PublicLayout,
    flavours: Sequence[str],
    *,
    staging: Staging,
    created: str,
    notices: tuple[str, ...] = (),
    form: str = PARTS,
) -> tuple[WrittenFolder, ...]:
    """Write the microdata of a run in the place of what an earlier driver left.

    Args:
        estimates: Leaf estimates: geocode, parent, cells, counts.
        invariants: Leaf invariants (geocode, name, values) with `units` and, it may be, `vacant`; None without units.
        product: Whose layout.
        layout: Where.
        flavours: Names in `WRITERS`.
        staging: Where all is written first.
        created: When, as it shall stand in the metadata of text files.
        notices: Sentences that every file must carry, such as that the run is insecure.
        form: Of text files: see `das_spark.io.microdata_heads`.

    Returns:
        The finished folders.

    Raises:
        OutputError: People cannot be dealt to the units of a geounit, or the disk is full.
    """
    return _written(
        lambda task: _run(estimates, invariants if task.knows_units else None, product, task),
        product,
        layout,
        flavours,
        units=invariants is not None,
        staging=staging,
        created=created,
        notices=notices,
        form=form,
    )


def write_one_slice(
    leaves: pa.RecordBatch,
    product: Product,
    layout: PublicLayout,
    flavours: Sequence[str],
    *,
    staging: Staging,
    created: str,
    notices: tuple[str, ...] = (),
    form: str = PARTS,
) -> tuple[WrittenFolder, ...]:
    """Write the microdata of a few geounits in this process, without Spark, by the same steps as those of a run.

    Args:
        leaves: Columns geocode, cells, counts, and units: by class, vacant ones last; null where no units are known.
        product: As in `write_microdata`, as are the others.
        layout: Where.
        flavours: Names in `WRITERS`.
        staging: Where all is written first.
        created: When.
        notices: Sentences that every file must carry.
        form: Of text files.

    Returns:
        The finished folders.

    Raises:
        OutputError: People cannot be dealt to the units of a geounit, or the disk is full.
    """
    zeros = {name: pa.array([0] * leaves.num_rows, kind) for name, kind in _OF_SLICE.items()}
    whole = pa.RecordBatch.from_pydict({**zeros, **{name: leaves.column(name) for name in leaves.schema.names}})
    return _written(
        lambda task: [row for report in task(iter([whole])) for row in report.to_pylist()],
        product,
        layout,
        flavours,
        units=leaves.column("units").null_count == 0,
        staging=staging,
        created=created,
        notices=notices,
        form=form,
    )


def _written(  # noqa: PLR0913 - as `write_microdata`
    run: Callable[[WriteTask], list[dict[str, object]]],
    product: Product,
    layout: PublicLayout,
    flavours: Sequence[str],
    *,
    units: bool,
    staging: Staging,
    created: str,
    notices: tuple[str, ...],
    form: str,
) -> tuple[WrittenFolder, ...]:
    """Let a task write all parts, by whatever carries it out, and promote what it reports."""
    files = files_of(product, flavours, units=units, form=form)
    folder = staging.folder
    discard(folder)
    with disk_errors(layout.path):
        for flavour, columns in files:
            (folder / f"{columns.kind}.{flavour}").mkdir(parents=True)
        reports = run(_task(product, files, folder, notices, units=units))
        _refuse_stuck(reports)
        staging.guard()
        # All go before the first one comes: parts of units and of persons belong together.
        for flavour, columns in files:
            discard(layout.microdata(columns.kind, flavour))
        written = tuple(
            _finish(
                reports,
                columns.kind,
                flavour,
                folder,
                layout.microdata(columns.kind, flavour),
                partial(heads_of, product, flavour, columns, form, created=created, notices=notices),
                layout.microdata_single(columns.kind, flavour) if form == SINGLE and _is_text(flavour) else None,
            )
            for flavour, columns in files
        )
    discard(folder)
    return written


def files_of(
    product: Product, flavours: Sequence[str], *, units: bool, form: str
) -> tuple[tuple[str, FileColumns], ...]:
    """Every file of a run.

    Args:
        product: Whose layout.
        flavours: Names in `WRITERS`.
        units: Whether the run knows units.
        form: Of text files.

    Returns:
        Flavour and columns, those of what is counted first.
    """
    dealt = len(product.files(units=units)) > 1
    counted = [(flavour, record_columns(product, flavour, units=dealt)) for flavour in flavours]
    of_units = [(flavour, unit_columns(product, flavour)) for flavour in flavours] if dealt else []
    if form == PARTS:
        return (*counted, *of_units)
    # Column names stand once, before the first part.
    return tuple((flavour, replace(columns, names_inside=False)) for flavour, columns in (*counted, *of_units))


def _task(
    product: Product,
    files: tuple[tuple[str, FileColumns], ...],
    staging: Path,
    notices: tuple[str, ...],
    *,
    units: bool,
) -> WriteTask:
    """What writes the parts; units that are known and in no file are left out."""
    classes, known = len(product.unit_classes), units and any(columns.kind == "unit" for _, columns in files)
    return WriteTask(
        product.record,
        files,
        len(product.files(units=known)) > 1,
        product.schema.size if known and lists_quarters(product) else None,
        class_codes(product),
        classes,
        np.array(product.unit_bounds.least if product.unit_bounds else [0] * classes, dtype=np.int64),
        staging.absolute(),
        notices,
    )


def _run(
    estimates: DataFrame, invariants: DataFrame | None, product: Product, task: WriteTask
) -> list[dict[str, object]]:
    """Write all parts to the staging folder by Spark; one report a part (slices x files of a slice)."""
    leaves = _with_units(estimates, invariants, len(product.unit_classes))
    slices = _slices(leaves, listed=task.listed is not None)
    count = slices.column("slice").to_numpy()[-1] + 1
    placed = leaves.join(F.broadcast(estimates.sparkSession.createDataFrame(slices)), "parent")
    sorted_rows = placed.repartitionById(int(count), F.col("slice")).sortWithinPartitions("slice", "geocode")
    columns = ("slice", "first_record", "first_unit", "geocode", "cells", "counts", "units")
    report = sorted_rows.select(*columns).mapInArrow(without_values(task), REPORT)
    reports: list[dict[str, object]] = report.toArrow().to_pylist()
    return reports


def _refuse_stuck(reports: Sequence[Mapping[str, object]]) -> None:
    stuck = sorted(str(row["file"]) for row in reports if row["kind"] == PROBLEM)
    if stuck:
        raise OutputError(
            f"geounits {', '.join(stuck[:10])}: their people cannot be dealt to their units",
            hint="estimates and unit invariants do not belong together: run verify",
        )


def _with_units(estimates: DataFrame, invariants: DataFrame | None, classes: int) -> DataFrame:
    """Leaf rows with units by class and vacant units in one array (null without units)."""
    leaves = estimates.select("geocode", F.coalesce("parent", F.lit("")).alias("parent"), "cells", "counts")
    if invariants is None:
        return leaves.withColumn("units", F.lit(None).cast("array<bigint>"))
    units = invariants.where("name = 'units'").select("geocode", F.col("values").alias("occupied"))
    vacant = invariants.where("name = 'vacant'").select("geocode", F.col("values").getItem(0).alias("vacant"))
    none = F.array_repeat(F.lit(0).cast("bigint"), classes)
    both = F.concat(F.coalesce("occupied", none), F.array(F.coalesce("vacant", F.lit(0)).cast("bigint")))
    joined = leaves.join(units, "geocode", "left").join(vacant, "geocode", "left")
    return joined.select("geocode", "parent", "cells", "counts", both.alias("units"))


def _slices(leaves: DataFrame, *, listed: bool) -> pa.Table:
    """Cut the parents, in the order of their children's geocodes, into slices of about equal size.

    Args:
        leaves: Result of `_with_units`.
        listed: Whether group quarters are listed among what is counted.

    Returns:
        Columns parent, slice, first_record and first_unit (numbers of the first of the slice). One row a parent of the
        lowest level is collected: a thousandth of the people, and public.
    """
    quarters = _total(F.slice("units", F.lit(2), F.size("units") - 2)) if listed else F.lit(0)
    sums = [
        F.min("geocode").alias("first"),
        F.sum(_total("counts") + quarters).alias("records"),
        F.sum(F.coalesce(_total("units"), F.lit(0))).alias("units"),
        F.count(F.lit(1)).alias("geounits"),
    ]
    parents = leaves.groupBy("parent").agg(*sums).toArrow().sort_by("first")
    records, units, geounits = (parents.column(name).to_numpy() for name in ("records", "units", "geounits"))
    cost = records + units + _GEOUNIT_COST * geounits
    before = np.cumsum(cost) - cost
    whole = int(cost.sum())
    # By public numbers alone, and not by the cores that there are: files and their names are public.
    wanted = max(min(LEAST_FILES, len(cost)), -(-whole // RECORDS_A_FILE))
    _, slices = np.unique(before * wanted // max(whole, 1), return_inverse=True)
    first_of_slice = np.searchsorted(slices, slices)
    return pa.table(
        {
            "parent": parents.column("parent"),
            "slice": slices.astype(np.int32),
            "first_record": (np.cumsum(records) - records)[first_of_slice].astype(np.int64),
            "first_unit": (np.cumsum(units) - units)[first_of_slice].astype(np.int64),
        }
    )


def _total(column: str | Column) -> Column:
    return F.aggregate(column, F.lit(0).cast("bigint"), lambda total, value: total + value)


def _finish(
    reports: list[dict[str, object]],
    kind: str,
    flavour: str,
    staging: Path,
    target: Path,
    heads: Callable[..., Heads],
    single: Path | None,
) -> WrittenFolder:
    """Promote the reported parts of one folder, and nothing else, with the texts that stand before and beside them."""
    folder = staging / f"{kind}.{flavour}"
    chosen = [row for row in reports if row["kind"] == kind and row["flavour"] == flavour]
    records = []
    for row in sorted(chosen, key=lambda row: str(row["file"])):
        name = f"part-{row['slice']:05d}{WRITERS[flavour].suffix}"
        (folder / str(row["file"])).replace(folder / name)
        records.append(FileRecord(name, int(str(row["size"])), str(row["sha256"])))
    rows = sum(int(str(row["rows"])) for row in chosen)
    texts = heads(rows=rows)
    if single is not None:
        records = [_joined(texts.before, [folder / record.name for record in records], folder / single.name)]
    if texts.beside:
        target.mkdir(parents=True)
    for name, text in texts.beside.items():
        write_durably(target / name, text)
    return WrittenFolder(kind, flavour, rows, promote(folder, target, records, check=False))


def _joined(before: str, parts: Sequence[Path], single: Path) -> FileRecord:
    """One file of a text and parts; each part goes when it is copied, so that the disk holds them once."""
    with single.open("wb") as whole:
        whole.write(before.encode("utf-8"))
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, whole, _COPIED)
            part.unlink()
    return record_of(single)


def _is_text(flavour: str) -> bool:
    """Whether files of a flavour are text, which has metadata beside or before it."""
    return WRITERS[flavour].has_metadata_file


def records_of(written: Sequence[WrittenFolder]) -> dict[str, int]:
    """Rows by `<kind>.<flavour>`, as the public manifest lists them.

    Args:
        written: The folders, one a kind and flavour.
    """
    return {f"{folder.kind}.{folder.flavour}": folder.rows for folder in written}
