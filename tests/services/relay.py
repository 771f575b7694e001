"""A relay on loopback in front of a server, which can be cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Relay:
    """Forwards connections to a port of this machine until `cut`; `mend` lets new ones through again.

    Attributes:
        target: The port; another one counts for new connections.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self._cut = threading.Event()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        self._cut.set()
        for each in list(self._open):
            _close(each)

    def mend(self) -> None:
        """Let connections through again."""
        self._cut.clear()

    def close(self) -> None:
        """End for good."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._cut.is_set():
                    client.close()
                    continue
                with suppress(OSError):
                    server = socket.create_connection(("127.0.0.1", self.target))
                    self._open |= {client, server}
                    if self._cut.is_set():  # `cut` did not see them
                        _close(client)
                        _close(server)
                        continue
                    for source, sink in ((client, server), (server, client)):
                        threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while block := source.recv(1 << 16):
                sink.sendall(block)
        for each in (source, sink):
            self._open.discard(each)
            _close(each)


def _close(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
