"""Sends requests to OpenSearch: nodes in turn, TLS, authentication; converts failures to Calve's errors."""

from __future__ import annotations

import gzip
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning, SSLError

from calve.credentials import remember
from calve.errors import CalveError, SinkRefusedError, SinkUnavailableError
from calve.network.bounded_http import BoundedServer, basic_login
from calve.network.no_answer import no_answer
from calve.sinks.opensearch.obstacles import Obstacle, obstacle
from calve.sinks.opensearch.settings import OpenSearchSettings
from calve.sinks.opensearch.signature import AwsAccess, Signer

__all__ = ["Access", "Answer", "Client", "access_of"]

_COMPRESS_FROM_BYTES = 1 << 10
_UNTOLD = (401, 403)
_MOST_BYTES, _MOST_TIMES = 64 << 20, 16
"""The largest answer: so much, and so many times the request, which has up to some 20 bytes for each document."""


@dataclass(frozen=True)
class Access:
    """How to connect to the nodes; pickled into tasks."""

    hosts: tuple[str, ...]
    login: tuple[str, str] | None = field(default=None, repr=False)
    cert: str | None = None
    insecure: bool = False
    connect_seconds: float = 10.0
    socket_seconds: float = 60.0
    compress: bool = False
    aws: AwsAccess | None = None


class Answer(NamedTuple):
    """The status of an HTTP answer, and its body."""

    status: int
    data: bytes

    @property
    def reason(self) -> str:
        """The type and the reason of an error; of an answer that has none, its status and its beginning."""
        try:
            error = msgspec.json.decode(self.data)["error"]
            return f"{error['type']}: {error['reason'].rstrip(';.')}"
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
            text = self.data[:200].decode(errors="replace").strip()
            return f"status {self.status}: {text}" if text else f"status {self.status}"

    @property
    def obstacle(self) -> Obstacle | None:
        """The state of the cluster, not of an index, that is the reason; None for another reason."""
        return obstacle(self.reason, is_one_index=False) if self.status >= 300 else None

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may be accepted later."""
        return self.status in (408, 429) or self.status >= 500 or self.obstacle is not None


def access_of(settings: OpenSearchSettings) -> Access:
    """Return the access to the nodes from a sink's settings."""
    return Access(
        hosts=tuple(host.rstrip("/") for host in settings.hosts),
        login=settings.login,
        cert=settings.cert,
        insecure=settings.insecure,
        connect_seconds=settings.connect_timeout.total_seconds(),
        socket_seconds=settings.socket_timeout.total_seconds(),
        compress=settings.enable_request_compression,
        aws=settings.aws.access if settings.aws else None,
    )


class Client:
    """Talks to one cluster; for one thread of a driver or an executor."""

    def __init__(self, access: Access) -> None:
        self._access = access
        if access.insecure:  # the user set `insecure`
            urllib3.disable_warnings(InsecureRequestWarning)
        tls: dict[str, Any] = {"cert_reqs": "CERT_NONE", "assert_hostname": False} if access.insecure else {}
        if access.cert:
            tls["ca_certs"] = access.cert
        self._servers = [
            BoundedServer(
                host, access.connect_seconds, access.socket_seconds, **(tls if host.startswith("https:") else {})
            )
            for host in access.hosts
        ]
        self._prefixes = [urlsplit(host).path for host in access.hosts]
        if access.login:
            remember(access.login[1], is_secret=True)  # also in tasks
        self._headers = basic_login(*access.login) if access.login else {}
        self._signer = Signer(access.aws) if access.aws else None
        self._headers["content-type"] = "application/x-ndjson"
        self._turn = 0

    @property
    def name(self) -> str:
        """The cluster's name in messages."""
        return ", ".join(self._access.hosts)

    def request(self, method: str, path: str, body: Any = None) -> Answer:
        """Send a request to a node, or to the next one if it does not answer; 401 and 403 are errors, except a block.

        Args:
            method: The HTTP method.
            path: The path, with a leading slash.
            body: Bytes, or a buffer.

        Raises:
            SinkUnavailableError: No node answers.
            SinkRefusedError: The certificate, the user or the password is not accepted.
        """
        headers = self._headers
        if body is not None and self._access.compress and len(body) >= _COMPRESS_FROM_BYTES:
            body, headers = gzip.compress(body, 1), {**headers, "content-encoding": "gzip"}
        error: CalveError | None = None
        for _ in self._servers:
            server, prefix = self._servers[self._turn], self._prefixes[self._turn]
            try:
                most = _MOST_BYTES + _MOST_TIMES * len(body or b"")
                answer = Answer(
                    *server.ask(method, prefix + path, body, self._signed(method, path, body, headers), most)
                )
            except (HTTPError, OSError) as raised:
                error = self._failed(raised)
                self._turn = (self._turn + 1) % len(self._servers)
                continue
            if answer.status in _UNTOLD and answer.obstacle is None:
                raise self._denied(*answer)
            return answer
        assert error is not None  # there is at least one node
        raise error

    def _signed(self, method: str, path: str, body: Any, headers: dict[str, str]) -> dict[str, str]:
        """Return the headers of a request to the current node."""
        if self._signer is None:
            return headers
        return self._signer.signed(method, self._access.hosts[self._turn] + path, body, headers)

    def unavailable(self, what: str, answer: Answer) -> SinkUnavailableError:
        """Return the error of a request that may be accepted later; `what` completes the sentence "OpenSearch …"."""
        hint = answer.obstacle.hint if answer.obstacle else "Check the state of the cluster; Calve retries"
        return SinkUnavailableError(f"OpenSearch at {self.name} {what}: {answer.reason}", **_at(self.name, hint))

    @contextmanager
    def understood(self) -> Iterator[None]:
        """Read an answer within this context.

        Raises:
            SinkUnavailableError: It has not the form of OpenSearch's.
        """
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError) as error:
            raise SinkUnavailableError(
                f"OpenSearch at {self.name} gives an answer that is not one of OpenSearch",
                **_at(self.name, "Check what answers at `hosts`; Calve retries"),
            ) from error

    def _failed(self, raised: BaseException) -> CalveError:
        host = self._access.hosts[self._turn]
        if isinstance(raised, SSLError) and (hint := _certificate(raised)):
            return SinkRefusedError(f"OpenSearch at {host} has no trusted TLS: {raised}", **_at(host, hint))
        return SinkUnavailableError(
            f"OpenSearch at {host} does not answer: {no_answer(raised)}",
            **_at(host, "Start it or correct `hosts`; Calve continues by itself when it answers"),
        )

    def _denied(self, status: int, data: bytes) -> SinkRefusedError:
        if self._access.aws:
            why = data.decode(errors="replace")[:200]
            hint = (
                "Allow the role of this machine, or `sts_role_arn`, in the domain's access policy or the collection's"
            )
            return SinkRefusedError(f"OpenSearch refuses the signature ({status}): {why}", **_at(self.name, hint))
        user = f"the user {self._access.login[0]}" if self._access.login else "a request without a user"
        why = "the user or the password is wrong" if status == 401 else data.decode(errors="replace")[:200]
        hint = "Correct `username` and `password`" if status == 401 else "Grant the user this permission"
        return SinkRefusedError(f"OpenSearch refuses {user} ({status}): {why}", **_at(self.name, hint))


def _at(target: str, hint: str) -> dict[str, str]:
    return {"step": "write", "target": target, "hint": hint}


def _certificate(raised: SSLError) -> str:
    """Return the hint for a permanent TLS failure; empty for a temporary one."""
    cause = raised.args[0] if raised.args else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "Set `cert` to the authority's certificate, or set `insecure: true`"
    if isinstance(cause, ssl.SSLError) and cause.reason in (
        "WRONG_VERSION_NUMBER",
        "HTTP_REQUEST",
        "RECORD_LAYER_FAILURE",
    ):
        return "The port speaks plain HTTP: write http:// in `hosts`"
    return ""
