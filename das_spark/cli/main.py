"""The door of the command line: the commands, their exit codes, and how an error is said.

Exit codes: 0 done, 1 the run failed, 2 usage or configuration, 3 refused by a privacy guard, 130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from das_spark import __version__
from das_spark.cli import catalogue, doctor, measurements, plans, results, runs, simulate, spine, tables
from das_spark.errors import DasError

INTERRUPTED = 130
FAILED = 1
DEBUG = "--debug"

app = typer.Typer(
    name="das-spark",
    help="The disclosure avoidance system of a national census, as open software. Wherever a command takes RUN, "
    "runs/latest serves.",
    no_args_is_help=True,
    add_completion=False,
    # Errors and help are plain lines: they end in log files and are searched there.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("check")(plans.check)
app.command("plan")(plans.plan)
app.command("run")(runs.run)
app.command("estimate")(measurements.estimate)
app.command("verify")(results.verify)
app.command("tabulate")(tables.tabulate)
app.command("measurements")(measurements.measurements)
app.command("show")(results.show)
app.command("evaluate")(results.evaluate)
app.command("list")(catalogue.list_registry)
app.command("simulate")(simulate.simulate)
app.command("doctor")(doctor.doctor)
app.add_typer(spine.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"das-spark {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Print the traceback of an error. May stand anywhere.")] = False,
) -> None:
    """Options of every command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = DEBUG in arguments
    arguments = [argument for argument in arguments if argument != DEBUG]
    try:
        app(args=arguments, prog_name="das-spark")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except KeyboardInterrupt:
        _say_error("interrupted", debug)
        return INTERRUPTED
    except DasError as error:
        _say_error(str(error), debug)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the last door: whatever comes here is said once and fails the run
        _say_error(f"{type(error).__name__}: {_first_line(error)} (--debug prints the traceback)", debug)
        return FAILED
    return 0


def _say_error(text: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    typer.echo(f"das-spark: error: {text}", err=True)


def _first_line(error: Exception) -> str:
    """Traces of the JVM go on for pages after their first line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"
