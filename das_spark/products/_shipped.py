"""Products that come with das_spark as files of this package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from das_spark.limits import parse_toml
from das_spark.products._from_data import product_from

if TYPE_CHECKING:
    from das_spark.products.base import Product


@cache
def shipped(name: str) -> Product:
    """The product in the file `<name>.toml`; FileNotFoundError where there is none."""
    file = files(__package__) / f"{name}.toml"
    return product_from(parse_toml(file.read_text("utf-8"), file.name), file.name)
