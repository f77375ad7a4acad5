"""Where files lie: disks of this machine, stores of objects, HDFS; and the few operations that the rest asks of them.

A place is a `Path` on a disk or a `Location` anywhere else, and is named by a path or an address (`place_of`). All that
a run promises rests on the operations of `FileSystem` and on nothing else (`das_spark/store/README.md`).
"""

from das_spark.places.addresses import AddressParts, is_address, parse_address
from das_spark.places.filesystem import (
    POSIX,
    TRIED,
    Capabilities,
    Entry,
    FileSystem,
    Location,
    Place,
    PosixFileSystem,
    as_input,
    copy_file,
    disk_errors,
    inside,
    move_file,
    nearest,
    no_room,
    said,
    seen_from,
    size_of,
    system_of,
    want_of_room,
)
from das_spark.places.named import place_of
from das_spark.places.promises import is_encrypted_at_rest, kept_of_removed
from das_spark.places.remote import SCHEMES, RemoteFileSystem
from das_spark.places.waiting import for_all

__all__ = [
    "POSIX",
    "SCHEMES",
    "TRIED",
    "AddressParts",
    "Capabilities",
    "Entry",
    "FileSystem",
    "Location",
    "Place",
    "PosixFileSystem",
    "RemoteFileSystem",
    "as_input",
    "copy_file",
    "disk_errors",
    "for_all",
    "inside",
    "is_address",
    "is_encrypted_at_rest",
    "kept_of_removed",
    "move_file",
    "nearest",
    "no_room",
    "parse_address",
    "place_of",
    "said",
    "seen_from",
    "size_of",
    "system_of",
    "want_of_room",
]
