"""Whole runs by Spark and by Sail, one after the other: seconds of the command.

    DAS_SPARK_DATA=FOLDER python tests/benchmarks/benchmark_engines.py [NAME ...] [--repeat 1]

Prints rows for README.md. Runs are under a test key, lie in a temporary folder, and are removed one after the other.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.prefix) / "bin" / "das-spark"
ENGINES = ("spark", "sail")


def runs(data: Path, folder: Path) -> Mapping[str, list[str]]:
    """The arguments of `das-spark run`, by the name of a run."""

    def tidy(conf: str, persons: str, units: str, key: str = "geography") -> list[str]:
        return [f"conf/{conf}.toml", f"--set=input.persons={data / persons}", f"--set=input.{key}={data / units}"]

    return {
        "quickstart": ["conf/quickstart.toml"],
        "illinois": tidy("pl94_2020_to_tract", "il_2020_tract_person_cells.parquet", "il_2020_tract_pl94_full.parquet"),
        "texas": tidy("dallas_2010", "dallas_2010/texas_persons.parquet", "dallas_2010/texas_units.parquet", "units"),
        "hawaii": tidy("pl94_2020_state", "hi_2020_block_person_cells.parquet", "hi_2020_block_units_and_gq.parquet"),
        "1940": ["conf/e2e_1940_simulated.toml", f"--set=input.path={folder / '1940'}"],
    }


def measured(arguments: list[str], engine: str, folder: Path) -> float:
    """Seconds of a run that is verified."""
    command = [str(PROGRAM), "run", *arguments, f"--set=output.root={folder / 'runs'}", "--run-id", "run"]
    began = time.monotonic()
    subprocess.run(
        [*command, "--test-key", "benchmark"],
        env=os.environ | {"DAS_SPARK_ENGINE": engine, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    seconds = time.monotonic() - began
    shutil.rmtree(folder / "runs")
    return seconds


def main() -> None:
    data = Path(os.environ["DAS_SPARK_DATA"]).resolve()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(runs(data, Path())))
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="das-spark-engines-") as temporary:
        folder = Path(temporary)
        known = runs(data, folder)
        chosen = options.names or list(known)
        if "1940" in chosen:
            subprocess.run([PROGRAM, "simulate", "--like", "1940", "--out", folder / "1940"], check=True, cwd=ROOT)
        print("| run | Spark, s | Sail, s | ratio |\n|---|---|---|---|")
        for name in chosen:
            for _ in range(options.repeat):
                spark, sail = (measured(known[name], engine, folder) for engine in ENGINES)
                print(f"| {name} | {spark:.0f} | {sail:.0f} | {spark / sail:.1f} |", flush=True)


if __name__ == "__main__":
    main()
