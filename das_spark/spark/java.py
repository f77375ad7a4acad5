"""The Java that Spark will be started with, found as Spark finds it: its own scripts say nothing that helps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from das_spark.errors import EnvironmentProblemError

OLDEST: Final = 17
_HINT: Final = (
    f"install Java {OLDEST} or later, and set JAVA_HOME to its folder, the one that holds bin/java "
    "(./spark-submit.sh does it where it may)"
)
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')
#: Longer than this no Java takes to say its version.
_SECONDS: Final = 60


def usable_java() -> tuple[str, str]:
    """The program that Spark will start, and its version."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise EnvironmentProblemError("no Java found: JAVA_HOME is not set, and no java is on the path", hint=_HINT)
    of = f"JAVA_HOME is {home}" if home else f"JAVA_HOME is not set, and the path has {java}"
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
