"""OpenTelemetry's SDKs for Go and Java, and its Collector, send to Calve: `CALVE_SDKS=1 pytest …` builds and runs them.

Each finds a Calve that is full, then none, then one that works: all that it has sent is there once.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calve.event.columns import TYPED
from calve.settings import Size
from kit.running import PATIENCE_SECONDS, until
from services import opentelemetry, process
from services.certificates import Authority
from sources.otlp.applications import COUNT, MAPS, Applications, numbers_of
from sources.otlp.serving import OtlpServing, Serve

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(not opentelemetry.is_wanted(), reason=f"{opentelemetry.VARIABLE} is not set"),
]


@pytest.fixture
def applications(tmp_path: Path) -> Iterator[Applications]:
    """Run applications that end with the test."""
    with Applications(tmp_path) as running:
        yield running


@pytest.mark.parametrize(
    ("language", "protocol", "scheme"),
    [
        ("go", "grpc", "http"),
        ("go", "http", "http"),
        ("go", "grpc", "https"),
        ("go", "http", "https"),
        ("java", "grpc", "http"),
        ("java", "http", "http"),
    ],
)
def test_what_an_sdk_sends_is_there_once(
    serve: Serve, applications: Applications, tmp_path: Path, language: str, protocol: str, scheme: str
) -> None:
    [port] = process.free_ports(1)
    options: dict[str, Any] = {"port": port}
    trust = {}
    if scheme == "https":
        authority = Authority(tmp_path / "ca")
        certificate, key = authority.sign("127.0.0.1")
        options |= {"ssl": True, "ssl_certificate_file": str(certificate), "ssl_key_file": str(key)}
        trust["OTEL_EXPORTER_OTLP_CERTIFICATE"] = str(authority.certificate)
    full = serve(**options, min_free_bytes=Size(1 << 60))
    application = applications.send(language, protocol, f"{scheme}://127.0.0.1:{port}", **trust)
    works = after_refusals(full, serve, options)
    has_ended(application, applications)
    check(works, language)


@pytest.mark.parametrize("exporter", ["otlp_grpc", "otlp_http"])
def test_what_a_collector_sends_is_there_once(serve: Serve, applications: Applications, exporter: str) -> None:
    port, own = process.free_ports(2)
    full = serve(port=port, min_free_bytes=Size(1 << 60))
    collector = applications.collect(exporter, port, own)
    application = applications.send("go", "grpc", f"http://127.0.0.1:{own}")
    works = after_refusals(full, serve, {"port": port})
    has_ended(application, applications)
    until(lambda: works.source.backlog(None).rows >= COUNT * len(MAPS), "it tries again", PATIENCE_SECONDS)
    collector.terminate()
    has_ended(collector, applications)
    check(works, "go")


def after_refusals(full: OtlpServing, serve: Serve, options: dict[str, Any]) -> OtlpServing:
    """Replace a source that refuses by one that works, when it has refused something."""
    until(lambda: full.source.backlog(None).refused, "it refuses", PATIENCE_SECONDS)
    full.source.stop()
    return serve(**options)


def has_ended(application: subprocess.Popen[bytes], applications: Applications) -> None:
    """Wait for an application that has sent all."""
    assert application.wait(PATIENCE_SECONDS) == 0, applications.said()


def check(serving: OtlpServing, language: str) -> None:
    """Compare the rows with what was sent."""
    for signal in MAPS:
        batches = [batch[TYPED] for batch in serving.batches() if batch["signal"][0].as_py() == signal]
        rows = [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]
        assert sorted(numbers_of(signal, rows, language)) == [*range(COUNT)], signal
