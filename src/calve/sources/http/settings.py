"""What a user may set on an `http` source; the names and defaults are Data Prepper's where it has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

import pyarrow as pa

from calve.network.host_names import host_name, is_loopback
from calve.settings import Size, option
from calve.sources.settings import Claim, SourceSettings, StateForm

__all__ = [
    "SETTINGS",
    "Bearer",
    "HttpAuthentication",
    "HttpBasic",
    "HttpSettings",
    "ListenerSettings",
    "Unauthenticated",
]

_ORIGIN = re.compile(
    r"(?!https://[^/]*:443\b|http://[^/]*:80\b)[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:]+\]|[^/\s*?#@:\[]+)(?::\d+)?/?"
)
"""What `Origin` has: no path, and no port that its scheme has by itself; `null` is that of any page in a frame."""
_PRIVATE = {"authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key", "x-amz-security-token"}


@dataclass(frozen=True)
class HttpBasic:
    """Requires one user name and password from every client."""

    username: str = option(doc="User name of the clients.", minimum=1)
    password: str = option(doc="Password of the clients.", secret=True, minimum=1)


@dataclass(frozen=True)
class Bearer:
    """Requires one token from every client, as `Authorization: Bearer <token>`."""

    token: str = option(doc="Token of the clients.", secret=True, minimum=1)


@dataclass(frozen=True)
class Unauthenticated:
    """Accepts every client."""


@dataclass(frozen=True)
class HttpAuthentication:
    """Who may send events: `http_basic`, `bearer`, or `unauthenticated` for everybody."""

    http_basic: HttpBasic | None = option(None, "One user name and password for all clients.")
    bearer: Bearer | None = option(None, "One token for all clients.")
    unauthenticated: Unauthenticated | None = option(None, "All clients may send; the same as no `authentication`.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong between the options."""
        chosen = [way for way in (self.http_basic, self.bearer, self.unauthenticated) if way]
        if len(chosen) > 1:
            yield "", "choose one of http_basic, bearer and unauthenticated"
        if not chosen:
            yield "", "needs http_basic: {username: …, password: …}, or unauthenticated: {} to let everybody send"

    @property
    def credentials(self) -> tuple[bytes, bytes] | None:
        """The scheme of `Authorization` in lower case, and the secret behind it; None: everybody may send."""
        if self.bearer:
            return b"bearer", self.bearer.token.encode()
        basic = self.http_basic
        return (b"basic", f"{basic.username}:{basic.password}".encode()) if basic else None


@dataclass(frozen=True)
class ListenerSettings(SourceSettings):
    """The options of every source that receives requests over HTTP and stores them until they are committed."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("acm_certificate_timeout_millis", "acm_certificate_timeout"), "certificates are files"),
        "aws_region": "certificates are files, so AWS is not asked",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("use_acm_certificate_for_ssl", "acm_certificate_arn", "acm_private_key_password"),
            "is not supported: set ssl_certificate_file and ssl_key_file",
        ),
    }

    accepts: ClassVar[bool] = True
    replicates: ClassVar[bool] = True
    remembers: ClassVar[Mapping[str, StateForm]] = {"": StateForm.DISK_LOG}

    port: int = option(2021, "TCP port to listen on; 0 takes any free one.", minimum=0, maximum=65535)
    host: str = option(
        "127.0.0.1",
        "Address to listen on. Only this machine can reach the default. Before you open the source to a network "
        "(`0.0.0.0`, `::`), set `authentication` and `ssl`.",
    )
    allowed_origins: list[str] | None = option(
        None,
        "Sites whose pages may send events from a browser, e.g. `[https://shop.example.com]`. Requests of other pages "
        "are answered with 403; programs are not concerned.",
    )
    allowed_hosts: list[str] | None = option(
        None,
        "Names in `Host` that are accepted beside `localhost` and addresses of loopback, e.g. of a proxy on this "
        "machine; without effect if `host` can be reached from other machines.",
    )
    compression: Literal["none", "gzip"] = option(
        "none", "`gzip`: every body is gzip, even without a header. `Content-Encoding: gzip` is always accepted."
    )
    authentication: HttpAuthentication | None = option(None, "Who may send events. Default: everybody.")
    ssl: bool = option(False, "Serve HTTPS.")
    ssl_certificate_file: str | None = option(None, "Certificate chain in PEM form; needed with `ssl`.")
    ssl_key_file: str | None = option(None, "Private key in PEM form; needed with `ssl`.")
    health_check_service: bool = option(True, "Answer GET `/health`. Data Prepper's default is false.")
    unauthenticated_health_check: bool = option(False, "`/health` needs no password.")
    request_timeout: timedelta = option(
        timedelta(seconds=10),
        "Maximum time until a request has arrived completely, and again until it is written to disk; then the answer "
        "is 408.",
        minimum=timedelta(milliseconds=2),
        unit="ms",
    )
    max_connection_count: int = option(
        500, "Maximum number of open connections; further ones are answered with 429 and closed.", minimum=1
    )
    max_connections_per_address: int | None = option(
        None,
        "Maximum number of open connections from one address, or one network of IPv6 (/64); further ones are answered "
        "with 429 and closed. Default: four fifths of `max_connection_count`. Behind a proxy all have its address.",
        minimum=1,
    )
    max_pending_requests: int = option(
        1024, "Maximum number of requests that wait for the disk; further ones are answered with 429.", minimum=1
    )
    max_request_length: Size = option(
        Size(10 << 20),
        "Maximum size of a body, compressed and decompressed; larger ones are answered with 413.",
        minimum=1,
        maximum=1 << 30,
    )
    max_request_events: int = option(
        200_000, "Maximum number of events of a request; one with more is answered with 413.", minimum=1
    )
    max_compression_ratio: int = option(
        200,
        "How many times its own length a body of gzip may unpack to, if that is more than 1 MB; otherwise the answer "
        "is 413.",
        minimum=1,
    )
    thread_count: int = option(
        200,
        "Accepted for compatibility with Data Prepper; no effect, because one thread serves all requests.",
        minimum=1,
    )
    max_log_bytes: Size = option(
        Size(8 << 30),
        "Maximum size of uncommitted events; beyond it requests are answered with 429 until commits catch up.",
        minimum=1 << 16,
    )
    log_folder: str | None = option(
        None,
        "Local folder for uncommitted events, with a folder for each pipeline; keep it on a durable disk. Default: in "
        "the state folder. Required if the state is on an object store, unless `durable` is `replicated`.",
    )
    durable: Literal["local", "replicated"] = option(
        "local",
        "Where events are before they are answered with 200. `local`: on the disk of this machine, in `log_folder`. "
        "`replicated`: in the state on an object store, so that another machine can continue, also a standby; each "
        "answer waits for a write to the store.",
    )
    min_free_bytes: Size = option(
        Size(256 << 20),
        "Minimum free space on the disk of the log; below it requests are answered with 429.",
        minimum=1 << 20,
    )
    idempotency_window: timedelta = option(
        timedelta(hours=24),
        "How long an `Idempotency-Key` is remembered after the commit of its events. Only the key is compared: a "
        "request with a remembered key and another body is answered with 200 and not written.",
    )
    idempotency_keys: int = option(
        1_000_000,
        "Maximum number of remembered keys; the oldest are removed first, even within the window.",
        minimum=16,
    )
    metadata_headers: list[str] | None = option(
        None,
        'Request headers that become metadata, e.g. `getMetadata("headers/x-tenant")`. Credentials and cookies are '
        "never kept.",
    )

    @property
    def metadata(self) -> Mapping[str, pa.DataType]:
        """The kept headers, as a struct."""
        names = self.kept_headers
        return {"headers": pa.struct([(name, pa.string()) for name in names])} if names else {}

    @property
    def keeps_events_here(self) -> bool:
        """Whether accepted events are on the disk of this machine."""
        return self.durable == "local"

    @property
    def ports(self) -> Mapping[str, int]:
        """The ports that it listens on, by the options that set them."""
        return {"port": self.port}

    def other_port(self, key: str) -> str:
        """Return what to set when the port of an option is taken."""
        return f"set another {key} on the source"

    def claims(self, pipeline: str) -> Iterator[Claim]:
        """Yield the ports."""
        for key, port in self.ports.items():
            if port:
                clash = f"listens on port {port}; set another `{key}`"
                yield Claim(key, ("port", port), clash, self.host)

    @property
    def kept_headers(self) -> tuple[str, ...]:
        """The names of `metadata_headers` that may be kept, in lower case."""
        names = dict.fromkeys(name.lower() for name in self.metadata_headers or [])
        return tuple(name for name in names if name not in _PRIVATE)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Warn of a source that everybody can write to, and of a password that others can read."""
        if is_loopback(self.host):
            return
        credentials = self.authentication.credentials if self.authentication else None
        if not credentials:
            yield "host", f"lets everybody who reaches {self.host} send events; set authentication.http_basic and ssl"
        elif not self.ssl:
            way = "bearer" if credentials[0] == b"bearer" else "http_basic"
            yield f"authentication.{way}", "is sent without TLS, so anybody on the way can read it; set ssl"

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong between the options."""
        if self.log_folder and self.durable == "replicated":
            yield "log_folder", "durable: replicated has no local log; remove log_folder"
        for origin in self.allowed_origins or []:
            if not _ORIGIN.fullmatch(origin.lower()):
                yield "allowed_origins", f"{origin!r} is no site as a browser names it, e.g. https://shop.example.com"
        for name in self.allowed_hosts or []:
            if not name or "*" in name or name.lower() not in (host_name(name), host_name(f"[{name}]")):
                yield "allowed_hosts", f"{name!r} is no name of a host without a port, e.g. events.example.com"
        if self.ssl and not (self.ssl_certificate_file and self.ssl_key_file):
            yield "ssl", "ssl needs ssl_certificate_file and ssl_key_file"

    def path_faults(self, key: str, path: str) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with a path of requests."""
        if not path.startswith("/"):
            yield key, f'a path starts with "/", e.g. "/{path}"'
        if path == "/health" and self.health_check_service:
            yield key, "/health is the health check's; set health_check_service: false or take another path"


@dataclass(frozen=True)
class HttpSettings(ListenerSettings):
    """Receives JSON (arrays, objects, NDJSON) and lines of text over HTTP; stores events until they are committed."""

    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "codec": "is not needed: bodies are JSON, NDJSON or lines of text, by their Content-Type; leave it out",
    }

    path: str = option(
        "/log/ingest", "Path that accepts events; `${pipelineName}` is replaced by the name of the pipeline."
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong between the options."""
        yield from self.path_faults("path", self.path)
        yield from super().check()


SETTINGS = HttpSettings
