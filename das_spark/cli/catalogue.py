"""`list`: what there is to choose from."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from das_spark.cli.render import console
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


def list_registry(what: Annotated[Registry, typer.Argument(metavar="WHAT", help=" | ".join(Registry))]) -> None:
    """List products, strategies, readers, writers, solvers, or the run files that come with das_spark.

    Example: das-spark list products
    """
    columns, rows = _LISTS[what]()
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
    from das_spark.io.writers import WRITERS  # noqa: PLC0415

    return ("name", "writes"), [
        (name, (type(writer).__doc__ or "").splitlines()[0]) for name, writer in WRITERS.items()
    ]


def _solvers() -> tuple[tuple[str, ...], Rows]:
    from das_spark.estimation import FAMILY_SOLVERS, SOLVERS  # noqa: PLC0415

    programs = {name: ", ".join(sorted(each.capabilities)) for name, each in SOLVERS.items()}
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
