"""Each fault of the proxy is what its name says, and ends with it."""

from __future__ import annotations

import http.client

import pytest

from kit.running import until
from services.faulty import CUT, DELAY, DRIP, LOST, REFUSE, SILENT, UNKNOWN, Fault, FaultyProxy, status
from services.scripted import Scripted

ANSWER = b"0123456789" * 10


def _ask(port: int, method: str = "PUT", seconds: float = 30) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request(method, "/x", b"body")
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.fixture
def served():
    with Scripted(lambda *_: (200, ANSWER)) as server:
        proxy = FaultyProxy(int(server.address.rpartition(":")[2]), lambda code: f"says {code}".encode())
        yield server, proxy
        proxy.close()


@pytest.mark.parametrize(
    ("fault", "raised", "is_done"),
    [
        (REFUSE, ConnectionRefusedError, False),
        (LOST, (ConnectionError, http.client.HTTPException), True),
        (CUT, (ConnectionError, http.client.HTTPException), True),
    ],
)
def test_a_broken_connection_is_an_error_and_then_over(served, fault: Fault, raised, is_done: bool) -> None:
    server, proxy = served
    proxy.break_by(fault)
    with pytest.raises(raised):
        _ask(proxy.port)
    assert bool(server.asked) is is_done
    proxy.mend()
    assert _ask(proxy.port) == (200, ANSWER)


def test_a_silent_connection_stays_silent_and_a_new_one_is_answered(served) -> None:
    server, proxy = served
    proxy.break_by(SILENT)
    with pytest.raises(TimeoutError):
        _ask(proxy.port, seconds=0.5)
    until(lambda: server.asked, "the request arrives")
    proxy.mend()
    assert _ask(proxy.port) == (200, ANSWER)


def test_a_status_answers_in_the_server_s_place_or_after_it(served) -> None:
    server, proxy = served
    proxy.break_by(status(503))
    assert _ask(proxy.port) == (503, b"says 503")
    proxy.break_by(status(409))
    assert _ask(proxy.port) == (409, b"says 409")
    assert not server.asked
    assert _ask(proxy.port, "GET") == (200, ANSWER)
    proxy.break_by(UNKNOWN)
    assert _ask(proxy.port) == (503, b"says 503")
    assert len(server.asked) == 2


@pytest.mark.parametrize("fault", [DELAY, DRIP])
def test_a_slow_answer_is_whole(served, fault: Fault) -> None:
    _, proxy = served
    proxy.break_by(fault)
    with pytest.raises(TimeoutError):
        _ask(proxy.port, seconds=0.03)
    proxy.mend()
    assert _ask(proxy.port) == (200, ANSWER)
