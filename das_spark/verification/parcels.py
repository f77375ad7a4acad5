"""Rows of families on their way to the task that judges them: all that a task has for another one, as one buffer.

Engines move rows one by one, and a nation has hundreds of millions of them in its tables. So the families of a run are
divided into parts, and what is read of a table goes to each part as a batch of Arrow, as bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from das_spark.verification.families import FAMILY

#: A parcel: the part that it is for, and rows of one table and level.
PARCELS: Final = pa.schema(
    [("part", pa.int32()), ("level", pa.string()), ("table", pa.string()), ("rows", pa.binary())]
)
#: Bytes of a table that wait for more of it: a parcel has enough rows to be worth its header.
_WAITING: Final = 1 << 24
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")

#: Table, level, and rows of `family_schema`.
TableRows = tuple[str, str, pa.RecordBatch]


def parcels_of(rows: Iterable[TableRows], parts: int) -> Iterator[pa.RecordBatch]:
    """Divide rows among the parts that their families are in.

    Args:
        rows: In any order.
        parts: How many there are.

    Yields:
        `PARCELS`.
    """
    waiting: dict[tuple[str, str], list[pa.RecordBatch]] = defaultdict(list)
    size: dict[tuple[str, str], int] = defaultdict(int)
    for table, level, batch in rows:
        waiting[table, level].append(batch)
        size[table, level] += batch.nbytes
        if size[table, level] >= _WAITING:
            del size[table, level]
            yield _divided(table, level, waiting.pop((table, level)), parts)
    for (table, level), batches in waiting.items():
        yield _divided(table, level, batches, parts)


def _divided(table: str, level: str, batches: list[pa.RecordBatch], parts: int) -> pa.RecordBatch:
    rows = pa.concat_batches(batches)
    encoded = rows.column(FAMILY).dictionary_encode()
    of_family = [crc32(f"{level} {name}".encode()) % parts for name in encoded.dictionary.to_pylist()]
    part = np.array(of_family, dtype=np.int32)[encoded.indices.to_numpy()]
    order = np.argsort(part, kind="stable")
    if (np.diff(order) != 1).any():
        rows, part = rows.take(pa.array(order)), part[order]
    edges = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)] if len(part) else [0]
    slices = list(pairwise(edges))
    columns = [
        pa.array(part[edges[:-1]], pa.int32()),
        pa.repeat(pa.scalar(level, pa.string()), len(slices)),
        pa.repeat(pa.scalar(table, pa.string()), len(slices)),
        pa.array([_bytes_of(rows.slice(begin, end - begin)) for begin, end in slices], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PARCELS)


def _bytes_of(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def opened_parcels(parcels: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, dict[str, pa.RecordBatch]]]:
    """Put the rows of whole parts together.

    Args:
        parcels: All of one or several parts.

    Yields:
        Level, and the rows of the families of a part, by table.
    """
    held: dict[tuple[int, str], dict[str, list[pa.RecordBatch]]] = defaultdict(lambda: defaultdict(list))
    for batch in parcels:
        parts, levels, tables, rows = (batch.column(name) for name in PARCELS.names)
        for place, table in enumerate(tables.to_pylist()):
            with pa.ipc.open_stream(rows[place].as_buffer()) as stream:
                held[parts[place].as_py(), levels[place].as_py()][table].extend(stream)
    for part, level in sorted(held):
        batches = held.pop((part, level))
        yield level, {table: pa.concat_batches(some) for table, some in sorted(batches.items())}
