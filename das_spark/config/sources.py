"""Files and folders that a run reads, looked for on disks and in stores before Spark starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from das_spark.errors import ConfigurationError
from das_spark.places import place_of, said

if TYPE_CHECKING:
    from das_spark.errors import Problems

Kind = Literal["file", "folder", "file or folder"]


def is_there(value: str, kind: Kind = "file or folder") -> bool:
    """Whether there is something of a kind at a path or an address.

    Raises:
        ConfigurationError: Nothing tells whether there is.
    """
    place = place_of(value)
    look = {"file": place.is_file, "folder": place.is_dir, "file or folder": place.exists}[kind]
    try:
        return look()
    except OSError as error:
        hint = "is the name right, and may this user read there?"
        raise ConfigurationError(f"{value} cannot be looked for ({said(error)})", hint=hint) from error


def require_source(key: str, value: str, problems: Problems, sentence: str, kind: Kind = "file or folder") -> None:
    """Note what a run would read and is not there."""
    with problems.at(key):
        if not is_there(value, kind):
            problems.add(key, sentence)
