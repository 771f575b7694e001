"""One request and its answer, between the connection that parses and the service that decides."""

from __future__ import annotations

import http
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["BUG", "Request", "RequestRefusedError", "Response"]

_REASONS = {status.value: status.phrase for status in http.HTTPStatus}


@dataclass(frozen=True)
class Response:
    """An answer: status, one line for a person, and further header lines.

    Attributes:
        content: The body, if it is not the text, and its type.
    """

    status: int
    text: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    content: tuple[bytes, str] | None = None

    @property
    def body(self) -> tuple[bytes, str]:
        """The bytes behind the head, and their type."""
        return self.content or (f"{self.text}\n".encode() if self.text else b"", "text/plain; charset=utf-8")

    def encode(self, date: str, close: bool, head: bool) -> bytes:
        """Build the bytes to send; of an answer to HEAD the body is left out."""
        body, kind = self.body
        lines = [
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}",
            f"date: {date}",
            f"content-type: {kind}",
            f"content-length: {len(body)}",
            *(f"{name}: {value}" for name, value in self.headers),
            *(["connection: close"] if close else []),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if head else body)


BUG = Response(500, "Calve failed on this request; see its log.")


class RequestRefusedError(Exception):
    """A request is not taken; carries the answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.text)
        self.response = response


@dataclass(eq=False)
class Request:
    """A request as it arrives.

    Attributes:
        headers: By lower-case name; the last one of a name counts.
        body: What has arrived of it: one array, because a client may send chunks of a byte.
        size: Bytes of the body that have arrived.
        refusal: The answer that is certain before the body has arrived.
        is_packed: Whether the body is gzip; None: its headers and the options say it.
        success: The answer when the events are durable; None: that of the `http` source.
        answer: Sends the response, in the order of the connection's requests.
    """

    answer: Callable[[Request, Response], None]
    target: bytes = b""
    method: bytes = b""
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    size: int = 0
    refusal: Response | None = None
    is_packed: bool | None = None
    success: Response | None = None
    keep_alive: bool = False

    @property
    def path(self) -> bytes:
        """The target without its query."""
        path = self.target.partition(b"?")[0]
        if path.startswith((b"http://", b"https://")):  # absolute form, as proxies send it
            return b"/" + path.split(b"/", 3)[3] if path.count(b"/") > 2 else b"/"
        return path

    @property
    def kind(self) -> str:
        """The type that `Content-Type` names, in lower case; empty if there is none."""
        return self._content_type[0]

    @property
    def is_text(self) -> bool:
        """Whether the body is plain text, a line for each event."""
        return self.kind == "text/plain"

    def advice(self, body: bytes) -> str:
        """Return what to do about a body that was refused, if its type or its first byte tells; else nothing.

        Args:
            body: The body, unpacked.
        """
        if self.kind in ("text/csv", "application/csv"):
            return " CSV is not read here: send NDJSON, or the files to a `file` source."
        if body.lstrip()[:1] in (b"[", b"{") or self.is_text:
            return ""
        if b"\0" in body:
            return " These are bytes, not text: send them as Base64 in a field."
        return " A text needs Content-Type: text/plain; each line is then an event."

    @property
    def charset(self) -> str:
        """The encoding that `Content-Type` names, in lower case; utf-8 if it names none."""
        parameters = (part.partition("=") for part in self._content_type[1:])
        return next((value.strip(' \t"') for name, _, value in parameters if name.strip() == "charset"), "utf-8")

    @property
    def _content_type(self) -> list[str]:
        return [part.strip() for part in self.headers.get(b"content-type", b"").decode("latin-1").lower().split(";")]

    @property
    def length(self) -> int | None:
        """What `Content-Length` says; None when the body is chunked."""
        if b"transfer-encoding" in self.headers:
            return None
        return int(self.headers.get(b"content-length", b"0"))

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for a word before it sends the body."""
        return self.headers.get(b"expect", b"").lower() == b"100-continue"
