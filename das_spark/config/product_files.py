"""The product of a run: one that comes with das_spark or with an installed package, or one that stands in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from das_spark.config.load import PRODUCT_FILE, PYTHON_FILE, path_alone, read_toml
from das_spark.config.published import held_counts
from das_spark.errors import ConfigurationError, DasError, Problems, did_you_mean, shortened
from das_spark.limits import check_sizes
from das_spark.products import PRODUCTS, Product, product_data, product_from

#: Entry points of packages that bring products: name -> the product, or a function of nothing that makes it.
GROUP: Final = "das_spark.products"


def find_product(named: str) -> Product:
    """The product that a run file names.

    Args:
        named: A name; the path of a TOML file; or the path of a Python file and a name in it, `my.py:PRODUCT`.

    Raises:
        ConfigurationError: There is no such product or file, the file has problems, or a product that comes with
            das_spark has the same name.
    """
    if named in PRODUCTS:
        return PRODUCTS[named]
    if named.endswith(PRODUCT_FILE):
        return _own(read_product(path_alone(named, "a product file")), named)
    if PYTHON_FILE in named:
        return _own(_from_python(named), named)
    brought = {point.name: point for point in entry_points(group=GROUP)}
    if named in brought:
        where = f"entry point {named!r}"
        with _code_of_others(where, "imported"):
            loaded = brought[named].load()
        return _own(_called(loaded, where), where)
    known = [*PRODUCTS, *brought]
    hint = did_you_mean(named, known) or f"known: {', '.join(known)}; or name a file, such as my_census{PRODUCT_FILE}"
    raise ConfigurationError(f"unknown product '{named}'", hint=hint)


def read_product(path: Path, held: tuple[Path, ...] = ()) -> Product:
    """Read a product from a TOML file, with the attributes of the product whose counts it is held to.

    Args:
        path: The file.
        held: The files of products that are held to its counts.

    Raises:
        ConfigurationError: With all that is wrong, each with the path of its key.
    """
    try:
        data = read_toml(path)
    except FileNotFoundError as error:
        raise ConfigurationError(f"{path}: no such product file") from error
    except IsADirectoryError as error:
        raise ConfigurationError(f"{path}: cannot be read ({type(error).__name__})") from error
    published = data.get("published")
    if isinstance(published, Mapping) and "attributes" not in published:
        problems = Problems(str(path))
        with problems.at("published.product"):
            data = {**data, "published": {**published, **_attributes_of(published.get("product"), path, held)}}
        problems.raise_if_any()
    return product_from(data, str(path))


def _attributes_of(named: object, path: Path, held: tuple[Path, ...]) -> dict[str, Any]:
    """Name a product that a product file names, with its attributes; nothing where das_spark knows it."""
    if not isinstance(named, str) or named in PRODUCTS:
        return {}
    other = _seen_from(path, named, (*held, path.resolve()))
    return {"product": other.name, "attributes": product_data(other)["attributes"]}


def _seen_from(path: Path, named: str, held: tuple[Path, ...]) -> Product:
    """Find the product that a product file names: by a name, or by a file as seen from there."""
    if not named.endswith(PRODUCT_FILE):
        return find_product(str(path.parent / named) if PYTHON_FILE in named else named)
    file = path.parent / named
    if file.resolve() in held:
        raise ConfigurationError(f"the counts of {file} would be held to themselves")
    return read_product(file, held)


def _from_python(named: str) -> Product:
    path, _, name = named.rpartition(":")
    if not path_alone(path, "a product file").is_file():
        raise ConfigurationError(f"{path}: no such Python file")
    spec = spec_from_file_location(f"das_spark_product_{Path(path).stem}", path)
    assert spec is not None  # noqa: S101 - the ending is .py
    assert spec.loader is not None  # noqa: S101
    module = module_from_spec(spec)
    with _code_of_others(path, "imported"):
        spec.loader.exec_module(module)
        if not hasattr(module, name):
            raise ConfigurationError(f"{path}: has no {name}")
        found = getattr(module, name)
    return _called(found, named)


@contextmanager
def _code_of_others(where: str, what: str) -> Iterator[None]:
    """Say of whatever ends the code of a product, `sys.exit` among them, which file it was."""
    try:
        yield
    except (DasError, KeyboardInterrupt):
        raise
    except BaseException as error:
        said = shortened(f"{type(error).__name__}: {error}".removesuffix(": "))
        raise ConfigurationError(f"{where}: cannot be {what} ({said})") from error


def _called(found: object, where: str) -> Product:
    made = found
    if callable(found):
        with _code_of_others(where, "called"):
            made = found()
    if not isinstance(made, Product):
        raise ConfigurationError(f"{where}: is a {type(made).__name__}, and no Product")
    return made


def _own(product: Product, where: str) -> Product:
    """A product whose definition is written into the configuration of its runs, so that it must fit in there."""
    if product.name in PRODUCTS:
        raise ConfigurationError(
            f"{where}: a product that comes with das_spark is called {product.name!r}, too", hint="give it another name"
        )
    check_sizes(product_data(product), where)
    held_counts(product, units=True)
    return product


def product_to_config(product: Product) -> dict[str, Any]:
    """What a configuration says of a product besides its name: nothing where every das_spark knows it."""
    return {} if product.name in PRODUCTS else {"product": product_data(product)}


def product_from_config(config: Mapping[str, Any]) -> Product:
    """The product of a configuration.

    Raises:
        ConfigurationError: It is not known here, and not defined there.
    """
    if "product" in config:
        return _defined(json.dumps(config["product"]))
    name = config["run"]["product"]
    if name not in PRODUCTS:
        raise ConfigurationError(f"there is no product {name!r}")
    return PRODUCTS[name]


@lru_cache(maxsize=8)
def _defined(text: str) -> Product:
    return product_from(json.loads(text))
