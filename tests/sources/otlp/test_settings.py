from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from calve.errors import SettingsError, SourceError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.sources.http.body import DEFLATE_RATIO
from calve.sources.http.server import try_port
from calve.sources.otlp.settings import OtlpSourceSettings

SINK = [{"iceberg": {"table_identifier": 'otel.${getMetadata("signal")}', "auto_create": True}}]


def settings(name: str, options: dict[str, Any]) -> OtlpSourceSettings:
    text = json.dumps({"p": {"source": {name: options}, "sink": SINK}})
    [pipeline] = parse_text(text, PLUGINS).pipelines
    assert pipeline.source.name == "otlp"
    value = pipeline.source.value
    assert isinstance(value, OtlpSourceSettings)
    return value


@pytest.mark.parametrize(
    ("name", "ports", "signals"),
    [
        ("otlp", [4318, 4317], {"/v1/logs": "logs", "/v1/traces": "traces", "/v1/metrics": "metrics"}),
        ("otel_logs_source", [21892], {"/v1/logs": "logs"}),
        ("otel_trace_source", [21890], {"/v1/traces": "traces"}),
        ("otel_metrics_source", [21891], {"/v1/metrics": "metrics"}),
    ],
)
def test_each_source_is_an_otlp_source_with_its_signals(name: str, ports: list[int], signals: dict[str, str]) -> None:
    source = settings(name, {})
    assert [*settings(name, {"port": 4317}).ports.values()] == [4317]
    assert ([*source.ports.values()], source.signals("p"), source.ssl) == (ports, signals, False)
    assert (source.max_request_length, source.max_compression_ratio) == (20 << 20, DEFLATE_RATIO)


def test_data_prepper_s_keys_are_understood() -> None:
    options = {
        "port": 5, "path": "/${pipelineName}/v1/traces", "ssl": True, "sslKeyCertChainFile": "a.pem", "sslKeyFile": "a.key",
        "output_format": "otel", "unframed_requests": True, "proto_reflection_service": True, "thread_count": 500,
        "max_connection_count": 9, "max_request_length": "10mb", "compression": "gzip", "health_check_service": True,
        "request_timeout": 5000, "retry_info": {"min_delay": "100ms"},
        "authentication": {"http_basic": {"username": "a", "password": "b"}},
    }  # fmt: skip
    source = settings("otel_trace_source", options)
    assert (source.signals("entry"), source.ssl, source.ssl_certificate_file) == (
        {"/entry/v1/traces": "traces"},
        True,
        "a.pem",
    )
    assert settings("otel_logs_source", {"sslKeyCertChainFile": "a.pem", "sslKeyFile": "a.key"}).ssl


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("otlp", {"output_format": "opensearch"}, "must be otel"),
        ("otel_logs_source", {"output_format": "opensearch"}, "must be otel"),
        ("otel_logs_source", {"useAcmCertForSSL": True}, "set ssl_certificate_file"),
        ("otel_logs_source", {"ssl": True}, "ssl needs"),
        ("otlp", {"logs_path": None, "traces_path": None, "metrics_path": None}, "accepts nothing"),
        ("otlp", {"logs_path": "/v1/traces"}, "of another signal"),
        ("otlp", {"logs_path": "logs"}, 'starts with "/"'),
        ("otlp", {"promote": ["trace.id"]}, "has for something else"),
        ("otlp", {"promote": ["a.b", "a_b"]}, "would share the column a_b"),
        ("otlp", {"path": "/a"}, "path"),
        ("otlp", {"max_request_length": "600mb"}, "at most 500mb"),
        ("otel_trace_source", {"max_request_length": "600mb"}, "at most 500mb"),
        ("otlp", {"authentication": {"bearer": {"token": "a"}, "unauthenticated": {}}}, "choose one"),
    ],
)
def test_what_calve_does_not_do_is_refused_by_name(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings(name, options)


@pytest.mark.parametrize(
    ("taken", "way_out"),
    [("grpc_port", "another grpc_port.*`grpc_port: null`"), ("port", "another port.*`port: 4317`")],
)
def test_a_taken_port_can_be_done_without(taken: str, way_out: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ports = {"port": 0, "grpc_port": 4317} | {taken: port}
        with pytest.raises(SourceError, match=f"port {port} is taken.*{way_out}: then one port serves HTTP and gRPC"):
            try_port(OtlpSourceSettings(**ports))
        alone = OtlpSourceSettings(port=port, grpc_port=None)
        assert alone.other_port("port") == "set another port on the source"
