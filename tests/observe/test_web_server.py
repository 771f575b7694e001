"""A port for metrics or pages: silent clients take neither threads nor the turn of honest ones."""

from __future__ import annotations

import socket
import threading
import urllib.request
from contextlib import ExitStack

import pytest

from calve.observe import descriptors
from calve.observe.metrics import Metrics
from calve.observe.web_server import MOST_CLIENTS
from kit.running import PATIENCE_SECONDS


def test_silent_clients_are_disconnected_and_metrics_are_served() -> None:
    with Metrics(list, 0) as metrics, ExitStack() as clients:
        address = ("127.0.0.1", metrics.port or 0)
        silent = [
            clients.enter_context(socket.create_connection(address, PATIENCE_SECONDS)) for _ in range(5 * MOST_CLIENTS)
        ]
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/healthz", timeout=PATIENCE_SECONDS) as answer:
            assert answer.status == 200
        assert silent[0].recv(1) == b""  # the oldest had to leave
        serving = [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]
        assert len(serving) <= 2 * MOST_CLIENTS


LONG = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
        (b"GET /healthz HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /healthz HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /healthz\r\n\r\n", b""),
        (LONG + b"X: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
        (LONG + b"".join(b"X: %s\r\n" % (b"x" * 1_000) for _ in range(70)), b"431"),
    ],
)
def test_what_no_client_of_today_sends_is_refused(head: bytes, status: bytes) -> None:
    with (
        Metrics(list, 0) as metrics,
        socket.create_connection(("127.0.0.1", metrics.port or 0), PATIENCE_SECONDS) as client,
    ):
        client.sendall(head)
        with client.makefile("rb") as answer:
            first = answer.readline()
    assert first.partition(b" ")[2].startswith(status) if status else b"alive" not in first


def test_no_client_of_metrics_gets_a_descriptor_of_the_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    with Metrics(list, 0) as metrics:
        monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: (4, 4))
        with socket.create_connection(("127.0.0.1", metrics.port or 0), PATIENCE_SECONDS) as client:
            assert client.recv(1) == b""
