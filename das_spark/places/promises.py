"""What a store promises of what lies there: that removed objects are gone, and that all is encrypted at rest."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from das_spark.places.filesystem import TRIED, Location, Place
from das_spark.places.remote import RemoteFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsspec import AbstractFileSystem

_UNKNOWN: Final = "cannot be asked whether it keeps versions of what is removed ({error})"
_MEMORY: Final = "memory"
#: Where Google's own store answers, which encrypts every object and says so of none but by its documentation.
_GOOGLE: Final = "storage.googleapis.com"


def kept_of_removed(place: Place) -> str:
    """Say what the store of a place keeps of removed objects; empty where it keeps nothing, and on a disk.

    Raises:
        OSError: The store cannot be reached.
    """
    system = _remote(place)
    ask = None if system is None else _RETENTION.get(system.scheme)
    if system is None or ask is None:
        return ""
    try:
        return ask(system.opened(), _bucket(system))
    except PermissionError as error:
        return _UNKNOWN.format(error=type(error).__name__)


def is_encrypted_at_rest(file: Place) -> bool:
    """Return whether the store of a file says that it is encrypted where it lies; disks and memory are not asked.

    Raises:
        OSError: The store cannot be reached, or the file is missing.
    """
    system = _remote(file)
    if system is None or system.scheme == _MEMORY:
        return True
    ask = _ENCRYPTION.get(system.scheme)
    key = system.uri(str(file)).removeprefix(system.uri("/"))
    return ask is not None and ask(system.opened(), _bucket(system), key)


def _remote(place: Place) -> RemoteFileSystem | None:
    """The store of a place; None on a disk."""
    system = place.system if isinstance(place, Location) else None
    return system if isinstance(system, RemoteFileSystem) else None


def _bucket(system: RemoteFileSystem) -> str:
    """The name of a bucket or container, without the account that an address may have behind it."""
    return system.authority.partition("@")[0]


def _retention_of_s3(files: AbstractFileSystem, bucket: str) -> str:
    found: dict[str, Any] = files.call_s3("get_bucket_versioning", Bucket=bucket)
    return "keeps versions" if found.get("Status") in ("Enabled", "Suspended") else ""


def _retention_of_google(files: AbstractFileSystem, bucket: str) -> str:
    found: dict[str, Any] = files.call("GET", "b/{}", bucket, json_out=True)
    if found.get("versioning", {}).get("enabled"):
        return "keeps versions"
    return "keeps removed objects" if int(found.get("softDeletePolicy", {}).get("retentionDurationSeconds", 0)) else ""


def _retention_of_azure(files: AbstractFileSystem, container: str) -> str:
    from fsspec.asyn import sync  # noqa: PLC0415 - only where a place asks for it

    async def asked() -> str:
        properties = await files.service_client.get_service_properties()
        policy = properties.get("delete_retention_policy")
        if policy is not None and policy.enabled:
            return "keeps removed blobs"
        blob = files.service_client.get_blob_client(container, f"{TRIED}{secrets.token_hex(8)}")
        written = await blob.upload_blob(b"", overwrite=True)  # a blob has a version only where versions are kept
        await blob.delete_blob()
        return "keeps versions" if written.get("version_id") else ""

    return str(sync(files.loop, asked))


def _encryption_of_s3(files: AbstractFileSystem, bucket: str, key: str) -> bool:
    head: dict[str, Any] = files.call_s3("head_object", Bucket=bucket, Key=key)
    return bool(head.get("ServerSideEncryption"))


def _encryption_of_google(files: AbstractFileSystem, bucket: str, key: str) -> bool:
    described: dict[str, Any] = files.info(f"{bucket}/{key}")
    return bool(described.get("kmsKeyName")) or urlsplit(str(files.base)).hostname == _GOOGLE


def _encryption_of_azure(files: AbstractFileSystem, container: str, key: str) -> bool:
    from fsspec.asyn import sync  # noqa: PLC0415 - only where a place asks for it

    async def asked() -> bool:
        described = await files.service_client.get_blob_client(container, key).get_blob_properties()
        return bool(described.server_encrypted)

    return bool(sync(files.loop, asked))


_S3: Final = ("s3", "s3a")
_GS: Final = ("gs", "gcs")
_ABFS: Final = ("abfs", "abfss", "az")
_RETENTION: Final[dict[str, Callable[[AbstractFileSystem, str], str]]] = {
    **dict.fromkeys(_S3, _retention_of_s3),
    **dict.fromkeys(_GS, _retention_of_google),
    **dict.fromkeys(_ABFS, _retention_of_azure),
}
_ENCRYPTION: Final[dict[str, Callable[[AbstractFileSystem, str, str], bool]]] = {
    **dict.fromkeys(_S3, _encryption_of_s3),
    **dict.fromkeys(_GS, _encryption_of_google),
    **dict.fromkeys(_ABFS, _encryption_of_azure),
}
