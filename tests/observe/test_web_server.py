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
from running import PATIENCE_SECONDS


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


def test_no_client_of_metrics_gets_a_descriptor_of_the_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    with Metrics(list, 0) as metrics:
        monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: (4, 4))
        with socket.create_connection(("127.0.0.1", metrics.port or 0), PATIENCE_SECONDS) as client:
            assert client.recv(1) == b""
