"""The options of `otlp`: where the metrics of a pipeline are pushed to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from calve.settings.notify import check_url, is_installed
from calve.settings.option import option

__all__ = ["OtlpSettings"]


@dataclass(frozen=True)
class OtlpSettings:
    """An OpenTelemetry collector that gets the metrics of the pipeline, by OTLP over HTTP with Protobuf."""

    url: str = option(
        doc="The address, e.g. `http://collector:4318`; without a path `/v1/metrics` is added.", check=check_url
    )
    headers: dict[str, str] = option(
        {}, 'Headers of each request, e.g. `{authorization: "Bearer ${env:TOKEN}"}`.', secret=True
    )
    interval: timedelta = option(
        timedelta(minutes=1), "How often the metrics are sent.", minimum=timedelta(milliseconds=100)
    )
    timeout: timedelta = option(
        timedelta(seconds=10), "How long an answer may take.", minimum=timedelta(milliseconds=100)
    )
    resource: dict[str, str] = option(
        {}, "Attributes of the resource, e.g. `{deployment.environment.name: prod}`. `service.name` is `calve`."
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse it without the messages of the protocol."""
        if not is_installed("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2"):
            yield "", "needs opentelemetry-proto: pip install 'calve[otel]'"
