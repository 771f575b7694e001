"""The HTTP server: one thread with one event loop, beside the pipeline."""

from __future__ import annotations

import asyncio
import email.utils
import errno
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Any

from calve.errors import SourceError
from calve.sources.http.connection import ClientConnection, Peer
from calve.sources.http.gate import Admission, Gate
from calve.sources.http.service import Service
from calve.sources.http.settings import ListenerSettings
from calve.sources.log.log import JournalEntry

try:
    from uvloop import new_event_loop
except ImportError:  # not every system has it
    from asyncio import new_event_loop

__all__ = ["HttpServer", "try_port"]

HELD_BYTES = 512 << 20
"""With more bytes of unanswered bodies, requests are answered 429; checked a few times per second."""
_BACKLOG = 1024
_GOODBYE_SECONDS = 1.0
"""For the last word of TLS: a client that is silent must not keep its connection."""
_PAUSE_SECONDS = 0.25
"""Between attempts to accept while the system gives no descriptors."""


class HttpServer:
    """Listens on its ports and serves until it is stopped; signals stay the pipeline's.

    Args:
        settings: Those of the source.
        service: Answers the requests.
        connection: Serves a client.
    """

    def __init__(
        self, settings: ListenerSettings, service: Service, connection: type[ClientConnection] = ClientConnection
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._service = service
        self._timeout = settings.request_timeout.total_seconds()
        most = settings.max_connection_count
        self._gate = Gate(most, settings.max_connections_per_address or most - most // 5)
        self._connections: set[Peer] = set()
        self._accepted: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._sockets: list[socket.socket] = []
        self._tls: ssl.SSLContext | None = None
        self._thread = threading.Thread(target=self._run, name="calve-http", daemon=True)
        self._date = (0, "")

    def start(self) -> None:
        """Open the port and serve.

        Raises:
            SourceError: The port is in use or not allowed, or the certificate is unusable.
        """
        self._tls = _tls(self._settings, self._connection.alpn)
        self._sockets = _bind(self._settings)
        self._loop = new_event_loop()
        self._thread.start()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._service.lines.warning(f"http server: {context.get('message')} {context.get('exception')!r}")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens."""
        return [listener.getsockname()[:2] for listener in self._sockets]

    @property
    def alive(self) -> bool:
        """Whether it still serves."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop accepting requests, answer the complete ones, and end; may be called twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()

    def answered(self, entries: list[JournalEntry]) -> None:
        """Pass outcomes from the log's thread to the clients."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._service.answered, entries)

    @property
    def refusing(self) -> str:
        """Why further clients are refused; empty while they are served."""
        return self._gate.refusing or self._service.refusals.refusing

    # --- Host

    def admit(self, connection: Peer) -> None:
        """Register a connection."""
        self._connections.add(connection)

    def leave(self, connection: Peer) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    def now(self) -> float:
        """Return the loop's time in seconds."""
        return self._loop.time()

    def date(self) -> str:
        """Return the time in HTTP format."""
        now = int(time.time())
        if now != self._date[0]:
            self._date = (now, email.utils.formatdate(now, usegmt=True))
        return self._date[1]

    # --- its thread

    def _run(self) -> None:
        self._loop.set_exception_handler(self._failed)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._service.close()
            self._loop.close()

    async def _serve(self) -> None:
        accepting = [self._loop.create_task(self._accept(listener)) for listener in self._sockets]
        while not self._stopped.is_set():
            self._sweep()
            try:
                await asyncio.wait_for(self._stopped.wait(), min(0.25, self._timeout / 4))
            except TimeoutError:
                continue
        for task, listener in zip(accepting, self._sockets, strict=True):
            task.cancel()
            listener.close()
        await self._drain()
        await asyncio.wait(accepting)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, address = await self._loop.sock_accept(listener)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._gate.run_short()
                    await asyncio.sleep(_PAUSE_SECONDS)
                continue  # this client has left again
            host = address[0]
            admission = self._gate.enter(host, client.fileno())
            if admission is Admission.CLOSED:
                self._service.refusals.closed()
                client.close()
                continue
            task = self._loop.create_task(self._connect(client, host, admission))
            self._accepted.add(task)
            task.add_done_callback(self._accepted.discard)

    async def _connect(self, client: socket.socket, host: str, admission: Admission) -> None:
        """Serve a connection until it is lost; the handshake of TLS and the first head share their time."""
        closed, deadline = self._loop.create_future(), self.now() + self._timeout
        is_served = admission is Admission.SERVED
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._connection(self, self._service, (self._timeout, deadline), closed, is_served),
                client,
                ssl=self._tls,
                ssl_handshake_timeout=self._timeout if self._tls else None,
                ssl_shutdown_timeout=_GOODBYE_SECONDS if self._tls else None,
            )
            await closed
        except (OSError, TimeoutError):  # of the handshake; ssl.SSLError is an OSError
            client.close()
        finally:
            self._gate.leave(host, admission)

    def _sweep(self) -> None:
        """Act on deadlines, and refuse requests while bodies fill the memory."""
        held = self._service.held_bytes + sum(peer.held_bytes for peer in self._connections)
        self._service.crowded = held > HELD_BYTES
        now = self.now()
        for connection in [peer for peer in self._connections if peer.deadline < now]:
            connection.tick()

    async def _drain(self) -> None:
        """Answer the complete requests; the log answers in bounded time, and a slow disk ends in 408."""
        self._service.stopping = True
        limit = self.now() + 2 * self._timeout
        for connection in list(self._connections):
            connection.drain()
        while self._connections and self.now() < limit:
            self._sweep()
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.gather(*self._accepted, return_exceptions=True)


def try_port(settings: ListenerSettings) -> None:
    """Check that the ports and the certificate can be used, without accepting clients.

    Raises:
        SourceError: As `HttpServer.start`.
    """
    _tls(settings, ())
    for listener in _bind(settings, listening=False):
        listener.close()


def _bind(settings: ListenerSettings, listening: bool = True) -> list[socket.socket]:
    """Return a socket for each port of the source."""
    listeners: list[socket.socket] = []
    try:
        for key in settings.ports:
            listeners.append(_bind_port(settings, key, listening))
    except SourceError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _bind_port(settings: ListenerSettings, key: str, listening: bool) -> socket.socket:
    host, port = settings.host, settings.ports[key]
    where = f"{host}:{port}"
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, address = addresses[0]
        listener = socket.socket(family, kind)
    except OSError as error:
        raise _refused(where, f"http cannot listen on {where}: {error.strerror}", "Check host") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        if listening:
            listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            hint = f"Stop what uses it, or {settings.other_port(key)}"
            raise _refused(where, f"port {port} is taken on {host}", hint) from error
        hint = (
            f"Ports below 1024 need permissions; set another {key}"
            if error.errno == errno.EACCES
            else "Check host and port"
        )
        raise _refused(where, f"http cannot listen on {where}: {error.strerror}", hint) from error
    return listener


def _tls(settings: ListenerSettings, alpn: Sequence[str]) -> ssl.SSLContext | None:
    if not settings.ssl:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if alpn:
        context.set_alpn_protocols(alpn)
    certificate, key = settings.ssl_certificate_file or "", settings.ssl_key_file or ""
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        why = f"http cannot use the certificate {certificate} with the key {key}: {error.strerror or error}"
        raise _refused(
            certificate, why, "Check ssl_certificate_file and ssl_key_file: PEM, readable, and a pair"
        ) from error
    return context


def _refused(target: str, message: str, hint: str) -> SourceError:
    return SourceError(message, step="start", target=target, hint=hint)
