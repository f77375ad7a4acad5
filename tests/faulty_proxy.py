"""A proxy before a server of a store that loses answers, refuses, is slow, as often as a seed says, or lists late."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from roles import Asked, Roles, right_to_miss, rights_of, role_of

#: What a store says that is asked too often.
SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
#: What it says to those who may not ask.
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"

#: Status, headers, content.
Answer = tuple[int, list[tuple[str, str]], bytes]


class Faults:
    """Decides what becomes of each request, and counts.

    Attributes:
        shares: Kind of a fault -> the share of all requests that it befalls.
        late: Seconds for which a list is answered as the same list was answered before.
        count: How often each kind occurred.
    """

    def __init__(self, seed: int, shares: dict[str, float], late: float = 0.0) -> None:
        self.shares, self.late, self.count = shares, late, Counter[str]()
        self._listed: dict[str, tuple[float, Answer]] = {}
        self._random, self._one = random.Random(seed), threading.Lock()

    def next(self) -> str:
        with self._one:
            chosen = self._random.random()
            for kind, share in self.shares.items():
                chosen -= share
                if chosen < 0:
                    self.count[kind] += 1
                    return kind
            self.count["passed"] += 1
            return "passed"

    def listed(self, query: str) -> Answer | None:
        """What the same list was answered a little while ago, where lists are late."""
        answered, answer = self._listed.get(query, (0.0, None))
        if answer is None or time.monotonic() - answered >= self.late:
            return None
        self.count["late"] += 1
        return answer

    def keep(self, query: str, answer: Answer) -> None:
        """Keep what a list was answered, where lists are late."""
        if self.late:
            self._listed[query] = (time.monotonic(), answer)


class _Handler(BaseHTTPRequestHandler):
    """Hands a request on, or does not."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and content are sent one after the other
    port: int
    faults: Faults
    roles: Roles | None

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle_one(self) -> None:
        body, kind = self._body(), self.faults.next()
        if self._lacks(rights_of(self.command, self.path, self.headers.get("x-amz-copy-source", ""))):
            self._deny()
            return
        if kind in ("refused", "failed"):
            self._answer(503 if kind == "refused" else 500, [("Content-Type", "application/xml")], SLOW_DOWN)
            return
        if kind == "cut":
            self._cut()
            return
        if kind == "slow":
            time.sleep(1)
        is_list = self.command == "GET" and "list-type=2" in self.path
        earlier = self.faults.listed(self.path) if is_list else None
        if earlier is not None:
            self._answer(*earlier)
            return
        behind = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
        behind.request(self.command, self.path, body, headers)
        answer = behind.getresponse()
        content = answer.read()
        if kind == "lost":
            self._cut()
            return
        if answer.status == 404 and self._lacks([right_to_miss(self.path)]):
            self._deny()
            return
        if is_list:
            self.faults.keep(self.path, (answer.status, answer.getheaders(), content))
        self._answer(answer.status, answer.getheaders(), content, length=answer.getheader("Content-Length"))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one

    def _lacks(self, rights: list[Asked]) -> bool:
        role = role_of(self.headers.get("Authorization", ""))
        return self.roles is not None and self.roles.refuse(role, rights)

    def _deny(self) -> None:
        self._answer(403, [("Content-Type", "application/xml")], DENIED)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def faulty_proxy(port: int, faults: Faults, roles: Roles | None = None) -> Iterator[int]:
    """The port of a proxy before a port of the loopback.

    Kinds of faults: "refused" (503, and nothing is done), "failed" (500, the same), "cut" (the connection is cut, the
    same), "lost" (it is cut when all is done, before the answer), "slow" (done after a second). Lists of S3 may be late
    besides (`Faults.late`). With roles, whoever may not ask is refused (403), whatever the faults.
    """
    handler = type("Handler", (_Handler,), {"port": port, "faults": faults, "roles": roles})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
