"""The door of the command line: the commands, their exit codes, and how an error is reported.

Exit codes: 0 done, 1 the run failed, 2 usage or configuration, 3 refused by a privacy guard; interrupted: 130 by
Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from das_spark import __version__, errors, features
from das_spark.cli import log_format
from das_spark.cli.interruption import BY_SIGNAL, Interrupted, hush, resuming, take_interruptions
from das_spark.cli.streams import standard_error, standard_output
from das_spark.errors import ConfigurationError, DasError
from das_spark.names import visible
from das_spark.process import guard_process, interruption

if TYPE_CHECKING:
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter

INTERRUPTED = 130
FAILED = 1
DEBUG = "--debug"
#: What stays of an error that is printed, besides what is printable: it may list problems, one a line.
_LINES: Final = "\n\t"
#: Errors of the command line: unknown options, values that cannot be.
_USAGE = typer.BadParameter.__base__ or typer.BadParameter

#: Entry points of this group are commands, too; each names a Typer application.
COMMANDS: Final = "das_spark.commands"


#: Name of a command, in the order of the help -> the module of `das_spark.cli` that has it, the function (or the Typer
#: application of further commands) in it, and what it does, in a line.
_OWN: Final = {
    "init": ("init", "init", "Write a run file with a comment on each key."),
    "check": ("check", "check", "Try all that a run will need."),
    "input": ("input", "app", "List what a run would read."),
    "plan": ("plan", "app", "Show what a run would measure, how exactly, and at what expense of privacy."),
    "budget": ("budget", "app", "Find a total, and a division of it that makes exact what shall be."),
    "run": ("runs", "run", "Read, measure, estimate, write, verify and report."),
    "estimate": ("runs", "estimate", "Estimate from measurements that exist, into a new run."),
    "sweep": ("runs", "sweep", "Run a grid of budgets and settings, and compare accuracy and privacy."),
    "verify": ("results", "verify", "Check what a run has written, independently of how it was made."),
    "measurements": ("runs", "measurements", "Publish the noisy measurements of a finished run."),
    "show": ("results", "show", "Show what a run did, or what of it is confidential."),
    "tidy": ("tidy", "tidy", "List what killed drivers and tasks have left of a run."),
    "evaluate": ("evaluate", "evaluate", "Compare estimates with the confidential histograms."),
    "attack": ("attack", "attack", "What somebody could learn of a person from what a run publishes."),
    "audit": ("audit", "audit", "Prove lower bounds on the privacy loss of a run file."),
    "list": ("catalogue", "list_registry", "List products, strategies, readers, writers, solvers, or the run files."),
    "product": ("product", "app", "Write, check and show products: what is counted, and how a budget is spent."),
    "simulate": ("catalogue", "simulate", "Write a synthetic population."),
    "doctor": ("doctor", "doctor", "Print the versions that matter, and send a toy through Spark."),
    "spine": ("spine", "app", "Make and examine geographic spines."),
}


class _Commands(TyperGroup):
    """The commands above, those of features and of installed packages; each is imported when it is asked for."""

    def invoke(self, ctx: Context) -> Any:  # noqa: ANN401 - as the class above has it
        """Run a command. One that `sys.exit` of some library ends was not carried out, whatever code it gives."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # Typer would make one code of every signal
            raise Interrupted(interruption(error) or SIGINT) from error
        except SystemExit as end:
            if isinstance(end.code, int) and end.code % 256:  # an exit code has eight bits
                raise
            raise DasError(f"the command was ended from within, before it was done (SystemExit: {end.code})") from end

    def list_commands(self, ctx: Context) -> list[str]:
        del ctx
        return [*_OWN, *_of_features(), *sorted(self._registered())]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        del ctx
        if cmd_name in _OWN:
            module, name, _ = _OWN[cmd_name]
            return _command(cmd_name, getattr(import_module(f"das_spark.cli.{module}"), name))
        if module := _of_features().get(cmd_name, ""):
            return _command(cmd_name, import_module(module).COMMAND)
        registered = self._registered()
        return typer.main.get_command(registered[cmd_name].load()) if cmd_name in registered else None

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        del ctx
        rows = [(name, line) for name, (_, _, line) in _OWN.items()]
        rows += [(name, _first_line(module)) for name, module in _of_features().items()]
        rows += [(name, _first_line(each.module)) for name, each in sorted(self._registered().items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _registered(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=COMMANDS)}


def _of_features() -> dict[str, str]:
    """The commands of features by name, and the modules that have them, without importing these."""
    room = Path(features.__file__).parent
    return {
        path.stem.replace("_", "-"): f"das_spark.features.{folder}.commands.{path.stem}"
        for folder in (*features.STANDING.values(), *features.FEATURES)
        for path in sorted((room / folder / "commands").glob("[!_]*.py"))
    }


def _command(name: str, found: Callable[..., object] | typer.Typer) -> Command:
    """A function, or an application of further commands, as a command."""
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(**_SETTINGS)
    alone.command(name)(found)
    return typer.main.get_command(alone)


def _first_line(module: str) -> str:
    """What a module says that it is, without importing it."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_bytes()))
    return text.partition("\n")[0] if text else ""


#: Errors and help are plain lines: they end in log files and are searched there.
_SETTINGS: Final[dict[str, Any]] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(
    name="das-spark",
    cls=_Commands,
    help="The disclosure avoidance system of a national census, as open software. Wherever a command takes RUN, "
    "runs/latest serves, on a disk.",
    no_args_is_help=True,
    **{**_SETTINGS, "add_completion": True},
)


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

    Returns:
        The exit code.
    """
    guard_process()
    take_interruptions()
    with standard_error():
        return _carried_out(list(sys.argv[1:] if argv is None else argv))


def _carried_out(arguments: list[str]) -> int:
    debug = DEBUG in arguments
    arguments = [argument for argument in arguments if argument != DEBUG]
    errors_as = _Errors(log_format.wanted(arguments), debug, arguments)
    try:
        with standard_output():
            # Where errors are events, those of the command line itself come here, too, instead of being printed.
            code = app(args=arguments, prog_name="das-spark", standalone_mode=errors_as.are_text)
    except SystemExit as end:
        # The command line itself turns an interruption into this code, and says nothing.
        if end.code == INTERRUPTED:
            return errors_as.report(end)
        return end.code if isinstance(end.code, int) else FAILED
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last door: what comes here is reported once
        return errors_as.report(error)
    return errors_as.report(KeyboardInterrupt()) if code == INTERRUPTED else code if isinstance(code, int) else 0


#: Libraries whose errors carry what tasks said: it may quote a row.
_ENGINE = ("pyspark.", "py4j.")
#: Errors of theirs about a plan, before any row is read.
_OF_A_PLAN = ("AnalysisException", "ParseException")
#: Kinds of errors of a JVM in such a text, and Spark's own name for what went wrong.
_KIND = re.compile(r"\b(?:[a-z0-9]+\.)+([A-Z]\w*(?:Exception|Error))\b")
_NAMED = 4
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")


@dataclass(frozen=True, slots=True)
class _Errors:
    """How the error that ends a command is reported."""

    form: log_format.LogFormat
    debug: bool
    arguments: Sequence[str]

    @property
    def are_text(self) -> bool:
        return self.form is log_format.LogFormat.TEXT

    def report(self, error: BaseException) -> int:
        """Print it once, and give the exit code."""
        # Here, since most commands end without an error.
        from das_spark.places import no_room, want_of_room  # noqa: PLC0415

        if self.debug:
            traceback.print_exc()
        if isinstance(error, Interrupted | SystemExit) or interruption(error) is not None:
            return self._interrupted(error)
        if not isinstance(error, DasError) and (number := want_of_room(error)):
            error = no_room("the command stopped", number)
        ours = _of_the_engine(error) or (error if isinstance(error, DasError) else errors.raised_in_task(str(error)))
        if ours is not None:
            return self._print(ours.message, ours.exit_code, ours.code, ours.hint, text=str(ours))
        if isinstance(error, _USAGE):
            message = getattr(error, "format_message", error.__str__)()
            return self._print(message, ConfigurationError.exit_code, ConfigurationError.code)
        text = _without_values(error)
        hint = f"{DEBUG} prints the traceback"
        return self._print(text, FAILED, hint=hint, text=f"{text} ({hint})")

    def _interrupted(self, error: BaseException) -> int:
        hush()
        known = error if isinstance(error, Interrupted) else Interrupted(interruption(error) or SIGINT)
        command = "" if known.run_id is None else resuming(self.arguments, known.run_id)
        text = f"{known}: {command}" if command else str(known)
        return self._print(str(known), known.exit_code, hint=command, text=text)

    def _print(self, message: str, exit_code: int, code: str | None = None, hint: str = "", *, text: str = "") -> int:
        if self.are_text:
            is_error = "" if exit_code > BY_SIGNAL else _red("error: ")
            typer.echo(f"das-spark: {is_error}{visible(text or message, keep=_LINES)}", err=True)
        else:
            from das_spark.telemetry import Event  # noqa: PLC0415

            log_format.print_event(
                Event.COMMAND_FAILED, err=True, code=code, exit_code=exit_code, message=message, hint=hint or None
            )
        return exit_code


def _red(text: str) -> str:
    """Red where a person looks who wants colours. Without rich, which an error of a command line need not wait for."""
    plain = not sys.stderr.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else typer.style(text, fg=typer.colors.RED, bold=True)


def _of_the_engine(error: BaseException) -> DasError | None:
    """The error that says how the engine has ended, where there was one and it has."""
    if "py4j" not in sys.modules:
        return None
    from das_spark.spark.engine_end import engine_ended  # noqa: PLC0415 - most commands start no engine

    return engine_ended(error)


def _without_values(error: BaseException) -> str:
    """Kind and first line of an error; of one of Spark, whose text may quote rows, the kinds of its causes alone."""
    name = type(error).__name__
    text = str(error).strip()
    if not type(error).__module__.startswith(_ENGINE) or name in _OF_A_PLAN:
        return f"{name}: {text.splitlines()[0] if text else 'no message'}"
    known = dict.fromkeys([*_CONDITION.findall(text), *(each for each in _KIND.findall(text) if each != name)])
    causes = f" ({', '.join(list(known)[:_NAMED])})" if known else ""
    return f"{name}{causes}: its text is not shown, since it may quote confidential rows"
