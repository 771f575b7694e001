"""Who only connects takes nothing from others."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from calve.observe import descriptors
from calve.sources.http import gate as gate_module
from calve.sources.http.gate import Admission, Gate
from services.certificates import Authority
from sources.http.serving import Serve, everything, until


def test_all_and_each_address_have_a_limit() -> None:
    gate = Gate(3, 2)
    assert [gate.enter("10.0.0.1", 5) for _ in range(3)] == [Admission.SERVED, Admission.SERVED, Admission.REFUSED]
    assert gate.refusing == ""
    assert gate.enter("::ffff:10.0.0.1", 5) is Admission.REFUSED  # the same client
    assert gate.enter("2001:db8::1", 5) is Admission.SERVED
    assert gate.enter("10.0.0.2", 5) is Admission.REFUSED
    assert "all 3 connections" in gate.refusing
    gate.leave("10.0.0.1", Admission.SERVED)
    assert gate.enter("10.0.0.2", 5) is Admission.SERVED


def test_a_network_of_ipv6_is_one_client() -> None:
    gate = Gate(3, 1)
    assert gate.enter("2001:db8::1", 5) is Admission.SERVED
    assert gate.enter("2001:db8::2%eth0", 5) is Admission.REFUSED
    assert gate.enter("2001:db8:1::2", 5) is Admission.SERVED


def test_refused_connections_are_few_and_the_others_are_closed_at_once() -> None:
    gate = Gate(1, 1)
    found = [gate.enter("10.0.0.1", 5) for _ in range(100)]
    assert found.count(Admission.REFUSED) == 32
    assert found[-1] is Admission.CLOSED
    gate.leave("10.0.0.1", Admission.REFUSED)
    assert gate.enter("10.0.0.1", 5) is Admission.REFUSED


def test_no_client_gets_a_descriptor_of_the_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: (1024, 4096))
    gate = Gate(10_000, 10_000)
    assert gate.enter("10.0.0.1", 767) is Admission.SERVED
    assert gate.enter("10.0.0.1", 768) is Admission.CLOSED
    assert "file descriptors" in gate.refusing
    gate.leave("10.0.0.1", Admission.SERVED)
    assert gate.refusing == ""


def test_the_limit_of_descriptors_is_raised_to_what_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(descriptors.resource, "setrlimit", lambda _, pair: limits.append(pair))
    descriptors.raise_limit()
    assert limits == [(4096, 4096)]
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    descriptors.raise_limit()
    assert len(limits) == 1  # never lowered


def test_silent_connections_are_counted_before_the_handshake_and_do_not_stay(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "_ANSWERED", 2)
    authority = Authority(tmp_path / "tls")
    certificate, key = authority.sign("127.0.0.1")
    files = {"ssl_certificate_file": str(certificate), "ssl_key_file": str(key)}
    serving = serve(ssl=True, max_connection_count=3, max_connections_per_address=3, **files)
    with ExitStack() as open_clients:
        silent = [open_clients.enter_context(serving.connect()) for _ in range(20)]
        until(lambda: serving.source.backlog(None).refusing)
        assert "max_connection_count" in serving.source.backlog(None).refusing
        until(lambda: len(serving.source._server._accepted) == 5)  # the others are closed without a handshake
        for client in silent[5:]:
            assert everything(client) == b""
    until(lambda: not serving.source.backlog(None).refusing)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with context.wrap_socket(serving.connect(), server_hostname="127.0.0.1") as client:
        client.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_handshake_that_never_ends_has_the_time_of_a_head(serve: Serve, tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path / "tls").sign("127.0.0.1")
    files = {"ssl_certificate_file": str(certificate), "ssl_key_file": str(key)}
    serving = serve(ssl=True, request_timeout=timedelta(milliseconds=100), **files)
    with serving.connect() as client:
        assert client.recv(100) == b""
    until(lambda: not serving.source._server._accepted)


def test_a_second_address_is_served_while_the_first_has_its_share(serve: Serve) -> None:
    serving = serve(max_connection_count=10, max_connections_per_address=2)
    with ExitStack() as open_clients:
        for _ in range(2):
            open_clients.enter_context(serving.connect())
        until(lambda: len(serving.source._server._accepted) == 2)
        assert serving.post([]) == 429
        with socket.create_connection(serving.source.address, 10, ("127.0.0.2", 0)) as other:
            other.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert other.recv(1000).startswith(b"HTTP/1.1 200")
    until(lambda: serving.post([]) == 200)
