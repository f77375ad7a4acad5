"""Arguments, options and output that several commands share; `das_spark.report` says how tables and numbers look."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from das_spark.cli import completion
from das_spark.config import AREA_READERS
from das_spark.errors import ConfigurationError, OutputError
from das_spark.names import visible
from das_spark.places import is_address

if TYPE_CHECKING:
    from rich.text import Text

    from das_spark.places import Place
    from das_spark.report import Report


def refuse_address(value: Path | Sequence[Path] | None) -> Path | Sequence[Path] | None:
    """Refuse an address for an option that names files of this machine; as a path it has lost one slash of two."""
    for path in (value,) if isinstance(value, Path) else value or ():
        address = str(path).replace(":/", ":///" if str(path).startswith("file:/") else "://", 1)
        if is_address(address):
            raise typer.BadParameter(f"{address} is an address, and this is a path of this machine alone")
    return value


Conf = Annotated[
    Path,
    typer.Argument(
        metavar="CONF",
        help="Run file, such as conf/quickstart.toml, or the name of one that comes with das_spark.",
        callback=refuse_address,
        autocompletion=completion.run_files,
    ),
]
Overlays = Annotated[
    list[Path] | None,
    typer.Option(
        "--overlay",
        metavar="FILE",
        help="Run file laid over CONF; may be repeated.",
        callback=refuse_address,
        autocompletion=completion.run_files,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="One key, such as budget.epsilon=0.5; may be repeated.",
        autocompletion=completion.keys,
    ),
]
Run = Annotated[
    str,  # a path would make one slash of two
    typer.Argument(
        metavar="RUN",
        help="Run folder, such as runs/latest, or its address, such as s3://bucket/runs/x.",
        autocompletion=completion.runs,
    ),
]
RunId = Annotated[
    str | None, typer.Option("--run-id", metavar="ID", help="Name of the run folder; an unfinished run of it resumes.")
]
Output = Annotated[
    str | None,  # a path would make "." of nothing, and one slash of two
    typer.Option("--output", "--out", metavar="DIR", help="Folder of the runs; the same as --set output.root=DIR."),
]
TestKey = Annotated[
    str | None,
    typer.Option("--test-key", metavar="TEXT", help="INSECURE: noise from a text, to repeat a run exactly."),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="STAGE",
        help='Stop after a stage, such as "measure County" (plan stages lists them).',
        autocompletion=completion.stages,
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Fail (exit code 3) if the run does not exist yet.")]
Geounits = Annotated[
    list[str] | None,
    typer.Option(
        "--geounits",
        metavar="LEVEL=NUMBER",
        help="How many geounits a level has, for expected sizes.",
        autocompletion=completion.sized_levels,
    ),
]
#: What is planned depends neither on a key nor on whose people are counted: the run file alone says it.
UnusedKey = Annotated[
    str | None,
    typer.Option("--test-key", metavar="TEXT", help="Taken as by run, whose arguments serve here; changes nothing."),
]
AreaReader = Annotated[
    str, typer.Option("--reader", metavar="NAME", help=f"Who reads the geography: {', '.join(AREA_READERS)}.")
]
External = Annotated[
    Path | None,
    typer.Option(
        "--conf",
        metavar="CONF",
        help="Run file that says what measurements of others are.",
        callback=refuse_address,
        autocompletion=completion.run_files,
    ),
]
Data = Annotated[
    str | None,  # as RUN
    typer.Option("--data", metavar="DIR", help="Every table and figure of the page as CSV and Parquet, there."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of tables.")]


def group(name: str, does: str, kind: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Return an application of further commands.

    Args:
        name: Of the command that they stand behind.
        does: What they do, in a sentence.
        kind: How they are found.
    """
    app = typer.Typer(
        name=name,
        add_completion=False,
        cls=kind,
        help=does,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=does)(lambda: None)  # so that a single command has its name, too
    return app


def with_output(settings: Sequence[str] | None, output: str | None) -> list[str]:
    """What `--set` says, and `--output` behind it, which wins."""
    root = [] if output is None else [f"output.root={json.dumps(output)}"]
    return [*(settings or ()), *root]


def require_name(run_id: str | None) -> None:
    """Refuse an empty name of a run: an empty variable of a script would begin a run of another name each time."""
    if run_id is not None and not run_id.strip():
        raise ConfigurationError("--run-id: is empty", hint="name the run, or leave the option out")


def print_json(value: object) -> None:
    """Print one JSON document: places as text, exact numbers as fractions."""
    typer.echo(json.dumps(value, indent=2, default=str))


def require_new(path: Place) -> None:
    """Refuse to write what is there, before the work is done.

    Raises:
        OutputError: It exists.
    """
    if path.exists():
        raise _is_there(path)


def _is_there(path: Place) -> OutputError:
    return OutputError(f"{path}: is there already", hint="choose another name; nothing is overwritten")


def write_new(path: Place, text: str) -> None:
    """Write a file that was not there.

    Raises:
        OutputError: It exists, or cannot be written.
    """
    from das_spark.store import create_exclusively  # noqa: PLC0415 - `das-spark --help` needs no files

    try:
        is_new = create_exclusively(path, text)
    except FileNotFoundError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror})") from error
    if not is_new:
        raise _is_there(path)


def print_found(to_json: Callable[[], str], present: Callable[[], Report], written: str = "", *, as_json: bool) -> None:
    """Print what was found: as JSON for programs, or as a report for people with what was written to files."""
    if as_json:
        typer.echo(to_json(), nl=False)
        return
    from das_spark.report import print_report  # noqa: PLC0415 - `das-spark --help` needs no numbers

    terminal = console()
    print_report(present(), terminal)
    if written:
        terminal.print(f"\nwritten to {written}")


def listed(text: str | None) -> list[str]:
    """The parts of a text between commas, without spaces around them; none where there is no text."""
    return [] if text is None else [part.strip() for part in text.split(",")]


class _Screen(Console):
    """Prints texts as they are: nothing in them is markup or an emoji, or drives the terminal."""

    def __init__(self, *, width: int | None = None, stderr: bool, soft_wrap: bool = False) -> None:
        super().__init__(width=width, stderr=stderr, soft_wrap=soft_wrap, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **how: Any) -> Text:  # noqa: ANN401 - as rich has it
        return super().render_str(visible(text, keep="\n\t"), **how)


def warn(*texts: str) -> None:
    """Say on standard error what nobody may overlook: red in a terminal, plain in a log file."""
    screen = _Screen(stderr=True, soft_wrap=True)
    for text in texts:
        screen.print(text, style="bold red")


#: Width of tables where no terminal says one: log files and pipes.
PLAIN_WIDTH = 160


def console(*, err: bool = False) -> Console:
    """Where results are printed: standard output; or standard error, where that has something else."""
    stream = sys.stderr if err else sys.stdout
    return _Screen(width=None if stream.isatty() else PLAIN_WIDTH, stderr=err)


def shown_paths(places: Mapping[str, Place | str]) -> list[tuple[str, str]]:
    """Rows of name and place; a path as a person who looks from the working folder would name it: relative below that.

    Args:
        places: A text is an address, and is shown as it is.
    """
    here = Path.cwd()

    def shown(place: Place | str) -> str:
        return str(place.relative_to(here) if isinstance(place, Path) and place.is_relative_to(here) else place)

    return [(name, shown(place)) for name, place in places.items()]
