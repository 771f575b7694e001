"""Requests to OpenSearch: the nodes in turn, TLS, a user, and what goes wrong as Calve's errors."""

from __future__ import annotations

import gzip
import ssl
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning, NameResolutionError, SSLError, TimeoutError

from calve.errors import CalveError, SinkRefusedError, SinkUnavailableError
from calve.sinks.opensearch.settings import OpenSearchSettings

__all__ = ["Access", "Answer", "Client", "access_of"]

_COMPRESS_FROM_BYTES = 1 << 10
_UNTOLD = (401, 403)


@dataclass(frozen=True)
class Access:
    """How the nodes are reached; pickled into tasks."""

    hosts: tuple[str, ...]
    login: tuple[str, str] | None = field(default=None, repr=False)
    cert: str | None = None
    insecure: bool = False
    connect_seconds: float = 10.0
    socket_seconds: float = 60.0
    compress: bool = False


class Answer(NamedTuple):
    """The status of an HTTP answer, and its body."""

    status: int
    data: bytes


def access_of(settings: OpenSearchSettings) -> Access:
    """Return what a sink's settings say about its nodes."""
    return Access(
        hosts=tuple(host.rstrip("/") for host in settings.hosts),
        login=settings.login,
        cert=settings.cert,
        insecure=settings.insecure,
        connect_seconds=settings.connect_timeout.total_seconds(),
        socket_seconds=settings.socket_timeout.total_seconds(),
        compress=settings.enable_request_compression,
    )


class Client:
    """Talks to one cluster; for one thread of a driver or an executor."""

    def __init__(self, access: Access) -> None:
        self._access = access
        if access.insecure:  # it was asked for
            urllib3.disable_warnings(InsecureRequestWarning)
        timeout = urllib3.Timeout(connect=access.connect_seconds, read=access.socket_seconds)
        tls: dict[str, Any] = {"cert_reqs": "CERT_NONE", "assert_hostname": False} if access.insecure else {}
        if access.cert:
            tls["ca_certs"] = access.cert
        self._pools = [
            urllib3.connection_from_url(
                host, timeout=timeout, retries=False, **(tls if host.startswith("https:") else {})
            )
            for host in access.hosts
        ]
        self._prefixes = [urlsplit(host).path for host in access.hosts]
        self._headers = urllib3.make_headers(basic_auth=":".join(access.login)) if access.login else {}
        self._headers["content-type"] = "application/x-ndjson"
        self._turn = 0

    @property
    def name(self) -> str:
        """The cluster, for people."""
        return ", ".join(self._access.hosts)

    def request(self, method: str, path: str, body: Any = None) -> Answer:
        """Ask a node, and the next one where it does not answer; any status is an answer but 401 and 403.

        Args:
            method: Of HTTP.
            path: Begins with a slash.
            body: Bytes, or anything that holds some.

        Raises:
            SinkUnavailableError: No node answers.
            SinkRefusedError: The certificate, the user or the password is not accepted.
        """
        headers = self._headers
        if body is not None and self._access.compress and len(body) >= _COMPRESS_FROM_BYTES:
            body, headers = gzip.compress(body, 1), {**headers, "content-encoding": "gzip"}
        error: CalveError | None = None
        for _ in self._pools:
            pool, prefix = self._pools[self._turn], self._prefixes[self._turn]
            try:
                found = pool.urlopen(method, prefix + path, body, headers, redirect=False)
            except (HTTPError, OSError) as raised:
                error = self._failed(raised)
                self._turn = (self._turn + 1) % len(self._pools)
                continue
            if found.status in _UNTOLD:
                raise self._denied(found.status, found.data)
            return Answer(found.status, found.data)
        assert error is not None  # there is at least one node
        raise error

    def _failed(self, raised: BaseException) -> CalveError:
        host = self._access.hosts[self._turn]
        if isinstance(raised, SSLError) and (hint := _certificate(raised)):
            return SinkRefusedError(f"OpenSearch at {host} speaks no TLS that is trusted: {raised}", **_at(host, hint))
        return SinkUnavailableError(
            f"OpenSearch at {host} does not answer: {_reason(raised)}",
            **_at(host, "Start it or correct `hosts`; Calve goes on by itself when it answers"),
        )

    def _denied(self, status: int, data: bytes) -> SinkRefusedError:
        user = f"the user {self._access.login[0]}" if self._access.login else "a request without a user"
        why = "the user or the password is wrong" if status == 401 else data.decode(errors="replace")[:200]
        hint = "Correct `username` and `password`" if status == 401 else "Give the user the right to do this"
        return SinkRefusedError(f"OpenSearch refuses {user} ({status}): {why}", **_at(self.name, hint))


def _at(target: str, hint: str) -> dict[str, str]:
    return {"step": "write", "target": target, "hint": hint}


def _reason(raised: BaseException) -> str:
    if isinstance(raised, NameResolutionError):
        return "the name of the host is not known"
    cause: BaseException | None = raised
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return "no answer in time" if isinstance(raised, TimeoutError) else str(raised) or type(raised).__name__


def _certificate(raised: SSLError) -> str:
    """Return the way out of a TLS failure that will not pass; empty for one that may."""
    cause = raised.args[0] if raised.args else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "Give the authority's certificate with `cert`, or set `insecure: true`"
    if isinstance(cause, ssl.SSLError) and cause.reason in (
        "WRONG_VERSION_NUMBER",
        "HTTP_REQUEST",
        "RECORD_LAYER_FAILURE",
    ):
        return "The port speaks plain HTTP: write http:// in `hosts`"
    return ""
