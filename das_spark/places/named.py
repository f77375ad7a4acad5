"""Places as users and configurations name them: a path, or an address such as `s3://bucket/runs`."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import overload

from das_spark.errors import ConfigurationError
from das_spark.places.addresses import parse_address
from das_spark.places.filesystem import Location, Place
from das_spark.places.remote import SCHEMES, RemoteFileSystem

_FILE = "file"


@overload
def place_of(named: str | Place) -> Place: ...
@overload
def place_of(named: str | Place | None) -> Place | None: ...
def place_of(named: str | Place | None) -> Place | None:
    """Return the place that a text names; nothing is asked of any file system.

    Args:
        named: A path, an address `scheme://authority/path`, or a place, which is returned as it is; None stays None.

    Raises:
        ConfigurationError: No file system of that scheme is known, or its path leads upwards.
    """
    if not isinstance(named, str):
        return named
    address = parse_address(named)
    if address is None:
        return Path(named)
    if ".." in address.path.split("/"):
        raise ConfigurationError(f"{named}: holds '..', which means nothing in an address", hint="leave it out")
    path = PurePosixPath("/" + address.path.strip("/"))
    if address.scheme == _FILE:
        return Path(path)
    if address.scheme not in SCHEMES:
        raise ConfigurationError(
            f"{named}: no file system is known by the scheme {address.scheme}",
            hint=f"a path of a disk, or an address of one of {', '.join(SCHEMES)}",
        )
    return Location(RemoteFileSystem(address.scheme, address.authority), path)
