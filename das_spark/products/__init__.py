"""What is published: one module a product, and one line here for each."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from das_spark.errors import ConfigurationError
from das_spark.products._microdata_codes import (
    CODE_SEPARATOR,
    COLUMNS_AS_DECLARED,
    PART_RULES,
    PERSONS_EQUAL,
    PERSONS_IN_UNITS,
    RECORD_NUMBERS,
    UNIT_NUMBERS,
    ColumnRule,
    FileForm,
    MicrodataCodes,
    column_rule,
    microdata_codes,
)
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, Strategy
from das_spark.products.dallas_2010 import DALLAS_2010
from das_spark.products.e2e_1940 import E2E_1940
from das_spark.products.e2e_2018 import E2E_2018
from das_spark.products.pl94_2020_person import PL94_2020_PERSON
from das_spark.products.pl94_2020_unit import PL94_2020_UNIT

__all__ = [
    "CODE_SEPARATOR",
    "COLUMNS_AS_DECLARED",
    "PART_RULES",
    "PERSONS_EQUAL",
    "PERSONS_IN_UNITS",
    "PRODUCTS",
    "RECORD_NUMBERS",
    "UNIT_NUMBERS",
    "ColumnRule",
    "FileForm",
    "MicrodataCodes",
    "MicrodataColumn",
    "MicrodataLayout",
    "Product",
    "Strategy",
    "column_rule",
    "microdata_codes",
    "product",
]

PRODUCTS: Final[Mapping[str, Product]] = MappingProxyType(
    {
        "e2e_2018": E2E_2018,
        "e2e_1940": E2E_1940,
        "dallas_2010": DALLAS_2010,
        "pl94_2020_person": PL94_2020_PERSON,
        "pl94_2020_unit": PL94_2020_UNIT,
    }
)


def product(name: str) -> Product:
    """The product of a name.

    Args:
        name: A name of the registry.

    Raises:
        ConfigurationError: There is no such product; the nearest name is offered.
    """
    if name in PRODUCTS:
        return PRODUCTS[name]
    near = get_close_matches(name, PRODUCTS, n=1, cutoff=0.0)[0]
    raise ConfigurationError(
        f"there is no product {name!r}; known are {', '.join(PRODUCTS)}", hint=f"did you mean {near!r}?"
    )
