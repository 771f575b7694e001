"""Posts to an endpoint that somebody has configured, with bounds on its answers; says in words why a post failed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from urllib3.exceptions import HTTPError

from calve.credentials import in_short
from calve.network.bounded_http import BoundedServer

__all__ = ["HttpPost"]

_CONNECT_SECONDS = 5.0
_MOST_ANSWER_BYTES = 1 << 20


class HttpPost:
    """An endpoint; it connects with the first request.

    Args:
        url: Its address.
        headers: The headers of each request.
        timeout: How long an answer may take.
        path: The path, if the address has none.

    Attributes:
        address: Where it is, without a query, which may have secrets.
    """

    def __init__(self, url: str, headers: Mapping[str, str], timeout: timedelta, path: str = "/") -> None:
        parts = urlsplit(url)
        path = parts.path if parts.path.strip("/") else path
        self.address = f"{parts.scheme}://{parts.netloc}{path}"
        self._path = path + (f"?{parts.query}" if parts.query else "")
        self._headers = dict(headers)
        seconds = timeout.total_seconds()
        self._server = BoundedServer(f"{parts.scheme}://{parts.netloc}", min(_CONNECT_SECONDS, seconds), seconds)

    def send(self, body: bytes) -> tuple[str, bytes]:
        """Post a body; return why it failed (empty: it did not), and the answer."""
        status, answer, failure = self._ask("POST", body)
        if not failure and not 200 <= status < 300:
            failure = f"it answered with status {status}"
        return failure, answer

    def probe(self) -> str:
        """Ask whether the endpoint is there, without sending anything; return why not (empty: it is)."""
        status, _, failure = self._ask("OPTIONS", None)
        if not failure and (status in (401, 403) or status >= 500):
            failure = f"it answered with status {status}"
        return failure

    def _ask(self, method: str, body: bytes | None) -> tuple[int, bytes, str]:
        try:
            status, answer = self._server.ask(method, self._path, body, self._headers, _MOST_ANSWER_BYTES)
        except (HTTPError, OSError) as error:
            return 0, b"", in_short(error)
        return status, answer, ""
