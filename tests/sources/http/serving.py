"""A source on a free port, and clients for it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calve.settings import Size
from calve.sources.http import source
from calve.sources.http.settings import HttpSettings
from calve.sources.source import Planned, Position
from calve.state.local_folder import LocalFolder
from kit.running import PATIENCE_SECONDS

Answer = tuple[int, str, dict[str, str]]


class Serving:
    """A source that serves, with the folder of its log."""

    def __init__(self, folder: Path, position: Position | None = None, once: bool = False, **options: Any) -> None:
        settings = HttpSettings(**{"port": 0, "min_free_bytes": Size(1 << 20), **options})
        self.folder = folder
        self.source = source.open(settings, LocalFolder(folder), "orders")
        self.source.start(position, once)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request on a connection of its own."""
        client = http.client.HTTPConnection(*self.source.address, timeout=PATIENCE_SECONDS)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            client.request(method, path, body, names)
            response = client.getresponse()
            return response.status, response.read().decode(), {k.lower(): v for k, v in response.getheaders()}
        finally:
            client.close()

    def post(self, body: Any, **headers: str) -> int:
        """Send a body to the usual path; a list is sent as JSON."""
        data = json.dumps(body) if isinstance(body, list) else body
        return self.send("POST", "/log/ingest", data, **headers)[0]

    def connect(self) -> socket.socket:
        """Open a bare connection."""
        return socket.create_connection(self.source.address, timeout=PATIENCE_SECONDS)

    def talk(self, data: bytes) -> bytes:
        """Send bytes, say that no more will come, and give all that comes back."""
        with self.connect() as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            return everything(client)

    def plan(self, position: Position | None = None, max_bytes: int = 1 << 40) -> Planned | None:
        """Plan a batch."""
        return self.source.plan(position, max_bytes)

    def events(self, position: Position | None = None) -> list[Any]:
        """Read all events behind a position."""
        planned = self.plan(position)
        return read(self.source, planned) if planned else []

    def logs(self) -> list[str]:
        """Give the names of the segments."""
        return sorted(path.name for path in self.folder.glob("*.log"))


def read(http_source: source.HttpSource, planned: Planned) -> list[Any]:
    """Read the events of a batch."""
    batches = [batch for split in planned.splits for batch in http_source.reader.read(split)]
    return [json.loads(event) for batch in batches for event in batch.column("event").to_pylist()]


def everything(client: socket.socket) -> bytes:
    """Read until the other side closes."""
    parts = []
    while part := client.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for a condition, with a bound."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.002)


@contextmanager
def stalled(serving: Serving) -> Iterator[None]:
    """Let the disk hang while it writes an event `{"a": "first"}`, which is answered 200 afterwards."""
    tail = serving.source._log._tail
    write, begun, go_on, answers = tail.write, threading.Event(), threading.Event(), list[int]()

    def slow(data: bytes) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)
        write(data)

    tail.write = slow  # type: ignore[method-assign]
    client = threading.Thread(target=lambda: answers.append(serving.post([{"a": "first"}])))
    client.start()
    try:
        assert begun.wait(PATIENCE_SECONDS)
        yield
    finally:
        tail.write = write  # type: ignore[method-assign]
        go_on.set()
        client.join()
    assert answers == [200]


Serve = Callable[..., Serving]
