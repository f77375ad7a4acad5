"""Whatever column of a microdata file holds another value than the layout says, the digest tells of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.io.microdata_digest import FilePart, digest_part
from das_spark.io.microdata_files import Division, WriteTask
from das_spark.io.microdata_formats import WRITERS, class_codes, record_columns, unit_columns
from das_spark.products import PRODUCTS, ColumnRule, microdata_codes

#: Digits of two leaf geocodes, in the order of the file.
PLACES = ("0102030405060701", "0102030405060702")
UNITS = ([3, 1, 0, 0, 1, 0, 0, 0, 2], [1, 0, 0, 0, 0, 0, 0, 1, 0])
#: Vacant units of the first kinds, where several are told apart.
VACANT = (1, 1)
CASES = [
    (name, units, format, kind)
    for name, product in PRODUCTS.items()
    for units in (True, False)
    for format in ("parquet", "text", *(["ppmf"] if product.ppmf else []))
    for kind in product.files(units=units)
]
COLUMNS = [
    (*case, column, rule)
    for case in CASES
    for column, rule in microdata_codes(PRODUCTS[case[0]], units=case[1]).forms[case[2]].rules[case[3]].items()
    if case[2] != "parquet" or rule is not ColumnRule.CONSTANT
]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[tuple[str, bool], Path]:
    """Folder of the files of each product with and without units, in every format, as a task of a run writes them."""
    return {
        (name, units): write(tmp_path_factory.mktemp(name), name, units=units)
        for name, units in {case[:2] for case in CASES}
    }


def write(folder: Path, name: str, *, units: bool) -> Path:
    product = PRODUCTS[name]
    assigned, listed = len(product.files(units=units)) > 1, product.listed if units else ()
    formats = ["parquet", "text", *(["ppmf"] if product.ppmf else [])]
    files = [(format, record_columns(product, format, units=assigned)) for format in formats]
    files += [(format, unit_columns(product, format)) for format in formats] if assigned else []
    for format, columns in files:
        (folder / f"{columns.kind}.{format}").mkdir()
    classes, kinds = len(product.unit_classes), class_codes(product)
    task = WriteTask(
        product.record,
        tuple(files),
        assigned,
        product.schema.size,
        listed,
        kinds,
        classes,
        np.array(product.unit_bounds.least if product.unit_bounds else [0] * classes, dtype=np.int64),
        folder,
        (),
        product.vacant_kinds,
        Division.of(product),
    )
    cells = [[0, 1], [1]]
    if product.record == "person":
        cells = [[int(np.flatnonzero(kinds == kind)[-1]) for kind in np.flatnonzero(row[:-1])] for row in UNITS]
    # Ten housing units for eight households; facilities of the first types; of several kinds of vacant units the first.
    vacant = [0] if product.vacant_kinds == 1 else [*VACANT, *[0] * (product.vacant_kinds - 2)]
    more = [[10, *row[1:-1], *[0] * (classes - len(row) + 1), *vacant] for row in UNITS]
    if product.vacant_kinds > 1:
        more[1][0] = 4 + sum(VACANT)
    of_classes = list(UNITS) if classes + 1 == len(UNITS[0]) else more
    length = product.spine().leaf.length
    rows = {
        "slice": pa.array([0] * 2, pa.int32()),
        "first_record": pa.array([0] * 2, pa.int64()),
        "first_unit": pa.array([0] * 2, pa.int64()),
        "geocode": pa.array([place[-length:] for place in PLACES]),
        "cells": pa.array(cells, pa.list_(pa.int32())),
        "counts": pa.array([[4 for _ in cell] for cell in cells], pa.list_(pa.int64())),
        "units": pa.array(of_classes if units else [None, None], pa.list_(pa.int64())),
        "divided": pa.array([0, 0], pa.int64()),
    }
    (reports,) = (batch.to_pylist() for batch in task(iter([pa.RecordBatch.from_pydict(rows)])))
    for row in reports:
        place = folder / f"{row['kind']}.{row['format']}"
        (place / row["file"]).rename(place / f"part-00000{WRITERS[row['format']].suffix}")
    return folder


def part_of(folder: Path, name: str, format: str, *, units: bool) -> FilePart:
    kinds = PRODUCTS[name].files(units=units)
    files = {kind: folder / f"{kind}.{format}" / f"part-00000{WRITERS[format].suffix}" for kind in kinds}
    return FilePart(format, 0, files[kinds[0]], files["unit"] if len(kinds) > 1 else None)


def digested(part: FilePart, name: str, *, units: bool) -> list[dict[str, object]]:
    found = [
        row for batch in digest_part(part, microdata_codes(PRODUCTS[name], units=units)) for row in batch.to_pylist()
    ]
    return sorted(found, key=repr)


def faults(rows: list[dict[str, object]]) -> set[tuple[object, object]]:
    return {(row["rule"], row["geocode"]) for row in rows if row["record"] == "fault"}


@pytest.mark.parametrize(("name", "units", "format"), sorted({case[:3] for case in CASES}))
def test_what_the_writer_writes_is_without_a_fault_in_every_format(written, name, units, format):
    found = digested(part_of(written[name, units], name, format, units=units), name, units=units)
    assert faults(found) == set()
    assert any(row["record"] == "persons" for row in found)


@pytest.mark.parametrize(("name", "units", "format", "kind", "column", "rule"), COLUMNS)
def test_another_value_in_any_column_of_one_record_is_told_of(
    written, tmp_path, name, units, format, kind, column, rule
):
    part = part_of(written[name, units], name, format, units=units)
    before = digested(part, name, units=units)
    own = part.person if kind == PRODUCTS[name].record else part.unit
    assert own is not None
    changed = tmp_path / own.name
    change(own, changed, format, column, microdata_codes(PRODUCTS[name], units=units).forms[format])
    other = FilePart(format, 0, changed, part.unit) if own == part.person else FilePart(format, 0, part.person, changed)
    after = digested(other, name, units=units)
    if rule is ColumnRule.CONSTANT:
        assert faults(after) == {("columns of microdata", f"{kind}.{format}: {column}")}
    elif rule is ColumnRule.RECORD_NUMBER:
        assert faults(after) == {("record numbers", f"{kind}.{format}: {column}")}
    elif rule in {ColumnRule.PLACE, ColumnRule.CODE}:
        record = "persons" if kind == PRODUCTS[name].record else "units"
        assert [row for row in after if row["record"] == record] != [row for row in before if row["record"] == record]
    else:
        assert {name for name, _ in faults(after)} & {"persons in units", "unit numbers"}


def change(source: Path, target: Path, format: str, column: str, form) -> None:
    """Write another value of the same kind into the second record."""
    if format == "parquet":
        table = pq.read_table(source)
        place = table.schema.get_field_index(column)
        values = table.column(column).to_pylist()
        values[1] = values[1] + 1 if isinstance(values[1], int) else turned(values[1])
        pq.write_table(
            table.set_column(place, table.schema.field(place), pa.array(values, table.schema.types[place])), target
        )
        return
    lines = [line.split(form.delimiter) for line in source.read_text().splitlines()]
    kind = next(names for names in map(list, form.rules.values()) if len(names) == len(lines[0]))
    place, row = kind.index(column), 1 + form.names_inside
    lines[row][place] = turned(lines[row][place])
    target.write_text("".join(form.delimiter.join(line) + "\n" for line in lines))


def turned(text: str) -> str:
    """A text of the same length with another last letter."""
    return text[:-1] + ("7" if text[-1] != "7" else "8")


@pytest.mark.parametrize("kind", ["person", "unit"])
@pytest.mark.parametrize("fault", ["missing", "more", "other type", "other place"])
def test_parquet_files_have_the_declared_columns_and_no_others(written, tmp_path, kind, fault):
    part = part_of(written["e2e_1940", True], "e2e_1940", "parquet", units=True)
    own = part.person if kind == "person" else part.unit
    table, changed = pq.read_table(own), tmp_path / own.name
    spoiled = dict(spoils(table))[fault]
    pq.write_table(spoiled, changed)
    other = (
        FilePart("parquet", 0, changed, part.unit) if kind == "person" else FilePart("parquet", 0, part.person, changed)
    )
    found = {name for rule, name in faults(digested(other, "e2e_1940", units=True)) if rule == "columns of microdata"}
    named = {"missing": "EUID", "more": "MORE", "other type": "EUID", "other place": "(their order)"}
    assert found == {f"{kind}.parquet: {named[fault]}"}


def spoils(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    place = table.schema.get_field_index("EUID")
    numbers = table.column("EUID")
    yield "missing", table.drop_columns(["EUID"])
    yield "more", table.append_column("MORE", numbers)
    yield "other type", table.set_column(place, "EUID", numbers.cast(pa.int64()))
    yield "other place", table.select(table.column_names[::-1])


def test_records_that_are_not_numbered_from_the_first_one_on_are_a_fault(written, tmp_path):
    part = part_of(written["pl94_2020_person", True], "pl94_2020_person", "text", units=True)
    lines = part.person.read_text().splitlines(keepends=True)
    swapped = tmp_path / part.person.name
    swapped.write_text("".join([lines[1], lines[0], *lines[2:]]))
    found = digested(FilePart("text", 0, swapped, None), "pl94_2020_person", units=True)
    assert faults(found) == {("record numbers", "person.text: EPNUM")}
