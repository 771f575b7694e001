from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import timedelta

import pytest
from h2.errors import ErrorCodes
from h2.events import StreamReset
from h2.settings import SettingCodes
from hyperframe.frame import DataFrame

from calve.settings import Size
from calve.sources.otlp.http2 import _Frames
from kit.running import PATIENCE_SECONDS
from sources.http.serving import everything, until
from sources.otlp.calls import EXPORT, FrameClient, call, channel, framed
from sources.otlp.requests import request_of
from sources.otlp.serving import Serve

SPANS = request_of("traces", 1).SerializeToString()
QUICK = timedelta(seconds=1)


def test_a_preface_and_a_call_may_come_byte_by_byte(serve: Serve) -> None:
    with serve().connect() as client:
        frames = FrameClient.__new__(FrameClient)
        recorder = _Recorder(client)
        frames.__init__(recorder)  # type: ignore[misc]
        stream = frames.begin()
        frames.add(stream, framed(SPANS), end=True)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in recorder.sent:
            client.sendall(bytes([byte]))
        assert frames.answer(stream)[0]["grpc-status"] == "0"


class _Recorder:
    """A socket that keeps what is to be sent."""

    def __init__(self, client: socket.socket) -> None:
        self.sent = b""
        self.recv = client.recv

    def sendall(self, data: bytes) -> None:
        self.sent += data


def test_a_body_that_does_not_arrive_is_refused_and_the_connection_serves_on(serve: Serve) -> None:
    with serve(request_timeout=QUICK).connect() as client:
        frames = FrameClient(client)
        slow = frames.begin()
        frames.add(slow, framed(SPANS)[:-1])
        head, _ = frames.answer(slow)
        assert (head["grpc-status"], "in time" in head["grpc-message"]) == ("14", True)
        frames.until(lambda: any(isinstance(event, StreamReset) for event in frames.events))
        stream = frames.begin()
        frames.add(stream, framed(SPANS), end=True)
        assert frames.answer(stream)[0]["grpc-status"] == "0"


def test_an_idle_connection_is_closed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calve.sources.otlp.http2.IDLE_SECONDS", 0.1)
    with serve().connect() as client:
        assert FrameClient(client).goodbye() == ErrorCodes.NO_ERROR


def ping(frames: FrameClient) -> None:
    frames.socket.sendall(b"".join(b"\0\0\x08\6\0\0\0\0\0" + bytes(8) for _ in range(1500)))


def reset(frames: FrameClient) -> None:
    for _ in range(1200):
        stream = frames.begin()
        frames.state.reset_stream(stream)
    frames.flush()


def long_frame(frames: FrameClient) -> None:
    frames.socket.sendall(b"\xff\xff\xff\0\0\0\0\0\1" + bytes(40 << 10))


def long_head(frames: FrameClient) -> None:
    frames.socket.sendall(
        b"\0\x40\0\1\0\0\0\0\1" + bytes(16 << 10) + (b"\0\x40\0\x09\0\0\0\0\1" + bytes(16 << 10)) * 70
    )


def large_head(frames: FrameClient) -> None:
    frames.begin(**{f"x_{number}": "y" * 4000 for number in range(20)})


def many_streams(frames: FrameClient) -> None:
    frames.state.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 1000
    frames.state.remote_settings.acknowledge()
    for _ in range(120):
        frames.begin()


def no_frames(frames: FrameClient) -> None:
    frames.socket.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)


def empty_parts(frames: FrameClient) -> None:
    stream = frames.begin()
    frames.socket.sendall(b"".join(b"\0\0\0\0\0" + stream.to_bytes(4) for _ in range(1500)))


@pytest.mark.parametrize(
    "attack", [ping, reset, long_frame, long_head, large_head, many_streams, no_frames, empty_parts]
)
def test_who_sends_what_no_client_sends_is_disconnected_and_others_are_served(
    serve: Serve, attack: Callable[[FrameClient], None]
) -> None:
    serving = serve()
    with serving.connect() as client, channel(serving) as opened:
        frames = FrameClient(client)
        try:
            attack(frames)
            assert frames.goodbye() != ErrorCodes.NO_ERROR
        except (BrokenPipeError, ConnectionResetError):
            assert everything(client) is not None
        assert call(opened, EXPORT["traces"], SPANS)[0] == "OK"
    until(lambda: not serving.source._server._connections)


def test_a_client_without_a_window_gets_no_answer_and_holds_nothing(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as client:
        frames = FrameClient(client)
        frames.state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        stream = frames.begin()
        frames.add(stream, framed(SPANS), end=True)
        frames.until(lambda: any(isinstance(event, StreamReset) for event in frames.events))
        assert serving.source._service.held_bytes == 0
    assert serving.source.backlog(None).rows


def test_a_cancelled_call_and_a_client_that_leaves_disturb_nobody(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as client:
        frames = FrameClient(client)
        frames.state.update_settings({SettingCodes.HEADER_TABLE_SIZE: 1 << 30})
        for _ in range(50):
            stream = frames.state.get_next_available_stream_id()
            head = [(":method", "POST"), (":path", EXPORT["traces"]), (":scheme", "http"), (":authority", "localhost")]
            frames.state.send_headers(stream, [*head, ("content-type", "application/grpc")])
            frames.state.send_data(stream, framed(b""), end_stream=True)
            frames.state.reset_stream(stream)
        frames.flush()
        stream = frames.begin()
        frames.add(stream, framed(SPANS), end=True)
        assert frames.answer(stream)[0]["grpc-status"] == "0"
        [connection] = serving.source._server._connections
        assert (connection._open, connection._state.encoder.header_table_size) == ({}, 4096)
        frames.add(frames.begin(), framed(SPANS), end=True)
        frames.state.close_connection()
        frames.flush()
    with channel(serving) as opened:
        assert call(opened, EXPORT["traces"], SPANS)[0] == "OK"


def test_bodies_that_fill_the_memory_are_refused_and_clients_try_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calve.sources.http.server.HELD_BYTES", 1000)
    serving = serve(request_timeout=timedelta(seconds=PATIENCE_SECONDS))
    with serving.connect() as client:
        frames = FrameClient(client)
        large = frames.begin()
        frames.add(large, (10000).to_bytes(5) + bytes(2000))
        until(lambda: serving.source._service.crowded)
        stream = frames.begin()
        assert frames.answer(stream)[0]["grpc-status"] == "8"
        frames.add(large, bytes(2000))
        assert frames.answer(large)[0]["grpc-status"] == "8"
        until(lambda: not serving.source._service.crowded)


def test_the_limit_of_connections_holds_for_both_ports(serve: Serve) -> None:
    serving = serve(grpc_port=0, max_connection_count=2, max_connections_per_address=2, max_request_length=Size(1000))
    first, second = serving.source._server.addresses
    with socket.create_connection(first) as a, socket.create_connection(second) as b:
        frames = [FrameClient(client) for client in (a, b)]
        for client in frames:
            stream = client.begin()
            client.add(stream, framed(b""), end=True)
            assert client.answer(stream)[0]["grpc-status"] == "0"
        with socket.create_connection(second) as c:
            assert everything(c).startswith(b"HTTP/1.1 429 ")


def test_frames_are_not_described_with_their_data() -> None:
    frames, whole = _Frames(), DataFrame(1, b"secret").serialize()
    frames.max_frame_size = 100
    frames.add_data(whole * 2)
    for frame in frames:
        assert isinstance(frame, DataFrame)
        assert (bytes(frame.data), repr(frame).count(b"secret".hex())) == (b"secret", 0)
    assert b"secret".hex() in repr(DataFrame(1, b"secret"))
