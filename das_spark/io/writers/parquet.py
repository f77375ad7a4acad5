"""Microdata as Parquet: geocode parts, codes and numbers; the constant columns of the text layout are left out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.io.writers._columns import NUMBERS, Column, FileColumns, Scope
from das_spark.io.writers.base import Rows, Sink

_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class ParquetFlavour:
    """Parquet files, zstd, dictionaries for codes and delta encoding for running numbers."""

    name: str = "parquet"
    suffix: str = ".parquet"
    has_metadata_file: bool = False

    def open(self, path: Path, columns: FileColumns, notices: tuple[str, ...]) -> Sink:
        """Begin a file; see `das_spark.io.writers.base.Flavour`.

        Args:
            path: The file; it must not exist.
            columns: What it holds.
            notices: Sentences that stand in the metadata of the file.
        """
        fields = [pa.field(column.name, _type_of(column), nullable=False) for column in columns.produced]
        metadata = {"das_spark.notices": json.dumps(list(notices))} if notices else None
        schema = pa.schema(fields, metadata=metadata)
        numbers = [column.name for column in columns.produced if column.scope in NUMBERS]
        writer = pq.ParquetWriter(
            path,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[column.name for column in columns.produced if column.name not in numbers],
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        )
        coded = {column.name: _dictionary(column) for column in columns.produced if column.scope is Scope.CODE}
        return _ParquetSink(writer, schema, columns.produced, coded)


@dataclass(frozen=True, slots=True, eq=False)
class _ParquetSink:
    writer: pq.ParquetWriter
    schema: pa.Schema
    columns: tuple[Column, ...]
    coded: dict[str, tuple[np.ndarray, pa.Array]]

    def write(self, rows: Rows) -> None:
        arrays = [self._array(column, rows) for column in self.columns]
        self.writer.write_table(
            pa.Table.from_arrays(arrays, schema=self.schema), row_group_size=len(rows.owner) or None
        )

    def close(self) -> None:
        self.writer.close()

    def _array(self, column: Column, rows: Rows) -> pa.Array:
        if column.scope is Scope.CODE:
            index, dictionary = self.coded[column.name]
            return pa.DictionaryArray.from_arrays(index[rows.code], dictionary)
        if column.scope is Scope.GEOCODE:
            parts = pa.array([geocode[column.begin : column.end] for geocode in rows.geocodes]).dictionary_encode()
            index = parts.indices.to_numpy()
            return pa.DictionaryArray.from_arrays(index[rows.owner], parts.dictionary)
        return pa.array(rows.numbers[column.scope].astype(np.int32))


def _type_of(column: Column) -> pa.DataType:
    return pa.int32() if column.scope in NUMBERS else _TEXT


def _dictionary(column: Column) -> tuple[np.ndarray, pa.Array]:
    """Position of the code of each cell or kind, and the distinct codes."""
    names, index = np.unique(np.array(column.values), return_inverse=True)
    return index.astype(np.int32), pa.array(names.tolist(), pa.string())
