"""A small HTTP server that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str, str, bytes], tuple[int, bytes]]


class Scripted:
    """Serves on a free port of loopback; `answer` gets method, path and body, and gives status and body."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[tuple[str, str, bytes, dict[str, str]]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else a body waits for the acknowledgement of its headers

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                asked.append((self.command, self.path, body, {k.lower(): v for k, v in self.headers.items()}))
                status, text = answer(self.command, self.path, body)
                if status == 0:  # the answer never comes
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST = handle_any  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def address(self) -> str:
        """Where it listens."""
        scheme = "https" if isinstance(self._server.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://127.0.0.1:{self._server.server_port}"

    def encrypt(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Scripted:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
