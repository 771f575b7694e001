"""Data Prepper's source of OpenTelemetry's logs: an `otlp` source."""
