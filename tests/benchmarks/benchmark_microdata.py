"""Lines of microdata, composed and read, beside pyarrow and the machine: `benchmark_microdata.py [LINES]`.

Lines are those of the redistricting data of 2020: a version, a geocode in parts, a running number, and codes; so many
of the same geounit and codes stand together. CPU nanoseconds a line of one thread, a ratio is to pyarrow in the same
run; the last column is a copy of the same bytes, which is what the memory of the machine allows.
"""

from __future__ import annotations

import io
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from das_spark.io.lines import LineComposer
from das_spark.io.microdata_digest import Columns, read_runs

PLACE, CODES = ("STATE", "COUNTY", "TRACT", "GROUP", "BLOCK"), ("ADULT", "HISPANIC", "RACE", "QUARTERS")
LAYOUT = ("SCHEMA", "VERSION", *PLACE, "NUMBER", "TYPE", *CODES)
TEXTS = (*PLACE, *CODES)
#: Records of a block.
OF_A_BLOCK = 40
RUNS = (1, 2, 5, 20, 200)
REPEATED = 3


def seconds(work: Callable[[], object]) -> float:
    """The least CPU seconds of a few times."""
    spent = []
    for _ in range(REPEATED):
        before = resource.getrusage(resource.RUSAGE_SELF)
        work()
        after = resource.getrusage(resource.RUSAGE_SELF)
        spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(spent)


def by_pyarrow(fields: list[pa.Array]) -> io.BytesIO:
    """All lines, joined field by field."""
    joined = pc.binary_join_element_wise(*fields, "|")
    lines = pc.binary_join_element_wise(joined, "", "\n")
    _, offsets, data = lines.buffers()
    return io.BytesIO(memoryview(data)[: int(np.frombuffer(offsets, np.int32)[len(lines)])])


def read_by_pyarrow(path: Path) -> int:
    """Every line parsed: texts as dictionaries, the number as a number."""
    kinds = dict.fromkeys(TEXTS, pa.dictionary(pa.int32(), pa.string())) | {"NUMBER": pa.int64()}
    reader = csv.open_csv(
        path,
        csv.ReadOptions(column_names=list(LAYOUT), block_size=1 << 24, use_threads=False),
        csv.ParseOptions(delimiter="|", quote_char=False),
        csv.ConvertOptions(column_types=kinds, include_columns=list(kinds)),
    )
    return sum(batch.num_rows for batch in reader)


def measured(length: int, lines: int, folder: Path) -> tuple[float, ...]:
    """Composed and read, by both, and copied: CPU seconds a line."""
    draws = np.random.default_rng(length)
    runs = lines // length
    block = np.arange(runs) // max(1, OF_A_BLOCK // length)
    head = [f"MPD|1.1.0|15|003|{each // 1000:06d}|{each % 10}|{each % 1000:04d}" for each in range(block[-1] + 1)]
    code = [f"3|{a}|{h}|{r:02d}|{q}" for a in (1, 2) for h in (1, 2) for r in range(1, 64) for q in range(2)]
    chosen = draws.integers(0, len(code), runs)
    numbers = np.arange(runs * length, dtype=np.int64) + 10**8
    lengths = np.full(runs, length, dtype=np.int64)
    fields = np.stack([block, np.full(runs, -1), len(head) + chosen], axis=1)
    texts, composer = [*head, *code], LineComposer("|")
    run = np.repeat(np.arange(runs), length)
    record = block[run]

    def compose_by_pyarrow() -> io.BytesIO:
        heads, codes = pa.array(head).take(pa.array(record)), pa.array(code).take(pa.array(chosen[run]))
        return by_pyarrow([heads, pc.cast(pa.array(numbers), pa.string()), codes])

    written = bytes(composer.lines(texts, fields, lengths, [numbers]))
    if compose_by_pyarrow().getvalue() != written:
        raise AssertionError("the lines are not the same")
    path = folder / f"part-{length:05d}.txt"
    path.write_bytes(written)
    columns = Columns(LAYOUT, TEXTS, ("NUMBER",))
    works: tuple[Callable[[], object], ...] = (
        compose_by_pyarrow,
        lambda: composer.lines(texts, fields, lengths, [numbers]),
        lambda: read_by_pyarrow(path),
        lambda: sum(run.records for run in read_runs(path, "text", columns)),
        lambda: bytearray(written),
    )
    return tuple(seconds(work) / len(numbers) for work in works)


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    print("| lines together | composed: pyarrow, ns | ours | ratio | read: pyarrow, ns | ours | ratio | copied, ns |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for length in RUNS:
            joined, composed, parsed, read, copied = (each * 1e9 for each in measured(length, lines, Path(folder)))
            print(
                f"| {length} | {joined:.0f} | {composed:.0f} | {joined / composed:.1f} | {parsed:.0f} | {read:.0f} | "
                f"{parsed / read:.1f} | {copied:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
