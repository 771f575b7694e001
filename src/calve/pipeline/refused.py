"""Sources, processors and sinks of Data Prepper that Calve does not have, each with the way out."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["REFUSED"]

_STATEFUL = (
    "keeps state between events, which of Calve's processors only deduplicate does; use a query on the table, or Spark"
)
_SPANS = "is not here: otlp and otel_*_source write OpenTelemetry's signals with their own columns; query the tables"
_PUSHED = "is no source of Calve: let a program read it and post the events to a source http, or write them to Kafka"
_CONSUMED = "is no sink of Calve: send the events to a sink kafka or http, and let a program go on from there"
_DOCUMENTS = "is no source of Calve: read it through Kafka, by Data Prepper or Debezium (docs/from-data-prepper.md)"
_AWS_CALL = "calls a service for each event, which cannot be repeated exactly; call it before Calve, or use {}"
REFUSED: Mapping[str, Mapping[str, str]] = {
    "source": {
        "cloudwatch": _PUSHED,
        "confluence": _PUSHED,
        "crowdstrike": _PUSHED,
        "documentdb": _DOCUMENTS,
        "dynamodb": "is no source of Calve: read its export to S3 by a source s3, its stream through Kafka",
        "jira": _PUSHED,
        "kinesis": "is no source of Calve: let Amazon Data Firehose write it to S3 and read that by a source s3",
        "kinesis-data-streams": "is no source of Calve: let Amazon Data Firehose write it to S3, and use a source s3",
        "kinesis_data_streams": "is no source of Calve: let Amazon Data Firehose write it to S3, and use a source s3",
        "log_generator": "is no source of Calve: calve demo makes events, and calve try shows what happens to yours",
        "microsoft_office365": _PUSHED,
        "mongodb": _DOCUMENTS,
        "opensearch": "is no source of Calve: read the system that filled the index",
        "opensearch_api": "is no source of Calve: send the events to a source http as NDJSON, without bulk actions",
        "prometheus": "is no source of Calve: let Prometheus or a collector send OTLP to a source otlp",
        "random": "is no source of Calve: calve demo makes events",
        "rss": _PUSHED,
        "sqs": "is read for notifications of S3 only (source s3 with sqs); post other messages to a source http",
        "stdin": "is no source of Calve, because it cannot be read again: write a file, or post to a source http",
    },
    "processor": {
        "anomaly_detector": _STATEFUL,
        "aws_lambda": _AWS_CALL.format("sql"),
        "delay": "has no use here: batches are on disk, and wait without it",
        "detect_format": "is not here: use a condition, e.g. parse_when: '/message =~ \"^[{].*\"'",
        "ml_inference": _AWS_CALL.format("a job on the table"),
        "no-op": "does nothing: omit it",
        "otel_apm_service_map": _STATEFUL,
        "otel_metrics": _SPANS,
        "otel_metrics_raw_processor": _SPANS,
        "otel_trace_group": _SPANS,
        "otel_trace_raw": _SPANS,
        "otel_traces": _STATEFUL,
        "rate_limiter": "decides by the clock, so a repeated batch would drop other events; limit at the sender",
        "s3_enrich": "is not here: load the objects into a table and join, or use translate with a file",
        "service_map": _STATEFUL,
        "service_map_stateful": _STATEFUL,
        "trace_peer_forwarder": "has no use here: Spark shuffles by key where it is needed; omit it",
    },
    "sink": {
        "aws_lambda": _CONSUMED,
        "aws_personalize": _CONSUMED,
        "cloudwatch_logs": _CONSUMED,
        "drop": "is no sink of Calve: an event that no route takes is counted and goes nowhere",
        "noop": "is no sink of Calve: an event that no route takes is counted and goes nowhere",
        "otlp": _CONSUMED,
        "prometheus": _CONSUMED,
        "s3": "is the sink file here, with path: s3://bucket/prefix",
        "sns": _CONSUMED,
        "sqs": _CONSUMED,
    },
}
"""Why each is not here, by kind and name."""
