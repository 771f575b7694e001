"""The options of the otel_trace_source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calve.settings import option
from calve.sources.otlp.data_prepper import OneSignalSettings

__all__ = ["SETTINGS", "OtelTraceSettings"]


@dataclass(frozen=True)
class OtelTraceSettings(OneSignalSettings):
    """Receives OpenTelemetry's traces as Data Prepper's `otel_trace_source`; it is an `otlp` source."""

    signal: ClassVar[str] = "traces"
    standard_path: ClassVar[str] = "/v1/traces"

    port: int = option(21890, "TCP port to listen on; 0 takes any free one.", minimum=0, maximum=65535)


SETTINGS = OtelTraceSettings
