"""What is published: schema, strategies, constraints, recodes of files, tables and layouts of each product, as data.

A product is a file or a module of this package with a line in the registry, or plain data that `product_from` reads and
`register` adds. This package also says how the codes in microdata files relate to cells (`microdata_codes`), for those
who read such files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Final

from das_spark.errors import ConfigurationError, did_you_mean
from das_spark.products._contradictions import QUANTITIES, Compared, contradictions_among, notice_of_contradictions
from das_spark.products._file_recodes import CodedField, FileRecodes, code_ranges
from das_spark.products._from_data import product_from
from das_spark.products._microdata_codes import (
    CODE_SEPARATOR,
    COLUMNS_AS_DECLARED,
    PART_RULES,
    PERSONS_EQUAL,
    PERSONS_IN_UNITS,
    RECORD_NUMBERS,
    ROW_ORDER,
    TOLD,
    UNIT_NUMBERS,
    CodedColumn,
    ColumnRule,
    FileForm,
    MicrodataCodes,
    column_rule,
    microdata_codes,
)
from das_spark.products._shipped import shipped
from das_spark.products._to_data import product_data
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, PublishedCounts, Records, Strategy
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
    "QUANTITIES",
    "RECORD_NUMBERS",
    "ROW_ORDER",
    "TOLD",
    "UNIT_NUMBERS",
    "CodedColumn",
    "CodedField",
    "ColumnRule",
    "Compared",
    "FileForm",
    "FileRecodes",
    "HouseholdType",
    "MicrodataCodes",
    "MicrodataColumn",
    "MicrodataLayout",
    "Product",
    "PublishedCounts",
    "Records",
    "Strategy",
    "code_ranges",
    "column_rule",
    "contradictions_among",
    "microdata_codes",
    "notice_of_contradictions",
    "product",
    "product_data",
    "product_from",
    "register",
]


class _Registry(MutableMapping[str, Product]):
    """Products by name; each is read or imported when it is asked for, since some are large."""

    def __init__(self, files: Iterable[str], modules: Iterable[str]) -> None:
        """Register files and modules that are called like their products, in small letters."""
        self._files = frozenset(files)
        self._made: dict[str, Product | None] = dict.fromkeys((*files, *modules))

    def __getitem__(self, name: str) -> Product:
        found = self._made[name]
        if found is None:
            is_file = name in self._files
            found = shipped(name) if is_file else getattr(import_module(f"{__name__}.{name}"), name.upper())
            self._made[name] = found
        return found

    def __setitem__(self, name: str, product: Product) -> None:
        self._made[name] = product

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


_REGISTRY: Final = _Registry(
    files=("e2e_2018", "e2e_1940", "pl94_2020_person", "pl94_2020_unit"),
    modules=(
        "dallas_2010",
        "ddp_2010_person",
        "ddp_2010_household",
        "dhc_2020_person",
        "dhc_2020_unit",
        "dhc_2020_household",
    ),
)
PRODUCTS: Final[Mapping[str, Product]] = _REGISTRY
"""Every product by its name; `register` adds one."""


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
    raise ConfigurationError(
        f"there is no product {name!r}; known are {', '.join(PRODUCTS)}", hint=did_you_mean(name, PRODUCTS, 0.0)
    )
