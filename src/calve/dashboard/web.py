"""Requests and answers: the few parts of HTTP that the pages need, with the headers that protect them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

__all__ = ["PageRequest", "PageResponse", "redirect"]

MOST_BODY_BYTES = 1 << 16
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class PageRequest:
    """One request.

    Attributes:
        path: The decoded path.
        query: The last value of each query parameter.
        form: The last value of each field of a submitted form.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    origin: str = ""
    fetch_site: str = ""
    cookies: str = ""

    @staticmethod
    def of(environ: Mapping[str, Any]) -> PageRequest:
        """Return the request of a WSGI environment.

        Raises:
            ValueError: Its body is too long, or not UTF-8.
        """
        return PageRequest(
            method=environ["REQUEST_METHOD"],
            path=environ["PATH_INFO"].encode("latin-1").decode(errors="replace"),
            query=_fields(environ.get("QUERY_STRING", "")),
            form=_form(environ) if environ["REQUEST_METHOD"] == "POST" else {},
            host=environ.get("HTTP_HOST", ""),
            origin=environ.get("HTTP_ORIGIN", ""),
            fetch_site=environ.get("HTTP_SEC_FETCH_SITE", ""),
            cookies=environ.get("HTTP_COOKIE", ""),
        )


@dataclass(frozen=True)
class PageResponse:
    """One answer."""

    status: int
    body: bytes = b""
    kind: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    def send(self, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer with the body and all headers."""
        headers = {**_HEADERS, "Content-Type": self.kind, "Content-Length": str(len(self.body)), **self.headers}
        start_response(f"{self.status} {HTTPStatus(self.status).phrase}", list(headers.items()))
        return [self.body]


def redirect(path: str, cookie: str = "") -> PageResponse:
    """Answer a form: the browser gets another page."""
    return PageResponse(303, headers={"Location": path, **({"Set-Cookie": cookie} if cookie else {})})


def _fields(text: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(text, max_num_fields=20).items()}


def _form(environ: Mapping[str, Any]) -> dict[str, str]:
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if not 0 <= length <= MOST_BODY_BYTES:
        raise ValueError("the form is too long")
    return _fields(environ["wsgi.input"].read(length).decode())
