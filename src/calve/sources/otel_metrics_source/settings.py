"""The options of the otel_metrics_source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calve.settings import option
from calve.sources.otlp.data_prepper import OneSignalSettings

__all__ = ["SETTINGS", "OtelMetricsSettings"]


@dataclass(frozen=True)
class OtelMetricsSettings(OneSignalSettings):
    """Receives OpenTelemetry's metrics as Data Prepper's `otel_metrics_source`; it is an `otlp` source."""

    signal: ClassVar[str] = "metrics"
    standard_path: ClassVar[str] = "/v1/metrics"

    port: int = option(21891, "TCP port to listen on; 0 takes any free one.", minimum=0, maximum=65535)


SETTINGS = OtelMetricsSettings
