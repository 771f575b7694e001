"""A small threaded HTTP server for metrics and pages: bounded threads, and a busy one serves the newest client."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client.exposition import ThreadingWSGIServer

from calve.observe.descriptors import is_reserved

__all__ = ["MOST_CLIENTS", "Quiet", "server_class"]

MOST_CLIENTS = 16
"""With more clients than this the oldest is disconnected: honest ones are answered in milliseconds."""
_MOST_THREADS = 2 * MOST_CLIENTS


class Quiet(WSGIRequestHandler):
    """A handler that logs no requests, and ends idle connections."""

    timeout = 30

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


class _Bounded(ThreadingWSGIServer):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._lock = threading.Lock()
        self._clients: dict[socket.socket, None] = {}  # the oldest first
        super().__init__(*arguments, **options)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self._lock:
            if is_reserved(request.fileno()) or len(self._clients) >= _MOST_THREADS:
                return False
            surplus = list(self._clients)[: len(self._clients) + 1 - MOST_CLIENTS]
            self._clients[request] = None
        for oldest in surplus:
            with contextlib.suppress(OSError):  # it has just ended
                oldest.shutdown(socket.SHUT_RDWR)
        return True

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)


class _BoundedVersion6(_Bounded):
    address_family = socket.AF_INET6


def server_class(host: str) -> type[ThreadingWSGIServer]:
    """Return the server for an address of IPv4 or IPv6."""
    return _BoundedVersion6 if ":" in host else _Bounded
