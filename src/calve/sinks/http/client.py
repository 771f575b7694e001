"""Sends requests to the server of an HTTP sink; converts failures to Calve's errors."""

from __future__ import annotations

import gzip
import ssl
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning, SSLError

from calve.credentials import remember
from calve.errors import CalveError, SinkRefusedError, SinkUnavailableError
from calve.event.reject import cut
from calve.network.backoff import delay
from calve.network.bounded_http import BoundedServer, HeaderError, UnboundedError, basic_login
from calve.network.no_answer import no_answer
from calve.sinks.http.settings import HttpSinkSettings

__all__ = ["HttpAnswer", "HttpClient"]

_MOST_ANSWER_BYTES = 1 << 20
_TRIES = 4
"""How often a request is sent, within the time of an answer, before the whole batch is tried again later."""
_CONNECT_SECONDS = 10.0
_LATER = frozenset({408, 409, 425, 429})
"""Also a request whose key another one has that is not yet answered (409)."""
_OF_EVENTS = frozenset({400, 413, 422})
"""What a server answers if it does not take the events of a request; all other refusals concern every request."""
_HINTS = {
    401: "Correct `authentication`",
    403: "Correct `authentication`, or allow its user to post there",
    404: "Correct `url`",
    405: "Correct `url` or `method`",
    406: "Choose another `body`",
    415: "Choose another `body` or `compression`",
}


class HttpAnswer(NamedTuple):
    """The status of an answer, and its body."""

    status: int
    data: bytes

    @property
    def reason(self) -> str:
        """The status, and the beginning of the body."""
        text = " ".join(self.data[:300].decode(errors="replace").split())
        return f"status {self.status}: {cut(text)}" if text else f"status {self.status}"

    @property
    def is_refusal_of_events(self) -> bool:
        """Whether other events may be accepted."""
        return self.status in _OF_EVENTS


class HttpClient:
    """Talks to one server; for one thread of a driver or an executor.

    Args:
        settings: The sink's settings.
    """

    def __init__(self, settings: HttpSinkSettings) -> None:
        url = urlsplit(settings.url)
        self._settings = settings
        self._name = f"{url.scheme}://{url.netloc}"
        self._path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        tls: dict[str, Any] = {}
        if settings.insecure:  # the user set it
            urllib3.disable_warnings(InsecureRequestWarning)
            tls = {"cert_reqs": "CERT_NONE", "assert_hostname": False}
        if settings.certificate:
            tls["ca_certs"] = settings.certificate
        seconds = settings.timeout.total_seconds()
        self._server = BoundedServer(
            self._name, min(seconds, _CONNECT_SECONDS), seconds, **(tls if url.scheme == "https" else {})
        )
        self._headers = {**settings.headers, **_login(settings)}
        self._headers["content-type"] = "application/x-ndjson" if settings.body == "ndjson" else "application/json"
        if settings.compression == "gzip":
            self._headers["content-encoding"] = "gzip"

    def reach(self) -> None:
        """Check that the server answers anything at all.

        Raises:
            CalveError: It does not.
        """
        self._ask("OPTIONS", None, _login(self._settings))

    def send(self, body: bytes, key: str) -> HttpAnswer:
        """Send a request, more than once if the server is away or asks for it.

        Args:
            body: Its body.
            key: The same whenever the request comes again (`Idempotency-Key`).

        Returns:
            The answer: it is accepted, or `HttpAnswer.is_refusal_of_events`.

        Raises:
            SinkUnavailableError: The server does not answer, or not now.
            SinkRefusedError: It accepts no requests like these.
        """
        if self._settings.compression == "gzip":
            body = gzip.compress(body, 6, mtime=0)
        headers = {**self._headers, "idempotency-key": key}
        deadline = time.monotonic() + self._settings.timeout.total_seconds()  # a run that stops waits for this task
        for attempt in range(1, _TRIES + 1):
            try:
                answer = self._ask(self._settings.method, body, headers)
                if answer.status not in _LATER and answer.status < 500:
                    return self._accepted(answer)
                raise self._unavailable(f"cannot accept events now: {answer.reason}")
            except SinkUnavailableError:
                if attempt == _TRIES or time.monotonic() >= deadline:
                    raise
            time.sleep(delay(attempt - 1))
        raise AssertionError  # the last try returns or raises

    def _ask(self, method: str, body: bytes | None, headers: dict[str, str]) -> HttpAnswer:
        try:
            return HttpAnswer(*self._server.ask(method, self._path, body, headers, _MOST_ANSWER_BYTES))
        except (HTTPError, OSError) as raised:
            if isinstance(raised, UnboundedError):
                raise self._refused(f"gives an answer that is too large: {raised}", "Correct `url`") from raised
            if isinstance(raised, HeaderError):
                raise self._refused(f"cannot be asked: {raised}", "Correct `headers` or `authentication`") from raised
            cause = raised.args[0] if raised.args else None
            if isinstance(raised, SSLError) and isinstance(cause, ssl.SSLCertVerificationError):
                hint = "Set `certificate` to the authority's certificate, or set `insecure: true`"
                raise self._refused(f"has no trusted TLS: {cause.verify_message}", hint) from raised
            raise self._unavailable(f"does not answer: {no_answer(raised)}") from raised

    def _accepted(self, answer: HttpAnswer) -> HttpAnswer:
        if answer.status < 300 or answer.is_refusal_of_events:
            return answer
        if answer.status < 400:
            raise self._refused(f"answers with a redirect, {answer.reason}", "Set `url` to the address behind it")
        hint = _HINTS.get(answer.status, "Correct `url`, `method` or `headers`")
        raise self._refused(f"refuses requests, {answer.reason}", hint)

    def _unavailable(self, what: str) -> SinkUnavailableError:
        hint = "Start it or correct `url`; Calve continues by itself when it answers"
        return SinkUnavailableError(f"{self._name} {what}", step="write", target=self._name, hint=hint)

    def _refused(self, what: str, hint: str) -> CalveError:
        return SinkRefusedError(f"{self._name} {what}", step="write", target=self._name, hint=hint)


def _login(settings: HttpSinkSettings) -> dict[str, str]:
    """Return the header that authenticates; its secret is hidden from logs, also in tasks."""
    for value in settings.headers.values():
        remember(value, is_secret=True)
    chosen = settings.authentication
    if chosen is None:
        return {}
    if chosen.http_basic is not None:
        remember(chosen.http_basic.password, is_secret=True)
        return basic_login(chosen.http_basic.username, chosen.http_basic.password)
    remember(chosen.bearer_token or "", is_secret=True)
    return {"authorization": f"Bearer {chosen.bearer_token}"}
