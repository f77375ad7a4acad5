"""Strong and weak scaling from one to two workers of a real standalone cluster, each of one core, on a state of 2020.

    DAS_SPARK_DATA=FOLDER python tests/benchmarks/benchmark_cluster.py [--share 1/1] [--repeats 1] [--keep FOLDER]

Hawaii 2020 to the block (conf/pl94_2020_state.toml), from hi_2020_block_person_cells.parquet and
hi_2020_block_units_and_gq.parquet, made of the published P.L. 94-171 file. Prints Markdown. Strong: the whole on
one worker and on two. Weak: every second tract on one worker, the whole on two. `--share 1/N` keeps every Nth tract, to
try it. The run on one worker and that on two must publish the same bytes, or the benchmark fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))

from published_files import differences, published  # noqa: E402
from scenarios import STAGE_LINE  # noqa: E402
from standalone import standalone_cluster  # noqa: E402

PERSONS, UNITS = "hi_2020_block_person_cells.parquet", "hi_2020_block_units_and_gq.parquet"
CONF = ROOT / "conf" / "pl94_2020_state.toml"
KEY = "scaling"
#: An executor has one core, and of the machine's memory what a run of a state wants.
SETTINGS = {"spark.executor.memory": "3g", "spark.executor.pyspark.memory": "4g", "spark.driver.memory": "2g"}
TRACT = 11


def every(source: Path, target: Path, tracts: set[str]) -> int:
    """The rows of some tracts; how many blocks there are in them."""
    table = pq.read_table(source)
    chosen = table.filter(pc.is_in(pc.utf8_slice_codeunits(table["geoid"], 0, TRACT), pa.array(sorted(tracts))))
    pq.write_table(chosen, target)
    return len(chosen["geoid"].unique())


def cut(data: Path, folder: Path, share: Fraction) -> int:
    """Persons and geography of every Nth tract, with the number of blocks."""
    folder.mkdir(parents=True)
    codes = pq.read_table(data / UNITS, columns=["geoid"])["geoid"]
    tracts = sorted(pc.utf8_slice_codeunits(codes, 0, TRACT).unique().to_pylist())
    kept = set(tracts[:: share.denominator])
    every(data / PERSONS, folder / "persons.parquet", kept)
    return every(data / UNITS, folder / "geography.parquet", kept)


def run(cluster, population: Path, folder: Path) -> dict[str, float]:
    """One run; its seconds by stage, and from submission to the end."""
    # A copy of its own: the ledger of an input names all runs on it, and the statements of two runs would differ.
    population = Path(shutil.copytree(population, folder / "population"))
    start = time.monotonic()
    settings = [
        f"--set=input.persons={population / 'persons.parquet'}",
        f"--set=input.geography={population / 'geography.parquet'}",
        f"--set=output.root={folder / 'runs'}",
    ]
    log = folder / "driver.log"
    process = cluster.submit([str(CONF), *settings, "--run-id", "run", "--test-key", KEY], log=log)
    if process.wait() != 0:
        raise SystemExit(log.read_text()[-4000:])
    whole = time.monotonic() - start
    found = {match.group(1): float(match.group(2)) for match in STAGE_LINE.finditer(log.read_text())}
    return found | {"all stages": sum(found.values()), "from submission to end": whole}


def on(workers: int, population: Path, folder: Path, repeats: int) -> dict[str, float]:
    """The same run on a fresh cluster of some workers: the least seconds of every stage over the repeats."""
    results = []
    for repeat in range(repeats):
        place = folder / f"repeat-{repeat}"
        place.mkdir(parents=True)
        with standalone_cluster(
            place / "cluster", workers=workers, memory="4g", python_path=str(ROOT), settings=SETTINGS
        ) as cluster:
            results.append(run(cluster, population, place / "work"))
    return {name: min(result[name] for result in results) for name in results[0]}


def result(folder: Path) -> dict[str, Any]:
    """What a run published, without the names that differ because two runs lie in two folders."""
    public = folder / "runs" / "run" / "public"
    marker = json.loads((public / "run.json").read_text())
    return published(public, {str(folder): "FOLDER", marker["config_hash"]: "HASH"})


def report(title: str, one: dict[str, float], two: dict[str, float], ideal: float) -> None:
    """A table of speed-up and efficiency by stage.

    Args:
        title: Of the table.
        one: Seconds on one worker.
        two: Seconds on two.
        ideal: How many times faster two workers should be: 2 for the same work, 1 for twice the work.
    """
    print(f"\n## {title}\n\n| stage | one worker, s | two workers, s | speed-up | efficiency |\n|---|---|---|---|---|")
    for name, seconds in one.items():
        ratio = seconds / two[name]
        print(f"| {name} | {seconds:.1f} | {two[name]:.1f} | {ratio:.2f} | {ratio / ideal:.0%} |")
    stages = [name for name in one if name not in ("all stages", "from submission to end")]
    lost = {name: two[name] - one[name] / ideal for name in stages}
    worst = max(lost, key=lambda name: lost[name])
    print(
        f"\nThe stage that limits: {worst}, which takes {lost[worst]:.1f} s more on two workers than it ideally would."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=Fraction, default=Fraction(1), help="1/N keeps every Nth tract")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for all files; a temporary one by default")
    options = parser.parse_args()
    if not (place := os.environ.get("DAS_SPARK_DATA")):
        raise SystemExit("DAS_SPARK_DATA is not set: it names the folder of public census data")
    with tempfile.TemporaryDirectory(prefix="das-spark-scaling-") as temporary:
        folder = options.keep or Path(temporary)
        whole, half = folder / "whole", folder / "half"
        blocks = cut(Path(place), whole, options.share), cut(Path(place), half, options.share / 2)
        print(f"Hawaii 2020: {blocks[0]:,} blocks, its half {blocks[1]:,}; workers of one core; {os.cpu_count()} cores")
        one = on(1, whole, folder / "one", options.repeats)
        two = on(2, whole, folder / "two", options.repeats)
        small = on(1, half, folder / "half-on-one", options.repeats)
        report("Strong scaling: the same run", one, two, 2.0)
        report("Weak scaling: half the tracts on one worker, all of them on two", small, two, 1.0)
        results = [result(folder / each / "repeat-0" / "work") for each in ("one", "two")]
        found = differences(*results)
        if found:
            raise SystemExit(f"one worker and two published different bytes: {found}")
        print(f"\nOne worker and two published the same bytes ({len(results[0])} files and tables compared).")


if __name__ == "__main__":
    main()
