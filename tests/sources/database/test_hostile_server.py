"""A server that answers in the name of a database gets no password, however it asks for it."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from calve.errors import SourceError, Verdict
from calve.sources.database.settings import DatabaseSettings
from calve.sources.mysql import failure as mysql
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.postgres import failure as postgres
from calve.sources.postgres.settings import PostgresSettings

PASSWORD = "p@ss/w0rd"
SALT = b"salt"
GREETING = (
    b"\n8.0.15\0" + bytes(4) + b"12345678\0" + struct.pack("<HBHHB10x", 0xF7FF, 45, 2, 0x8, 21) + b"123456789012\0"
)
"""Protocol 10 with a nonce; it can all but TLS (0x800)."""


def asks_postgres(request: bytes) -> Callable[[socket.socket], None]:
    def serve(client: socket.socket) -> None:
        client.recv(8)
        client.sendall(b"N")  # no TLS here
        client.recv(1 << 12)
        client.sendall(b"R" + struct.pack(">I", len(request) + 4) + request)

    return serve


def asks_mysql(*requests: bytes) -> Callable[[socket.socket], None]:
    def serve(client: socket.socket) -> None:
        client.sendall(packet(0, GREETING))
        for number, request in enumerate(requests):
            client.recv(1 << 12)
            client.sendall(packet(2 * number + 2, request))

    return serve


def packet(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number]) + body


def own_key() -> bytes:
    """A public key of the attacker's."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    key = subprocess.run(["openssl", "genrsa", "2048"], check=True, capture_output=True).stdout
    return subprocess.run(["openssl", "rsa", "-pubout"], input=key, check=True, capture_output=True).stdout


@contextmanager
def hostile(serve: Callable[[socket.socket], None]) -> Iterator[tuple[int, list[bytes]]]:
    """A server on loopback; what clients answer to its request for the password."""
    answers: list[bytes] = []

    def accept() -> None:
        client, _ = listener.accept()
        with client:
            client.settimeout(30)
            serve(client)
            answers.append(client.recv(1 << 12))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1], answers
        thread.join(30)


def settings_of(kind: str, **more: Any) -> DatabaseSettings:
    shared: dict[str, Any] = {"host": "127.0.0.1", "username": "u", "password": PASSWORD, **more}
    return PostgresSettings(**shared, database="d") if kind == "postgres" else MysqlSettings(**shared)


def connect(settings: DatabaseSettings) -> None:
    session: Any = postgres.session if isinstance(settings, PostgresSettings) else mysql.session
    session(settings, "read", "test").__enter__()


ATTACKS = {
    "the password (PostgreSQL)": ("postgres", lambda: asks_postgres(struct.pack(">I", 3))),
    "MD5 (PostgreSQL)": ("postgres", lambda: asks_postgres(struct.pack(">I", 5) + SALT)),
    "a key without having been asked (MySQL)": ("mysql", lambda: asks_mysql(b"\1" + own_key())),
    "a full proof (MySQL)": ("mysql", lambda: asks_mysql(b"\1\4")),
    "sha256_password (MySQL)": ("mysql", lambda: asks_mysql(b"\xfesha256_password\0" + b"n" * 20 + b"\0")),
    "mysql_clear_password (MySQL)": ("mysql", lambda: asks_mysql(b"\xfemysql_clear_password\0")),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_server_that_is_not_verified_gets_no_password(name: str) -> None:
    kind, serve = ATTACKS[name]
    with hostile(serve()) as (port, answers), pytest.raises(SourceError) as caught:
        connect(settings_of(kind, port=port))
    assert caught.value.verdict is Verdict.STOP
    assert answers == [b""], "nothing is answered"
    if "clear" not in name:
        assert "has not proven who it is" in caught.value.message
        assert "ssl_mode: verify-full" in caught.value.hint
        assert "allow_cleartext_password: true" in caught.value.hint


def test_whoever_allows_it_sends_the_password() -> None:
    with hostile(asks_postgres(struct.pack(">I", 3))) as (port, answers), pytest.raises(SourceError):
        connect(settings_of("postgres", port=port, allow_cleartext_password=True))
    assert PASSWORD.encode() in answers[0]


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
@pytest.mark.parametrize(
    ("host", "mode"),
    [
        ("localhost", "prefer"),
        ("127.0.0.9", "prefer"),
        ("::1", "prefer"),
        ("db.internal", "verify-full"),
        ("10.0.0.1", "verify-full"),
        ("localhost.evil.example", "verify-full"),
    ],
)
def test_a_server_on_another_machine_is_verified_by_default(kind: str, host: str, mode: str) -> None:
    settings = settings_of(kind, host=host)
    assert settings.tls_mode == mode
    assert settings.address.needs_tls is (mode == "verify-full")
    assert settings.address.tls is not None
    assert settings.address.tls.check_hostname is (mode == "verify-full")
    assert not list(settings.doubts())
    assert bool(list(settings_of(kind, host=host, ssl_mode="require").doubts())) is (mode == "verify-full")


def test_a_server_without_tls_is_refused_by_default_with_the_way_out() -> None:
    with hostile(asks_postgres(struct.pack(">I", 3))) as (port, _), pytest.raises(SourceError) as caught:
        connect(settings_of("postgres", port=port, ssl_mode="verify-full"))
    assert "it has no TLS" in caught.value.message
    assert "ssl_mode: prefer" in caught.value.hint
