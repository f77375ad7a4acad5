"""Addresses: places of another file system than the disks of this machine, such as `hdfs://cluster/runs`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)((?:/.*)?)")


class AddressParts(NamedTuple):
    """An address in its parts: `scheme://authority/path`."""

    scheme: str
    authority: str
    path: str


def parse_address(text: str) -> AddressParts | None:
    """The parts of an address; None where the text is none."""
    found = _ADDRESS.fullmatch(text)
    return None if found is None else AddressParts(found[1], found[2], found[3] or "/")


def is_address(text: str) -> bool:
    """Whether a text names a place by scheme and authority."""
    return parse_address(text) is not None
