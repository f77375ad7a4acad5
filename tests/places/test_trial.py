"""A place is tried before anything is charged: two cannot create one file there, and what is removed is gone."""

from __future__ import annotations

import secrets
from contextlib import ExitStack

import pytest
import servers

from das_spark.errors import OutputError
from das_spark.places import place_of
from das_spark.store import require_destroying, require_encrypted, require_exclusive


@pytest.fixture
def reach():
    """Lead the clients of this process to a server."""
    with ExitStack() as reached:

        def to(server):
            reached.enter_context(servers.reached(server.environment))
            return place_of(f"{server.url}/{secrets.token_hex(4)}/runs")

        yield to


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with servers.s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


def test_a_store_that_does_what_it_must_passes_and_keeps_no_trace(s3, reach):
    place = reach(s3)
    require_exclusive(place)
    require_destroying(place)
    require_encrypted(place)
    assert place.system.names(str(place)) == set()


def test_disks_and_memory_are_not_asked(tmp_path):
    for place in (tmp_path, place_of(f"memory://{secrets.token_hex(4)}/runs")):
        require_exclusive(place)
        require_destroying(place)
        require_encrypted(place)


def test_a_store_that_overwrites_without_a_word_is_refused(tmp_path, reach):
    """The negative control: an emulator that ignores the condition of a request."""
    with servers.careless_server(tmp_path) as server:
        place = reach(server)
        with pytest.raises(OutputError, match="a file was created where there was one: two drivers could both draw"):
            require_exclusive(place)


def test_a_place_that_is_not_there_is_named(s3, reach):
    reach(s3)
    with pytest.raises(OutputError, match=r"s3://no-such-bucket/x: .*does not exist"):
        require_exclusive(place_of("s3://no-such-bucket/x"))
    with pytest.raises(OutputError, match="s3://no-such-bucket/x: "):
        require_destroying(place_of("s3://no-such-bucket/x"))


@pytest.mark.parametrize("status", ["Enabled", "Suspended"])
def test_a_bucket_that_keeps_versions_is_refused(s3, reach, status):
    place, bucket = reach(s3), f"kept-{status.lower()}"
    files = place.system.opened()
    files.call_s3("create_bucket", Bucket=bucket)
    files.call_s3("put_bucket_versioning", Bucket=bucket, VersioningConfiguration={"Status": status})
    with pytest.raises(OutputError, match="the store keeps versions, so that nothing is destroyed there"):
        require_destroying(place_of(f"s3://{bucket}/runs"))


def test_a_bucket_that_does_not_say_that_it_encrypts_is_refused(s3, reach):
    files = reach(s3).system.opened()
    files.call_s3("create_bucket", Bucket="open")
    with pytest.raises(OutputError, match="s3://open/runs: the store does not say that it encrypts"):
        require_encrypted(place_of("s3://open/runs"))
    assert files.ls("open") == [], "what was tried is removed"


@pytest.mark.slow
def test_containers_of_azure_that_keep_removed_blobs_are_refused(tmp_path, reach):
    with servers.azure_server(tmp_path) as server:
        place = reach(server)
        require_exclusive(place)
        require_destroying(place)
        require_encrypted(place)
        from azure.storage.blob import BlobServiceClient, RetentionPolicy

        account = BlobServiceClient.from_connection_string(server.environment["AZURE_STORAGE_CONNECTION_STRING"])
        account.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
        with pytest.raises(OutputError, match="the store keeps removed blobs"):
            require_destroying(place)


@pytest.mark.slow
def test_a_bucket_of_google_is_asked(tmp_path, reach):
    with servers.google_server(tmp_path) as server:
        place = reach(server)
        require_exclusive(place)
        require_destroying(place)
        with pytest.raises(OutputError, match="does not say that it encrypts"):
            require_encrypted(place)  # Google's own store does, and is known by its host
