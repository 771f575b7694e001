"""Applications with OpenTelemetry's SDKs for Go and Java, and its Collector: what they send, and the rows that it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Self

import pytest

from services import opentelemetry, process
from sources.otlp import numbered

COUNT = 2000
"""Records of each signal."""
MAPS = {"traces": "span_attributes", "logs": "log_attributes", "metrics": "attributes"}
_CHOSEN: dict[str, dict[str, dict[str, Any]]] = {
    "go": {"traces": {"flags": 0x101}},
    "java": {
        "traces": {"flags": 0x101, "scope_attributes": {}},
        "logs": {"scope_attributes": {}},
        "metrics": {"scope_attributes": {}},
    },
}
"""What the SDKs do otherwise than that for Python. That for Java has no attributes of scopes."""
_TIMES = ("timestamp", "timestamp_nano", "start_timestamp", "start_timestamp_nano")


class Applications:
    """What runs beside Calve, and ends with the block; skips the test if it cannot be built.

    Args:
        folder: Where output goes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for application in self._started:
            process.stop(application, kill=True)

    def send(self, language: str, protocol: str, endpoint: str, **more: str) -> subprocess.Popen[bytes]:
        """Start an application that sends records to an endpoint, with gzip."""
        if reason := opentelemetry.missing_go() if language == "go" else opentelemetry.missing_java():
            pytest.skip(reason)
        command = [str(opentelemetry.go("sdk"))] if language == "go" else opentelemetry.java()
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "60000", **more,
        }  # fmt: skip
        return self._start([*command, protocol, str(COUNT)], environment)

    def collect(self, exporter: str, port: int, own: int) -> subprocess.Popen[bytes]:
        """Start a Collector that receives on its own port by gRPC, and sends batches to another; SIGTERM drains it."""
        if reason := opentelemetry.missing_go():
            pytest.skip(reason)
        file = self._folder / "collector.json"
        file.write_text(json.dumps(_collector(exporter, port, own)))
        running = self._start([str(opentelemetry.go("collector")), "--config", f"file:{file}"], {})
        process.wait_for_port(running, own, self._log)
        return running

    def said(self) -> str:
        """Return the end of all output."""
        return self._log.read_text()[-3000:]

    @property
    def _log(self) -> Path:
        return self._folder / "applications.log"

    def _start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        self._started.append(process.start(command, self._log, environment))
        return self._started[-1]


def _collector(exporter: str, port: int, own: int) -> dict[str, Any]:
    endpoint = f"127.0.0.1:{port}" if exporter == "otlp_grpc" else f"http://127.0.0.1:{port}"
    pipeline = {"receivers": ["otlp"], "processors": ["batch"], "exporters": [exporter]}
    retry = {"initial_interval": "100ms", "max_interval": "2s", "max_elapsed_time": "30m"}
    return {
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{own}"}}}},
        "processors": {"batch": {"send_batch_size": 500, "send_batch_max_size": 500, "timeout": "200ms"}},
        "exporters": {exporter: {"endpoint": endpoint, "tls": {"insecure": True}, "retry_on_failure": retry}},
        "service": {
            "pipelines": dict.fromkeys(MAPS, pipeline),
            "telemetry": {"metrics": {"level": "none"}},
        },
    }


def numbers_of(signal: str, rows: list[dict[str, Any]], language: str) -> list[int]:
    """Compare each column of rows with what was sent, and return their numbers; the SDK chose the times of points."""
    own = [row for row in rows if row["scope_name"] == numbered.NAME]  # the SDK for Java measures itself, too
    numbers = [int(row[MAPS[signal]]["n"]) for row in own]
    for number, row in zip(numbers, own, strict=True):
        expected = numbered.row(signal, number, {number: [0, 0, 0]}) | _CHOSEN[language].get(signal, {})
        if signal == "metrics":
            expected |= {name: row[name] for name in _TIMES}
            expected["exemplars"][0] |= {name: row["exemplars"][0][name] for name in _TIMES[:2]}
            if expected["negative_bucket_counts"]:
                expected["negative_bucket_counts"] = []
        assert row == expected
    return numbers
