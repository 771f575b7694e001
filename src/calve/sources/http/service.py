"""Authorizes requests and answers them. Runs on the server's event loop."""

from __future__ import annotations

import asyncio
import base64
import hmac
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import msgspec

from calve.observe.log import Log as LogLines
from calve.sources.http import body
from calve.sources.http.browsers import Browsers
from calve.sources.http.message import BUG, Request, RequestRefusedError, Response
from calve.sources.http.refusals import Refusals
from calve.sources.http.settings import ListenerSettings
from calve.sources.log.log import AppendOutcome, Journal, JournalEntry
from calve.sources.log.record import RecordEvents

__all__ = ["Service"]

_KEY = re.compile(rb"[\x21-\x7e]{1,255}")
_HEALTH = b"/health"
_SMALL_BYTES = 32 << 10
"""Bodies up to this length are split on the event loop; others, and all that are packed, on the threads."""
_THREADS = 2
_CODINGS = {b"": False, b"identity": False, b"gzip": True, b"x-gzip": True}
_CHARSETS = ("utf-8", "utf8", "us-ascii")
_SOON = ("retry-after", "1")
_LATER = ("retry-after", "5")


class Service:
    """Answers requests; events go to the log and are answered when they are on disk.

    Args:
        settings: Those of the source.
        pipeline: Its pipeline.
        path: Where events go.
        log: Gets the events.
    """

    def __init__(self, settings: ListenerSettings, pipeline: str, path: str, log: Journal) -> None:
        self._settings = settings
        self.lines = LogLines(pipeline)
        self.path = path
        self._path = self.path.encode()
        self._log = log
        self._pending: dict[JournalEntry, Request] = {}
        self._entries: dict[Request, JournalEntry] = {}
        self._splitting: dict[Request, asyncio.Future[RecordEvents | Response]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "calve-http-split")
        self._credentials = settings.authentication.credentials if settings.authentication else None
        self._browsers = Browsers(settings.host, settings.allowed_origins or [], settings.allowed_hosts or [])
        self.stopping = False
        self.crowded = False  # bodies fill the memory
        self.refusals = Refusals(self.lines)

    @property
    def url_path(self) -> str:
        """What clients write behind the address."""
        return self.path

    @property
    def max_body(self) -> int:
        """Bytes that a body may have."""
        return self._settings.max_request_length

    @property
    def pending(self) -> int:
        """Requests that wait to be split, or for the disk."""
        return len(self._pending) + len(self._splitting)

    @property
    def held_bytes(self) -> int:
        """Bytes of requests that wait to be split, and of those that wait for the disk, unpacked."""
        return sum(request.size for request in self._splitting) + sum(entry.size for entry in self._pending)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)

    def refusal(self, request: Request) -> Response | None:
        """Return the refusal of a request by its head, or None."""
        if refusal := self._browsers.refusal(request.headers):
            return refusal
        if request.method == b"OPTIONS" and (preflight := self._browsers.preflight(request.headers)):
            return preflight
        health = request.path == _HEALTH and self._settings.health_check_service
        if not health and not self._has(request.path):
            return Response(404, f"There is nothing here; events go to {self.path}.")
        allowed = (b"GET", b"HEAD") if health else (b"POST",)
        if request.method not in allowed:
            return Response(405, "This method does not fit the path.", (("allow", b", ".join(allowed).decode()),))
        if not (health and self._settings.unauthenticated_health_check) and not self._knows(request):
            return self._unknown()
        if self.stopping:
            return Response(503, "The pipeline is stopping.", (_LATER,))
        return None if health else self._body_refusal(request)

    def handle(self, request: Request) -> None:
        """Answer a complete request, now or when its events are on disk."""
        if request.refusal:
            self._answer(request, request.refusal)
        elif request.path == _HEALTH:
            self._answer(request, Response(200, "OK"))
        elif self.pending >= self._settings.max_pending_requests:
            self._answer(request, self._too_many())
        else:
            self._ingest(request)

    def expire(self, request: Request) -> None:
        """Refuse a request that has waited too long, unless it is being written right now."""
        if request in self._splitting:
            self._splitting.pop(request).cancel()
            self._answer(request, Response(408, "The request waited too long; nothing of it is kept.", (_SOON,)))
        entry = self._entries.get(request)
        if entry and self._log.withdraw(entry):
            self._settle(entry, Response(408, "The disk was too slow; nothing of the request is kept.", (_SOON,)))

    def answered(self, entries: list[JournalEntry]) -> None:
        """Answer the requests whose entries have their outcome."""
        for entry in entries:
            self._settle(entry, _RESPONSES[entry.outcome or AppendOutcome.FAILED](entry.why))

    def too_large(self) -> Response:
        """Return the refusal of a body that is too long."""
        return Response(413, f"The body is longer than max_request_length: {self.max_body} bytes.")

    def no_memory(self) -> Response:
        """Return the refusal of a request while bodies fill the memory."""
        return Response(429, "The memory for requests is full. Please retry later", (_SOON,))

    def _has(self, path: bytes) -> bool:
        """Return whether events go to a path."""
        return path == self._path

    def _phrased(self, request: Request, response: Response) -> Response:
        """Return an answer as the protocol has it."""
        return response

    def _answer(self, request: Request, response: Response) -> None:
        response = self._phrased(request, response)
        self.refusals.answered(response)
        if readable := self._browsers.headers(request.headers):
            response = replace(response, headers=(*response.headers, *readable))
        request.answer(request, response)

    def _ingest(self, request: Request) -> None:
        data = bytes(request.body)
        request.body.clear()
        coding = request.headers.get(b"content-encoding", b"").strip().lower()
        is_packed = request.is_packed
        if is_packed is None:
            is_packed = _CODINGS[coding] or self._settings.compression == "gzip"
        split = partial(self._split, data, is_packed, request)
        if is_packed or len(data) > _SMALL_BYTES:
            work = asyncio.get_running_loop().run_in_executor(self._threads, split)
            self._splitting[request] = work
            work.add_done_callback(lambda done: self._split_done(request, done))
        else:
            self._submit(request, split())

    def _split_done(self, request: Request, done: asyncio.Future[RecordEvents | Response]) -> None:
        if self._splitting.pop(request, None):  # else it waited too long
            self._submit(request, done.result())

    def _split(self, data: bytes, is_packed: bool, request: Request) -> RecordEvents | Response:
        """Return the events of a body, or its refusal; on any thread."""
        most = self._settings.max_request_events
        if self.crowded and self.pending > 1:  # it may become many times larger
            return self.no_memory()
        try:
            if is_packed:
                data = body.gunzip(data, self.max_body, self._settings.max_compression_ratio)
            return self._read(request, data, most)
        except RequestRefusedError as error:
            return error.response
        except Exception as error:  # a bug must not leave the client without an answer
            self.lines.warning(f"http request failed: {error!r}")
            return BUG

    def _read(self, request: Request, data: bytes, most: int) -> RecordEvents:
        """Return the events of an unpacked body; on any thread.

        Raises:
            RequestRefusedError: It is something else, or has more events than `most`.
        """
        try:
            return body.split_text(data, most) if request.is_text else body.split(data, most)
        except RequestRefusedError as error:
            text = f"{error.response.text}{request.advice(data)}"
            raise RequestRefusedError(replace(error.response, text=text)) from error

    def _submit(self, request: Request, events: RecordEvents | Response) -> None:
        if isinstance(events, Response) or not events.rows:
            self._answer(request, events if isinstance(events, Response) else request.success or _accepted(0))
            return
        kept = self._kept(request)
        headers = msgspec.json.encode(kept) if kept else b""
        entry = JournalEntry(events, request.headers.get(b"idempotency-key", b""), headers)
        self._pending[entry], self._entries[request] = request, entry
        self._log.submit(entry)

    def _settle(self, entry: JournalEntry, response: Response) -> None:
        request = self._pending.pop(entry)
        del self._entries[request]
        success = request.success or _accepted(entry.events.rows)
        self._answer(request, success if response.status == 200 else response)

    def _kept(self, request: Request) -> dict[str, str]:
        """Return what the reader needs to know about the events of a request."""
        return {
            name: request.headers[name.encode()].decode("latin-1")
            for name in self._settings.kept_headers
            if name.encode() in request.headers
        }

    def _knows(self, request: Request) -> bool:
        if self._credentials is None:
            return True
        scheme, _, token = request.headers.get(b"authorization", b"").partition(b" ")
        own_scheme, secret = self._credentials
        try:
            given = base64.b64decode(token.strip(), validate=True) if own_scheme == b"basic" else token.strip()
        except ValueError:
            return False
        return hmac.compare_digest(given, secret) and scheme.lower() == own_scheme

    def _unknown(self) -> Response:
        if self._credentials and self._credentials[0] == b"bearer":
            return Response(401, "The token is wrong.", (("www-authenticate", 'Bearer realm="calve"'),))
        return Response(401, "User name or password is wrong.", (("www-authenticate", 'Basic realm="calve"'),))

    def _body_refusal(self, request: Request) -> Response | None:
        if request.length is not None and request.length > self.max_body:
            return self.too_large()
        if request.headers.get(b"content-encoding", b"").strip().lower() not in _CODINGS:
            return Response(415, "Unsupported Content-Encoding; use gzip.", (("accept-encoding", "gzip"),))
        if request.is_text and request.charset not in _CHARSETS:
            return Response(415, "Of the charsets of text/plain only UTF-8 is understood.")
        key = request.headers.get(b"idempotency-key")
        if key is not None and not _KEY.fullmatch(key):
            return Response(400, "An Idempotency-Key is 1 to 255 visible ASCII characters.")
        if self.crowded:
            return self.no_memory()
        return self._too_many() if self.pending >= self._settings.max_pending_requests else None

    def _too_many(self) -> Response:
        limit = self._settings.max_pending_requests
        text = f"The number of pending requests in the work queue reaches max_pending_requests:{limit}."
        return Response(429, f"{text} Please retry later", (_SOON,))


def _accepted(events: int) -> Response:
    return Response(200, headers=(("calve-events", str(events)),))


_RESPONSES = {
    AppendOutcome.KEPT: lambda why: Response(200),
    AppendOutcome.FULL: lambda why: Response(
        429, f"Nothing of the request is kept: {why}. Please retry later", (_LATER,)
    ),
    AppendOutcome.FAILED: lambda why: Response(
        503, f"It is unknown whether the request was stored: {why}. Retry with the same Idempotency-Key", (_LATER,)
    ),
}
