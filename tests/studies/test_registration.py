"""`experiment` is a command because the package is installed with an entry point, and costs the others nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from das_spark.cli.main import COMMANDS, main

#: What a command may not load that does not ask for it.
LOADED = "sys.stderr.write(' '.join(name for name in sys.modules if name.startswith('das_spark.studies')))"
TESTS = Path(__file__).parents[1]


def alone(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = (
        f"import sys; from das_spark.cli.main import main; code = main({list(arguments)}); {LOADED}; sys.exit(code)"
    )
    paths = os.pathsep.join([str(installed), str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)


def test_the_project_registers_the_command(project):
    assert project["entry-points"] == {COMMANDS: {"experiment": "das_spark.studies.commands:app"}}


def test_the_command_is_listed_and_found(installed, capsys):
    assert main(["--help"]) == 0
    assert "experiment" in capsys.readouterr().out
    assert main(["experiment", "--help"]) == 0
    assert "occupancy" in capsys.readouterr().out


def test_other_commands_do_not_load_it(installed):
    done = alone(installed, "list", "products")
    assert (done.returncode, done.stderr) == (0, "")
    assert "das_spark.studies.commands" in alone(installed, "experiment", "--help").stderr


def test_without_the_entry_point_there_is_no_such_command(monkeypatch, capsys):
    monkeypatch.setattr("das_spark.cli.main.entry_points", lambda group: ())
    assert main(["experiment", "flaxman"]) == 2
    assert "No such command 'experiment'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("occupancy", "--run", "nowhere"), ("replication", "nowhere")])
def test_what_is_not_there_is_refused_before_spark_is_started(monkeypatch, capsys, tmp_path, arguments):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: pytest.fail("Spark is asked for"))
    monkeypatch.chdir(tmp_path)
    assert main(["experiment", *arguments]) == 1
    said = capsys.readouterr().err
    assert "nowhere" in said
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
