"""What is published: schema, strategies, constraints, recodes of files, tables and layouts of each product, as data.

A product is a module with one line in the registry, or plain data that `product_from` reads and `register` adds. This
package also says how the codes in microdata files relate to cells (`microdata_codes`), for whoever reads such files.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from das_spark.errors import ConfigurationError
from das_spark.products._file_recodes import CodedField, FileRecodes, code_ranges
from das_spark.products._from_data import product_from
from das_spark.products._microdata_codes import (
    CODE_SEPARATOR,
    COLUMNS_AS_DECLARED,
    PART_RULES,
    PERSONS_EQUAL,
    PERSONS_IN_UNITS,
    RECORD_NUMBERS,
    UNIT_NUMBERS,
    CodedColumn,
    ColumnRule,
    FileForm,
    MicrodataCodes,
    column_rule,
    microdata_codes,
)
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, PublishedCounts, Strategy
from das_spark.products.dallas_2010 import DALLAS_2010
from das_spark.products.ddp_2010_household import DDP_2010_HOUSEHOLD
from das_spark.products.ddp_2010_person import DDP_2010_PERSON
from das_spark.products.dhc_2020_household import DHC_2020_HOUSEHOLD
from das_spark.products.dhc_2020_person import DHC_2020_PERSON
from das_spark.products.dhc_2020_unit import DHC_2020_UNIT
from das_spark.products.e2e_1940 import E2E_1940
from das_spark.products.e2e_2018 import E2E_2018
from das_spark.products.pl94_2020_person import PL94_2020_PERSON
from das_spark.products.pl94_2020_unit import PL94_2020_UNIT
from das_spark.tabulation.household_types import PLACE_VALUES as HOUSEHOLD_PLACE_VALUES
from das_spark.tabulation.household_types import TYPES as HOUSEHOLD_TYPES
from das_spark.tabulation.household_types import HouseholdType

__all__ = [
    "CODE_SEPARATOR",
    "COLUMNS_AS_DECLARED",
    "HOUSEHOLD_PLACE_VALUES",
    "HOUSEHOLD_TYPES",
    "PART_RULES",
    "PERSONS_EQUAL",
    "PERSONS_IN_UNITS",
    "PRODUCTS",
    "RECORD_NUMBERS",
    "UNIT_NUMBERS",
    "CodedColumn",
    "CodedField",
    "ColumnRule",
    "FileForm",
    "FileRecodes",
    "HouseholdType",
    "MicrodataCodes",
    "MicrodataColumn",
    "MicrodataLayout",
    "Product",
    "PublishedCounts",
    "Strategy",
    "code_ranges",
    "column_rule",
    "microdata_codes",
    "product",
    "product_from",
    "register",
]

_REGISTRY: Final[dict[str, Product]] = {
    each.name: each
    for each in (
        E2E_2018,
        E2E_1940,
        DALLAS_2010,
        DDP_2010_PERSON,
        DDP_2010_HOUSEHOLD,
        PL94_2020_PERSON,
        PL94_2020_UNIT,
        DHC_2020_PERSON,
        DHC_2020_UNIT,
        DHC_2020_HOUSEHOLD,
    )
}
PRODUCTS: Final[Mapping[str, Product]] = MappingProxyType(_REGISTRY)
"""Every product by its name."""


def register(product: Product) -> None:
    """Add a product to the registry, such as one that was made from data.

    Args:
        product: With a name that is not taken.

    Raises:
        ConfigurationError: There is a product of that name.
    """
    if product.name in _REGISTRY:
        raise ConfigurationError(f"there is a product {product.name!r} already", hint="give it another name")
    _REGISTRY[product.name] = product


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
