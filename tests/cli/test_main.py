"""Exit codes, and how errors are said."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from pyspark.errors import AnalysisException, NumberFormatException, PySparkException

from das_spark.cli import main as door
from das_spark.cli.main import main
from das_spark.errors import ConfigurationError, DasError, InputError, PrivacyGuardError


def fail_with(monkeypatch, error):
    def app(**_):
        raise error

    monkeypatch.setattr(door, "app", app)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DasError("x"), 1),
        (InputError("x"), 1),
        (ConfigurationError("x"), 2),
        (PrivacyGuardError("x"), 3),
        (KeyboardInterrupt(), 130),
        (ValueError("x\nsecond line"), 1),
        (SystemExit(2), 2),
        (SystemExit("text"), 1),
        (SystemExit(0), 0),
    ],
)
def test_every_end_has_its_exit_code(monkeypatch, capsys, error, code):
    fail_with(monkeypatch, error)
    assert main([]) == code
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("terminal", "variables", "coloured"),
    [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False)],
)
def test_an_error_is_red_in_a_terminal_alone(monkeypatch, capsys, terminal, variables, coloured):
    fail_with(monkeypatch, InputError("x"))
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(door.sys.stderr, "isatty", lambda: terminal)
    assert door._red("error: ") == ("\x1b[31m\x1b[1merror: \x1b[0m" if coloured else "error: ")
    assert main([]) == 1
    assert "error: " in capsys.readouterr().err


def test_an_error_of_ours_in_a_task_is_what_is_said_of_it(monkeypatch, capsys):
    trace = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "tasks.py", line 1, in work
    raise EstimationError("...")
das_spark.errors.EstimationError: [DAS300] family '01': no rounding
\tat org.apache.spark.api.python.BasePythonRunner"""
    fail_with(monkeypatch, RuntimeError(trace))
    assert main([]) == 1
    said = capsys.readouterr().err
    assert said == "das-spark: error: [DAS300] family '01': no rounding\n"


def test_an_error_of_ours_in_a_task_keeps_its_hint_and_exit_code(monkeypatch, capsys):
    fail_with(
        monkeypatch,
        RuntimeError(f"Job aborted\ndas_spark.errors.PrivacyGuardError: {PrivacyGuardError('no', hint='stop')}"),
    )
    assert main([]) == 3
    assert capsys.readouterr().err == "das-spark: error: [DAS700] no Hint: stop\n"


@pytest.mark.parametrize(
    "error",
    [
        NumberFormatException('[CAST_INVALID_INPUT] The value \'31337\' of the type "STRING" cannot be cast to "INT".'),
        PySparkException(
            "An error occurred while calling o17.parquet.\n: org.apache.spark.SparkException: Job aborted.\n"
            "Caused by: org.apache.spark.SparkArithmeticException: [CAST_OVERFLOW] The value 31337L of the type ..."
        ),
    ],
)
def test_what_spark_says_of_a_row_is_not_shown(monkeypatch, capsys, error):
    fail_with(monkeypatch, error)
    assert main([]) == 1
    said = capsys.readouterr().err
    assert "31337" not in said
    assert "CAST_" in said
    assert len(said.splitlines()) == 1
    assert main(["--debug"]) == 1
    assert "31337" in capsys.readouterr().err, "whoever asks for it sees it"


def test_what_spark_says_of_a_plan_is_shown(monkeypatch, capsys):
    fail_with(monkeypatch, AnalysisException("[UNRESOLVED_COLUMN] A column with name `ages` cannot be resolved."))
    assert main([]) == 1
    assert "A column with name `ages` cannot be resolved" in capsys.readouterr().err


def test_a_disk_that_fills_anywhere_is_named(monkeypatch, capsys):
    fail_with(monkeypatch, RuntimeError("Job aborted\njava.io.IOException: No space left on device\n\tat java.io"))
    assert main([]) == 1
    said = capsys.readouterr().err
    assert said.startswith("das-spark: error: [DAS500] the command stopped: no space left on the disk, or on one that")
    assert len(said.splitlines()) == 1


def test_an_error_is_one_line_without_a_traceback(monkeypatch, capsys):
    fail_with(monkeypatch, InputError("file x: no such file", hint="look again"))
    main(["check"])
    assert capsys.readouterr().err == "das-spark: error: [DAS200] file x: no such file Hint: look again\n"


def test_debug_prints_the_traceback_wherever_it_stands(monkeypatch, capsys):
    fail_with(monkeypatch, InputError("no such file"))
    main(["check", "--debug"])
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["check"], ["plan", "--nonsense"], ["list", "dogs"], ["show", "runs/x", "--remove"]]
)
def test_wrong_usage_exits_with_2(arguments, capsys):
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupt_inside_a_command_exits_with_130(monkeypatch, capsys):
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def wait():
        raise KeyboardInterrupt

    monkeypatch.setattr(door, "app", app)
    assert main([]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["check", "plan", "run", "sweep", "verify", "show", "evaluate", "list", "simulate", "doctor"]
)
def test_every_command_has_help_with_an_example(command, capsys):
    assert main([command, "--help"]) == 0
    assert f"Example: das-spark {command}" in " ".join(capsys.readouterr().out.split())


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("das-spark 0")


def test_help_and_plans_start_without_spark():
    code = (
        "import sys; from das_spark.cli.main import main; main(['plan', 'conf/quickstart.toml', '--json']);"
        "print([name for name in ('pyspark', 'py4j', 'pandas') if name in sys.modules])"
    )
    root = str(__file__).rsplit("/tests/", 1)[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("umask", "after"), [(0o000, "0o2"), (0o022, "0o22"), (0o077, "0o77")])
def test_a_command_leaves_no_core_file_and_nothing_that_anybody_may_write(tmp_path, umask, after):
    program = (
        "import os, sys\n"
        "from das_spark.cli.main import main\n"
        "main(['--version'])\n"
        "print(oct(os.umask(0)), flush=True)\n"
        "os.abort()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, umask=umask, capture_output=True, text=True, check=False
    )
    assert done.returncode < 0, "it was not killed"
    assert done.stdout.splitlines()[-1] == after
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", door._OWN)
def test_the_help_says_of_a_command_what_the_command_says(name):
    group = typer.main.get_command(door.app)
    _, _, line = door._OWN[name]
    assert group.get_command(None, name).help.startswith(line.rstrip("."))


def test_the_help_imports_no_library_of_numbers():
    code = (
        "import sys\nfrom das_spark.cli.main import main\nassert main(['--help']) == 0\n"
        "assert not {'numpy', 'scipy', 'numba', 'pyarrow', 'pydantic', 'pyspark'} & set(sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "experiment Do published studies" in " ".join(found.stdout.split())
