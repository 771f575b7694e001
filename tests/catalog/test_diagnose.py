"""A catalog that does not open is told with the reason, and whether it is worth another try."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from calve.catalog.diagnose import disk_explained, not_opened
from calve.errors import CommitError, SetupError, SinkRefusedError, SinkUnavailableError
from calve.settings.catalog import shown_uri

AWAY = SinkUnavailableError("iceberg: it does not work", step="open the catalog", target="iceberg")
JSON, HTML = "application/json", "text/html"


@contextmanager
def server(status: int, kind: str, body: bytes) -> Iterator[str]:
    """An HTTP server that gives one answer to everything."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()


@pytest.mark.parametrize(
    ("status", "kind", "body", "told"),
    [
        (200, HTML, b"<html>", "is no Iceberg REST catalog: GET /v1/config answers 200 with text/html"),
        (200, JSON, b"[]", "is no Iceberg REST catalog: GET /v1/config answers 200 with application/json"),
        (404, HTML, b"<html>", "is no Iceberg REST catalog: GET /v1/config answers 404 with text/html"),
        (404, JSON, b'{"error": {"message": "no warehouse x"}}', "answers 404: no warehouse x"),
    ],
)
def test_a_server_that_is_no_catalog_is_an_error_of_the_set_up(status: int, kind: str, body: bytes, told: str) -> None:
    with server(status, kind, body) as uri:
        found = not_opened(AWAY, None, "iceberg", {"type": "rest", "uri": uri})
    assert isinstance(found, SetupError)
    assert told in found.message
    assert "`uri`" in found.hint


@pytest.mark.parametrize(
    ("status", "kind", "is_wrong"), [(404, JSON, True), (405, HTML, True), (200, HTML, True), (401, JSON, False)]
)
def test_an_address_that_issues_no_tokens_is_an_error_of_the_set_up(status: int, kind: str, is_wrong: bool) -> None:
    with server(status, kind, b"{}") as tokens, server(200, JSON, b"{}") as uri:
        given = {"type": "rest", "uri": uri, "credential": "me:geheim", "oauth2-server-uri": tokens}
        found = not_opened(AWAY, None, "iceberg", given)
        assert not_opened(AWAY, None, "iceberg", given | {"oauth2-server-uri": "v1/oauth/tokens"}) is AWAY
    assert isinstance(found, SetupError) == is_wrong
    assert not is_wrong or ("`oauth2-server-uri`" in found.hint and f"answers {status}" in found.message)


@pytest.mark.parametrize(
    ("status", "body"), [(200, b'{"defaults": {}}'), (401, b""), (429, b""), (502, b"<html>"), (503, b"")]
)
def test_a_catalog_that_is_busy_or_asks_who_we_are_is_tried_again(status: int, body: bytes) -> None:
    with server(status, HTML, body) as uri:
        assert not_opened(AWAY, None, "iceberg", {"type": "rest", "uri": uri}) is AWAY
    assert not_opened(AWAY, None, "iceberg", {"type": "rest", "uri": "http://127.0.0.1:1"}) is AWAY


def test_what_a_catalog_refuses_while_it_opens_is_the_set_up_s() -> None:
    found = not_opened(CommitError("Cannot find constructor"), None, "iceberg", {"catalog-impl": "x.Y"})
    assert isinstance(found, SetupError)
    assert "extraClassPath" in found.hint
    refused = SinkRefusedError("no")
    assert not_opened(refused, None, "iceberg", {}) is refused


def test_a_uri_is_shown_without_its_password() -> None:
    assert shown_uri("jdbc:postgresql://me:geheim@host:1/db?password=geheim") == "jdbc:postgresql://host:1/db"
    error = CommitError("no: jdbc:x://me:geheim@host/db")
    found = not_opened(error, None, "iceberg", {"type": "jdbc", "uri": "jdbc:x://me:geheim@host/db"})
    assert found.message == "no: jdbc:x://host/db"


def test_the_operating_system_says_why_a_local_folder_cannot_be_written() -> None:
    with pytest.raises(SetupError, match="/proc/nowhere cannot be written"), disk_explained("file:/proc/nowhere"):
        raise AWAY
    for elsewhere in ("", "s3://bucket/x"):
        with pytest.raises(SinkUnavailableError), disk_explained(elsewhere):
            raise AWAY
