"""A checkout whose `das-spark` and `spark-submit` are carried out by this process, with the session of the tests.

A document's block of commands is real bash in a real folder. Only what would start a JVM of its own, for seconds, is
handed to the process of the tests: arguments, folder, environment and the three standard streams.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from tracked import ROOT, tracked

from das_spark.cli.main import main

_ADDRESS = "DAS_SPARK_TEST_ADDRESS"
#: Programs that the shared session carries out, and what of their arguments is not das-spark's.
_SHARED = ("das-spark", "spark-submit")
_SCRIPT = "/jobs/run.py"
_LONGEST_MESSAGE = 1 << 20
_PROGRAMS = ".shared"
_PROGRAM = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as way:
    way.connect(os.environ["{address}"])
    said = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(way, [len(said).to_bytes(8, "big")], [0, 1, 2])
    way.sendall(said)
    sys.exit(int(way.recv(16)))
"""


class Checkout:
    """A copy of the files that git would clone, with the environment of these tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in tracked():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        (folder / ".venv").symlink_to(Path(sys.prefix))

    def write(self, files: Mapping[str, str]) -> None:
        """Write files that a page shows."""
        for name, text in files.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    @contextmanager
    def left_as_it_was(self) -> Iterator[None]:
        """Remove whatever the commands of a block have put into the checkout."""
        before = set(self.folder.iterdir())
        try:
            yield
        finally:
            for path in set(self.folder.iterdir()) - before - {self.folder / _PROGRAMS}:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def run(self, script: str, session: Any = None, *, python: bool = False) -> str:
        """Run bash, or Python, in the checkout; it must succeed. Return what is printed.

        Args:
            script: What is run.
            session: The session that carries out the commands of das_spark; None: each starts one, as for a user.
            python: Whether the script is Python.
        """
        command = [".venv/bin/python", "-c", script] if python else ["bash", "-euo", "pipefail", "-c", script]
        code, printed = self._run_shared(command) if session is not None and not python else self._run_alone(command)
        assert code == 0, f"exit code {code}\n{script}\n{printed[-4000:]}"
        return printed

    def _run_alone(self, command: list[str]) -> tuple[int, str]:
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            with _process(command, self.folder, _environment(), output) as process:
                process.wait()
            return process.returncode, _text_of(output)

    def _run_shared(self, command: list[str]) -> tuple[int, str]:
        with (
            tempfile.TemporaryDirectory() as folder,
            socket.socket(socket.AF_UNIX) as listener,
            tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        ):
            environment = _environment() | {_ADDRESS: f"{folder}/way"}
            listener.bind(environment[_ADDRESS])
            listener.listen()
            with self._replaced(), _process(command, self.folder, environment, output) as process:
                while process.poll() is None:
                    if select.select([listener], [], [], 0.05)[0]:
                        _carry_out(listener.accept()[0])
            return process.returncode, _text_of(output)

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        """Let .venv be an environment like that of the tests, but for the shared programs."""
        programs = self.folder / _PROGRAMS
        if not programs.exists():
            (programs / "bin").mkdir(parents=True)
            for path in Path(sys.prefix).iterdir():
                if path.name != "bin":
                    (programs / path.name).symlink_to(path)
            for path in (Path(sys.prefix) / "bin").iterdir():
                if path.name not in _SHARED:
                    (programs / "bin" / path.name).symlink_to(path)
            for name in _SHARED:
                (programs / "bin" / name).write_text(_PROGRAM.format(python=sys.executable, address=_ADDRESS))
                (programs / "bin" / name).chmod(0o755)
        link = self.folder / ".venv"
        before = link.readlink()
        link.unlink()
        link.symlink_to(programs)
        try:
            yield
        finally:
            link.unlink()
            link.symlink_to(before)


def _process(command: list[str], folder: Path, environment: dict[str, str], output: IO[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    )


def _text_of(output: IO[str]) -> str:
    output.seek(0)
    return output.read()


def _environment() -> dict[str, str]:
    """Return the environment of a user, without what the session of the tests has set for itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    # Quick to start: a JVM that lives for a minute gains nothing from compiling twice.
    environment["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    return environment


def _carry_out(way: socket.socket) -> None:
    """Run one command of das-spark as a process in its folder would, and send its exit code."""
    with way:
        head, streams, _, _ = socket.recv_fds(way, 8, 3)
        said = b""
        while len(said) < int.from_bytes(head, "big"):
            said += way.recv(_LONGEST_MESSAGE)
        arguments, folder, environment = json.loads(said)
        scripts = [place for place, argument in enumerate(arguments) if argument.endswith(_SCRIPT)]
        with _standing_in(folder, environment, streams):
            code = main(arguments[scripts[0] + 1 if scripts else 1 :])
        way.sendall(str(code).encode())


@contextmanager
def _standing_in(folder: str, environment: dict[str, str], streams: list[int]) -> Iterator[None]:
    """Let this process have the folder, the environment and the standard streams of another."""
    kept = [os.dup(number) for number in range(3)]
    ours = {name: value for name, value in environment.items() if name.startswith("DAS_SPARK_") or name == "COLUMNS"}
    before, umask = Path.cwd(), os.umask(0o022)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("DAS_SPARK_") and name not in ours]:
            patch.delenv(name)
        for name, value in ours.items():
            patch.setenv(name, value)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        patch.setattr(sys, "stdin", os.fdopen(0, closefd=False))
        patch.setattr(sys, "stdout", os.fdopen(1, "w", closefd=False, encoding="utf-8"))
        patch.setattr(sys, "stderr", os.fdopen(2, "w", closefd=False, encoding="utf-8", buffering=1))
        os.chdir(folder)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.chdir(before)
            os.umask(umask)
            for number, stream in enumerate(kept):
                os.dup2(stream, number)
                os.close(stream)
