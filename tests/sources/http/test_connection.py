from __future__ import annotations

import re
import socket
import tracemalloc
from datetime import timedelta

import pytest

from calve.settings import Size
from sources.http.serving import Serve, everything, stalled, until

QUICK = timedelta(seconds=3)
EVENT = b'[{"a":1}]'


def post(body: bytes = EVENT, *headers: bytes) -> bytes:
    lines = [b"POST /log/ingest HTTP/1.1", b"Host: localhost", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", body])


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", answer)]


def test_a_connection_is_kept_for_the_next_request(serve: Serve) -> None:
    with serve().connect() as client:
        for _ in range(3):
            client.sendall(post())
            assert statuses(client.recv(1000)) == [200]


def test_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    serving = serve()
    requests = [post(b'[{"a":%d}]' % number) for number in range(50)]
    requests[10] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answers = statuses(serving.talk(b"".join(requests)))
    assert answers == [200] * 10 + [404] + [200] * 39
    assert [event["a"] for event in serving.events()] == [number for number in range(50) if number != 10]


def test_a_request_may_come_byte_by_byte_and_chunked(serve: Serve) -> None:
    serving = serve()
    message = (
        b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'4\r\n[{"a\r\n5;x=y\r\n":1}]\r\n0\r\nTrailer: x\r\n\r\n'
    )
    with serving.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in message:
            client.sendall(bytes([byte]))
        assert statuses(client.recv(1000)) == [200]
    assert serving.events() == [{"a": 1}]


def test_whoever_asks_to_continue_is_told_so(serve: Serve) -> None:
    with serve().connect() as client:
        head, body = post(EVENT, b"Expect: 100-continue").split(b"\r\n\r\n")
        client.sendall(head + b"\r\n\r\n")
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert statuses(client.recv(1000)) == [200]


def test_whoever_asks_to_continue_with_too_much_is_refused_before_it_sends(serve: Serve) -> None:
    with serve(max_request_length=Size(1000)).connect() as client:
        client.sendall(
            b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\nExpect: 100-continue\r\n\r\n"
        )
        answer = everything(client)
    assert statuses(answer) == [413]
    assert b"connection: close" in answer


def test_http_1_0_and_connection_close_end_after_the_answer(serve: Serve) -> None:
    serving = serve()
    for message in (post(EVENT, b"Connection: close"), post().replace(b"HTTP/1.1", b"HTTP/1.0")):
        with serving.connect() as client:
            client.sendall(message)
            answer = everything(client)
        assert statuses(answer) == [200]
        assert b"connection: close" in answer


def test_an_offer_to_upgrade_is_passed_over(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as client:
        for _ in range(2):
            client.sendall(post(EVENT, b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAM"))
            assert statuses(client.recv(1000)) == [200]
    assert serving.events() == [{"a": 1}, {"a": 1}]


def test_very_many_offers_to_upgrade_at_once_are_passed_over(serve: Serve) -> None:
    serving = serve()
    offers = post(b"[]", b"Connection: Upgrade", b"Upgrade: h2c") * 2000
    assert statuses(serving.talk(offers)) == [200] * 2000


def test_connect_is_405(serve: Serve) -> None:
    assert statuses(serve().talk(b"CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\nrest")) == [405]


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /log/ingest HTTP/2.0\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n" + EVENT,
        b"POST /log/ingest\r\n\r\n",
        b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nhost: y\r\nContent-Length: 8\r\n\r\n" + EVENT,
        b"hello\r\n\r\n",
        b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_400_and_the_end(serve: Serve, nonsense: bytes) -> None:
    serving = serve()
    assert statuses(serving.talk(nonsense)) == [400]
    assert serving.post([{"a": 1}]) == 200


HEAD = b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n"


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"X: " + b"x" * 70_000 + b"\r\n\r\n" + EVENT,
        HEAD + b"".join(b"X-%d: %s\r\n" % (number, b"x" * 700) for number in range(100)) + b"\r\n" + EVENT,
        HEAD.replace(b"ingest", b"ingest?" + b"x" * 70_000) + b"\r\n" + EVENT,
        HEAD.replace(b"Content-Length: 8", b"Transfer-Encoding: chunked")
        + b"\r\n0\r\nX: "
        + b"x" * 70_000
        + b"\r\n\r\n",
    ],
)
def test_a_complete_head_of_70_kb_that_arrives_at_once_is_431(serve: Serve, head: bytes) -> None:
    serving = serve()
    assert statuses(serving.talk(head)) == [431]
    assert serving.events() == []


@pytest.mark.parametrize("line", [b"POST /log/ingest", b"GET /health", b"GET /health HTTP/0.9"])
def test_http_0_9_is_400(serve: Serve, line: bytes) -> None:
    assert statuses(serve().talk(line + b"\r\n\r\n")) == [400]


def test_a_request_without_a_host_is_400_unless_its_http_has_none(serve: Serve) -> None:
    serving = serve()
    assert statuses(serving.talk(post(EVENT).replace(b"Host: localhost\r\n", b""))) == [400]
    assert serving.events() == []
    assert statuses(serving.talk(b"GET /health HTTP/1.0\r\n\r\n")) == [200]


def test_a_huge_head_is_431(serve: Serve) -> None:
    serving = serve()
    assert statuses(serving.talk(b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 400_000)) == [431]
    assert statuses(serving.talk(b"GET /" + b"x" * 400_000)) == [431]


@pytest.mark.parametrize("endless", [b"0\r\nX: ", b"4;x="])
def test_a_huge_trailer_or_extension_of_a_chunk_is_431(serve: Serve, endless: bytes) -> None:
    serving = serve()
    head = b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert statuses(serving.talk(head + endless + b"x" * 800_000)) == [431]


def test_a_body_of_very_many_small_chunks_takes_little_memory(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as client:
        client.sendall(b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[ \r\n")
        until(lambda: any(each._reading for each in serving.source._server._connections))
        (connection,) = serving.source._server._connections
        tracemalloc.start()
        try:
            client.sendall(b"2\r\n\n \r\n" * 100_000)
            until(lambda: connection.held_bytes > 200_000)
            until(lambda: connection.held_bytes == 200_002)
            assert tracemalloc.get_traced_memory()[0] < 2 << 20
        finally:
            tracemalloc.stop()
        client.sendall(b"1\r\n]\r\n0\r\n\r\n")
        assert statuses(client.recv(1000)) == [200]


def test_a_slow_client_is_408_and_does_not_hold_others(serve: Serve) -> None:
    serving = serve(request_timeout=QUICK)
    with serving.connect() as in_head, serving.connect() as in_body:
        in_head.sendall(b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nHo")
        in_body.sendall(post()[:-1])
        assert serving.post([{"b": 1}]) == 200
        assert statuses(everything(in_head)) == [408]
        assert statuses(everything(in_body)) == [408]
    assert serving.events() == [{"b": 1}]


def test_whoever_says_nothing_is_sent_away(serve: Serve) -> None:
    with serve(request_timeout=QUICK).connect() as client:
        assert everything(client) == b""


def test_a_client_that_leaves_in_the_middle_leaves_nothing(serve: Serve) -> None:
    serving = serve()
    assert serving.talk(post()[:-1]) == b""
    assert not serving.source.backlog(None)


def test_a_half_closed_connection_gets_its_answer(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as client:
        with stalled(serving):
            client.sendall(post())
            client.shutdown(socket.SHUT_WR)
            until(lambda: serving.source._service.pending == 2)
        assert statuses(everything(client)) == [200]
    assert serving.events() == [{"a": "first"}, {"a": 1}]


def test_one_connection_too_many_is_429_and_the_others_go_on(serve: Serve) -> None:
    serving = serve(max_connection_count=2)
    with serving.connect() as first, serving.connect() as second:
        for client in (first, second):
            client.sendall(post())
            assert statuses(client.recv(1000)) == [200]
        with serving.connect() as third:
            answer = everything(third)
            assert statuses(answer) == [429]
            assert b"retry-after" in answer
        first.sendall(post())
        assert statuses(first.recv(1000)) == [200]
    until(lambda: not serving.source._server._connections)
    assert serving.post([]) == 200


def test_bodies_that_fill_the_memory_are_429_until_they_are_gone(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = serve()
    monkeypatch.setattr("calve.sources.http.server.HELD_BYTES", 1000)
    with serving.connect() as hoarder:
        hoarder.sendall(post(b"x" * 5000)[:-1])
        until(lambda: serving.post([{"a": 1}]) == 429)
    until(lambda: serving.post([{"a": 1}]) == 200)


def test_stopping_answers_what_has_arrived_whole_and_refuses_the_rest(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as whole, serving.connect() as half, serving.connect() as idle:
        whole.sendall(post())
        assert statuses(whole.recv(1000)) == [200]
        half.sendall(post()[:-1])
        until(lambda: len(serving.source._server._connections) == 3)
        until(lambda: any(each._reading for each in serving.source._server._connections))
        serving.source.stop()
        assert statuses(everything(half)) == [503]
        assert everything(idle) == b""
        assert everything(whole) == b""
    serving.source.stop()


def test_no_traceback_reaches_a_client_when_there_is_a_bug(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = serve()
    monkeypatch.setattr("calve.sources.http.service.body.split", lambda data: 1 / 0)
    status, text, _ = serving.send("POST", "/log/ingest", "[]")
    assert status == 500
    assert "Traceback" not in text
    monkeypatch.undo()
    assert serving.post([]) == 200


def test_a_bug_while_a_head_is_read_is_500_and_in_the_log(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    serving = serve()
    monkeypatch.setattr(serving.source._service, "refusal", lambda request: 1 / 0)
    assert statuses(serving.talk(post())) == [500]
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    assert serving.post([]) == 200
