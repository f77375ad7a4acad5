"""CPU of every family of a finished run: `python tests/benchmarks/benchmark_run_families.py RUN...`.

Prints a Markdown table: by geolevel the median, 99th percentile and worst milliseconds of CPU of `estimate_family`, how
many families needed more than their first solver, and by whom they were solved. Families are assembled from the public
tables of the run by the code that the run used, and estimated again, one after the other, on one thread.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402 - after the number of threads is set
import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
from pyarrow import parquet  # noqa: E402

from das_spark.config.reopen import reopen  # noqa: E402
from das_spark.estimation import FamilyDiagnostics, estimate_family  # noqa: E402
from das_spark.pipeline.context import RunContext  # noqa: E402
from das_spark.pipeline.estimate import estimation_task  # noqa: E402
from das_spark.spark.families import BOUND, HISTOGRAM, MEASUREMENT, PARENT, as_family  # noqa: E402
from das_spark.store import PublicLayout, PublicManifest, open_public  # noqa: E402

#: Kind of row -> table, and column of the row -> column of the table.
SOURCES = {
    HISTOGRAM: ("geounits", {}),
    MEASUREMENT: ("measurements", {"name": "query", "integers": "rows", "longs": "values", "variance": "variance"}),
    BOUND: ("bounds", {"name": "name", "member": "member", "longs": "lower", "longs_upper": "upper"}),
    PARENT: ("estimates", {"integers": "cells", "longs": "counts"}),
}
TYPES = {
    "name": pa.string(),
    "member": pa.string(),
    "integers": pa.list_(pa.int32()),
    "longs": pa.list_(pa.int64()),
    "longs_upper": pa.list_(pa.int64()),
    "variance": pa.float64(),
}


def rows_of(public: PublicLayout, kind: int, geolevel: str, family: str) -> pa.Table:
    """Rows of one kind, as families travel."""
    name, given = SOURCES[kind]
    read = pa.concat_tables(
        [parquet.ParquetFile(path).read() for path in sorted(public.level(name, geolevel).glob("part-*"))]
    )
    columns = {
        "family": read[family],
        "kind": pa.array(np.full(len(read), kind, dtype=np.int32)),
        "geocode": read["geocode"],
    }
    for column, kind_of in TYPES.items():
        empty = pa.array([""] * len(read), kind_of) if kind_of == pa.string() else pa.nulls(len(read), kind_of)
        columns[column] = read[given[column]].cast(kind_of) if column in given else empty
    return pa.table(columns)


def families(public: PublicLayout, levels: list[str], depth: int) -> Iterator[pa.Table]:
    """The rows of every family of a level."""
    family = "parent" if depth else "geocode"
    parts = [rows_of(public, kind, levels[depth], family) for kind in (HISTOGRAM, MEASUREMENT, BOUND)]
    if depth:
        parts.append(rows_of(public, PARENT, levels[depth - 1], "geocode"))
    keys = [(name, "ascending") for name in ("family", "kind", "name", "geocode", "member")]
    whole = pa.concat_tables(parts).sort_by(keys).combine_chunks()
    lengths = pc.value_counts(whole["family"]).field("counts").to_numpy()
    starts = np.concatenate([[0], np.cumsum(lengths)])
    for start, length in zip(starts, lengths, strict=False):
        yield whole.slice(int(start), int(length))


def timed(public: PublicLayout, context: RunContext, levels: list[str], depth: int) -> str:
    """One line of the table."""
    task, spent, found = estimation_task(context, levels[depth]), [], []
    for rows in families(public, levels, depth):
        problem = task.problem(as_family(rows))
        start = time.process_time()
        result = estimate_family(problem, task.plan)
        spent.append(1e3 * (time.process_time() - start))
        found.append(result.diagnostics)
    solvers = ", ".join(f"{name} {count:,}" for name, count in Counter(each.solver for each in found).most_common())
    figures = f"{np.median(spent):,.1f} | {np.percentile(spent, 99):,.1f} | {max(spent):,.1f} | {sum(spent) / 1e3:,.1f}"
    return f"| {levels[depth]} | {len(spent):,} | {figures} | {sum(map(fell_back, found)):,} | {solvers} |"


def fell_back(found: FamilyDiagnostics) -> bool:
    """Whether a pass needed more than one solver."""
    return found.attempts > found.passes


def main() -> None:
    """Print a table a run."""
    for run in sys.argv[1:]:
        public = open_public(Path(run))
        manifest = PublicManifest.load(public.manifest)
        plan = reopen(manifest.config, (), {"run_id": manifest.run_id}, source=run)
        context = RunContext(plan, None, None, None, None, "")  # type: ignore[arg-type]  # only its plan is read
        levels = list(plan.spine.names)
        print(f"\n{manifest.run_id}: {plan.product.name}\n")
        print("| level | families | median ms | p99 ms | worst ms | all, s | fallbacks | solved by |")
        print("|---|---|---|---|---|---|---|---|")
        for depth in range(len(levels)):
            print(timed(public, context, levels, depth), flush=True)


if __name__ == "__main__":
    main()
