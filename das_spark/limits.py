"""Sizes that files of settings and definitions may have, and the one way to read their text.

Every limit is a row here, with the largest case that is known to need it. A file is refused by the first limit that it
exceeds, before work of that size is done: bytes before the text is read, values and dotted keys before it is parsed,
everything else before anything is made of it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Literal, Protocol, TypeVar

from das_spark.errors import ConfigurationError

#: Cells of a schema. The largest product that ships has 1,578,528 (households of the 2020 DHC).
MOST_CELLS: Final = 20_000_000
#: Different queries of a product or of a run. pl94_2020_person has 14.
MOST_QUERIES: Final = 1_000
#: Cells times selections that are compared to see whether the columns of tables with tallied ones count no more than
#: their headings. DHC persons: 4,536.
MOST_TALLIED: Final = 200_000_000
#: Digits of a number, its exponent written out. A float reaches as far; ledgers may hold such numbers already.
MOST_DIGITS: Final = 300
#: Digits of the common denominator of shares that are summed. Shares that ship have 5.
MOST_DENOMINATOR: Final = 1_000
#: Points of the grid of a sweep, each of which is a plan; and runs at each. The study of 1940: 8 budgets, 4 runs each.
MOST_POINTS: Final = 1_000
MOST_RUNS: Final = 1_000
#: How near to 0 and to 1 a probability of intervals and findings may be: doubles tell 1 - p to seven digits there.
LEAST_LEVEL: Final = Fraction(1, 10**9)
#: Entries of a list or table that has no row below.
MOST_ENTRIES: Final = 20_000
#: List or table of a product file or run file -> most entries.
ENTRIES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "attributes": 50,  # DDP 2010 households: 8
        "attributes[].levels": 20_000,  # DHC households: 522; diseases of the ICD-10: 14,400; languages: 7,900
        "attributes[].recodes": 1_000,  # DDP 2010 households: 33
        "geolevels": 97,  # a geocode has 96 characters at most, and each level more than the level above
        "strategies": 100,  # pl94_2020_person: 8
        "strategies[].geolevels": 97,
        "strategies[].queries": MOST_QUERIES,
        "passes": 1_000,
        "tables": 1_000,  # DHC persons: 117
        "tables[].lines": 2_000,  # DHC persons: 209
        "tables[].lines[].tallied": 100,  # DHC persons: 6
        "medians": 1_000,
        "medians[].lines": 2_000,
        "medians[].lines[].tallied": 100,
        "structural_zeros": 1_000,  # DDP 2010 households: 29
        "unit_classes": 1_000,  # DDP 2010 households: 29
        "microdata.person": 500,  # End-to-End test: 25
        "microdata.unit": 500,  # End-to-End test: 27
        "ppmf.person": 500,
        "ppmf.unit": 500,
        # Of a run file.
        "budget.geolevels": 97,
        "budget.queries": MOST_QUERIES,
        "budget.level_queries": 97,
        "constraints": 1_000,
        "estimation.passes": 1_000,
        "geography.levels": 97,
        "run.parts": 20,  # people, housing units and households
        "privacy.acknowledge": 1_000,
    }
)


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Sizes that the text of a kind of file may have.

    Attributes:
        size: Most bytes.
        values: Most entries of all lists and tables together.
        depth: Most lists and tables within each other.
        text: Most characters of a single text or key.
        entries: Most entries of one list or table that has no row in `ENTRIES`.
    """

    size: int
    values: int
    depth: int
    text: int
    entries: int


#: Run files, overlays, options and product files. DHC persons written out: 2.3 MB, 230,000 values, 8 deep. The codes of
#: an attribute of 20,000 levels, which are one text, have 110,000 characters.
SETTINGS: Final = TextLimits(size=5_000_000, values=500_000, depth=32, text=200_000, entries=MOST_ENTRIES)
#: Manifests. They hold the definition of a product, and a line for every file of a run.
MANIFEST: Final = TextLimits(size=100_000_000, values=10_000_000, depth=32, text=1_000_000, entries=1_000_000)
#: Boundaries for maps. Block groups of the United States: 0.6 GB.
MAP: Final = TextLimits(size=2_000_000_000, values=10**9, depth=32, text=1_000_000, entries=10**8)

#: Texts and comments of TOML, also those without an end: each is matched to its end, so that nothing is tried twice.
_TEXTS: Final = re.compile(
    r'"""(?>[^"\\]+|\\.|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?>[^"\\\n]+|\\[^\n])*+"?'
    r"|'[^'\n]*'?|#[^\n]*",
    re.DOTALL,
)
#: A key of too many names: parsing one takes time with the square of their number.
_DOTTED: Final = re.compile(rf"(?:\.[^.=,\[\]{{}}\n]*+){{{SETTINGS.depth}}}")
#: Signs between parts of TOML -> how long a part takes to parse, in parts of the time that a value takes.
_COSTS: Final[Mapping[str, int]] = MappingProxyType({"=": 1, ",": 1, "\n": 1, "{": 1, "[": 2, ".": 4})
_HOLDERS: Final = (dict, list, tuple, Mapping)  # the usual ones first: an abstract class is slow
#: The least whole number of too many digits.
_LARGEST: Final = 10**MOST_DIGITS
_HINT: Final = "leave out what is not needed, or divide it"


def require_level(level: float | Fraction, name: str) -> None:
    """Refuse a probability of intervals or findings of which doubles do not tell enough.

    Args:
        level: The probability.
        name: What it is called where it was set, for messages.

    Raises:
        ConfigurationError: It is not between 0 and 1, or nearer to one of them than `LEAST_LEVEL`.
    """
    if not LEAST_LEVEL <= level <= 1 - LEAST_LEVEL:
        raise ConfigurationError(
            f"{name}: lies between 0 and 1, a billionth away from both at least, is {level}", hint="0.95 is usual"
        )


class _File(Protocol):
    def open(self, mode: Literal["rb"]) -> AbstractContextManager[BinaryIO]: ...


def read_limited(path: _File, limits: TextLimits) -> bytes:
    """Read a file, no more of it than it may have.

    Args:
        path: The file.
        limits: Those of its kind.

    Raises:
        ConfigurationError: It is larger.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:  # what is no regular file has no size, and may have no end
        content = file.read(limits.size + 1)
    _require(len(content), limits.size, "bytes", str(path))
    return content


def parse_toml(text: str, source: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Parse TOML of limited size.

    Args:
        text: The text.
        source: Where it is from, for messages.
        parse_float: Makes a value of the text of a decimal.

    Raises:
        ConfigurationError: It exceeds a limit of `SETTINGS`; the message names the key where it is known.
        TOMLDecodeError: It is not TOML.
    """
    bare = _TEXTS.sub("s", text)
    cost = sum(weight * bare.count(sign) for sign, weight in _COSTS.items())
    _require(cost, SETTINGS.values * 2, "keys, values and lines", source)
    if _DOTTED.search(bare):
        raise _too_large(SETTINGS.depth, "names between dots", source, "a key")
    return _parsed(lambda: tomllib.loads(text, parse_float=parse_float), source, SETTINGS)


def parse_json(text: str | bytes, source: str, limits: TextLimits) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Parse JSON of limited size.

    Args:
        text: The text.
        source: Where it is from, for messages.
        limits: Those of the kind of file.

    Raises:
        ConfigurationError: It exceeds a limit; the message names the key where it is known.
        ValueError: It is not JSON, or not UTF-8.
    """
    return _parsed(lambda: json.loads(text), source, limits)


def check_sizes(data: Any, source: str, limits: TextLimits = SETTINGS) -> None:  # noqa: ANN401 - whatever a file holds
    """Refuse plain data of which a list, table, text or number is too large, or which are nested too deeply.

    Args:
        data: Tables, lists and single values.
        source: Where they are from, for messages.
        limits: Those of the kind of file.

    Raises:
        ConfigurationError: The message names the key and the limit.
    """
    total, waiting = 0, [(data, "", "", 1)] if isinstance(data, _HOLDERS) else []
    while waiting:
        value, key, form, depth = waiting.pop()
        total += len(value)
        _require(depth, limits.depth, "lists and tables within each other", source, key)
        _require(len(value), ENTRIES.get(form, limits.entries), "entries", source, key)
        _require(total, limits.values, "values", source)
        for name, entry in _entries(value, source, key, limits):
            if isinstance(entry, str):
                if len(entry) > limits.text:
                    raise _too_large(limits.text, "characters", source, _below(key, name))
            elif isinstance(entry, int):
                if abs(entry) >= _LARGEST:
                    raise _too_large(MOST_DIGITS, "digits", source, _below(key, name))
            elif isinstance(entry, _HOLDERS):
                at = _below(key, name)
                waiting.append((entry, at, f"{form}[]" if isinstance(name, int) else _below(form, name), depth + 1))


def _entries(value: Any, source: str, key: str, limits: TextLimits) -> Iterable[tuple[Any, Any]]:  # noqa: ANN401
    """Names or places of the entries of a table or list, and the entries."""
    if not isinstance(value, Mapping):
        return enumerate(value)
    longest = max((len(name) for name in value if isinstance(name, str)), default=0)
    _require(longest, limits.text, "characters in a key", source, key)
    return value.items()


def _below(key: str, name: object) -> str:
    if isinstance(name, int):
        return f"{key}[{name}]"
    return f"{key}.{name}" if key else str(name)


_Parsed = TypeVar("_Parsed")


def _parsed(parse: Callable[[], _Parsed], source: str, limits: TextLimits) -> _Parsed:
    """What a parser makes of a text, within the limits that show only then."""
    try:
        found = parse()
    except RecursionError as error:
        raise _too_large(limits.depth, "lists and tables within each other", source) from error
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError as error:  # Python reads no whole number of more than 4,300 digits
        raise _too_large(MOST_DIGITS, "digits", source, "a number") from error
    if limits is not MAP:
        check_sizes(found, source, limits)
    return found


def _require(number: int, most: int, what: str, source: str, key: str = "") -> None:
    if number > most:
        raise _too_large(most, what, source, key)


def _too_large(most: int, what: str, source: str, key: str = "") -> ConfigurationError:
    where = f"{source}: {key}" if key else f"{source}:"
    return ConfigurationError(f"{where} has more than {most:,} {what}, the most that are possible", hint=_HINT)
