from __future__ import annotations

import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from calve.compiled.otlp import SIGNALS
from calve.settings import Size
from calve.sources.http.settings import Bearer, HttpAuthentication, HttpBasic
from calve.sources.otlp import service
from sources.otlp.requests import REQUESTS, as_json, comparable, request_of, rows_of
from sources.otlp.serving import PROTOBUF, Serve

JSON = "application/json"
SPANS = request_of("traces", 1)


def status_of(body: str) -> tuple[int, str]:
    """Read a short `google.rpc.Status`."""
    data = body.encode("latin-1")
    assert data[0] == 8
    assert data[2] == 0x12
    return data[1], data[4 if data[3] < 128 else 5 :].decode()


def test_requests_of_all_signals_and_encodings_are_rows_in_the_order_of_their_signal(serve: Serve) -> None:
    serving = serve(metadata_headers=["x-tenant"])
    expected: dict[str, list[dict[str, Any]]] = {signal: [] for signal in SIGNALS}
    for seed in range(6):
        for signal in SIGNALS:
            request = request_of(signal, seed)
            expected[signal] += rows_of(signal, request)
            body, kind = (
                (as_json(request), f"{JSON}; charset=utf-8") if seed % 2 else (request.SerializeToString(), PROTOBUF)
            )
            packed = {"Content_Encoding": "gzip"} if seed % 3 else {}
            status, text, headers = serving.export(
                signal, gzip.compress(body) if packed else body, kind, X_Tenant=f"t{seed % 2}", **packed
            )
            assert (status, text, headers["content-type"]) == (
                200,
                "{}" if seed % 2 else "",
                JSON if seed % 2 else PROTOBUF,
            )
            assert int(headers["calve-events"]) == len(rows_of(signal, request))
    assert serving.source.backlog(None).rows == sum(map(len, expected.values()))
    for signal in SIGNALS:
        rows = serving.rows(signal)
        assert comparable(rows) == comparable([{name: row[name] for name in rows[0]} for row in expected[signal]])
    tenants = [(batch["signal"][0].as_py(), batch["headers"][0].as_py()["x-tenant"]) for batch in serving.batches()]
    assert set(tenants) == {(signal, tenant) for signal in SIGNALS for tenant in ("t0", "t1")}


@pytest.mark.parametrize("signal", SIGNALS)
def test_an_empty_request_is_valid_and_leaves_nothing(serve: Serve, signal: str) -> None:
    serving = serve()
    assert serving.export(signal, b"")[:2] == (200, "")
    assert serving.export(signal, b"{}", JSON)[:2] == (200, "{}")
    assert not serving.source.backlog(None)


def test_a_bad_body_is_400_with_the_protocol_s_status_and_nothing_of_it_is_kept(serve: Serve) -> None:
    serving = serve()
    whole = SPANS.SerializeToString()
    for body, headers in (
        (whole[:-1], {}),
        (gzip.compress(whole)[:-9], {"Content_Encoding": "gzip"}),
        (whole, {"Content_Encoding": "gzip"}),
        (b"\xff" * 9, {}),
    ):
        status, text, answered = serving.export("traces", body, **headers)
        assert (status, answered["content-type"], status_of(text)[0]) == (400, PROTOBUF, 3)
        assert "json array" not in text
    status, text, _ = serving.export("traces", b'{"resourceSpans": 5}', JSON)
    assert (status, json.loads(text)["code"]) == (400, 3)
    assert "resourceSpans is not an array" in json.loads(text)["message"]
    assert serving.export("traces", whole, "text/plain")[0] == 415
    assert serving.export("traces", whole, Content_Encoding="zstd")[0] == 415
    assert serving.send("POST", "/v1/spans", whole, Content_Type=PROTOBUF)[0] == 404
    assert serving.send("GET", "/v1/traces")[0] == 405
    assert serving.send("GET", "/health")[:2] == (200, "OK\n")
    assert not serving.source.backlog(None)


def test_what_no_column_holds_is_rejected_in_part_and_counted(serve: Serve) -> None:
    serving, request = serve(), REQUESTS["metrics"]()
    points = request.resource_metrics.add().scope_metrics.add().metrics.add(name="h").histogram.data_points
    points.add(count=2**64 - 1)
    points.add(count=5)
    _, text, _ = serving.export("metrics", request.SerializeToString())
    partial = ExportMetricsServiceResponse.FromString(text.encode("latin-1")).partial_success
    assert partial.rejected_data_points == 1
    assert "2^63" in partial.error_message
    _, text, _ = serving.export("metrics", as_json(request), JSON)
    assert json.loads(text)["partialSuccess"]["rejectedDataPoints"] == "1"
    assert [row["count"] for row in serving.rows("metrics")] == [5, 5]
    assert serving.source.backlog(None).refused == {"partial": 2}


def test_bombs_are_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = serve(max_request_length=Size(1 << 20), max_request_events=40)
    bomb = gzip.compress(bytes(8 << 20))
    assert serving.export("traces", bomb, Content_Encoding="gzip")[0] == 413
    request = REQUESTS["traces"]()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="large").value.string_value = "x" * 100_000
    resource.scope_spans.add().spans.extend([request_of("traces", 1).resource_spans[0].scope_spans[0].spans[0]] * 30)
    assert serving.export("traces", request.SerializeToString())[0] == 200
    monkeypatch.setattr(service, "MOST_BYTES", 1 << 20)
    status, text, _ = serving.export("traces", request.SerializeToString())
    assert (status, "resource and scope" in text) == (413, True)
    request.resource_spans[0].resource.Clear()
    request.resource_spans[0].scope_spans[0].spans.extend([SPANS.resource_spans[0].scope_spans[0].spans[0]] * 20)
    assert "max_request_events" in serving.export("traces", request.SerializeToString())[1]


def test_a_full_log_is_429_and_a_slow_disk_503_so_that_clients_retry(serve: Serve) -> None:
    serving = serve(max_log_bytes=Size(1 << 16), request_timeout=timedelta(seconds=1))
    body = b"".join(request_of("logs", seed).SerializeToString() for seed in range(8))
    answers = [serving.export("logs", body) for _ in range(40)]
    status, text, headers = answers[-1]
    assert (answers[0][0], status, status_of(text)[0]) == (200, 429, 8)
    assert int(headers["retry-after"]) > 0
    with serving.connect() as client:
        client.sendall(
            b"POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: 9\r\n\r\n"
        )
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize(
    ("authentication", "right", "wrong"),
    [
        (HttpAuthentication(bearer=Bearer(token="secret")), "Bearer secret", ("Bearer secre", "Basic secret", "")),
        (
            HttpAuthentication(http_basic=HttpBasic(username="ann", password="pw")),
            "Basic YW5uOnB3",
            ("Bearer YW5uOnB3", "Basic YW5uOnB", ""),
        ),
    ],
)
def test_only_clients_with_the_secret_are_accepted(
    serve: Serve, authentication: HttpAuthentication, right: str, wrong: tuple[str, ...]
) -> None:
    serving, body = serve(authentication=authentication), SPANS.SerializeToString()
    for given in wrong:
        status, text, _ = serving.export("traces", body, **({"Authorization": given} if given else {}))
        assert (status, status_of(text)[0]) == (401, 16)
    assert not serving.source.backlog(None)
    assert serving.export("traces", body, Authorization=right)[0] == 200


def test_rows_are_read_again_after_a_restart(serve: Serve, tmp_path: Path) -> None:
    first = serve()
    first.export("traces", SPANS.SerializeToString())
    rows = first.rows("traces")
    first.source.stop()
    assert comparable(serve().rows("traces")) == comparable(rows)
