"""What the shell offers after a tab: names and places that are quick to find; nothing where finding them fails.

A completer is given what is typed so far, or the context with the options before it. None starts Spark or reads data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from typer import Context  # typer looks the types of completers up while it runs

_TOML: Final = (".toml",)
#: Folder of the runs, where nothing else is typed.
_RUNS: Final = "runs"
_PUBLIC: Final = ("public", "")


def _quietly(find: Callable[[Context, str], Iterable[str]]) -> Callable[[Context, str], list[str]]:
    """Offer what begins as typed, and nothing where anything goes wrong: a shell has no place for errors."""

    # Typer looks at the names of parameters: no `functools.wraps`, which would show those of `find`.
    def offered(ctx: Context, incomplete: str) -> list[str]:
        with suppress(Exception):
            return sorted({each for each in find(ctx, incomplete) if each.startswith(incomplete)})
        return []

    return offered


@_quietly
def run_files(_: Context, incomplete: str) -> Iterator[str]:
    """Run files of the folder that is typed, and the names of those that come with das_spark."""
    from das_spark.config import shipped_run_files  # noqa: PLC0415 - the help needs no run files; so below

    yield from _places(incomplete, _TOML)
    yield from shipped_run_files()


@_quietly
def products(_: Context, incomplete: str) -> Iterator[str]:
    """Names of products, and product files of the folder that is typed."""
    from das_spark.products import PRODUCTS  # noqa: PLC0415

    yield from _places(incomplete, _TOML)
    yield from PRODUCTS


@_quietly
def runs(_: Context, incomplete: str) -> Iterator[str]:
    """Run folders, of `runs` where nothing is typed."""
    for place in _places(incomplete or f"{_RUNS}{os.sep}", ()):
        folder = Path(place)
        if (folder / "public").is_dir() or not _is_of_a_run(folder.parent):
            yield place.rstrip(os.sep) if (folder / "public").is_dir() else place
    if not incomplete:
        yield _RUNS + os.sep


@_quietly
def strategies(ctx: Context, _: str) -> Iterable[str]:
    """Strategies of the product that `--product` names."""
    return list(_product(ctx).strategies)


@_quietly
def stages(ctx: Context, _: str) -> Iterable[str]:
    """Stages of the run file."""
    from das_spark.config import stage_names  # noqa: PLC0415

    return stage_names(_plan(ctx))


@_quietly
def sized_levels(ctx: Context, _: str) -> Iterable[str]:
    """Geolevels of the run file, each to be followed by a number."""
    plan = _plan(ctx)
    return [f"{name}=" for name in plan.spine.names]


@_quietly
def geolevels(ctx: Context, _: str) -> Iterable[str]:
    """Geolevels of a run that is there."""
    manifest = json.loads((_public(ctx) / "manifest.json").read_text(encoding="utf-8"))
    levels: list[str] = manifest["config"]["geography"]["levels"]
    return levels


@_quietly
def level_lists(ctx: Context, incomplete: str) -> Iterator[str]:
    """Geolevels of the product that `--product` names, as a list that goes on after each comma."""
    before, comma, _ = incomplete.rpartition(",")
    for level in _product(ctx).geolevels:
        if level.name not in before.split(","):
            yield f"{before}{comma}{level.name}"


@_quietly
def tables(ctx: Context, _: str) -> Iterator[str]:
    """Tables that a run published."""
    for folder in (_public(ctx) / "tables").iterdir():
        yield folder.name.partition(".")[0]


@_quietly
def attacks(_: Context, __: str) -> Iterable[str]:
    """Attacks on a run."""
    from das_spark.attack import ATTACKS  # noqa: PLC0415

    return ATTACKS


@_quietly
def readers(_: Context, __: str) -> Iterable[str]:
    """Readers of inputs."""
    from das_spark.config import READER_NEEDS  # noqa: PLC0415

    return READER_NEEDS


@_quietly
def populations(_: Context, incomplete: str) -> Iterator[str]:
    """Synthetic populations, and product files that one can be made for."""
    from das_spark.simulation import LIKES  # noqa: PLC0415

    yield from _places(incomplete, _TOML)
    yield from LIKES


@_quietly
def keys(_: Context, __: str) -> Iterator[str]:
    """Keys of run files, each to be followed by a value."""
    from das_spark.config import run_file_keys  # noqa: PLC0415

    for key in run_file_keys():
        yield f"{key}="


def _places(incomplete: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Folders, and files with one of the endings, as somebody types them."""
    folder, _, begun = incomplete.rpartition(os.sep)
    root = Path(f"{folder}{os.sep}" if _ else ".").expanduser()
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.name.startswith(begun) and (begun.startswith(".") or not entry.name.startswith(".")):
                typed = f"{folder}{_}{entry.name}"
                if entry.is_dir():
                    yield f"{typed}{os.sep}"
                elif entry.name.endswith(endings) and endings:
                    yield typed


def _is_of_a_run(folder: Path) -> bool:
    return (folder / "public").is_dir()


def _plan(ctx: Context) -> Any:  # noqa: ANN401 - of a run or of a joint run
    from das_spark.config import load_run  # noqa: PLC0415

    return load_run(_first(ctx, "conf"), ctx.params.get("overlay") or (), ctx.params.get("settings") or (), files=False)


def _first(ctx: Context, name: str) -> str:
    """The first argument; until an option has its value, what is no option stands unread among the rest."""
    return str(ctx.params.get(name) or ctx.args[0])


def _product(ctx: Context) -> Any:  # noqa: ANN401 - a product; its type needs an import
    from das_spark.config import find_product  # noqa: PLC0415

    return find_product(ctx.params["product"])


def _public(ctx: Context) -> Path:
    """The public folder of the run that is named before."""
    given = Path(_first(ctx, "path"))
    return next(given / each for each in _PUBLIC if (given / each / "manifest.json").is_file())
