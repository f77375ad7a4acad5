"""Five whole runs under test keys, and the digests of what they publish: the same before and after a change of code.

    DAS_SPARK_DATA=FOLDER python tests/golden/golden.py [NAME ...] [--keep FOLDER] [--write]

compares with digests.json beside this file, and prints the seconds of each run; `--write` records what is found,
for a change that alters numbers on purpose (say why in the commit). Digests of tables are those of their rows in the
order of their files, so that another version of a library that compresses otherwise is no difference; the bytes of
files are compared by `das-spark audit --structure`.

The record was made with the kernels of OpenBLAS that it names (`kernels`), and is compared under no others.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from das_spark.process import KERNELS, same_numbers

DIGESTS = Path(__file__).with_name("digests.json")
#: What is compared of the public folder. Manifest, statement and reports name versions and times.
TABLES = ("geounits", "invariants", "bounds", "measurements", "estimates", "microdata", "tables")
KEY = "golden"


def arguments(name: str, data: Path, folder: Path) -> list[list[str]]:
    """The commands of a run, each as the arguments of das-spark."""
    dallas, hawaii, official = data / "dallas_2010", data / "hi_2020_block", data / "official/ri2018_2020Style.pl"
    population = folder / "population"
    runs = {
        "quickstart": ["conf/quickstart.toml"],
        "providence": [
            "conf/pl94_2020.toml",
            "--set=input.dataset=providence-2018",
            f"--set=input.path={official}",
            "--set=budget.strategy=state",
            "--set=measurement.rows=all",
            '--set=output.microdata=["text","ppmf"]',
        ],
        "texas": [
            "conf/dallas_2010.toml",
            f"--set=input.persons={dallas / 'texas_persons.parquet'}",
            f"--set=input.units={dallas / 'texas_units.parquet'}",
        ],
        "e2e-1940": ["conf/e2e_1940_simulated.toml", f"--set=input.path={population}"],
        "hawaii": [
            "conf/pl94_2020_state.toml",
            f"--set=input.persons={hawaii}_person_cells.parquet",
            f"--set=input.geography={hawaii}_units_and_gq.parquet",
        ],
    }
    run = ["run", *runs[name], f"--set=output.root={folder}", "--run-id", name, "--test-key", KEY]
    if name == "e2e-1940":
        return [["simulate", "--like", "1940", "--share", "1/100", "--out", str(population)], run]
    return [run]


NAMES = ("quickstart", "providence", "texas", "e2e-1940", "hawaii")


def table_digest(files: list[Path]) -> str:
    """SHA-256 of the rows of Parquet files, value by value, whatever the compression and the row groups."""
    found = hashlib.sha256()
    for file in files:
        table = pq.read_table(file, partitioning=None).combine_chunks().replace_schema_metadata(None)
        found.update(f"{file.name}\n".encode())
        for name, column in zip(table.column_names, table.columns, strict=True):
            # Two rows of one value and of none have other buffers than their IPC form says: a stream has one form.
            sink = pa.BufferOutputStream()
            own = pa.table({name: column.cast(column.type)})
            with pa.ipc.new_stream(sink, own.schema) as writer:
                writer.write_table(pa.Table.from_batches([batch_of_own(own)]))
            found.update(sink.getvalue())
    return found.hexdigest()


def batch_of_own(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch whose buffers are its own: not slices of others, which carry what lies around them."""
    return (
        table.take(pa.array(range(table.num_rows), pa.int64())).combine_chunks().to_batches()[0]
        if len(table)
        else (pa.RecordBatch.from_pydict({name: [] for name in table.column_names}, schema=table.schema))
    )


def published(public: Path) -> dict[str, str]:
    """Folder of public tables -> digest of its rows, or, of text, of its bytes."""
    folders: dict[str, list[Path]] = {}
    for table in TABLES:
        for file in sorted((public / table).rglob("*")):
            if file.is_file() and not file.name.startswith(("_", ".")):
                folders.setdefault(f"{file.parent.relative_to(public)}/*{file.suffix}", []).append(file)
    return {
        name: table_digest(files) if name.endswith(".parquet") else text_digest(files)
        for name, files in folders.items()
    }


def text_digest(files: list[Path]) -> str:
    """SHA-256 of the lines of text files, without those of metadata, which say when a run was begun."""
    lines = (line for file in files for line in file.read_bytes().splitlines(keepends=True))
    return hashlib.sha256(b"".join(line for line in lines if not line.startswith(b"#"))).hexdigest()


def made(name: str, data: Path, folder: Path) -> tuple[dict[str, str], float]:
    """The digests of a run, and its seconds."""
    folder.mkdir(parents=True)
    program = Path(sys.executable).with_name("das-spark")
    for call in arguments(name, data, folder):
        start = time.monotonic()
        subprocess.run([program, *call], check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)
        seconds = time.monotonic() - start
    roots = sorted(each for each in folder.glob(f"{name}*/public"))
    found = {f"{root.parent.name}/{each}": digest for root in roots for each, digest in published(root).items()}
    if not found:
        raise SystemExit(f"{name} published nothing below {folder}")
    return found, seconds


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What differs, one line each."""
    names = sorted(before.keys() | after.keys())
    kinds = {(True, False): "missing", (False, True): "new", (True, True): "differs"}
    return [f"{each}: {kinds[each in before, each in after]}" for each in names if before.get(each) != after.get(each)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--keep", type=Path, help="folder for all runs; a temporary one by default")
    parser.add_argument("--write", action="store_true", help="record what is found")
    options = parser.parse_args()
    if not (data := os.environ.get("DAS_SPARK_DATA")):
        raise SystemExit("DAS_SPARK_DATA is not set: it names the folder of public census data")
    kernels = same_numbers().get(KERNELS, "of the processor")
    recorded = {"kernels": kernels} | (json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {})
    if recorded["kernels"] != kernels:
        raise SystemExit(f"the record was made with kernels {recorded['kernels']} of OpenBLAS; these are {kernels}")
    failed = False
    with tempfile.TemporaryDirectory(prefix="das-spark-golden-") as temporary:
        for name in options.names or NAMES:
            found, seconds = made(name, Path(data), (options.keep or Path(temporary)).resolve() / name)
            wrong = differences(recorded.get(name, {}), found)
            print(f"{name}: {len(found)} tables, {seconds:.1f} s, {len(wrong)} differ", flush=True)
            if options.write:
                recorded[name] = found
                DIGESTS.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
                continue
            print(*wrong, sep="\n", end="\n" if wrong else "")
            failed = failed or bool(wrong)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
