"""`product`: a census of one's own, written as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tomli_w
import typer

from das_spark.cli import completion
from das_spark.cli.options import Json, console, group, print_json, refuse_address, write_new
from das_spark.config import PRODUCT_FILE, find_product
from das_spark.errors import ConfigurationError
from das_spark.names import check_name
from das_spark.privacy import l1_sensitivity, squared_l2_sensitivity
from das_spark.products import Product, product_data
from das_spark.report import number, table

app = group("product", "Write, check and show products: what is counted, and how a budget is spent.")

_Named = Annotated[
    str,
    typer.Argument(
        metavar="PRODUCT",
        help="File such as my_census.toml, or the name of a product.",
        autocompletion=completion.products,
    ),
]


@app.command("new")
def new(
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to write, such as my_census.toml.", callback=refuse_address)
    ],
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="PRODUCT",
            help="Begin with a copy of this product.",
            autocompletion=completion.products,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a product file to begin with.

    Example: das-spark product new my_census.toml
    """
    if out.suffix != PRODUCT_FILE:
        raise ConfigurationError(f"{out}: a product file is called .toml", hint=f"write {out.stem}.toml")
    check_name(out.stem, "product")
    copied = {} if like is None else {**product_data(find_product(like)), "name": out.stem}
    text = tomli_w.dumps(copied) if copied else _TEMPLATE % {"name": out.stem}
    write_new(out, text)
    if as_json:
        print_json({"path": out})
        return
    console().print(f"{out}: a product to begin with. Next: das-spark product check {out}")


@app.command("check")
def check(product: _Named, as_json: Json = False) -> None:
    """Find everything that is wrong with a product, all at once, by the path of the key.

    Example: das-spark product check my_census.toml
    """
    found = find_product(product)
    if as_json:
        facts = {"name": found.name, "title": found.title, "cells": found.schema.size}
        print_json({"product": product, "problems": [], **facts, "strategies": list(found.strategies)})
        return
    size, strategies = number(found.schema.size), number(len(found.strategies))
    print_ = console().print
    print_(f"{product}: fine. {found.name}: {size} cells, strategies: {strategies}.")


@app.command("show")
def show(
    product: _Named,
    toml: Annotated[bool, typer.Option("--toml", help="Print it as a product file.")] = False,
    as_json: Json = False,
) -> None:
    """Show a product: attributes, recodes, geolevels, strategies and what each of their queries costs.

    Example: das-spark product show e2e_1940 --toml
    """
    found = find_product(product)
    if toml or as_json:
        data = product_data(found)
        if toml:
            typer.echo(tomli_w.dumps(data), nl=False)
        else:
            print_json(data)
        return
    print_ = console().print
    print_(f"{found.name}: {found.title}")
    print_(f"counts {found.counted}; each {found.noun} is in one cell of one geounit of every level\n")
    attributes = [
        (
            attribute.name,
            number(attribute.size),
            "; ".join(attribute.levels),
            ", ".join(recode.name for recode in attribute.recodes),
        )
        for attribute in found.schema.attributes
    ]
    print_(
        table(f"{number(found.schema.size)} cells", ("attribute", "levels", "labels", "recodes"), attributes, left=4)
    )
    levels = [(level.name, number(level.length)) for level in found.geolevels]
    print_(table("Geolevels, root first", ("geolevel", "characters of a geocode"), levels, left=1))
    for strategy in found.strategies.values():
        rows = [
            (level.geolevel, str(level.share), item.query, str(item.share), number(found.schema.query(item.query).rows))
            for level in strategy.budget.levels
            for item in level.queries
        ]
        title = f"Strategy {strategy.name}: {strategy.budget.total} ({strategy.budget.framework}). {strategy.title}"
        print_(table(title, ("geolevel", "share", "query", "share of it", "answers"), rows, left=4))
    print_(_sensitivity(found))


def _sensitivity(product: Product) -> str:
    """What noise provides for; a query that did not count every record once would be refused.

    SENSITIVITY.md of the privacy package has the argument.
    """
    most, who = product.records.at_most, product.records.contributed_by
    norms = f"L1 sensitivity {l1_sensitivity(most)} and squared L2 sensitivity {squared_l2_sensitivity(most)}"
    if most > 1:
        return (
            f"\nNeighbours differ in all records of one {who}, of which there are at most {most}. They leave answers of"
            f" a query at a\ngeolevel and others come in their place, so that every query has {norms}."
        )
    return (
        "\nNeighbours differ in one record that is another one. It leaves one answer of a query at a geolevel and"
        f" enters another,\nso that every query has {norms}."
    )


_TEMPLATE = """\
# A product: what is counted, in which geounits, and on which questions a budget is spent.
#   das-spark product check %(name)s.toml
# A run file names it by run.product = "%(name)s.toml". All keys: das_spark/products/README.md
name = "%(name)s"
title = "People of a small country"

# Geolevels from the top. A geocode begins with that of the geounit above; `length` is its number of characters.
geolevels = [
    {name = "Country", length = 0},     # one geounit, without a geocode
    {name = "District", length = 3},
    {name = "Village", length = 6},
]
# Where the number of people is published exactly; "none" for nowhere.
total_at = "Country"

# A cell is a combination of levels. In tables of counts a level has its number, from 0.
[[attributes]]
name = "age"
levels = ["0 to 17", "18 to 64", "65 and over"]
recodes = [{name = "adult", groups = {"Under 18" = [0], "18 and over" = [1, 2]}}]

[[attributes]]
name = "sex"
levels = ["Female", "Male"]

# All shares are exact, and sum to 1. Queries multiply attributes or recodes; "detailed" has every cell, "total" one.
[[strategies]]
name = "main"
framework = "zcdp"                      # total is rho; "pure_dp": total is epsilon
total = "1/2"
geolevels = {Country = "1/10", District = "3/10", Village = "6/10"}
queries = {total = "1/4", "adult * sex" = "1/4", detailed = "1/2"}

# Published tables are sums of cells; a line counts whoever has its levels, and no more than the line it stands under.
[[tables]]
name = "T1"
title = "Sex"
universe = "Total population"
prefix = "T001"
lines = [
    {depth = 0, label = "Total", levels = {}},
    {depth = 1, label = "Female", levels = {sex = [0]}},
    {depth = 1, label = "Male", levels = {sex = [1]}},
]
"""
