"""Whether a file system does what a run needs of it: tried on files that are removed again, before anything is charged.

What a store says of itself, and what its client says of it, decides nothing: there are stores, emulators and proxies
that answer a conditional request by overwriting without a word.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Final

from das_spark.errors import OutputError
from das_spark.places import TRIED, Location, Place, disk_errors, is_encrypted_at_rest, kept_of_removed
from das_spark.store.commit import names_in, write_durably

_NOT_GONE: Final = (
    "switch off versions and soft delete there, or name another bucket; if both are meant to be on, acknowledge it by "
    'privacy.acknowledge = ["removed_is_kept"]: the statement will say so'
)
_NOT_ENCRYPTED: Final = (
    "switch on its encryption at rest (on S3 the default encryption of the bucket); where it cannot be asked, as HDFS, "
    "or disks are encrypted by other means, acknowledge it by privacy.acknowledge = "
    '["not_encrypted_at_rest"]: the statement will say so'
)
_ANOTHER: Final = "name a place of a store that creates a file only where there is none, or a folder of a disk"


def require_exclusive(place: Place) -> None:
    """Refuse a place in whose file system two can create one file, or where a file is found late.

    Args:
        place: A folder, which need not exist; on a disk of this machine nothing is tried.

    Raises:
        OutputError: It does not do what it must, or cannot be reached, written or read.
    """
    if not isinstance(place, Location):
        return
    folder = place / f"{TRIED}{secrets.token_hex(8)}"
    file, system, address = folder / "file", place.system, str(place)
    with disk_errors(place):
        try:
            created = [system.create(str(file), word, mode=0o600) for word in (b"first", b"second")]
            if created != [True, False] or system.read(str(file)) != b"first":
                raise OutputError(
                    f"{address}: a file was created where there was one: two drivers could both draw a level there",
                    hint=_ANOTHER,
                )
            write_durably(file, "other")
            if file.read_text() != "other" or names_in(folder) != {"file"}:
                raise OutputError(f"{address}: a file is found later than it was written", hint=_ANOTHER)
            system.remove(str(file))
            if file.is_file() or names_in(folder):
                raise OutputError(f"{address}: a file is found after it was removed", hint=_ANOTHER)
        finally:
            with suppress(OSError):
                system.destroy(str(folder))


def require_destroying(place: Place) -> None:
    """Refuse a place whose store keeps what is removed: what was drawn and destroyed must not come back.

    Raises:
        OutputError: It does, or cannot be asked.
    """
    with disk_errors(place):
        kept = kept_of_removed(place)
    if kept:
        raise OutputError(f"{place}: the store {kept}, so that nothing is destroyed there", hint=_NOT_GONE)


def require_encrypted(place: Place) -> None:
    """Refuse a place whose store does not say of a file that it is encrypted at rest; a disk is not asked.

    Raises:
        OutputError: It does not, or cannot be asked.
    """
    if not isinstance(place, Location):
        return
    file = place / f"{TRIED}{secrets.token_hex(8)}"
    with disk_errors(place):
        try:
            write_durably(file, "tried")
            encrypted = is_encrypted_at_rest(file)
        finally:
            with suppress(OSError):
                place.system.remove(str(file))
    if not encrypted:
        raise OutputError(f"{place}: the store does not say that it encrypts what lies there", hint=_NOT_ENCRYPTED)
