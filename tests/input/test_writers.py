"""Tables of random texts, as programs of many kinds write them, come back exactly."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from das_spark.io.input_tables import InputTable

Rows = list[tuple[str, str, str]]
NAMES = ("geocode", "name, as it is said", 'a "note"')
#: Any character but those that no table of text may hold, and halves of pairs.
TEXTS = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("Cs", "Cc"), include_characters="\t\n\r", exclude_characters="\ufeff"
    ),
    max_size=12,
)
PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='",'), min_size=1, max_size=9)


def by_csv(**options: object) -> Callable[[Path, Rows], None]:
    def write(file: Path, rows: Rows) -> None:
        made = io.StringIO(newline="")
        csv.writer(made, **options).writerows([NAMES, *rows])
        file.write_bytes(made.getvalue().encode())

    return write


def by_pandas(**options: object) -> Callable[[Path, Rows], None]:
    return lambda file, rows: pd.DataFrame(rows, columns=list(NAMES)).to_csv(file, index=False, **options)


def by_arrow(file: Path, rows: Rows) -> None:
    pc.write_csv(pa.table(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))), file)


def by_duckdb(file: Path, rows: Rows) -> None:
    table = pa.table(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True)))
    with duckdb.connect() as connection:
        connection.register("written", table)
        connection.execute(f"COPY written TO '{file}' (FORMAT csv, HEADER)")


def by_polars(**options: str) -> Callable[[Path, Rows], None]:
    return lambda file, rows: pl.DataFrame(rows, schema=list(NAMES), orient="row").write_csv(file, **options)


def by_r(file: Path, rows: Rows) -> None:
    """As `write.csv` of R: texts in quotes, which are doubled within, and numbers without."""

    def field(text: str) -> str:
        return text if text.isascii() and text.isdigit() else '"' + text.replace('"', '""') + '"'

    lines = (",".join(map(field, row)) for row in (NAMES, *rows))
    file.write_bytes("".join(f"{line}\n" for line in lines).encode())


WRITERS: dict[str, Callable[[Path, Rows], None]] = {
    "csv": by_csv(),
    "csv, all in quotes": by_csv(quoting=csv.QUOTE_ALL, lineterminator="\n"),
    "csv, texts in quotes": by_csv(quoting=csv.QUOTE_NONNUMERIC),
    "pandas": by_pandas(),
    "pandas, all in quotes": by_pandas(quoting=csv.QUOTE_ALL),
    "pandas, other ends": by_pandas(lineterminator="\r\n"),
    "Arrow": by_arrow,
    "DuckDB": by_duckdb,
    "polars": by_polars(),
    "polars, all in quotes": by_polars(quote_style="always"),
    "polars, other ends": by_polars(line_terminator="\r\n"),
    "R": by_r,
}


def texts_of(file: Path) -> Rows:
    """All columns as texts; a field of nothing is an empty text."""
    table = InputTable.open(str(file)).texts(NAMES)
    return [tuple(value or "" for value in row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("name", WRITERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(rows=st.lists(st.tuples(PLAIN, TEXTS, TEXTS), min_size=1, max_size=6))
def test_tables_come_back_as_they_were_written(tmp_path, name, rows):
    if name.startswith("DuckDB"):
        # Its writer leaves returns as they are where nothing else asks for quotes.
        assume(not any("\r" in text for row in rows for text in row))
    file = tmp_path / "table.csv"
    WRITERS[name](file, rows)
    assert texts_of(file) == rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(rows=st.lists(st.tuples(PLAIN, TEXTS, TEXTS), min_size=1, max_size=6), group=st.integers(1, 4))
def test_tables_of_parquet_come_back_as_they_were_written(tmp_path, rows, group):
    file = tmp_path / "table.parquet"
    table = pa.table(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(table, file, row_group_size=group)
    assert texts_of(file) == rows
