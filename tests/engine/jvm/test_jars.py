"""Jars are fetched once, whole and checked; afterwards no network is needed for them."""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections.abc import Iterator
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from calve.engine.jvm import jars
from calve.errors import EngineError
from services.certificates import Authority
from services.process import free_ports
from services.scripted import Scripted

THING = "com.example:thing:1.0"
CONTENT = b"a jar" * 1000
FILE = "com.example_thing-1.0.jar"


@pytest.fixture(autouse=True)
def _thing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(jars._SHA256, THING, hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(jars, "delay", lambda failures: 0)
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def answers() -> list[tuple[int, bytes]]:
    """What the mirror answers, one after the other; the last one again and again."""
    return [(200, CONTENT)]


@pytest.fixture
def mirror(answers: list[tuple[int, bytes]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    with Scripted(lambda *_: answers.pop(0) if len(answers) > 1 else answers[0]) as server:
        monkeypatch.setenv(jars.REPOSITORY, f"{server.address}/maven/")
        yield server


class Redirecting:
    """A server that sends each request on to a host and port, its own if none is given, and answers it there.

    Attributes:
        users: The `Authorization` of each request.
        port: Where it listens.
    """

    def __init__(self, host: str, port: int = 0) -> None:
        self.users: list[str | None] = []
        users = self.users

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                users.append(self.headers.get("Authorization"))
                is_first = len(users) == 1
                self.send_response(302 if is_first else 200)
                if is_first:
                    to = port or self.headers["Host"].rpartition(":")[2]
                    self.send_header("Location", f"http://{host}:{to}/moved.jar")
                self.end_headers()
                if not is_first:
                    self.wfile.write(CONTENT)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port

    def __enter__(self) -> Redirecting:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def refused(cache: Path) -> EngineError:
    """Say why a jar cannot be fetched; nothing of it may be left."""
    with pytest.raises(EngineError, match=r"com\.example:thing:1\.0 is not in the cache") as failed:
        jars.resolve([THING], cache)
    assert list((cache / "jars").iterdir()) == []
    assert "\n" not in str(failed.value)
    return failed.value


def test_a_jar_is_fetched_once(tmp_path: Path, mirror: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        [file] = jars.resolve([THING], tmp_path)
        assert file.read_bytes() == CONTENT
    assert [(method, path) for method, path, _, _ in mirror.asked] == [
        ("GET", "/maven/com/example/thing/1.0/thing-1.0.jar")
    ]
    assert "Downloading thing 1.0, 0 MB (once)" in capsys.readouterr().err
    assert [file.name for file in (tmp_path / "jars").iterdir()] == [FILE]


def test_the_user_of_a_mirror_is_sent_and_never_shown(
    tmp_path: Path, mirror: Scripted, answers: list[tuple[int, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(jars.REPOSITORY, mirror.address.replace("//", "//me:s%40cret@"))
    answers[:] = [(401, b"")]
    assert "status 401" in (message := str(refused(tmp_path)))
    assert "cret" not in message
    assert mirror.asked[0][3]["authorization"] == "Basic bWU6c0BjcmV0"
    assert len(mirror.asked) == 1


@pytest.mark.parametrize(("to", "is_sent"), [("127.0.0.1", True), ("localhost", False)])
def test_the_user_of_a_mirror_follows_a_redirect_on_its_server_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, is_sent: bool
) -> None:
    with Redirecting(to) as server:
        monkeypatch.setenv(jars.REPOSITORY, f"http://me:s%40cret@127.0.0.1:{server.port}/maven")
        [file] = jars.resolve([THING], tmp_path)
    assert file.read_bytes() == CONTENT
    assert server.users == ["Basic bWU6c0BjcmV0", "Basic bWU6c0BjcmV0" if is_sent else None]


def test_the_user_of_a_mirror_does_not_follow_a_redirect_to_another_port(
    tmp_path: Path, mirror: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Redirecting("127.0.0.1", int(mirror.address.rpartition(":")[2])) as server:
        monkeypatch.setenv(jars.REPOSITORY, f"http://me:s%40cret@127.0.0.1:{server.port}/maven")
        jars.resolve([THING], tmp_path)
    assert server.users == ["Basic bWU6c0BjcmV0"]
    assert ["authorization" in headers for _, _, _, headers in mirror.asked] == [False]


def test_a_server_that_fails_for_a_moment_is_asked_again(
    tmp_path: Path, mirror: Scripted, answers: list[tuple[int, bytes]]
) -> None:
    answers[:] = [(503, b""), (0, b""), (200, CONTENT)]
    assert jars.resolve([THING], tmp_path)[0].read_bytes() == CONTENT


def test_an_answer_that_ends_too_early_is_asked_for_again(
    tmp_path: Path, mirror: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces, whole = [CONTENT[:9], b""], HTTPResponse.read
    monkeypatch.setattr(HTTPResponse, "read", lambda *given: pieces.pop(0) if pieces else whole(*given))
    assert jars.resolve([THING], tmp_path)[0].read_bytes() == CONTENT
    assert len(mirror.asked) == 2


def test_what_is_not_the_jar_is_not_kept(tmp_path: Path, mirror: Scripted, answers: list[tuple[int, bytes]]) -> None:
    answers[:] = [(200, b"<html>Please log in</html>")]
    assert "SHA-256 differs" in refused(tmp_path).message


def test_a_folder_can_be_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "mirror" / "com/example/thing/1.0"
    home.mkdir(parents=True)
    (home / "thing-1.0.jar").write_bytes(CONTENT)
    monkeypatch.setenv(jars.REPOSITORY, (tmp_path / "mirror").as_uri())
    assert jars.resolve([THING], tmp_path)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("where", ["http://127.0.0.1:{port}", "http://no.such.host.invalid", "not-a-url"])
def test_a_mirror_that_is_not_there_is_told_with_the_ways_out(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(jars.REPOSITORY, where.format(port=free_ports(1)[0]))
    hint = refused(tmp_path).hint
    assert all(way in hint for way in ("HTTPS_PROXY", jars.REPOSITORY, FILE))


def test_an_authority_of_ones_own_is_trusted_by_ssl_cert_file(
    tmp_path: Path, mirror: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("127.0.0.1"))
    mirror.encrypt(context)
    monkeypatch.setenv(jars.REPOSITORY, mirror.address)
    assert "SSL_CERT_FILE" in refused(tmp_path).hint
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    assert jars.resolve([THING], tmp_path)[0].read_bytes() == CONTENT


def test_without_a_mirror_the_repository_is_the_one_of_sparks_ivy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(jars.REPOSITORY, raising=False)
    address, headers = jars._repository()
    assert address.startswith("https://")
    assert address.endswith("/maven2/")
    assert headers == {}


def test_s3_needs_one_jar_more() -> None:
    assert set(jars.needed(needs_s3=True)) - set(jars.needed()) == {jars.AWS}
