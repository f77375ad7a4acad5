"""Whether a store keeps what is removed from it: then nothing that was destroyed there is gone."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from das_spark.places.filesystem import TRIED, Location, Place
from das_spark.places.remote import RemoteFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsspec import AbstractFileSystem

_UNKNOWN: Final = "cannot be asked whether it keeps versions of what is removed ({error})"


def kept_of_removed(place: Place) -> str:
    """Say what the store of a place keeps of removed objects; empty where it keeps nothing, and on a disk.

    Raises:
        OSError: The store cannot be reached.
    """
    if not isinstance(place, Location) or not isinstance(place.system, RemoteFileSystem):
        return ""
    ask = _ASKED.get(place.system.scheme)
    if ask is None:
        return ""
    try:
        return ask(place.system.opened(), place.system.authority.partition("@")[0])
    except PermissionError as error:
        return _UNKNOWN.format(error=type(error).__name__)


def _of_s3(files: AbstractFileSystem, bucket: str) -> str:
    found: dict[str, Any] = files.call_s3("get_bucket_versioning", Bucket=bucket)
    return "keeps versions" if found.get("Status") in ("Enabled", "Suspended") else ""


def _of_google(files: AbstractFileSystem, bucket: str) -> str:
    found: dict[str, Any] = files.call("GET", "b/{}", bucket, json_out=True)
    if found.get("versioning", {}).get("enabled"):
        return "keeps versions"
    return "keeps removed objects" if int(found.get("softDeletePolicy", {}).get("retentionDurationSeconds", 0)) else ""


def _of_azure(files: AbstractFileSystem, container: str) -> str:
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


_ASKED: Final[dict[str, Callable[[AbstractFileSystem, str], str]]] = {
    **dict.fromkeys(("s3", "s3a"), _of_s3),
    **dict.fromkeys(("gs", "gcs"), _of_google),
    **dict.fromkeys(("abfs", "abfss", "az"), _of_azure),
}
