"""Install the wheel for several versions of Python and Spark, and run doctor and the quickstart with each.

    python tests/install/matrix.py [--python 3.11 3.12 3.13] [--spark 4.1 4.3] [--work FOLDER]

Interpreters are those of the path and of pyenv; a version that is not there is a row that says so. Packages come from
the package index that pip is set up with. Every environment is made in an empty folder and removed again (1.5 GB each).
Exits with 1 unless every cell that could be tried passed, and at least one could.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
#: The oldest minor version of Spark that pyproject.toml allows, and the newest that was tried.
SPARKS = ("4.1", "4.3")
NOT_FOUND = "no such interpreter here"


@dataclass(frozen=True)
class Cell:
    """One combination, and what came of it."""

    python: str
    spark: str
    doctor: str = ""
    quickstart: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.doctor == "ok" and self.quickstart.endswith("checks passed")

    @property
    def tried(self) -> bool:
        return self.doctor != NOT_FOUND


def interpreter(version: str) -> Path | None:
    """An interpreter of a minor version, on the path or in the folder of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = shutil.which(f"python{version}")
    candidates = [*sorted(root.glob(f"versions/{version}.*/bin/python")), *([Path(on_path)] if on_path else [])]
    return next((candidate for candidate in candidates if serves(candidate, version)), None)


def serves(python: Path, version: str) -> bool:
    """Whether it starts, is of that version, and can make an environment."""
    test = f"import ensurepip, sys; sys.exit('%d.%d' % sys.version_info[:2] != {version!r})"
    try:
        return subprocess.run([python, "-c", test], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def clean_environment() -> dict[str, str]:
    """Of a shell that knows nothing of this checkout."""
    ours = ("PYTHON", "PYSPARK_", "SPARK_", "DAS_SPARK_", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def build(folder: Path) -> Path:
    """The wheel, built by way of the sdist."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def run(command: Sequence[object], folder: Path) -> tuple[int, str]:
    """Run a command in a folder; its exit code, and all that it printed."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def doctor(folder: Path) -> str:
    """`das-spark doctor` of an environment in a folder: "ok", or how it ended."""
    code, printed = run([folder / "environment/bin/das-spark", "doctor"], folder)
    return "ok" if code == 0 else f"exit {code}: {printed.strip().splitlines()[-1]}"


def quickstart(folder: Path) -> str:
    """The quickstart in an empty folder under a real key: its checks, or how it ended."""
    empty = folder / "empty"
    empty.mkdir()
    code, printed = run([folder / "environment/bin/das-spark", "run", "quickstart"], empty)
    found = re.search(r"\d+ checks passed", printed)
    return found.group() if code == 0 and found else f"exit {code}: {printed.strip().splitlines()[-1]}"


def tried(version: str, spark: str, wheel: Path, folder: Path) -> Cell:
    """Install the wheel for one combination, and use it."""
    python = interpreter(version)
    if python is None:
        return Cell(version, spark, NOT_FOUND)
    start = time.monotonic()
    subprocess.run([python, "-m", "venv", folder / "environment"], check=True, env=clean_environment())
    pip = folder / "environment/bin/pip"
    code, printed = run([pip, "install", "--quiet", wheel, f"pyspark=={spark}.*"], folder)
    if code:
        return Cell(version, spark, f"pip: {printed.strip().splitlines()[-1]}")
    _, listed = run([pip, "list", "--format=freeze"], folder)
    exact = dict(line.split("==") for line in listed.splitlines() if "==" in line)
    _, full = run(
        [folder / "environment/bin/python", "-c", "import platform; print(platform.python_version())"], folder
    )
    found = doctor(folder)
    verified = quickstart(folder) if found == "ok" else "not run"
    return Cell(full.split()[-1], exact["pyspark"], found, verified, time.monotonic() - start)


def cells(pythons: Sequence[str], sparks: Sequence[str], wheel: Path, work: Path | None) -> Iterator[Cell]:
    """All combinations, one after the other."""
    for version in pythons:
        for spark in sparks:
            with tempfile.TemporaryDirectory(dir=work) as folder:
                yield tried(version, spark, wheel, Path(folder))


def row(cell: Cell) -> str:
    return f"| {cell.python} | {cell.spark} | {cell.doctor} | {cell.quickstart} | {cell.seconds:.0f} |"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--python", nargs="+", default=PYTHONS)
    options.add_argument("--spark", nargs="+", default=SPARKS)
    options.add_argument("--work", type=Path)
    given = options.parse_args()
    results = []
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        wheel = build(Path(folder))
        print("| Python | Spark | doctor | quickstart | seconds |\n|---|---|---|---|---|", flush=True)
        for cell in cells(given.python, given.spark, wheel, given.work):
            results.append(cell)
            print(row(cell), flush=True)
    return 0 if all(cell.passed for cell in results if cell.tried) and any(cell.tried for cell in results) else 1


if __name__ == "__main__":
    sys.exit(main())
