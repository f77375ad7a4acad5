"""Pack the packages that executors need into one archive: those of the environment whose Python runs this.

    .venv/bin/python jobs/pack_environment.py environment.tar.gz

The archive is a virtual environment without pyspark, which every machine of a cluster has already, and with das_spark
as a package, also where the environment only holds a link to a checkout. Machines need the same processor architecture
and the same Python at the same path: its `bin/python` is a link to that. The same environment gives the same bytes.

Why not venv-pack (0.2.0 was tried): it refuses an environment with an editable installation, as every checkout has; it
packs all that lies in an environment but for patterns of file names, where machines need what das_spark requires, and
neither pyspark nor development tools; and two archives of one environment differ.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Iterator
from gzip import GzipFile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import cache_from_source, find_spec
from io import BytesIO
from pathlib import Path

from packaging.requirements import Requirement

#: Spark puts its own copies of these on the path of its workers; no others would fit it.
BROUGHT_BY_SPARK = {"pyspark", "py4j"}
#: Extras that are packed where they are installed, by the package that each brings.
STORES = {"s3": "s3fs", "azure": "adlfs", "gcs": "gcsfs"}
#: Folders of packages that nothing imports: tests, and headers to compile against.
UNUSED = {"tests", "include"}
#: Speed matters more than size: the archive is unpacked on every machine for every run.
COMPRESSION = 1


def requirements(name: str) -> Iterator[Distribution]:
    """A distribution and all that it needs, each once; those that the cluster's own Spark brings are left out.

    Args:
        name: Of the distribution, such as "das_spark".

    Raises:
        PackageNotFoundError: One is not installed.
    """
    stores = frozenset(extra for extra, package in STORES.items() if find_spec(package) is not None)
    waiting, seen = [(name, stores)], set[tuple[str, frozenset[str]]]()
    yielded = set(BROUGHT_BY_SPARK)
    while waiting:
        entry = waiting.pop()
        if entry in seen:
            continue
        seen.add(entry)
        found, extras = distribution(entry[0]), entry[1]
        waiting += [(canonical(needed.name), frozenset(needed.extras)) for needed in needs(found, extras)]
        if canonical(entry[0]) not in yielded:
            yielded.add(canonical(entry[0]))
            yield found


def needs(found: Distribution, extras: frozenset[str]) -> list[Requirement]:
    """What a distribution needs, with some extras of it.

    A checkout of das_spark says that itself: the link to it in the environment may be of an earlier commit.
    """
    texts = found.requires or ()
    package = find_spec(found.name.replace("-", "_")) if canonical(found.name) == "das-spark" else None
    if package is not None and package.origin is not None:
        file = Path(package.origin).parents[1] / "pyproject.toml"
        if file.is_file():
            project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
            texts = [
                *project["dependencies"],
                *(text for name in sorted(extras) for text in project["optional-dependencies"][name]),
            ]
    return [
        needed
        for needed in map(Requirement, texts)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def canonical(name: str) -> str:
    """One spelling of the name of a distribution."""
    return name.lower().replace("_", "-").replace(".", "-")


def files_of(found: Distribution) -> Iterator[tuple[Path, str]]:
    """Files of a distribution, and their places below site-packages; programs and what nothing imports left out.

    Compiled modules are among them, whether the installer lists what it compiles (pip does, uv does not) or not.
    """
    every = {str(listed) for listed in found.files or () if ".." not in listed.parts}
    every |= {cache_from_source(name) for name in every if name.endswith(".py")}
    for name in sorted(every):
        source = Path(str(found.locate_file(name)))
        if not UNUSED & set(Path(name).parts[:-1]) and source.is_file():
            yield source, name


def files_of_package(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files of a package that is read from its folder, wherever an editable installation has it."""
    for source in sorted(folder.rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            yield source, str(Path(folder.name) / source.relative_to(folder))


def metadata_of(found: Distribution) -> tuple[str, bytes]:
    """Place and bytes of the file that says name and version, without what an editable installation adds."""
    name = f"{found.name.replace('-', '_')}-{found.version}.dist-info/METADATA"
    return name, (found.read_text("METADATA") or "").encode()


def _add_bytes(archive: tarfile.TarFile, place: str, content: bytes) -> None:
    entry = tarfile.TarInfo(place)
    entry.size = len(content)
    archive.addfile(entry, BytesIO(content))


def pack(target: Path, package: Path) -> int:
    """Write the archive; it appears under its name when it is whole.

    Args:
        target: Name of the archive, ending in `.tar.gz`.
        package: The folder of das_spark.

    Returns:
        Number of packages in it.

    Raises:
        PackageNotFoundError: The environment lacks something that das_spark needs.
    """
    python = Path(sys.executable).resolve()
    site = f"lib/python{sysconfig.get_python_version()}/site-packages"
    others = [each for each in requirements("das_spark") if canonical(each.name) != "das-spark"]
    temporary = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        # Without name and time in its head, which would tell two archives of the same files apart.
        with (
            temporary.open("wb") as file,
            GzipFile("", "wb", COMPRESSION, file, mtime=0) as packed,
            tarfile.open(mode="w", fileobj=packed) as archive,
        ):
            _add_bytes(
                archive, "pyvenv.cfg", f"home = {python.parent}\ninclude-system-site-packages = false\n".encode()
            )
            for name in ("python", "python3"):
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, str(python)
                archive.addfile(link)
            for found in others:
                for source, place in files_of(found):
                    archive.add(source, f"{site}/{place}", recursive=False)
            for source, place in files_of_package(package):
                archive.add(source, f"{site}/{place}", recursive=False)
            place, content = metadata_of(distribution("das_spark"))
            _add_bytes(archive, f"{site}/{place}", content)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return len(others) + 1


def main(arguments: list[str]) -> int:
    """Pack, and say what was packed; returns the exit code."""
    if len(arguments) != 1 or not arguments[0].endswith((".tar.gz", ".tgz")):
        sys.stderr.write("usage: .venv/bin/python jobs/pack_environment.py environment.tar.gz\n")
        return 2
    target = Path(arguments[0])
    import das_spark  # noqa: PLC0415 - the one of this environment is meant, not of the folder of this script

    try:
        number = pack(target, Path(str(das_spark.__file__)).parent)
    except PackageNotFoundError as error:
        sys.stderr.write(f"pack_environment: {error.name} is not installed; das_spark needs it\n")
        return 1
    sys.stdout.write(f"{target}: {number} packages, {target.stat().st_size / 1e6:,.0f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
