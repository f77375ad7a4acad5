"""From TOML files, overlays and `--set` options to a checked `RunFile`. No product is looked up here."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from das_spark.config.model import RunFile
from das_spark.config.places import PATH_KEYS
from das_spark.config.problems import Problems, near
from das_spark.config.shipped import run_file_path, shipped_run_files
from das_spark.config.validate import validated
from das_spark.errors import ConfigurationError

#: Tables of shares are one statement each: an overlay replaces them as a whole.
_WHOLE_TABLES = {("budget", "geolevels"), ("budget", "queries"), ("budget", "level_queries")}
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_run_file(
    path: str | Path, overlays: Sequence[str | Path] = (), settings: Sequence[str] = ()
) -> tuple[RunFile | None, Problems]:
    """Read a run file with its overlays and settings.

    Args:
        path: The TOML file.
        overlays: Further TOML files, each laid over what came before.
        settings: Texts `key.path=value`, applied last.

    Returns:
        The run file, or None where it is beyond reading, and the problems found so far. A run file that comes with
        problems lacks the keys that they are about, so that the rest can still be examined.

    Raises:
        ConfigurationError: A file is missing or no TOML, or a setting is malformed: nothing else can be examined.
    """
    data = read_tables(path, overlays, settings)
    return run_file_of(data, str(path))


def read_tables(path: str | Path, overlays: Sequence[str | Path] = (), settings: Sequence[str] = ()) -> dict[str, Any]:
    """Read the tables of a run file with its overlays and settings, without asking what they mean.

    Args:
        path: The TOML file, or the name of one that comes with das_spark.
        overlays: The same for further files, each laid over what came before.
        settings: Texts `key.path=value`, applied last.

    Raises:
        ConfigurationError: A file is missing or no TOML, or a setting is malformed.
    """
    data = _read_toml(run_file_path(path))
    for overlay in overlays:
        data = merged(data, _read_toml(run_file_path(overlay)))
    for setting in settings:
        apply_setting(data, setting)
    return data


def run_file_of(data: dict[str, Any], source: str) -> tuple[RunFile | None, Problems]:
    """Check tables key by key.

    Args:
        data: The tables; those that are wrong are taken out.
        source: The file, for messages.

    Returns:
        As `read_run_file`.
    """
    problems = Problems(source)
    _expand_variables(data, problems)
    return validated(data, problems), problems


def merged(base: Mapping[str, Any], overlay: Mapping[str, Any], at: tuple[str, ...] = ()) -> dict[str, Any]:
    """Lay one file over another: tables key by key; values, lists and tables of shares as a whole.

    Args:
        base: The tables below.
        overlay: The tables above.
        at: Path of the two tables in their files.

    Returns:
        New tables; the arguments are not changed.
    """
    result = deepcopy(dict(base))
    for key, value in overlay.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and (*at, key) not in _WHOLE_TABLES:
            result[key] = merged(below, value, (*at, key))
        else:
            result[key] = deepcopy(value)
    return result


def apply_setting(data: dict[str, Any], setting: str) -> None:
    """Apply one `key.path=value` in place.

    The value is read as TOML, but decimals stay text, so that `budget.epsilon=0.25` is exactly 1/4; what is no TOML is
    text. A key with other signs than letters, digits, `_` and `-` is quoted: `budget.queries."hhgq * race"=1/2`.

    Args:
        data: The tables.
        setting: The text of the option.

    Raises:
        ConfigurationError: There is no `=`, or the key leads through something that is no table.
    """
    key_text, value_text = _split_setting(setting)
    try:
        keys = _key_path(tomllib.loads(f"{key_text} = 0"))
    except tomllib.TOMLDecodeError as error:
        hint = "write key.path=value, with quotes around a key that has other signs than letters, digits, _ and -"
        raise ConfigurationError(f"--set {setting}: {key_text!r} is not a key path", hint=hint) from error
    table = data
    for depth, key in enumerate(keys[:-1], 1):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigurationError(f"--set {setting}: {'.'.join(keys[:depth])} is not a table")
    table[keys[-1]] = _setting_value(value_text)


def _split_setting(setting: str) -> tuple[str, str]:
    """Split at the first `=` that is not inside quotes."""
    found = re.match(r"""((?:"[^"]*"|'[^']*'|[^="'])*)=(.*)\Z""", setting, re.DOTALL)
    key = "" if found is None else found.group(1).strip()
    if found is None or not key:
        wrong = "there is no '='" if found is None else "there is no key before the '='"
        raise ConfigurationError(f"--set {setting}: {wrong}", hint="write key.path=value, with both quotes of a key")
    return key, found.group(2).strip()


def _key_path(table: Mapping[str, Any]) -> list[str]:
    (key, value), *_ = table.items()
    return [key, *(_key_path(value) if isinstance(value, Mapping) else [])]


def _setting_value(text: str) -> Any:  # noqa: ANN401 - whatever TOML can hold
    try:
        value = tomllib.loads(f"value = {text}", parse_float=str)["value"]
    except tomllib.TOMLDecodeError:
        return text
    # Dates are TOML values too, but a run named 2020-04-01 is text.
    return value if isinstance(value, bool | int | str | list | dict) else text


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text_of(path))
    except FileNotFoundError as error:
        raise ConfigurationError(f"{path}: no such run file", hint=_meant(path)) from error
    except IsADirectoryError as error:
        raise ConfigurationError(f"{path}: is a folder", hint="name a run file in it, such as run.toml") from error
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({type(error).__name__})") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: is not TOML: {error}") from error


def _text_of(path: Path) -> str:
    """The text of a run file, without the byte order mark that some editors of Windows put before it.

    Raises:
        ConfigurationError: It is text in another encoding than UTF-8, which is that of TOML.
    """
    content, hint = path.read_bytes(), "save it again with the encoding UTF-8"
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
    return f"{near(str(path), [*shipped, *beside])} {looked}".strip()


def _expand_variables(data: dict[str, Any], problems: Problems) -> None:
    for section, key in PATH_KEYS:
        table = data.get(section)
        if not isinstance(table, dict) or not isinstance(table.get(key), str):
            continue
        for name in _VARIABLE.findall(table[key]):
            if name not in os.environ:
                problems.add(f"{section}.{key}", f"the environment variable {name} is not set")
        table[key] = _VARIABLE.sub(lambda found: os.environ.get(found.group(1), found.group(0)), table[key])
