"""The options of the HTTP sink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from calve.errors import SettingsError
from calve.event.control_characters import has_control
from calve.settings import Size, option
from calve.sinks.records.settings import LineSettings

__all__ = ["SETTINGS", "BasicLogin", "HttpSinkAuthentication", "HttpSinkSettings"]


def _check_url(text: str) -> None:
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError as error:
        raise SettingsError(f"this is no URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname or has_control(text) or " " in text:
        raise SettingsError("this is no URL; it looks like https://example.com/events")
    if url.username or url.password:
        raise SettingsError("a password does not belong into a URL; use authentication: {http_basic: …}")
    if "${/" in text or "getMetadata" in text:
        raise SettingsError("must be the same for all events")


def _check_headers(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        if not name or not name.isascii() or not all(sign.isalnum() or sign in "!#$%&'*+-.^_`|~" for sign in name):
            raise SettingsError(f"{name[:100]!r} is no name of a header")
        if has_control(value) or not value.isprintable():
            raise SettingsError(f"the value of {name} has a character that no header may have")
        if name.lower() in ("content-type", "content-length", "content-encoding", "idempotency-key", "host"):
            raise SettingsError(f"{name} is set by Calve itself")


@dataclass(frozen=True)
class BasicLogin:
    """A user of the server."""

    username: str = option(doc="The user.", minimum=1)
    password: str = option(doc="The password.", secret=True, minimum=1)


@dataclass(frozen=True)
class HttpSinkAuthentication:
    """How Calve authenticates: one of the two."""

    http_basic: BasicLogin | None = option(None, "A user and a password.")
    bearer_token: str | None = option(None, "A token, for `Authorization: Bearer …`.", secret=True, minimum=1)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse both, or none."""
        if (self.http_basic is None) == (self.bearer_token is None):
            yield "", "set either http_basic or bearer_token"


@dataclass(frozen=True)
class HttpSinkSettings(LineSettings):
    """Posts events to an HTTP server, in order; a request that may have arrived is sent again with the same key."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "connection_timeout": "a connection may take 10 s, but not longer than timeout",
        "request_timeout": "timeout decides",
        "http_retry_interval": "Calve waits by itself, longer each time",
        "max_retries": "a request is repeated until it is answered",
        "insecure_skip_verify": "insecure decides",
        "threshold": "max_events, max_request_size and flush_interval decide",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("aws", "aws_sigv4_service_name"), "is not supported: requests are not signed"),
        "custom_headers": "is headers here: {name: value}",
    }

    url: str = option(doc="Where to, e.g. `https://example.com/events`.", minimum=1, check=_check_url)
    method: Literal["POST", "PUT"] = option("POST", "The method of the requests.")
    body: Literal["ndjson", "json"] = option(
        "ndjson", "`ndjson`: events as lines (`application/x-ndjson`). `json`: an array of events.", aliases=("codec",)
    )
    max_request_size: Size = option(
        Size(1 << 20), "Maximum size of a body; a larger event goes alone.", minimum=1, maximum=1 << 30
    )
    max_events: int = option(
        10_000, "Maximum number of events of a request. With 1 each has one of its own.", minimum=1
    )
    compression: Literal["none", "gzip"] = option("none", "How bodies are compressed.")
    headers: dict[str, str] = option({}, "Further headers.", secret=True, check=_check_headers)
    authentication: HttpSinkAuthentication | None = option(None, "How Calve authenticates.")
    certificate: str | None = option(None, "The CA certificate of the server: a PEM file.")
    insecure: bool = option(False, "Do not verify the server's certificate.")
    timeout: timedelta = option(
        timedelta(seconds=30), "Maximum time of an answer.", unit="ms", minimum=timedelta(seconds=0.1)
    )

    @property
    def address(self) -> str:
        """The URL without its parameters, which may be secret."""
        return self.url.split("?")[0]

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse options that exclude each other."""
        yield from super().check()
        names = {name.lower() for name in self.headers}
        if self.authentication and "authorization" in names:
            yield "headers", "has Authorization, and authentication is set, too; set only one"


SETTINGS = HttpSinkSettings
