"""A run file to begin with: the keys that a run needs with their values, others as comments, each explained.

What a key means is taken from `conf/reference.toml`, the one place that explains all of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import tomli_w

from das_spark.config.acknowledgements import GIVEN_UP, given_up
from das_spark.config.features import run_file_keys
from das_spark.config.inputs import DATASET, READER_NEEDS
from das_spark.config.load import FOLDER, PRODUCT_FILE, PYTHON_FILE, apply_setting, run_file_of
from das_spark.config.model import CONFIG_VERSION, SIMULATED, RunFile
from das_spark.config.product_files import find_product
from das_spark.config.run_files import plan_of
from das_spark.products import PRODUCTS, Product

#: Keys that a new run file has as comments where it has no value for them; of [input], what the reader uses.
_OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "run": ("name",),
        "output": ("root", "microdata", "tables"),
        "ledger": ("path",),
        "geography": ("levels", "spine"),
        "budget": ("strategy", "epsilon", "rho"),
        "invariants": ("total_at", "units"),
        "measurement": ("rows",),
        "estimation": ("estimator", "rounding"),
        "evaluation": ("enabled",),
    }
)
#: Which synthetic population a first run of a product is made on, where the simulator has one: one that takes minutes.
_SIMULATED: Final[Mapping[str, dict[str, str]]] = MappingProxyType(
    {
        "e2e_2018": {"like": "quickstart"},
        "e2e_1940": {"like": "1940", "share": "1/1000"},
        "pl94_2020_person": {"like": "2020", "share": "1/1000"},
        "pl94_2020_unit": {"like": "2020", "share": "1/1000"},
    }
)


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody has said of a run that is to be.

    Attributes:
        product: Name, or file, of the product.
        reader: Who reads the input, one of `READER_NEEDS`.
        input: File or folder of the input; None for the simulator.
        dataset: Name of the people in the input; None for the simulator.
        strategy: One of the product's; None for its first.
        total: Key (epsilon or rho) and value of the budget, exact; None for that of the strategy.
        levels: Geolevels, root first; None for those of the strategy or product.
        acknowledged: What the run publishes exactly although it follows from people, knowingly.
        settings: Texts `key.path=value` of any other keys.
    """

    product: str
    reader: str
    input: str | None = None
    dataset: str | None = None
    strategy: str | None = None
    total: tuple[str, str] | None = None
    levels: Sequence[str] | None = None
    acknowledged: Sequence[str] = ()
    settings: Sequence[str] = ()


def readers_of(product: Product) -> tuple[str, ...]:
    """Readers that can deliver what a product counts, the simulator first where it can."""
    simulated = (SIMULATED,) if product.name in _SIMULATED else ()
    tidy = ("tidy_counts", "tidy_records")
    others = (name for name in READER_NEEDS if name not in {SIMULATED, *tidy} and name in product.file_recodes)
    return (*simulated, *tidy, *others)


def acknowledgement_sentences(draft: Draft, out: Path) -> tuple[tuple[str, str], ...]:
    """What a run must acknowledge: names, and what each publishes exactly although it follows from people."""
    run_file, _ = run_file_of(_data(draft, out), str(out))
    if run_file is None:
        return ()
    product = find_product(draft.product)
    leaf = (draft.levels or levels_of(product, draft.strategy))[-1]
    needed = given_up(run_file.input, product, units_invariant=run_file.invariants.units)
    published = (f"{GIVEN_UP[name].cause} publishes exactly, outside of any epsilon: " for name in needed)
    return tuple(
        (name, sentence + GIVEN_UP[name].published(leaf)) for name, sentence in zip(needed, published, strict=True)
    )


def draft_run_file(draft: Draft, out: Path) -> str:
    """The text of a run file.

    Args:
        draft: What it is to say.
        out: Where it is to lie: a product file is named as seen from there.

    Raises:
        ConfigurationError: With all that is wrong with such a run; input files need not be there.
    """
    # An unknown product is said first, and alone: most of the rest follows from it.
    product = find_product(draft.product)
    data = _data(draft, out)
    examined = {**data, "run": {**data["run"], "product": draft.product}}
    plan_of(_copy(examined), str(out), files=False, named=True)
    return _text(data, product, draft.reader)


def _data(draft: Draft, out: Path) -> dict[str, Any]:
    """The tables of the run file; those that stay empty are left out."""
    product = find_product(draft.product)
    source = {"reader": draft.reader, DATASET: draft.dataset, "path": draft.input}
    simulated = _SIMULATED.get(product.name) if draft.reader == SIMULATED else None
    strategy = draft.strategy or next(iter(product.strategies), None)
    # Where there are no units that bound anything, none are exact.
    without_units = product.record == "person" and not product.class_query
    tables: dict[str, dict[str, Any]] = {
        "run": {"name": _name_of(out) or product.name, "product": _seen_from(out, draft.product)},
        "input": {**source, "simulate": None if simulated is None else dict(simulated)},
        "geography": {"levels": None if draft.levels is None else list(draft.levels)},
        "budget": {"strategy": strategy, **dict([draft.total] if draft.total else [])},
        "privacy": {"acknowledge": list(draft.acknowledged) or None},
        "invariants": {"units": False if without_units else None},
    }
    given = {name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()}
    data: dict[str, Any] = {"config_version": CONFIG_VERSION, **{name: table for name, table in given.items() if table}}
    for setting in draft.settings:
        apply_setting(data, setting)
    return data


def _name_of(out: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", out.stem).strip("-._")


def _seen_from(out: Path, product: str) -> str:
    """The product as a run file names it: a file by its way from there."""
    is_file = product not in PRODUCTS and (product.endswith(PRODUCT_FILE) or PYTHON_FILE in product)
    return os.path.relpath(product, out.absolute().parent) if is_file else product


def _copy(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in data.items()}


def _text(data: Mapping[str, Any], product: Product, reader: str) -> str:
    strategy = data.get("budget", {}).get("strategy")
    lines = [f"# A run of {product.name}: {product.title}", *_OPENING.splitlines()]
    lines += _entry("config_version", data["config_version"])
    for section in RunFile.model_fields:
        given = data.get(section, {})
        optional = _uses(reader) if section == "input" else _OPTIONAL.get(section, ())
        if isinstance(given, list):  # tables that may be repeated
            lines += ["", *_comment(section), *tomli_w.dumps({section: given}).splitlines()]
        elif isinstance(given, Mapping) and (given or optional):
            lines += ["", *_comment(section), f"[{section}]", *_section(section, given, optional, product, strategy)]
    return "\n".join(lines) + "\n"


_OPENING: Final = """\
# Written by das-spark init. A key that is commented out has the value that stands there, or is left to its default.
# All keys: conf/reference.toml. Next: das-spark check THIS_FILE, das-spark plan THIS_FILE, das-spark run THIS_FILE.
"""


def _section(
    section: str, given: Mapping[str, Any], optional: Iterable[str], product: Product, strategy: str | None
) -> Iterator[str]:
    values = {key: value for key, value in given.items() if not isinstance(value, Mapping)}
    for key in dict.fromkeys([*values, *optional]):
        if key in values:
            yield from _entry(f"{section}.{key}", values[key])
        elif not _excluded(section, key, values, product, strategy):
            yield from _comment(f"{section}.{key}")
            yield f"# {key} = {_example(section, key, strategy, product)}"
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield from ("", *_comment(f"{section}.{key}"), f"[{section}.{key}]")
            yield from tomli_w.dumps(value).splitlines()


def _excluded(section: str, key: str, values: Mapping[str, Any], product: Product, strategy: str | None) -> bool:
    """Whether a key would contradict another one that has a value, or has no sense for the product."""
    if section == "budget" and key in _TOTALS:
        known = product.strategies.get(strategy or "")
        return not _TOTALS.isdisjoint(values) or (known is not None and known.budget.framework.symbol != key)
    return section == "output" and key == "tables" and not product.tables


_TOTALS: Final = frozenset({"epsilon", "rho"})


def _uses(reader: str) -> tuple[str, ...]:
    needs = READER_NEEDS[reader]
    return tuple(key for key in (*needs.optional, "unit_conflicts") if key in _reference().examples_of("input"))


def _entry(key: str, value: object) -> Iterator[str]:
    yield from _comment(key)
    yield from tomli_w.dumps({key.rpartition(".")[2]: value}, multiline_strings=False).splitlines()


def _comment(key: str) -> Iterable[str]:
    return _reference().comments.get(key, ())


def levels_of(product: Product, strategy: str | None) -> tuple[str, ...]:
    """Geolevels of a run that names none: those of its strategy, or of the product's first."""
    found = product.strategies.get(strategy or next(iter(product.strategies), ""))
    return tuple(level.name for level in product.geolevels) if found is None else found.geolevels


def _example(section: str, key: str, strategy: str | None, product: Product) -> str:
    """What a key that is left out amounts to, as product or strategy say; else an example of the reference."""
    found = product.strategies.get(strategy or "")
    if section == "budget" and key in _TOTALS and found is not None:
        return f'"{found.budget.total}"'
    if (section, key) == ("geography", "levels"):
        return "[" + ", ".join(f'"{name}"' for name in levels_of(product, strategy)) + "]"
    usual = {("invariants", "total_at"): f'"{product.total_at}"', ("output", "tables"): '["parquet", "csv"]'}
    return usual.get((section, key)) or _reference().examples[f"{section}.{key}"]


@dataclass(frozen=True, slots=True)
class _Reference:
    """What `conf/reference.toml` says of keys, by their paths; sections are among them."""

    comments: dict[str, tuple[str, ...]] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def examples_of(self, section: str) -> set[str]:
        """Keys of a section that have a value in one line."""
        return {key.partition(".")[2] for key in self.examples if key.startswith(f"{section}.")}


_KEY: Final = re.compile(r"(?:# )?(?P<key>[A-Za-z_]+) = (?P<value>.*)")
_TABLE: Final = re.compile(r"(?:# )?\[+(?P<table>[A-Za-z_.]+)\]+")


@cache
def _reference() -> _Reference:
    """Read comments and the keys below them: a block of comments belongs to the key or table that follows it."""
    found, block, section, known = _Reference(), list[str](), "", set(run_file_keys())
    for line in (FOLDER / "reference.toml").read_text(encoding="utf-8").splitlines():
        table, key = _TABLE.fullmatch(line), _KEY.fullmatch(line)
        if table is not None:
            section = table["table"]
            found.comments.setdefault(section, tuple(block))
            block = []
        elif key is not None and (not line.startswith("#") or f"{section}.{key['key']}" in known):
            path = f"{section}.{key['key']}".lstrip(".")
            found.comments.setdefault(path, tuple(block))
            found.examples.setdefault(path, key["value"])
            block = []
        elif line.startswith("#"):
            block.append(line)
        else:
            block = []
    return found
