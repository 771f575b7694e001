"""Asks HTTP servers that are not trusted: an answer has a largest size, and ends in a time, however it is sent."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from base64 import b64encode
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.response import BaseHTTPResponse, HTTPResponse

__all__ = ["BoundedServer", "HeaderError", "UnboundedError", "basic_login"]

_PIECE_BYTES = 1 << 16


class UnboundedError(HTTPError):
    """An answer is larger than any that is expected. Internal: the caller names the server."""


class HeaderError(HTTPError):
    """A header has characters that HTTP does not allow; its value, perhaps a secret, is not in the text."""


def basic_login(user: str, password: str) -> dict[str, str]:
    """Return the header of a login, in UTF-8 (RFC 7617)."""
    return {"authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


class _InTime(HTTPConnection):
    """A connection whose head of an answer arrives in the time of a read, also if the server sends byte by byte."""

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3 declares it
        timeout, stream = self.timeout, self.sock
        if not isinstance(timeout, int | float):
            return super().getresponse()
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(timeout, end)
        timer.daemon = True
        timer.start()
        try:
            answer = super().getresponse()
        except Exception as error:
            if is_over.is_set():
                raise TimeoutError("no answer in time") from error
            raise
        finally:
            timer.cancel()
        if is_over.is_set():  # the end of the connection is the end of a head, too
            raise TimeoutError("no answer in time")
        return answer


class _SecureInTime(_InTime, HTTPSConnection):
    pass


class BoundedServer:
    """The connections to a server; a request is sent once, and no redirect is followed. Thread-safe.

    Args:
        url: The server's.
        connect_seconds: Until it is connected.
        answer_seconds: Until the head of an answer is complete, and again its body.
        **tls: Options of TLS for https.
    """

    def __init__(self, url: str, connect_seconds: float, answer_seconds: float, **tls: Any) -> None:
        timeout = urllib3.Timeout(connect=connect_seconds, read=answer_seconds)
        self._seconds = answer_seconds
        self._pool = urllib3.connection_from_url(url, timeout=timeout, retries=False, **tls)
        self._pool.ConnectionCls = _SecureInTime if urlsplit(url).scheme == "https" else _InTime

    def ask(self, method: str, path: str, body: Any, headers: dict[str, str], most_bytes: int) -> tuple[int, bytes]:
        """Send a request; return the status and the body of the answer.

        Args:
            method: The HTTP method.
            path: With a leading slash.
            body: Bytes, a buffer, or None.
            headers: The headers.
            most_bytes: The largest size of the answer's body, unpacked.

        Raises:
            HTTPError, OSError: There is no answer, or none in time.
            HeaderError: A header cannot be sent.
            UnboundedError: It is too large.
        """
        try:
            answer = self._pool.urlopen(method, path, body, headers, redirect=False, preload_content=False)
        except HTTPError:
            raise
        except ValueError:  # whose text shows the header
            raise HeaderError("a header has characters that HTTP does not allow") from None
        try:
            data = self._read(answer, time.monotonic() + self._seconds, most_bytes)
        except BaseException:
            answer.close()
            raise
        answer.release_conn()
        return answer.status, data

    def _read(self, answer: BaseHTTPResponse, end: float, most_bytes: int) -> bytes:
        data = bytearray()
        while piece := answer.read1(_PIECE_BYTES):
            data += piece
            if len(data) > most_bytes:
                raise UnboundedError(f"its answer has more than {most_bytes >> 20:,} MB")
            if time.monotonic() > end:
                raise ReadTimeoutError(self._pool, "", "no answer in time")
        return bytes(data)
