"""`list` and `simulate`: what there is to choose from, and a population to try."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from das_spark.cli import completion
from das_spark.cli.options import Json, console, print_json
from das_spark.places import place_of
from das_spark.report import table

Rows = list[tuple[str, ...]]


class Registry(StrEnum):
    """What can be listed."""

    PRODUCTS = "products"
    STRATEGIES = "strategies"
    READERS = "readers"
    WRITERS = "writers"
    SOLVERS = "solvers"
    CONFIGURATIONS = "configurations"


def list_registry(
    what: Annotated[Registry, typer.Argument(metavar="WHAT", help=" | ".join(Registry))], as_json: Json = False
) -> None:
    """List products, strategies, readers, writers, solvers, or the run files that come with das_spark.

    Example: das-spark list products
    """
    columns, rows = _LISTS[what]()
    if as_json:
        print_json({what.value: [dict(zip(columns, row, strict=True)) for row in rows]})
        return
    console().print(table(what.value, columns, rows, left=len(columns)))


def _products() -> tuple[tuple[str, ...], Rows]:
    from das_spark.products import PRODUCTS  # noqa: PLC0415 - each list imports its own registry only

    rows: Rows = []
    for product in PRODUCTS.values():
        attributes = " x ".join(f"{attribute.name} ({attribute.size})" for attribute in product.schema.attributes)
        levels = ", ".join(level.name for level in product.geolevels)
        rows.append((product.name, product.title, attributes, levels, ", ".join(product.strategies)))
    return ("name", "title", "attributes", "geolevels", "strategies"), rows


def _strategies() -> tuple[tuple[str, ...], Rows]:
    from das_spark.products import PRODUCTS  # noqa: PLC0415

    rows: Rows = []
    for product in PRODUCTS.values():
        for strategy in product.strategies.values():
            for level in strategy.budget.levels:
                shares = "; ".join(f"{item.query} {item.share}" for item in level.queries)
                total = f"{strategy.budget.total} ({strategy.budget.framework})"
                rows.append((product.name, strategy.name, total, f"{level.geolevel} {level.share}", shares))
    return ("product", "strategy", "total", "level and share", "queries and shares"), rows


def _readers() -> tuple[tuple[str, ...], Rows]:
    from das_spark.config import READER_NEEDS  # noqa: PLC0415

    rows = [(name, needs.what, " or ".join(needs.person_keys)) for name, needs in READER_NEEDS.items()]
    return ("name", "reads", "input keys"), list(rows)


def _writers() -> tuple[tuple[str, ...], Rows]:
    from das_spark.io.microdata_formats import WRITERS  # noqa: PLC0415

    return ("name", "writes"), [(name, writer.what) for name, writer in WRITERS.items()]


def _solvers() -> tuple[tuple[str, ...], Rows]:
    from das_spark.estimation import FAMILY_SOLVERS, SOLVERS  # noqa: PLC0415

    programs = {name: ", ".join(sorted(solver.capabilities)) for name, solver in SOLVERS.items()}
    families = {name: "families of children" for name in FAMILY_SOLVERS if name not in SOLVERS}
    return ("name", "what it solves"), list((families | programs).items())


def _configurations() -> tuple[tuple[str, ...], Rows]:
    from das_spark.config import shipped_run_files  # noqa: PLC0415

    rows = [(name, _first_sentence(path), str(path)) for name, path in shipped_run_files().items()]
    return ("name", "what it is", "copy it from"), list(rows)


def _first_sentence(path: Path) -> str:
    """What a run file says of itself: the beginning of the comment that it opens with."""
    lines = takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
    text = "\n".join(line.removeprefix("#").strip() for line in lines)
    return re.split(r": |\.(?=\s+[A-Z./]|$)", text)[0].replace("\n", " ")


_LISTS: dict[Registry, Callable[[], tuple[tuple[str, ...], Rows]]] = {
    Registry.PRODUCTS: _products,
    Registry.STRATEGIES: _strategies,
    Registry.READERS: _readers,
    Registry.WRITERS: _writers,
    Registry.SOLVERS: _solvers,
    Registry.CONFIGURATIONS: _configurations,
}


class FileLayout(StrEnum):
    """How a simulated population is written."""

    TIDY = "tidy"
    IPUMS = "ipums"
    CEF = "cef"


def simulate(  # noqa: PLR0913, PLR0917 - options of a command are parameters
    like: Annotated[
        str,
        typer.Option(
            "--like",
            metavar="NAME",
            help="quickstart, 1940, 2020, 2020-state, 2010-state, or a product file.",
            autocompletion=completion.populations,
        ),
    ],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder to write; must not exist, or be empty.")],
    share: Annotated[str, typer.Option("--share", metavar="SHARE", help="Share of the whole, such as 1/100.")] = "1",
    layout: Annotated[
        FileLayout,
        typer.Option(
            "--layout",
            help="tidy: Parquet tables. ipums: the file EXT1940USCB.dat, like 1940 alone. cef: person and unit records "
            "and their geography, like 2020 alone.",
        ),
    ] = FileLayout.TIDY,
    product: Annotated[
        str,
        typer.Option(
            "--product",
            metavar="NAME",
            help="dhc_2020: with relationships, ages and households, like 2020 or 2020-state. In tidy tables, persons "
            "alone, by relationship and once more as the redistricting data count them.",
        ),
    ] = "",
    lowest: Annotated[
        str,
        typer.Option("--lowest", metavar="LEVEL", help="Tidy tables of dhc_2020: County, Tract, Block_Group or Block."),
    ] = "Block",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Change it to get a different population.")] = 0,
    compress: Annotated[bool, typer.Option("--gzip", help="Compress the files of ipums and cef.")] = False,
    as_json: Json = False,
) -> None:
    """Write a synthetic population.

    Example: das-spark simulate --like 2020 --share 1/1000 --layout cef --out population
    """
    from das_spark import simulation  # noqa: PLC0415 - `das-spark --help` needs neither Arrow nor the census figures
    from das_spark.io import population_files  # noqa: PLC0415

    target, exact_share = place_of(out), simulation.share_of(share, "--share")
    screen = console(err=as_json)
    with screen.status("simulating") as status:
        summary = population_files.simulate(
            target,
            like,
            exact_share,
            layout.value,
            seed,
            product=product,
            lowest=lowest,
            compress=compress,
            progress=lambda done, total: status.update(f"simulating: {done} of {total} parts"),
        )
    if as_json:
        print_json({"folder": target, **asdict(summary)})
        return
    rows = [
        ("geounits", f"{summary.geounits:,}"),
        ("persons", f"{summary.persons:,}"),
        ("occupied units", f"{summary.units:,}"),
        ("vacant units", f"{summary.vacant:,}"),
        ("occupied cells", f"{summary.cells:,}"),
    ]
    screen.print(table(f"A synthetic population like {like}, in {target}", ("what", "how many"), rows))
    screen.print(f"files: {', '.join(summary.files)}")
