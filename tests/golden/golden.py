"""Runs of every product under test keys, and the digests of all that they publish: the same before and after a change.

    python tests/golden/golden.py [NAME ...] [--keep FOLDER] [--write]

carries out all commands in one session of Spark, compares with digests.json beside this file, names what differs, and
prints the seconds of each group; `--write` records what is there, for a change that alters numbers on purpose (say why
in the commit). Populations are synthetic and small: nothing else is needed. Runs are not verified by das_spark, which
would take as long again; what they publish is recounted by jobs/verify_public.py.

Digests of Parquet are those of its rows in the order of the files, so that another version of a library that compresses
otherwise is no difference. Those of text leave out times, versions and digests of bytes; `das-spark audit --structure`
compares the bytes. The record names the kernels of OpenBLAS that it was made with, and is compared under no others.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Final

from das_spark.process import KERNELS, same_numbers

sys.path.insert(0, str(Path(__file__).parents[1]))

from unverified import unverified

DIGESTS: Final = Path(__file__).with_name("digests.json")
_CONF: Final = Path(__file__).parents[2] / "conf"
_VERIFIER: Final = _CONF.with_name("jobs") / "verify_public.py"
#: Nothing confidential is reported: what is compared is public.
_OF_RUN: Final = " --test-key golden --set evaluation.enabled=false"
#: A group -> the arguments of das-spark, a line a command, in a folder of the group.
COMMANDS: Final = {
    "e2e_2018": """
        run quickstart --run-id all --set measurement.rows=all
        estimate runs/all --run-id released --set estimation.rounding=released --set output.intervals.level="9/10" \
            --set output.replicates.runs=2 --set output.replicates.level="9/10"
        measurements runs/all --out measurements
        estimate --from-measurements measurements --run-id from-files --set estimation.estimator=blue_down
        interval runs/all --table P1 --areas areas.csv --out intervals.csv
    """,
    "e2e_1940": """
        simulate --like 1940 --share 1/20000 --out population
        run e2e_1940_simulated --run-id top-down
    """,
    "dallas_2010": """
        product new texas.toml --like dallas_2010
        simulate --like texas.toml --share 1/2000 --out texas
        run dallas_2010 --run-id units --set input.path=texas --set input.columns.geocode=geocode \
            --set input.columns.age18plus=age18plus --set input.columns.hispanic=hispanic
    """,
    "ddp_2010": """
        simulate --like 2010-state --share 1/10000 --out population
        run ddp_2010 --run-id demonstration
    """,
    "dhc_2020": """
        simulate --like 2020-state --product dhc_2020 --share 1/10000 --layout cef --out population
        run pl94_2020_simulated --run-id redistricting-persons --set budget.strategy=state
        run pl94_2020_simulated --run-id redistricting-units --set budget.strategy=state \
            --set run.product=pl94_2020_unit
        run pl94_2020_simulated --run-id optimised --set budget.strategy=state --set geography.spine=optimised
        run dhc_2020 --run-id characteristics
    """,
    "own": """
        simulate --like {conf}/products/england_and_wales_like.toml --share 1/500 --out residents
        run {conf}/england_and_wales_like.toml --run-id own-product
        simulate --like {conf}/products/own_codes_like.toml --share 1/100 --out communes
        run {conf}/own_codes_like.toml --run-id own-codes
        simulate --like {conf}/products/establishments_like.toml --share 1/100 --out establishments
        run {conf}/establishments_like.toml --run-id establishments
        simulate --like {conf}/products/hospital_stays_like.toml --share 1/100 --out stays
        run {conf}/hospital_stays_like.toml --run-id stays
    """,
}
#: How long a run took, a report of a verification that was left out, and what a run keeps to itself.
_NOT_COMPARED: Final = ("run.json", "run.html", "verification.json", "restricted", "runs/latest")
#: What another time, version, compression or attempt (its number is random) changes in a text.
_VOLATILE: Final = re.compile(
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?|\b[0-9a-f]{64}\b|\b[0-9a-f]{32}\b|(?<=#)[0-9a-f]{8}\b"
    rb'|"(bytes|size|seconds|versions)": (\{[^}]*\}|[^,\n]*)'
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *COMMANDS], metavar="NAME", help=", ".join(COMMANDS))
    parser.add_argument("--keep", type=Path, help="folder for all runs; a temporary one by default")
    parser.add_argument("--write", action="store_true", help="record what is there")
    options = parser.parse_args()
    os.environ |= same_numbers() | {"DAS_SPARK_ENV": "test"}  # before numpy is imported
    recorded = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    kernels = kernels_here()
    if recorded and not options.write and recorded["kernels"] != kernels:
        raise SystemExit(f"the record was made with kernels {recorded['kernels']} of OpenBLAS; these are {kernels}")
    failed = False
    with tempfile.TemporaryDirectory(prefix="das-spark-golden-") as temporary:
        for name in options.names or COMMANDS:
            folder = (options.keep or Path(temporary)).resolve() / name
            folder.mkdir(parents=True)
            start = time.monotonic()
            carry_out(COMMANDS[name], folder)
            digests = digests_of(folder)
            wrong = differences(recorded.get(name, {}), digests)
            print(f"{name}: {len(digests)} digests, {time.monotonic() - start:.1f} s, {len(wrong)} differ", flush=True)
            if options.write:
                recorded |= {"kernels": kernels, name: digests}
                DIGESTS.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
            else:
                print(*wrong, sep="\n", end="\n" if wrong else "")
                failed = failed or bool(wrong)
            failed = not are_verified(folder) or failed
    raise SystemExit(1 if failed else 0)


def kernels_here() -> str:
    """Return the kernels of linear algebra that runs have on this machine."""
    return same_numbers().get(KERNELS, "of the processor")


def carry_out(commands: str, folder: Path) -> None:
    """Carry out the commands of a group in its folder, in this process."""
    from das_spark.cli.main import main as das_spark

    with chdir(folder), redirect_stdout(sys.stderr), unverified():
        for line in commands.replace("\\\n", " ").split("\n"):
            more = _OF_RUN if line.strip().startswith("run ") else ""
            arguments = shlex.split(line.format(conf=_CONF) + more)
            if "areas.csv" in arguments:
                write_areas(Path("runs/all/public/geounits"), Path("areas.csv"))
            if arguments and (code := das_spark(arguments)):
                raise SystemExit(f"das-spark {shlex.join(arguments)} ended with {code}")


def are_verified(folder: Path) -> bool:
    """Whether the verifier that imports nothing of das_spark finds nothing wrong with any run; print what it finds."""
    right = True
    for manifest in sorted(folder.glob("runs/*/public/manifest.json")):
        command = [sys.executable, _VERIFIER, manifest.parent]
        verified = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = [line for line in verified.stdout.splitlines() if not line.startswith(("ok ", "- "))]
        print(*(f"{manifest.parents[1].name}: {line}" for line in said), sep="\n", end="\n" if said else "")
        right = right and verified.returncode == 0
    return right


def write_areas(geounits: Path, file: Path) -> None:
    """Write areas of blocks: each in the one of its last digit."""
    import pyarrow.parquet as pq

    codes = sorted(pq.read_table(geounits / "level=Block", partitioning=None)["geocode"].to_pylist())
    file.write_text("".join(f"{code},{area}\n" for code, area in [("geocode", "area"), *((c, c[-1]) for c in codes)]))


def digests_of(folder: Path) -> dict[str, str]:
    """Kind of files in a folder below this one -> digest of their rows, or, of text, of their lines."""
    kinds: dict[str, list[Path]] = {}
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        hidden = file.name == "_SUCCESS" or any(part.startswith(".") for part in name.parts)
        compared = not hidden and not any(f"/{each}/" in f"/{name}/" for each in _NOT_COMPARED)
        if compared and file.is_file():
            kinds.setdefault(f"{name.parent}/*{file.suffix}", []).append(file)
    return {
        kind: (digest_of_rows if kind.endswith(".parquet") else digest_of_text)(files) for kind, files in kinds.items()
    }


def digest_of_rows(files: list[Path]) -> str:
    """SHA-256 of the rows of Parquet files, value by value, whatever the compression and the row groups."""
    import pyarrow.parquet as pq

    sha256 = hashlib.sha256()
    for file in files:
        table = pq.read_table(file, partitioning=None).replace_schema_metadata(None)
        sha256.update(f"{file.name} {table.schema}\n".encode())
        # Values of Python have one form; buffers of Arrow depend on slices and chunks.
        for name, column in zip(table.column_names, table.columns, strict=True):
            sha256.update(f"{name}: {column.to_pylist()!r}\n".encode())
    return sha256.hexdigest()


def digest_of_text(files: list[Path]) -> str:
    """SHA-256 of text files without what another time, version, compression or checkout changes."""
    sha256 = hashlib.sha256()
    for file in files:
        content = file.read_bytes().replace(str(_CONF).encode(), b"conf")
        sha256.update(file.name.encode() + b"\n" + _VOLATILE.sub(b"", content))
    return sha256.hexdigest()


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What differs, one line each."""
    kinds = {(True, False): "missing", (False, True): "new", (True, True): "differs"}
    names = sorted(before.keys() | after.keys())
    return [f"{name}: {kinds[name in before, name in after]}" for name in names if before.get(name) != after.get(name)]


if __name__ == "__main__":
    main()
