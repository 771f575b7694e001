"""An option does something, or says that it does not."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import calve
from calve.settings.option import declared

SOURCE = Path(calve.__file__).parent
ACCEPTED = "Accepted"
"""How the meaning of an option begins that Data Prepper has, and that has no effect here."""
WITHOUT = {
    "Aggregate.local_mode",
    "Bucket.data_selection",
    "Date.locale",
    "Date.origination_timestamp_to_metadata",
    "FileSettings.record_type",
    "Grok.tags_on_timeout",
    "Grok.timeout_millis",
    "HttpSettings.thread_count",
    "IcebergSettings.ack_poll_interval",
    "IcebergSourceSettings.acknowledgments",
    "IcebergSourceSettings.shuffle",
    "JsonCodec.max_event_length",
    "KafkaSettings.acknowledgments",
    "ListenerSettings.thread_count",
    "OneSignalSettings.proto_reflection_service",
    "OneSignalSettings.retry_info",
    "OneSignalSettings.thread_count",
    "OneSignalSettings.unframed_requests",
    "OtelLogsSettings.proto_reflection_service",
    "OtelLogsSettings.retry_info",
    "OtelLogsSettings.thread_count",
    "OtelLogsSettings.unframed_requests",
    "OtelMetricsSettings.proto_reflection_service",
    "OtelMetricsSettings.retry_info",
    "OtelMetricsSettings.thread_count",
    "OtelMetricsSettings.unframed_requests",
    "OtelTraceSettings.proto_reflection_service",
    "OtelTraceSettings.retry_info",
    "OtelTraceSettings.thread_count",
    "OtelTraceSettings.unframed_requests",
    "OtlpListenerSettings.thread_count",
    "OtlpSourceSettings.thread_count",
    "PipelineKeys.buffer",
    "PipelineKeys.delay",
    "PipelineKeys.workers",
    "RdsSettings.acknowledgments",
    "RdsSettings.aws",
    "RdsSettings.cluster",
    "RdsSettings.db_identifier",
    "RdsSettings.disable_s3_read_for_leader",
    "RdsSettings.export",
    "RdsSettings.partition_count",
    "RdsSettings.s3_bucket",
    "RdsSettings.s3_data_file_acknowledgment_timeout",
    "RdsSettings.s3_prefix",
    "RdsSettings.s3_region",
    "RdsSettings.stream_acknowledgment_timeout",
    "S3DeadLetters.bucket_owner",
    "S3DeadLetters.sts_header_overrides",
    "S3SourceSettings.acknowledgments",
    "S3SourceSettings.buffer_timeout",
    "S3SourceSettings.data_selection",
    "S3SourceSettings.disable_bucket_ownership_validation",
    "S3SourceSettings.notification_source",
    "S3SourceSettings.records_to_accumulate",
    "S3SourceSettings.workers",
    "SchemaSettings.basic_auth_credentials_source",
    "Sqs.max_visibility_timeout_extension",
    "Sqs.visibility_duplication_protection",
    "TopicSettings.auto_commit",
    "TopicSettings.commit_interval",
    "TopicSettings.consumer_max_poll_records",
    "TopicSettings.heart_beat_interval",
    "TopicSettings.max_poll_interval",
    "TopicSettings.session_timeout",
    "TopicSettings.thread_waiting_time",
    "TopicSettings.workers",
    "UserAgent.cache_size",
}


@cache
def mentioned() -> frozenset[str]:
    """The attributes that some module reads, and all short texts: codecs are told apart by their names."""
    found = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return frozenset(found)


def options() -> Iterator[tuple[str, str, str]]:
    """The class, name and meaning of every option."""
    for file in sorted(SOURCE.rglob("*.py")):
        if "= option(" not in file.read_text():
            continue
        name = ".".join(("calve", *file.relative_to(SOURCE).with_suffix("").parts))
        module = __import__(name, fromlist=["_"])
        for kind in vars(module).values():
            is_own = inspect.isclass(kind) and kind.__module__ == name and dataclasses.is_dataclass(kind)
            if is_own and "in fields(self)" not in inspect.getsource(kind):  # such a class reads them all by itself
                yield from (
                    (kind.__qualname__, one.name, one.option.doc) for one in declared(kind).values() if one.option.doc
                )


@pytest.mark.parametrize(("kind", "name", "doc"), [pytest.param(*one, id=".".join(one[:2])) for one in options()])
def test_an_option_is_read_somewhere_or_says_that_it_has_no_effect(kind: str, name: str, doc: str) -> None:
    assert doc.startswith(ACCEPTED) or name in mentioned()


def test_the_options_without_effect_are_those_of_data_prepper() -> None:
    assert {f"{kind}.{name}" for kind, name, doc in options() if doc.startswith(ACCEPTED)} == WITHOUT
