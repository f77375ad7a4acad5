"""How long a spine takes to build, by number of blocks; and whether anything of their size comes to the driver.

    python tests/benchmarks/benchmark_spine.py [BLOCKS ...]

Builds the optimised spine of simulated blocks (100,000 and 1,000,000, or the numbers given: 8000000 is the nation) and
writes it. Prints a Markdown table, and the exponent with which time grows.
"""

from __future__ import annotations

import math
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import functions as F

from das_spark.geography import PL94_PERSON, LevelShares
from das_spark.simulation.entities_2020 import entities
from das_spark.spark.readers import GEOGRAPHY_READERS
from das_spark.spark.session import session
from das_spark.spark.spine import build_spine
from das_spark.spark.spine import write_blocks as write_paths
from das_spark.store.spine import SpineRecord, write_spine

SIZES = (100_000, 1_000_000)
BLOCKS_OF_A_GROUP, GROUPS_OF_A_TRACT, TRACTS_OF_A_COUNTY, COUNTIES_OF_A_STATE = 33, 3, 27, 60
SHARES = LevelShares.of(
    dict(
        zip(
            ("US", "State", "County", "Tract", "Block_Group", "Block"),
            (Fraction(part, 4099) for part in (104, 1440, 447, 687, 1256, 165)),
            strict=True,
        )
    )
)


def write_blocks(file: Path, count: int) -> None:
    """Blocks of counties of the usual size, with entities, state by state; some have group quarters."""
    size = BLOCKS_OF_A_GROUP * GROUPS_OF_A_TRACT * TRACTS_OF_A_COUNTY
    states = math.ceil(count / (size * COUNTIES_OF_A_STATE))
    writer = None
    for state in range(1, states + 1):
        number = np.arange(min(count, size * COUNTIES_OF_A_STATE))
        count -= number.size
        block, rest = number % BLOCKS_OF_A_GROUP, number // BLOCKS_OF_A_GROUP
        group, rest = rest % GROUPS_OF_A_TRACT + 1, rest // GROUPS_OF_A_TRACT
        tract, county = rest % TRACTS_OF_A_COUNTY + 1, rest // TRACTS_OF_A_COUNTY * 2 + 1
        value = (((state * 1000 + county) * 10**6 + tract * 100) * 10 + group) * 10**4 + group * 1000 + block
        geocodes = np.strings.zfill(value.astype("U20"), 16).astype("U16")
        columns = {"geocode": geocodes} | {name.lower(): codes for name, codes in entities(geocodes).items()}
        table = pa.table({name: pa.array(values.tolist(), pa.string()) for name, values in columns.items()})
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
    writer.close()


def measure(spark, folder: Path, count: int) -> tuple[float, float, float, int]:
    file = folder / "blocks.parquet"
    # In a process of its own, so that its memory is not taken for the driver's.
    writer = multiprocessing.get_context("spawn").Process(target=write_blocks, args=(file, count))
    writer.start()
    writer.join()
    spark.sparkContext._jvm.java.lang.System.gc()
    start = time.monotonic()
    blocks = GEOGRAPHY_READERS["tidy"].read(spark, str(file)).blocks
    flags = [F.pmod(F.xxhash64("geocode", F.lit(kind)), F.lit(100)) == 0 for kind in range(7)]
    read = time.monotonic()
    built = build_spine(blocks.withColumn("gq", F.array(*flags)), PL94_PERSON, SHARES, "zcdp")
    joined = time.monotonic()
    record = SpineRecord.of(built.national, PL94_PERSON, SHARES, "zcdp")
    assert record.blocks == count
    write_spine(record, folder / "spine", partial(write_paths, built.blocks))
    built.release()
    written = time.monotonic()
    shutil.rmtree(folder / "spine")
    return read - start, joined - read, written - joined, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or list(SIZES)
    spark = session("benchmark")
    found = []
    with tempfile.TemporaryDirectory() as place:
        measure(spark, Path(place), 5_000)  # starts workers, compiles plans
        heads = ("blocks", "read and check, s", "build and join, s", "paths written, s", "all, s", "us a block")
        print(f"| {' | '.join(heads)} | driver, MB |")
        print("|---|---|---|---|---|---|---|")
        for count in sizes:
            read, joined, written, memory = measure(spark, Path(place), count)
            whole = read + joined + written
            found.append((count, whole))
            cells = (f"{read:.1f}", f"{joined:.1f}", f"{written:.1f}", f"{whole:.1f}", f"{1e6 * whole / count:.1f}")
            print(f"| {count:,} | {' | '.join(cells)} | {memory:,} |", flush=True)
    if len(found) > 1:
        (few, short), (many, long) = found[0], found[-1]
        print(f"\nTime grows with the {math.log(long / short) / math.log(many / few):.2f}th power of the blocks.")


if __name__ == "__main__":
    main()
