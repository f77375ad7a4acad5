"""A server of a store that a person starts: it says how it is found, serves, and ends when it is told to."""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import servers

from das_spark.places import place_of


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_server_started_by_hand_is_found_by_the_lines_that_it_prints(how):
    command = [sys.executable, str(Path(servers.__file__)), "s3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("#"):
                break
        exports = [shlex.split(line.removeprefix("export "))[0] for line in lines[:-1]]
        assert all(line.startswith("export ") for line in lines[:-1])
        assert lines[-1].split()[1] == f"s3://{servers.BUCKET}"
        environment = dict(export.split("=", 1) for export in exports)
        with servers.reached(environment):
            file = place_of(f"s3://{servers.BUCKET}/runs/file")
            file.system.write(str(file), b"there")
            assert file.read_bytes() == b"there"
        process.send_signal(how)
        assert process.wait(30) == 0
        assert not process.stderr.read()
    with socket.socket() as one:
        assert one.connect_ex(("127.0.0.1", int(environment["AWS_ENDPOINT_URL"].rpartition(":")[2])))
