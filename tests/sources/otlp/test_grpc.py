from __future__ import annotations

import gzip
import json
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from calve.compiled.otlp import SIGNALS
from calve.settings import Size
from calve.sources.http.settings import Bearer, HttpAuthentication, HttpBasic
from kit.running import PATIENCE_SECONDS
from services.certificates import Authority
from sources.http.serving import until
from sources.otlp.calls import EXPORT, HEALTH, FrameClient, call, channel, framed
from sources.otlp.requests import REQUESTS, comparable, request_of, rows_of
from sources.otlp.serving import PROTOBUF, Serve

SPANS = request_of("traces", 1).SerializeToString()
QUICK = timedelta(seconds=1)


def text_of(row: dict[str, Any]) -> str:
    return json.dumps(comparable(row), default=str)


def test_calls_of_all_signals_at_once_are_the_rows_of_the_same_requests(serve: Serve) -> None:
    serving = serve(metadata_headers=["x-tenant"])
    requests = [(signal, request_of(signal, seed)) for seed in range(12) for signal in SIGNALS]
    packings = (None, grpc.Compression.Gzip)
    with channel(serving) as opened, ThreadPoolExecutor(8) as clients:
        answers = clients.map(
            lambda job: call(
                opened, EXPORT[job[1][0]], job[1][1].SerializeToString(), packings[job[0] % 2], x_tenant="a"
            ),
            enumerate(requests),
        )
        assert {answer[:3] for answer in answers} == {("OK", "", b"")}
    for signal in SIGNALS:
        expected = [row for own, request in requests if own == signal for row in rows_of(signal, request)]
        found = serving.rows(signal)
        wanted = [{name: row[name] for name in found[0]} for row in expected]
        assert sorted(map(text_of, found)) == sorted(map(text_of, wanted))
    assert all(batch["headers"][0].as_py() == {"x-tenant": "a"} for batch in serving.batches())


def test_a_refused_call_has_a_status_that_clients_do_not_repeat(serve: Serve) -> None:
    serving = serve(max_request_length=Size(1 << 16))
    method, bomb = EXPORT["traces"], gzip.compress(bytes(8 << 20))
    with channel(serving) as opened:
        assert call(opened, method, b"")[0] == "OK"
        for body, packing, code, text in (
            (b"\xff" * 9, None, "INVALID_ARGUMENT", "no request of OTLP with traces"),
            (bytes(1 << 17), None, "INVALID_ARGUMENT", "max_request_length"),
            (bytes(1 << 17), grpc.Compression.Gzip, "INVALID_ARGUMENT", "max_request_length"),
            (SPANS, grpc.Compression.Deflate, "UNIMPLEMENTED", "use gzip"),
        ):
            found = call(opened, method, body, packing)
            assert (found[0], text in found[1], found[3]) == (code, True, None)
        assert (
            call(opened, "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", b"")[0]
            == "UNIMPLEMENTED"
        )
        assert call(opened, method, b"", idempotency_key="a b")[:2] == (
            "INVALID_ARGUMENT",
            "An Idempotency-Key is 1 to 255 visible ASCII characters.",
        )
    with serving.connect() as client:
        frames = FrameClient(client)
        for body, more in (
            (framed(bomb, True), {"grpc_encoding": "gzip"}),
            (framed(SPANS, True), {}),
            (framed(SPANS) + framed(SPANS), {}),
            (framed(SPANS)[:-1], {}),
            (b"\0\0", {}),
            (b"\2" + framed(SPANS)[1:], {}),
            (b"", {}),
        ):
            stream = frames.begin(**more)
            frames.add(stream, body, end=True)
            assert frames.answer(stream)[0]["grpc-status"] == "3"
    assert not serving.source.backlog(None)
    assert serving.export("traces", SPANS)[0] == 200


def test_what_no_column_holds_is_rejected_in_part(serve: Serve) -> None:
    serving, request = serve(), REQUESTS["metrics"]()
    points = request.resource_metrics.add().scope_metrics.add().metrics.add(name="h").histogram.data_points
    points.add(count=2**64 - 1)
    points.add(count=5)
    with channel(serving) as opened:
        message = call(opened, EXPORT["metrics"], request.SerializeToString())[2]
    assert ExportMetricsServiceResponse.FromString(message).partial_success.rejected_data_points == 1
    assert [row["count"] for row in serving.rows("metrics")] == [5]


def test_a_full_log_tells_clients_when_to_try_again(serve: Serve) -> None:
    serving = serve(max_log_bytes=Size(1 << 16))
    body = b"".join(request_of("logs", seed).SerializeToString() for seed in range(8))
    with channel(serving) as opened:
        answers = [call(opened, EXPORT["logs"], body) for _ in range(30)]
    assert answers[0][0] == "OK"
    code, text, _, retry = answers[-1]
    assert (code, retry is not None and retry.retry_delay.seconds > 0) == ("RESOURCE_EXHAUSTED", True)
    assert "max_log_bytes" in text


@pytest.mark.parametrize(
    ("authentication", "right", "wrong"),
    [
        (HttpAuthentication(bearer=Bearer(token="secret")), "Bearer secret", "Bearer secre"),
        (HttpAuthentication(http_basic=HttpBasic(username="ann", password="pw")), "Basic YW5uOnB3", "Basic YW5uOnB"),
    ],
)
def test_only_clients_with_the_secret_are_accepted(
    serve: Serve, authentication: HttpAuthentication, right: str, wrong: str
) -> None:
    serving = serve(authentication=authentication)
    with channel(serving) as opened:
        for method in (EXPORT["traces"], HEALTH):
            assert call(opened, method, SPANS)[0] == "UNAUTHENTICATED"
            assert call(opened, method, SPANS, authorization=wrong)[0] == "UNAUTHENTICATED"
        assert not serving.source.backlog(None)
        assert call(opened, EXPORT["traces"], SPANS, authorization=right)[0] == "OK"
        assert call(opened, HEALTH, b"", authorization=right)[:3] == ("OK", "", b"\x08\x01")


def test_health_is_answered_as_the_options_say(serve: Serve) -> None:
    token = HttpAuthentication(bearer=Bearer(token="secret"))
    with channel(serve(authentication=token, unauthenticated_health_check=True)) as opened:
        assert call(opened, HEALTH, b"\n\1a")[2] == b"\x08\x01"
    with channel(serve(health_check_service=False)) as opened:
        assert call(opened, HEALTH, b"")[0] == "UNIMPLEMENTED"


def test_tls_serves_grpc_and_http_of_both_versions_on_each_port(serve: Serve, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    certificate, key = authority.sign("127.0.0.1")
    serving = serve(grpc_port=0, ssl=True, ssl_certificate_file=str(certificate), ssl_key_file=str(key))
    addresses = serving.source._server.addresses
    assert serving.source.url == " and ".join(f"https://127.0.0.1:{port}" for _, port in addresses)
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    for host, port in addresses:
        with grpc.secure_channel(f"{host}:{port}", credentials) as opened:
            assert call(opened, EXPORT["traces"], SPANS)[0] == "OK"
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.set_alpn_protocols(["h2", "http/1.1"])
    with context.wrap_socket(serving.connect(), server_hostname="127.0.0.1") as client:
        assert client.selected_alpn_protocol() == "h2"
        frames = FrameClient(client)
        stream = frames.begin("/v1/traces", PROTOBUF)
        frames.add(stream, SPANS, end=True)
        head, body = frames.answer(stream)
        assert (head[":status"], head["content-type"], body) == ("200", PROTOBUF, b"")
        stream = frames.begin("/v1/traces", "text/plain")
        assert frames.answer(stream)[0][":status"] == "415"
        stream = frames.begin("/health", verb="GET", kind="")
        frames.state.end_stream(stream)
        frames.flush()
        assert frames.answer(stream)[1] == b"OK\n"
    context.set_alpn_protocols(["http/1.1"])
    with context.wrap_socket(serving.connect(), server_hostname="127.0.0.1") as client:
        client.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    assert len(serving.rows("traces")) == 3 * len(rows_of("traces", request_of("traces", 1)))


def test_other_hosts_and_pages_are_refused(serve: Serve) -> None:
    serving = serve()
    with channel(serving) as opened:
        assert call(opened, EXPORT["traces"], SPANS, origin="https://evil.example")[0] == "PERMISSION_DENIED"
    options = [("grpc.default_authority", "evil.example")]
    with grpc.insecure_channel("{}:{}".format(*serving.source.address), options) as opened:
        assert call(opened, EXPORT["traces"], SPANS)[0] == "PERMISSION_DENIED"


def test_a_stop_answers_the_calls_that_have_arrived_and_refuses_the_others(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = serve()
    tail = serving.source._log._tail
    write, begun, go_on = tail.write, threading.Event(), threading.Event()

    def slow(data: bytes) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)
        write(data)

    monkeypatch.setattr(tail, "write", slow)
    with serving.connect() as client, serving.connect() as other, ThreadPoolExecutor(1) as stopping:
        frames, idle = FrameClient(client), FrameClient(other)
        whole, half = frames.begin(), frames.begin()
        frames.add(half, framed(SPANS)[:9])
        frames.add(whole, framed(SPANS), end=True)
        assert begun.wait(PATIENCE_SECONDS)
        stopped = stopping.submit(serving.source.stop)
        assert frames.answer(half)[0]["grpc-status"] == "14"
        assert idle.goodbye() == 0
        late = frames.begin()
        assert frames.answer(late)[0]["grpc-status"] == "14"
        go_on.set()
        assert frames.answer(whole)[0]["grpc-status"] == "0"
        assert frames.goodbye() == 0
        stopped.result(PATIENCE_SECONDS)


def test_a_slow_disk_is_answered_so_that_clients_try_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = serve(request_timeout=QUICK)
    monkeypatch.setattr(serving.source._log, "submit", lambda entry: serving.source._log._waiting.append(entry))
    with channel(serving) as opened:
        code, text, _, retry = call(opened, EXPORT["traces"], SPANS)
    assert (code, "nothing of the request is kept" in text, retry is not None) == ("UNAVAILABLE", True, True)
    until(lambda: not serving.source._service.pending)
