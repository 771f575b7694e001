"""The options of the otel_logs_source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calve.settings import option
from calve.sources.otlp.data_prepper import OneSignalSettings

__all__ = ["SETTINGS", "OtelLogsSettings"]


@dataclass(frozen=True)
class OtelLogsSettings(OneSignalSettings):
    """Receives OpenTelemetry's logs as Data Prepper's `otel_logs_source`; it is an `otlp` source."""

    signal: ClassVar[str] = "logs"
    standard_path: ClassVar[str] = "/v1/logs"

    port: int = option(21892, "TCP port to listen on; 0 takes any free one.", minimum=0, maximum=65535)


SETTINGS = OtelLogsSettings
