"""Data Prepper's source of OpenTelemetry's traces: an `otlp` source."""
