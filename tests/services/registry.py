"""A schema registry with the part of Confluent's API that readers of records use, in this process on loopback.

It answers as the real one does (status, `error_code`, `schemaType` only if it is not AVRO), and fails when it is told to.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

__all__ = ["Registry", "framed"]


def framed(schema: int, value: bytes) -> bytes:
    """Return a value in the registry's wire format."""
    return b"\0" + schema.to_bytes(4, "big") + value


@dataclass(frozen=True)
class _Version:
    schema: int
    text: str
    kind: str
    references: tuple[dict[str, Any], ...]
    tags: dict[str, list[str]] | None = None


@dataclass
class Registry:
    """One registry; a context manager.

    Attributes:
        login: The only user and password, if any.
        token: The only bearer token, if any.
        failures: So many of the next requests get the status 503.
        asked: The paths that were asked for.
    """

    login: tuple[str, str] | None = None
    token: str | None = None
    failures: int = 0
    asked: list[str] = field(default_factory=list)
    _is_stopped: bool = False
    _subjects: dict[str, list[_Version]] = field(default_factory=dict)
    _ids: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def register(
        self,
        subject: str,
        schema: Any,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
        tags: dict[str, list[str]] | None = None,
    ) -> int:
        """Add a version to a subject; return the id of the schema.

        Args:
            subject: The subject.
            schema: The text, or JSON.
            kind: AVRO, JSON or PROTOBUF.
            references: Name, subject and version of each schema that it refers to.
            tags: Those of its metadata, by patterns of fields; with others it is another schema.
        """
        text = schema if isinstance(schema, str) else json.dumps(schema)
        referred = tuple({"name": name, "subject": of, "version": version} for name, of, version in references)
        number = self._ids.setdefault((text, kind, json.dumps([referred, tags])), len(self._ids) + 1)
        versions = self._subjects.setdefault(subject, [])
        if number not in [version.schema for version in versions]:
            versions.append(_Version(number, text, kind, referred, tags))
        return number

    def start(self, certificate: Path | None = None) -> Registry:
        """Listen on a free port; with a certificate (PEM with its key) by TLS."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if registry._is_stopped:  # a connection that stays open is not answered any more
                    self.close_connection = True
                    return
                status, answer = registry._answer(self.path, self.headers.get("authorization", ""))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/vnd.schemaregistry.v1+json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self) -> None:
        """Close the port and the connections."""
        self._is_stopped = True
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Registry:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def _answer(self, path: str, authorization: str) -> tuple[int, Any]:
        self.asked.append(path)
        if self.failures:
            self.failures -= 1
            return 503, {"error_code": 50301, "message": "unavailable"}
        expected = f"Bearer {self.token}" if self.token else ""
        if self.login:
            expected = f"Basic {base64.b64encode(':'.join(self.login).encode()).decode()}"
        if expected and authorization != expected:
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        return self._found([unquote(part) for part in path.strip("/").split("/")])

    def _found(self, path: list[str]) -> tuple[int, Any]:
        places = [(name, at + 1, one) for name, all_of in self._subjects.items() for at, one in enumerate(all_of)]
        match path:
            case ["schemas", "ids", number, *rest]:
                found = [place for place in places if str(place[2].schema) == number]
                if not found:
                    return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
                if rest == ["versions"]:
                    return 200, [{"subject": name, "version": version} for name, version, _ in found]
                return 200, _shown(found[0][2])
            case ["subjects", name, "versions", *rest]:
                if name not in self._subjects:
                    return 404, {"error_code": 40401, "message": f"Subject '{name}' not found."}
                versions = self._subjects[name]
                if not rest:
                    return 200, list(range(1, len(versions) + 1))
                number = len(versions) if rest[0] == "latest" else int(rest[0])
                if not 1 <= number <= len(versions):
                    return 404, {"error_code": 40402, "message": "Version not found."}
                one = versions[number - 1]
                return 200, {"subject": name, "version": number, "id": one.schema, **_shown(one)}
            case ["subjects"]:
                return 200, list(self._subjects)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


def _shown(version: _Version) -> dict[str, Any]:
    shown: dict[str, Any] = {"schema": version.text}
    if version.kind != "AVRO":
        shown["schemaType"] = version.kind
    if version.references:
        shown["references"] = list(version.references)
    if version.tags is not None:
        shown["metadata"] = {"tags": version.tags, "properties": {"owner": "x"}, "sensitive": []}
    return shown
