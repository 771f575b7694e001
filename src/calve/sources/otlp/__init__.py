"""The otlp source: OpenTelemetry's logs, traces and metrics to a log on disk, and the log to rows."""
