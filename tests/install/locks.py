"""Make the locks of conf/ anew from the ranges of pyproject.toml: exact versions, a hash for each.

    python tests/install/locks.py [--upgrade] [--environment] [--build] [--development] [--docs] [--lineage]

Run with the Python and on the kind of machine that the locks are for (their first line says which), and with an early
release of that Python: packages that only a later one can have are not taken then. Versions that a
lock has stay, unless `--upgrade` is given: then each package gets the newest that its range allows. pip does the
resolving, from the package index that it is set up with, and installs nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
LINE = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]*)==(?P<version>[^ ]+)(?P<hashes>( --hash=sha256:[0-9a-f]{64})+)")
HEADS = {
    "environment": "The environment that is shipped to clusters and containers: every package with its hash",
    "build": "What installs packages, and builds them from their sources, das_spark and pyspark among them",
    "development": "What tests and checks need besides environment.lock",
    "docs": "What makes the documentation site (jobs/docs), besides environment.lock",
    "lineage": "What sends events of lineage (OpenLineage), besides environment.lock",
}
#: Extras that environment.lock answers, too: places in stores serve out of the box where it is installed.
STORES = ("s3", "azure", "gcs")
#: Lock -> the extra of pyproject.toml that it answers; such a lock lists what environment.lock has not.
EXTRAS = {"development": "dev", "docs": "docs", "lineage": "lineage"}


def normal(name: str) -> str:
    """The name of a package as locks write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def ranges(lock: str) -> list[str]:
    """The requirements that a lock answers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if lock == "build":
        # pyspark is published as source only, and setuptools builds it; hatchling makes editable installs by editables.
        # uv installs what all locks name.
        return [*project["build-system"]["requires"], "setuptools>=77", "editables>=0.5", "uv>=0.9"]
    extras = project["project"]["optional-dependencies"]
    stores = [each for name in STORES for each in extras[name]]
    return [*project["project"]["dependencies"], *stores, *(extras[EXTRAS[lock]] if lock in EXTRAS else [])]


def pins(lock: str) -> dict[str, str]:
    """The versions of a lock by name; none where there is no such file."""
    path = CONF / f"{lock}.lock"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [LINE.fullmatch(line) for line in lines if not line.startswith("#")]
    return {each["name"]: each["version"] for each in found if each}


def resolved(requirements: Sequence[str], kept: dict[str, str]) -> dict[str, tuple[str, str]]:
    """What pip would install: version and SHA-256 by name."""
    with tempfile.TemporaryDirectory() as folder:
        constraints, report = Path(folder, "constraints.txt"), Path(folder, "report.json")
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in kept.items()))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", report, "--constraint", constraints, *requirements], check=True)
        found = json.loads(report.read_text())["install"]
    return {
        normal(each["metadata"]["name"]): (
            each["metadata"]["version"],
            each["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for each in found
    }


def text(lock: str, packages: dict[str, tuple[str, str]]) -> str:
    """The file."""
    version = ".".join(platform.python_version_tuple()[:2])
    machine = f"{platform.python_implementation()} {version} on {platform.system()} {platform.machine()}"
    head = (
        f"# {HEADS[lock]}.\n# For {machine}: pip install --no-deps --require-hashes -r conf/{lock}.lock\n"
        f"# Made anew with: python tests/install/locks.py --{lock}\n"
    )
    return head + "".join(f"{name}=={v} --hash=sha256:{sha}\n" for name, (v, sha) in sorted(packages.items()))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for lock in HEADS:  # in this order: the last one needs those before it
        options.add_argument(f"--{lock}", action="append_const", dest="locks", const=lock)
    options.add_argument("--upgrade", action="store_true")
    given = options.parse_args()
    for lock in given.locks or HEADS:
        kept = {} if given.upgrade else pins(lock)
        if lock in EXTRAS:
            # One version of a package in all locks: what is tested is what is shipped.
            kept |= pins("environment") | pins("build")
            kept |= pins("development") if lock in ("docs", "lineage") else {}
        packages = resolved(ranges(lock), kept)
        if lock in EXTRAS:
            packages = {name: pin for name, pin in packages.items() if name not in pins("environment")}
        (CONF / f"{lock}.lock").write_text(text(lock, packages), encoding="utf-8")


if __name__ == "__main__":
    main()
