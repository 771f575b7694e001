"""What a user may set on an `http` source; the names and defaults are Data Prepper's where it has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from calve.settings import Size, option

__all__ = ["Authentication", "HttpBasic", "HttpSettings", "Unauthenticated"]

_PRIVATE = {"authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key", "x-amz-security-token"}


@dataclass(frozen=True)
class HttpBasic:
    """Asks every client for one user name and password."""

    username: str = option(doc="User name that clients send.")
    password: str = option(doc="Password that clients send.", secret=True)


@dataclass(frozen=True)
class Unauthenticated:
    """Lets every client in."""


@dataclass(frozen=True)
class Authentication:
    """Who may send events: `http_basic`, or `unauthenticated` for everybody."""

    http_basic: HttpBasic | None = option(None, "One user name and password for all clients.")
    unauthenticated: Unauthenticated | None = option(None, "Everybody may send; the same as no `authentication`.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong between the options."""
        if self.http_basic and self.unauthenticated:
            yield "", "choose one of http_basic and unauthenticated"


@dataclass(frozen=True)
class HttpSettings:
    """Receives JSON arrays of events over HTTP and keeps them on disk until they are committed."""

    port: int = option(2021, "TCP port to listen on; 0 takes any free one.", minimum=0, maximum=65535)
    host: str = option(
        "127.0.0.1",
        "Address to listen on. Only this machine reaches the default: whoever opens the source to a network "
        "(`0.0.0.0`, `::`) should have thought of `authentication` and `ssl`.",
    )
    path: str = option("/log/ingest", "Path that takes events; `${pipelineName}` becomes the pipeline's name.")
    compression: Literal["none", "gzip"] = option(
        "none", "`gzip`: every body is gzip, told or not. A `Content-Encoding: gzip` is understood in any case."
    )
    authentication: Authentication | None = option(None, "Who may send events; absent: everybody.")
    ssl: bool = option(False, "Serve HTTPS.")
    ssl_certificate_file: str | None = option(None, "Certificate chain in PEM form; needed with `ssl`.")
    ssl_key_file: str | None = option(None, "Private key in PEM form; needed with `ssl`.")
    health_check_service: bool = option(
        True, "Answer GET `/health`. Data Prepper's default is off; a probe that works unasked harms nobody."
    )
    unauthenticated_health_check: bool = option(False, "`/health` asks for no password.")
    request_timeout: timedelta = option(
        timedelta(seconds=10),
        "Time for a request to arrive whole, and again for it to be written to disk; then 408.",
        minimum=timedelta(milliseconds=2),
        unit="ms",
    )
    max_connection_count: int = option(500, "Open connections; one more is answered 429 and closed.", minimum=1)
    max_pending_requests: int = option(1024, "Requests that wait for the disk; one more is answered 429.", minimum=1)
    max_request_length: Size = option(
        Size(10 << 20), "Bytes of a body, packed and unpacked; more is answered 413.", minimum=1, maximum=1 << 30
    )
    thread_count: int = option(200, "Accepted for Data Prepper's sake; one thread serves all.", minimum=1)
    max_log_bytes: Size = option(
        Size(8 << 30),
        "Bytes on disk that wait for their commit; beyond it requests are answered 429 until commits catch up.",
        minimum=1 << 16,
    )
    min_free_bytes: Size = option(
        Size(256 << 20),
        "Free space that the log leaves on its disk; below it requests are answered 429.",
        minimum=1 << 20,
    )
    idempotency_window: timedelta = option(
        timedelta(hours=24),
        "How long an `Idempotency-Key` is remembered after its events were committed. The key alone counts: "
        "another body under a remembered key is answered 200 and not written.",
    )
    idempotency_keys: int = option(
        1_000_000, "Keys remembered at most; the oldest are forgotten first, even within the window.", minimum=16
    )
    metadata_headers: list[str] | None = option(
        None,
        'Request headers that become metadata, e.g. `getMetadata("headers/x-tenant")`; never credentials or cookies.',
    )

    @property
    def kept_headers(self) -> tuple[str, ...]:
        """The names of `metadata_headers` that may be kept, in lower case."""
        names = dict.fromkeys(name.lower() for name in self.metadata_headers or [])
        return tuple(name for name in names if name not in _PRIVATE)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong between the options."""
        if not self.path.startswith("/"):
            yield "path", f'a path starts with "/", e.g. "/{self.path}"'
        if self.path == "/health" and self.health_check_service:
            yield "path", "/health is the health check's; set health_check_service: false or take another path"
        if self.ssl and not (self.ssl_certificate_file and self.ssl_key_file):
            yield "ssl", "ssl needs ssl_certificate_file and ssl_key_file"
