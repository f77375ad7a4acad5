"""A real headless browser, spoken to by the WebDriver protocol: HTTP and JSON, no package needed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 90.0


@dataclass
class Browser:
    """One window."""

    address: str
    session: str = ""

    def ask(self, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> Any:
        """One command of the protocol; gives its value."""
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(f"{self.address}/session{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)["value"]

    def run(self, script: str, *arguments: object) -> Any:
        """The value of a JavaScript function body."""
        return self.ask(f"/{self.session}/execute/sync", {"script": script, "args": list(arguments)})

    def command(self, name: str, **parameters: object) -> Any:
        """A command of the browser's own protocol."""
        return self.ask(f"/{self.session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def open(self, page: Path, width: int = 1100, scheme: str = "light") -> None:
        """Load a file in a window of some width."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.log("browser")  # what earlier pages said
        self.log("performance")
        self.ask(f"/{self.session}/url", {"url": page.resolve().as_uri()})

    def log(self, kind: str) -> list[dict[str, Any]]:
        """Entries of a log of the browser since it was asked last."""
        return list(self.ask(f"/{self.session}/se/log", {"type": kind}))

    def requested(self) -> set[str]:
        """Addresses that the page asked for."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
        return {each["request"]["url"] for each in sent}


@contextmanager
def opened(profile: Path) -> Iterator[Browser]:
    """Chromium with a profile of its own; skips where there is none and none could be installed."""
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
    if driver is None or chromium is None:
        pytest.skip(
            "no chromium and chromedriver on the path (tests/run installs Debian's where it is root and has apt)"
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found = Browser(f"http://127.0.0.1:{port}")
        wait_for(port)
        options = {"binary": chromium, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        logs = {"browser": "ALL", "performance": "ALL"}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logs}
        found.session = found.ask("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        yield found
        found.ask(f"/{found.session}", method="DELETE")
    finally:
        process.terminate()
        process.wait(PATIENCE)


def wait_for(port: int) -> None:
    """Until the driver listens."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < end, "chromedriver does not listen"
            time.sleep(0.1)
        else:
            return
