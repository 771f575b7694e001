"""A small threaded HTTP server for metrics and pages: bounded threads, and a busy one serves the newest client."""

from __future__ import annotations

import contextlib
import socket
import threading
from http import HTTPStatus
from http.client import LineTooLong
from io import BufferedIOBase
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client.exposition import ThreadingWSGIServer

from calve.observe.descriptors import is_reserved

__all__ = ["MOST_CLIENTS", "Quiet", "server_class"]

MOST_CLIENTS = 16
"""With more clients than this the oldest is disconnected: honest ones are answered in milliseconds."""
_MAX_HEAD_BYTES = 64 << 10
_MOST_THREADS = 2 * MOST_CLIENTS


class _Head:
    """Reads the lines of a head, up to a size.

    Raises:
        LineTooLong: The head is longer (`readline`).
    """

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        self._rest = _MAX_HEAD_BYTES

    def readline(self, limit: int) -> bytes:
        """Return a line."""
        line = self._stream.readline(limit)
        self._rest -= len(line)
        if self._rest < 0:
            raise LineTooLong("head")
        return line


class Quiet(WSGIRequestHandler):
    """A handler that logs no requests, ends idle connections, and refuses what no client of today sends."""

    timeout = 30

    def parse_request(self) -> bool:
        """Read the head; return whether the request may be answered, else it has been refused."""
        body = self.rfile
        self.rfile = cast("Any", _Head(body))
        try:
            is_read = super().parse_request()
        finally:
            self.rfile = body
        if is_read and self.request_version == "HTTP/0.9":
            self.send_error(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
            return False
        if is_read and self.request_version != "HTTP/1.0" and "host" not in self.headers:
            self.send_error(HTTPStatus.BAD_REQUEST, "The request has no Host")
            return False
        return is_read

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
