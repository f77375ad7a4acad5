"""Tables of Parquet with values of every type, in every encoding: read exactly, or refused by file and column."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.errors import InputError

A, B = "5300100001", "5300100002"
PERSONS = {
    "geocode": [A, A, B],
    "hhgq": [0, 0, 7],
    "age18plus": [0, 1, 1],
    "hispanic": [0, 1, 0],
    "race": [0, 5, 2],
    "count": [3, 4, 5],
}
UNITS = {"geocode": [A, A, B], "hhgq": [0, 7, 7], "units": [2, 0, 1]}
EXPECTED = {
    A: ({0: 3, 23: 4}, [2, 0, 0, 0, 0, 0, 0, 0], 0),
    B: ({182: 5}, [0, 0, 0, 0, 0, 0, 0, 1], 0),
}
NUMBERS = {
    "persons": [name for name in PERSONS if name != "geocode"],
    "units": ["hhgq", "units"],
}


def deliver(folder: Path, table: str = "", columns: dict[str, pa.Array] | None = None, **options: Any) -> Path:
    """Write both tables, one of them with other columns; and say where that one is."""
    for name, plain in (("persons", PERSONS), ("units", UNITS)):
        changed = pa.table(plain | (columns or {}) if name == table else plain)
        pq.write_table(changed, folder / f"{name}.parquet", **options)
    return folder / f"{table or 'persons'}.parquet"


WHOLE = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal without places": pa.decimal128(5, 0),
    "decimal with places": pa.decimal128(12, 2),
    "decimal of 38 digits": pa.decimal128(38, 4),
    "small decimal": pa.decimal32(6, 1),
    "text": pa.string(),
    "large text": pa.large_string(),
    "view of text": pa.string_view(),
    "dictionary of texts": pa.dictionary(pa.int8(), pa.string()),
    "dictionary of numbers": pa.dictionary(pa.int32(), pa.int64()),
}


@pytest.mark.parametrize("table", NUMBERS)
@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_of_every_type_are_read(tmp_path, ingested, name, table):
    plain = PERSONS if table == "persons" else UNITS
    deliver(tmp_path, table, {column: _cast(plain[column], WHOLE[name]) for column in NUMBERS[table]})
    assert ingested() == EXPECTED


def _cast(values: list[int], kind: pa.DataType) -> pa.Array:
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if pa.types.is_dictionary(kind):
        return _cast(values, kind.value_type).dictionary_encode()
    if pa.types.is_decimal(kind):
        return pa.array(map(Decimal, values), kind)
    return pa.array(map(str, values), kind) if texts else pa.array(values).cast(kind)


TEXTS = {
    "large text": pa.large_string(),
    "view of text": pa.string_view(),
    "dictionary": pa.dictionary(pa.int16(), pa.string()),
    "numbers of 64 bits": pa.int64(),
    "decimal": pa.decimal128(20, 0),
}


@pytest.mark.parametrize("table", NUMBERS)
@pytest.mark.parametrize("name", TEXTS)
def test_geocodes_of_every_type_are_read(tmp_path, ingested, name, table):
    codes, kind = (PERSONS if table == "persons" else UNITS)["geocode"], TEXTS[name]
    if pa.types.is_dictionary(kind):
        column = pa.array(codes).dictionary_encode()
    else:
        column = pa.array(codes).cast(kind) if name != "decimal" else pa.array(map(Decimal, codes), kind)
    deliver(tmp_path, table, {"geocode": column})
    assert ingested() == EXPECTED


#: What a count holds -> what is said of it.
NO_COUNTS = {
    "a fraction": ([3.0, 4.5, 5.0], "a whole number"),
    "nothing": ([3, None, 5], "none missing"),
    "no number": ([3.0, float("nan"), 5.0], "a whole number"),
    "infinity": ([3.0, float("inf"), 5.0], "a whole number"),
    "a negative number": ([3, -1, 5], "a count of 0 or more"),
    "a decimal with places": ([Decimal("3.0"), Decimal("4.5"), Decimal("5.0")], "a whole number"),
    "a large float": ([3.0, 1e19, 5.0], "a number up to"),
    "a large decimal": ([Decimal(3), Decimal(2**63), Decimal(5)], "a number up to"),
    "a sum that is too large": ([2**62, 2**62, 5], "a sum over all rows up to"),
    "64 bits without a sign": (pa.array([3, 2**63, 5], pa.uint64()), "cannot hold exactly"),
    "truth": ([True, False, True], "neither texts nor numbers"),
    "days": ([date(2020, 4, 1)] * 3, "neither texts nor numbers"),
    "bytes": ([b"3", b"4", b"5"], "neither texts nor numbers"),
    "lists": ([[3], [4], [5]], "neither texts nor numbers"),
    "nothing at all": (pa.nulls(3), "none missing"),
    "texts of floats": (["3.0", "4.0", "5.0"], "a whole number"),
}


@pytest.mark.parametrize(("table", "column"), [("persons", "count"), ("units", "units")])
@pytest.mark.parametrize("name", NO_COUNTS)
def test_what_is_no_count_is_refused(tmp_path, ingested, name, table, column):
    values, said = NO_COUNTS[name]
    deliver(tmp_path, table, {column: values if isinstance(values, pa.Array) else pa.array(values)})
    with pytest.raises(InputError, match=said):
        ingested()


@pytest.mark.parametrize("table", NUMBERS)
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.bool_()], ids=str)
def test_what_cannot_be_a_geocode_is_refused(tmp_path, ingested, kind, table):
    deliver(tmp_path, table, {"geocode": pa.array([1, 0, 1]).cast(kind)})
    with pytest.raises(InputError, match=r"a geocode of 10 digits|neither texts nor numbers"):
        ingested()


UNNEEDED = {
    "days": [date(2020, 4, 1)] * 3,
    "times": [datetime(2020, 4, 1, 12)] * 3,  # noqa: DTZ001 - as pandas writes it
    "times of nanoseconds": pa.array([1, 2, 3], pa.timestamp("ns")),
    "lists": [[1], [], None],
    "records": [{"a": 1}, {"a": 2}, None],
    "maps": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "bytes": [b"\x00", b"", None],
    "truth": [True, None, False],
    "halves": pa.array([1.5, 2.5, None], pa.float16()),
    "decimals of 76 digits": pa.array([Decimal(1), None, Decimal(3)], pa.decimal256(76, 0)),
    "durations": pa.array([1, 2, 3], pa.duration("us")),
    "nothing": pa.nulls(3),
}


@pytest.mark.parametrize("name", UNNEEDED)
def test_a_column_that_nobody_needs_stops_nothing(tmp_path, ingested, name):
    values = UNNEEDED[name]
    deliver(tmp_path, "persons", {"note": values if isinstance(values, pa.Array) else pa.array(values)})
    assert ingested() == EXPECTED


OPTIONS: dict[str, dict[str, Any]] = {
    **{kind: {"compression": kind} for kind in ("snappy", "gzip", "zstd", "lz4", "brotli", "none")},
    "no dictionaries": {"use_dictionary": False},
    "pages of the second version": {"data_page_version": "2.0"},
    "files of the first version": {"version": "1.0"},
    "a row group a row": {"row_group_size": 1},
    "pages of a byte": {"data_page_size": 1},
    "no statistics": {"write_statistics": False},
    "checksums": {"write_page_checksum": True},
    "an index of pages": {"write_page_index": True},
    "a schema that is not kept": {"store_schema": False},
    "deltas": {"use_dictionary": False, "column_encoding": {"count": "DELTA_BINARY_PACKED"}},
    "prefixes": {"use_dictionary": False, "column_encoding": {"geocode": "DELTA_BYTE_ARRAY"}},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_encoding_is_read(tmp_path, ingested, name):
    given = dict(OPTIONS[name])
    if "column_encoding" in given:  # of a column that both tables have, or one alone
        for table, plain in (("persons", PERSONS), ("units", UNITS)):
            own = {column: kind for column, kind in given["column_encoding"].items() if column in plain}
            options = given | {"column_encoding": own} if own else {}
            pq.write_table(pa.table(plain), tmp_path / f"{table}.parquet", **options)
    else:
        deliver(tmp_path, **given)
    assert ingested() == EXPECTED


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.int32(), pa.int64()),
        (pa.int64(), pa.float64()),
        (pa.decimal128(5, 0), pa.decimal128(9, 2)),
        (pa.string(), pa.large_string()),
        (pa.string(), pa.dictionary(pa.int8(), pa.string())),
        (pa.int64(), pa.null()),
    ],
    ids=str,
)
def test_types_of_parts_may_differ_where_no_value_does(tmp_path, ingested, one, other):
    deliver(tmp_path)
    (tmp_path / "persons.parquet").unlink()
    (tmp_path / "persons.parquet").mkdir()
    for number, kind in enumerate((one, other)):
        part = pa.table(PERSONS).slice(0, 3) if number == 0 else pa.table(PERSONS).slice(0, 0)
        values = [] if number else PERSONS["count"]
        made = pa.nulls(0) if pa.types.is_null(kind) else _cast(values, kind)
        part = part.set_column(part.schema.get_field_index("count"), "count", made)
        pq.write_table(part, tmp_path / "persons.parquet" / f"part-{number}.parquet")
    assert ingested() == EXPECTED


@pytest.mark.parametrize(("one", "other"), [("3", 3), (3, "3"), (3, date(2020, 4, 1))], ids=str)
def test_types_of_parts_that_mean_other_values_are_refused(tmp_path, ingested, one, other):
    deliver(tmp_path)
    (tmp_path / "persons.parquet").unlink()
    (tmp_path / "persons.parquet").mkdir()
    for number, value in enumerate((one, other)):
        pq.write_table(
            pa.table({**{name: values[:1] for name, values in PERSONS.items()}, "count": [value]}),
            tmp_path / "persons.parquet" / f"part-{number}.parquet",
        )
    with pytest.raises(InputError, match="'count' holds"):
        ingested()


def _middle(content: bytes) -> bytes:
    place = content.index(len(A).to_bytes(4, "little") + A.encode()) + 4
    return content[:place] + b"9" + content[place + 1 :]


#: What becomes of a file -> what is said of it.
BROKEN = {
    "cut short": (lambda content: content[:-20], "does not end so|cannot be read"),
    "cut in the middle": (lambda content: content[: len(content) // 2], "does not end so"),
    "its begin alone": (lambda content: content[:4], "does not end so|cannot be read"),
    "its end alone": (lambda content: content[-100:], "no Parquet file"),
    "no byte": (lambda _: b"", "no Parquet file"),
    "zeros": (lambda content: b"\x00" * len(content), "no Parquet file"),
    "a text": (lambda _: b"geocode,count\n5300100001,3\n", "no Parquet file"),
    "no footer": (lambda content: content[:-8] + b"\xff\xff\xff\x7fPAR1", "cannot be read"),
    "bytes in its middle": (_middle, "cannot be read"),
    "something behind it": (lambda content: content + b"x", "does not end so"),
}


@pytest.mark.parametrize("table", NUMBERS)
@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_not_whole_is_refused(tmp_path, ingested, name, table):
    change, said = BROKEN[name]
    file = deliver(tmp_path, table, write_page_checksum=True, compression="none", use_dictionary=False)
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(InputError, match=said):
        ingested()
