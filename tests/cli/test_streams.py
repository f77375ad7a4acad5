"""Standard streams that are closed, full or of another alphabet: one sentence, and the exit code that is meant."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from das_spark.cli.main import main

PROGRAM = Path(sys.executable).with_name("das-spark")
HINT = "Hint: lead it to a file, or to what reads all of it; an unfinished run goes on by its --run-id"
PRODUCT = """
name = "islands"
title = "Einwohner: Ærø, Føroyar, 日本"
geolevels = [{name = "Country", length = 0}, {name = "Island", length = 2}]
[[attributes]]
name = "sex"
levels = ["Frauen", "Männer"]
[[strategies]]
name = "main"
framework = "zcdp"
total = "1/2"
geolevels = {Country = "1/4", Island = "3/4"}
queries = {detailed = "1"}
"""


def das_spark(arguments: str, **given: object) -> subprocess.CompletedProcess[str]:
    """The end of a command that a shell started with its streams led somewhere."""
    command = f"{PROGRAM} {arguments}"
    return subprocess.run(["bash", "-c", command], capture_output=True, encoding="utf-8", check=False, **given)


@pytest.mark.parametrize(
    ("command", "leads", "said"),
    [
        ("--version", ">/dev/full", "No space left on device"),
        ("list strategies", ">/dev/full", "No space left on device"),
        ("--version", ">&-", "is closed"),
        ("list strategies --json", "| true", "Broken pipe"),
    ],
)
def test_standard_output_that_takes_nothing_is_named(command, leads, said):
    done = das_spark(f"{command} {leads}; exit ${{PIPESTATUS[0]}}")
    assert done.stderr == f"das-spark: error: [DAS500] standard output: {said} {HINT}\n"
    assert done.returncode == 1


@pytest.mark.parametrize("leads", ["2>/dev/full", "2>&- <&-"])
@pytest.mark.parametrize(("command", "code"), [("--version", 0), ("list nothing", 2)])
def test_an_end_that_cannot_be_told_keeps_its_exit_code(command, code, leads):
    done = das_spark(f"{command} {leads}")
    assert done.stderr == ""
    assert done.returncode == code


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path):
    """What others of the process print to would be written into it."""
    program = "import os, sys; sys.path[:] = {path!r}; from das_spark.cli.main import main; main(['--version']); {look}"
    look = "sys.exit(os.open('x', os.O_CREAT | os.O_RDWR))"
    command = [sys.executable, "-c", program.format(path=sys.path, look=look)]
    close = partial(os.closerange, 0, 3)
    assert subprocess.run(command, check=False, cwd=tmp_path, preexec_fn=close).returncode > 2


def test_what_a_locale_has_no_signs_for_is_replaced(tmp_path):
    (tmp_path / "islands.toml").write_text(PRODUCT, encoding="utf-8")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = das_spark("product show islands.toml", cwd=tmp_path, env={**os.environ, **plain})
    assert done.stderr == ""
    assert done.returncode == 0
    assert "Einwohner: ?r?, F?royar, ??" in done.stdout


@pytest.mark.parametrize("command", ["simulate --like quickstart --out", "product new"])
def test_a_limit_of_the_size_of_files_is_named(tmp_path, command):
    place = tmp_path / "new.toml"
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (512, 512))
    done = das_spark(f"{command} {place}", preexec_fn=limit)
    assert done.stderr == (
        f"das-spark: error: [DAS500] {place}: no file of this process may grow so large (ulimit -f) Hint: "
        "raise that limit; a run resumes where it stopped\n"
    )
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_the_streams_of_a_caller_stay_his(capsys):
    before = sys.stdout, sys.stderr
    assert main(["--version"]) == 0
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr().out.startswith("das-spark ")
