"""Data Prepper's source of OpenTelemetry's metrics: an `otlp` source."""
