"""From TOML files, overlays and `--set` options to a checked `RunFile`. No product is looked up here.

All that is wrong is gathered (`Problems`), so that it can be mended in one go.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import takewhile
from pathlib import Path
from textwrap import shorten
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from das_spark.config.catalog import is_catalog_table, wrong_table
from das_spark.config.features import feature_sources, with_features
from das_spark.config.model import CONFIG_VERSION, PATH_KEYS, ROOTS, SOURCES, TABLES, RunFile, Section
from das_spark.errors import ConfigurationError, Problems, did_you_mean, listed, shortened
from das_spark.limits import SETTINGS, parse_toml, read_limited
from das_spark.names import check_text
from das_spark.places import is_address, place_of

_Tables = TypeVar("_Tables", bound=Section)


def nearest(name: str, known: Iterable[str]) -> str:
    """A half sentence that helps with a misspelt name."""
    names = list(known)
    return did_you_mean(name, names) or f"known: {listed(names)}"


_BESIDE, _WITHIN = Path(__file__).parents[2] / "conf", Path(__file__).parents[1] / "conf"
#: Run files, and Spark properties in `spark/`: a wheel has them within the package, a checkout beside it.
FOLDER = _WITHIN if _WITHIN.is_dir() else _BESIDE


def shipped_run_files() -> dict[str, Path]:
    """The run files that come with das_spark, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def path_alone(named: str | Path, what: str) -> Path:
    """Return the path of a file that lies on this machine, whatever else has an address.

    Raises:
        ConfigurationError: It is an address.
    """
    if is_address(str(named)):
        raise ConfigurationError(f"{named}: is an address, and {what} is a file of this machine", hint="copy it here")
    return Path(named)


def run_file_path(path: str | Path) -> Path:
    """Where a run file lies that is given by its path or, if it came with das_spark, by its bare name.

    A path is never looked for elsewhere: a run must not spend a budget on another file than the one that was meant.
    """
    given = path_alone(path, "a run file")
    if given.exists() or given.name != str(path) or given.suffix:
        return given
    return shipped_run_files().get(given.name, given)


#: How an address begins that only a library for it could open, such as `s3a://bucket/x` or `hdfs:/x`.
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def absolute_places(tables: _Tables, problems: Problems) -> _Tables:
    """Make every path absolute, seen from the working folder of now; what is no path is noted, and muted.

    Spark's JVM keeps the working folder in which it was started, and a notebook may have moved on.
    """
    for place in (*PATH_KEYS, *feature_sources()):
        value: Any = tables
        for name in place:
            value = getattr(value, name, None)
        if value is None:
            continue
        is_table = _is_source(place) and is_catalog_table(value)
        wrong = _wrong_table(value, place) if is_table else _wrong(value, place)
        if wrong:
            problems.add(".".join(place), wrong)
            problems.muted.add(".".join(place))
        elif not is_table:
            found = absolute(value)
            tables = _changed(tables, place, str(place_of(found)) if _is_source(place) else found)
    return tables


def _is_source(place: tuple[str, ...]) -> bool:
    """Whether a key names what a run reads."""
    return place in SOURCES or place in feature_sources()


def _changed(model: _Tables, place: Sequence[str], value: object) -> _Tables:
    """Return a model with another value of a key of it, or of a model in it."""
    name, *below = place
    return model.model_copy(update={name: _changed(getattr(model, name), below, value) if below else value})


def absolute(value: str | Path) -> str:
    """The absolute path of a place, or its address; `~` is the home of whoever runs the command, as in a shell.

    Links and `..` stay, since they mean what the operating system says.
    """
    if is_address(str(value)):
        return str(value)
    # `os.path`: of a user who does not exist it leaves the name as it is, where `Path` fails.
    return str(Path(os.path.expanduser(value)).absolute())


def _wrong(value: str, place: tuple[str, ...]) -> str:
    """What is wrong with a path; empty where nothing is."""
    is_root = place in ROOTS
    if not value.strip():
        return 'is empty; name a folder, such as "runs"' if is_root else "is empty; name a file or folder"
    try:
        check_text(value, "the path", most=_LONGEST_PATH)
    except ConfigurationError:
        return f"holds a character that no path may have here, or more than {_LONGEST_PATH:,}: {value[:_SAID]!r}"
    if _ADDRESS.match(value) is None:
        return ""
    if not is_address(value):
        return f"{value} is neither a path nor an address, which is scheme://bucket/path"
    try:
        place_of(value)
    except ConfigurationError as error:
        return f"{error.message}: {error.hint}"
    return ""


def _wrong_table(value: str, place: tuple[str, ...]) -> str:
    """What is wrong with a table in the place of a path; empty where nothing is."""
    if place in TABLES:
        return wrong_table(value)
    return f"{value} is a table, which {', '.join('.'.join(table) for table in TABLES)} alone may name, one by one"


#: Most characters of a path, as Linux takes it.
_LONGEST_PATH: Final = 4096
#: Kinds of failures of pydantic -> what the key must be.
_MUST_BE: Final = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "float_type": "a number",
    "string_type": "a text",
    "tuple_type": "a list",
    "model_type": "a table",
    "dict_type": "a table",
}
#: Signs of a wrong value that a message shows.
_SAID: Final = 60
#: `section.key` is a key; anything deeper is an entry of a table or list.
_ENTRY_DEPTH = 2


def validated(data: dict[str, Any], model: type[_Tables], problems: Problems) -> _Tables | None:
    """Validate; where that fails, note why and try again without the keys that are wrong, which are taken out."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        failures = error.errors(include_url=False)
    silent = set()
    inside = {tuple(failure["loc"])[:-1] for failure in failures}
    for number, failure in enumerate(failures, 1):
        place = tuple(failure["loc"])
        if failure["type"] == "too_short" and place in inside:
            continue  # nothing is left of the list, since what stands in it is wrong
        key = ".".join(str(part) for part in place)
        if failure["type"] == "extra_forbidden":
            sentence = f"unknown key; {nearest(str(place[-1]), _known_keys(model, place[:-1]))}"
            problems.add(key, sentence, len(failures) - number)
        else:
            problems.add(key, sentence_of(failure), len(failures) - number)
            # A table whose entry is wrong is not complete without it.
            silent.add(".".join(str(part) for part in (place[:-1] if len(place) > _ENTRY_DEPTH else place)))
        _remove(data, place)
    problems.muted |= silent
    try:
        return model.model_validate(data)
    except ValidationError:
        return None


def sentence_of(failure: Mapping[str, Any]) -> str:
    """What is wrong with a key, in words of a run file instead of Python's."""
    kind, value = str(failure["type"]), failure.get("input")
    if tuple(failure["loc"]) == ("config_version",):
        if kind == "missing":
            return f"is missing; write config_version = {CONFIG_VERSION}"
        return f"must be {CONFIG_VERSION}, the version that this das_spark reads, found {value!r}"
    found = shorten(repr(value), _SAID, placeholder="...")
    context = failure.get("ctx", {})
    if kind in _MUST_BE:
        return f"must be {_MUST_BE[kind]}, found {found}{_written(kind, value)}"
    if kind == "too_short":
        least, number = context["min_length"], context["actual_length"]
        return f"names {number}, and {least} are needed" if number else "is empty; name one, or leave the key out"
    if kind == "literal_error":
        return f"{found} is not one of {context['expected']}{_near(value, context['expected'])}"
    plain = {
        "missing": "is missing",
        "extra_forbidden": "unknown key",
        "value_error": str(context.get("error")),
        "string_pattern_mismatch": f"must be one character, no quote, backslash or line break, found {found}",
    }
    text = str(failure["msg"]).replace("Input should", "must", 1)
    return plain.get(kind, f"{text[0].lower()}{text[1:]}, found {found}")


def _written(kind: str, value: object) -> str:
    """How a single value is written where a list or a text is expected."""
    if isinstance(value, bool | int | str) and kind in ("tuple_type", "string_type"):
        spelled = json.dumps(value)
        return f"; write [{spelled}]" if kind == "tuple_type" else f'; write it in quotes: "{spelled}"'
    return ""


def _near(value: object, expected: str) -> str:
    """A half sentence about the nearest of some words, where one is near."""
    found = did_you_mean(str(value), re.findall(r"'([^']*)'", expected))
    return f"; {found}" if found else ""


def _known_keys(model: type[BaseModel], place: Iterable[str | int]) -> list[str]:
    """Keys of the section at a path."""
    for part in place:
        if isinstance(part, str):
            model = _section_type(model, part)
    return list(model.model_fields)


def _section_type(model: type[BaseModel], key: str) -> type[BaseModel]:
    annotation = model.model_fields[key].annotation
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    raise TypeError(f"{key} is not a section")


def _remove(data: dict[str, Any], place: Sequence[str | int]) -> None:
    """Take out what is at a path, if it is there; of a list, the whole list."""
    names = [str(part) for part in takewhile(lambda part: isinstance(part, str), place)]
    for name in names[:-1]:
        if not isinstance(data.get(name), dict):
            return
        data = data[name]
    data.pop(names[-1], None)


#: Tables of shares are one statement each: an overlay replaces them as a whole.
_WHOLE_TABLES = {("budget", "geolevels"), ("budget", "queries"), ("budget", "level_queries")}
#: How a product file of plain data ends, and what stands between a Python file and the name of a product in it.
PRODUCT_FILE: Final = ".toml"
PYTHON_FILE: Final = ".py:"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_tables(path: str | Path, overlays: Sequence[str | Path] = (), settings: Sequence[str] = ()) -> dict[str, Any]:
    """Read the tables of a run file with its overlays and settings, without asking what they mean."""
    data = _read_run_file(path)
    for overlay in overlays:
        data = merged(data, _read_run_file(overlay))
    for setting in settings:
        apply_setting(data, setting)
    return data


def run_file_of(data: dict[str, Any], source: str) -> tuple[RunFile | None, Problems]:
    """Check tables key by key; those that are wrong are taken out, so that the rest can still be examined."""
    problems = Problems(source)
    _expand_variables(data, problems)
    return validated(data, with_features(RunFile), problems), problems


def merged(base: Mapping[str, Any], overlay: Mapping[str, Any], at: tuple[str, ...] = ()) -> dict[str, Any]:
    """Lay one file over another: tables key by key; values, lists and tables of shares as a whole."""
    result = deepcopy(dict(base))
    for key, value in overlay.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and (*at, key) not in _WHOLE_TABLES:
            result[key] = merged(below, value, (*at, key))
        else:
            result[key] = deepcopy(value)
    return result


def apply_setting(data: dict[str, Any], setting: str, option: str = "--set") -> list[str]:
    """Apply one `key.path=value` in place, and give the parts of its key.

    The value is read as TOML, but decimals stay text, so that `budget.epsilon=0.25` is exactly 1/4; what is no TOML is
    text. A key with other signs than letters, digits, `_` and `-` is quoted: `budget.queries."hhgq * race"=1/2`.
    """
    key_text, value_text = split_setting(setting, option)
    source = shortened(f"{option} {setting}")
    try:
        keys = _key_path(parse_toml(f"{key_text} = 0", source))
    except tomllib.TOMLDecodeError as error:
        hint = "write key.path=value, with quotes around a key that has other signs than letters, digits, _ and -"
        raise ConfigurationError(f"{source}: {shortened(key_text)!r} is not a key path", hint=hint) from error
    table = data
    for depth, key in enumerate(keys[:-1], 1):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigurationError(f"{source}: {'.'.join(keys[:depth])} is not a table")
    table[keys[-1]] = _setting_value(value_text, source)
    return keys


def split_setting(setting: str, option: str = "--set") -> tuple[str, str]:
    """Key and value of a `key.path=value`, split at the first `=` that is not inside quotes."""
    found = re.match(r"""((?:"[^"]*"|'[^']*'|[^="'])*)=(.*)\Z""", setting, re.DOTALL)
    key = "" if found is None else found.group(1).strip()
    if found is None or not key:
        wrong = "there is no '='" if found is None else "there is no key before the '='"
        raise ConfigurationError(f"{option} {setting}: {wrong}", hint="write key.path=value, with both quotes of a key")
    return key, found.group(2).strip()


def _key_path(table: Mapping[str, Any]) -> list[str]:
    (key, value), *_ = table.items()
    return [key, *(_key_path(value) if isinstance(value, Mapping) else [])]


def _setting_value(text: str, source: str) -> Any:  # noqa: ANN401 - whatever TOML can hold
    try:
        value = parse_toml(f"value = {text}", source, str)["value"]
    except tomllib.TOMLDecodeError:
        return text
    # Dates are TOML values too, but a run named 2020-04-01 is text.
    return value if isinstance(value, bool | int | str | list | dict) else text


def _read_run_file(path: str | Path) -> dict[str, Any]:
    """The tables of one file; a product file that it names lies where it says, seen from the file itself."""
    place = run_file_path(path)
    try:
        data = read_toml(place)
    except FileNotFoundError as error:
        raise ConfigurationError(f"{place}: no such run file", hint=_meant(place)) from error
    except IsADirectoryError as error:
        raise ConfigurationError(f"{place}: is a folder", hint="name a run file in it, such as run.toml") from error
    run = data.get("run")
    named = run.get("product", "") if isinstance(run, dict) else ""
    is_path = isinstance(named, str) and not is_address(named)
    if isinstance(run, dict) and is_path and (named.endswith(PRODUCT_FILE) or PYTHON_FILE in named):
        run["product"] = str(place.absolute().parent / named)
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; that there is none is said by whoever knows what the file should be."""
    try:
        return parse_toml(_text_of(path), str(path))
    except (FileNotFoundError, IsADirectoryError):
        raise
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({type(error).__name__})") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: is not TOML: {error}") from error


def _text_of(path: Path) -> str:
    """The text of a TOML file, without the byte order mark that some editors of Windows put before it."""
    content, hint = read_limited(path, SETTINGS), "save it again with the encoding UTF-8"
    if b"\0" in content:  # as half of every sign has it there
        raise ConfigurationError(f"{path}: is UTF-16 or UTF-32 text, and TOML is UTF-8", hint=hint)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigurationError(f"{path}: line {line} has a sign that is not UTF-8, as TOML is", hint=hint) from error


def _meant(path: Path) -> str:
    """What may have been meant by a run file that is not there."""
    looked = f"looked for {path.absolute()}"
    if path.stem in shipped_run_files():
        return f"{looked}; the run file that comes with das_spark is called {path.stem}, without folder and ending"
    shipped = {} if path.suffix or path.name != str(path) else shipped_run_files()
    beside = [] if not path.parent.is_dir() else [str(each) for each in sorted(path.parent.glob("*.toml"))]
    return f"{did_you_mean(str(path), [*shipped, *beside])} {looked}".strip()


def _expand_variables(data: dict[str, Any], problems: Problems) -> None:
    for place in (*PATH_KEYS, *feature_sources()):
        *above, key = place
        table: Any = data
        for section in above:
            table = table.get(section) if isinstance(table, dict) else None
        if not isinstance(table, dict) or not isinstance(table.get(key), str):
            continue
        for name in _VARIABLE.findall(table[key]):
            if name not in os.environ:
                problems.add(".".join(place), f"the environment variable {name} is not set")
        table[key] = _VARIABLE.sub(lambda found: os.environ.get(found.group(1), found.group(0)), table[key])
