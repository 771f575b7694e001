"""Finds conflicts in and between pipelines whose parts are valid; needs no server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from calve.event.envelope.shape import SHAPES
from calve.settings import PipelineSettings
from calve.settings.problems import Problem
from calve.sources.database.settings import DatabaseSettings
from calve.sources.file.settings import FileSettings
from calve.sources.http.settings import HttpSettings
from calve.sources.iceberg.settings import IcebergSourceSettings
from calve.sources.kafka.settings import KafkaSettings
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.s3.settings import S3SourceSettings

__all__ = ["envelope_format", "faults", "unavailable_value"]

_ANY_HOST = ("", "0.0.0.0", "::")  # read, not listened on


def faults(
    metadata_of: Callable[[PipelineSettings], Mapping[str, pa.DataType]],
    pipelines: Sequence[PipelineSettings],
    by_name: Mapping[str, PipelineSettings],
) -> Iterator[Problem]:
    """Yield the problems of complete pipelines, and of several pipelines together.

    Args:
        metadata_of: Returns the metadata attributes of a source's events, and their types.
        pipelines: Those with a source of their own, with the sinks of all that they feed.
        by_name: All pipelines, as written.
    """
    for one in pipelines:
        yield from _processed(one)
        format = envelope_format(one)
        attributes = SHAPES[format].metadata if format else {}
        metadata = {**metadata_of(one), **{name: each.kind for name, each in attributes.items()}}
        has_keys = isinstance(one.source.value, IcebergSourceSettings | DatabaseSettings)
        for sink in one.sinks:
            for key, why in sink.value.faults(format, has_keys, metadata):
                yield by_name[sink.pipeline].problem(f"{sink.path}.{key}", why)
    yield from _one_port(pipelines)
    yield from _one_group(pipelines)
    yield from _one_reader(pipelines)


def _processed(settings: PipelineSettings) -> Iterator[Problem]:
    """Refuse processors where events are not JSON texts."""
    if not settings.processors:
        return
    if envelope_format(settings):
        yield settings.problem(
            "processor", "processors cannot change the rows of a change stream; use SQL on its table"
        )
    if isinstance(settings.source.value, IcebergSourceSettings | DatabaseSettings):
        yield settings.problem("processor", "processors cannot change the changes of a table; use SQL on the table")


def envelope_format(settings: PipelineSettings) -> str | None:
    """Return the format of a pipeline's change stream, a name in `SHAPES`; None without one."""
    source = settings.source.value
    name: str | None = None
    if isinstance(source, KafkaSettings):
        name = source.topics[0].serde_format
    elif isinstance(source, FileSettings | S3SourceSettings) and source.codec:
        name = source.codec.name
    return name if name in SHAPES else None


def unavailable_value(settings: PipelineSettings) -> str | None:
    """Return the configured placeholder of Debezium; None without one."""
    source = settings.source.value
    if isinstance(source, KafkaSettings):
        return source.unavailable_value
    is_file = isinstance(source, FileSettings | S3SourceSettings)
    codec = source.codec.debezium if is_file and source.codec else None
    return codec.unavailable_value if codec else None


def _one_port(pipelines: Sequence[PipelineSettings]) -> Iterator[Problem]:
    before: list[tuple[str, HttpSettings]] = []
    for one in pipelines:
        http = one.source.value
        if not isinstance(http, HttpSettings) or http.port == 0:
            continue
        for name, other in before:
            hosts = {http.host, other.host}
            if http.port == other.port and (len(hosts) == 1 or hosts.intersection(_ANY_HOST)):
                message = f"the pipeline {name} also listens on port {http.port}; set another `port`"
                yield one.problem("source.http.port", message)
                break
        before.append((one.name, http))


def _one_group(pipelines: Sequence[PipelineSettings]) -> Iterator[Problem]:
    before: dict[tuple[str, str, str], str] = {}
    for one in pipelines:
        kafka = one.source.value
        for index, topic in enumerate(kafka.topics if isinstance(kafka, KafkaSettings) else ()):
            group = (kafka.servers, topic.name, topic.group_id or "")
            if not topic.group_id:
                continue
            if group in before:
                message = (
                    f"the pipeline {before[group]} also reads the topic {topic.name} as the group {topic.group_id}; "
                    "set another group, because each pipeline must read the complete topic"
                )
                yield one.problem(f"source.kafka.topics[{index}].group_id", message)
            before.setdefault(group, one.name)


def _one_reader(pipelines: Sequence[PipelineSettings]) -> Iterator[Problem]:
    """Refuse two pipelines that the server of a database would take for one."""
    before: dict[tuple[str, int, str], str] = {}
    for one in pipelines:
        found = one.source.value
        if isinstance(found, PostgresSettings):
            key, name = "slot", found.slot_of(one.name)
        elif isinstance(found, MysqlSettings):
            key, name = "server_id", str(found.server_id_of(one.name))
        else:
            continue
        reader = (found.host, found.port, name)
        if reader in before:
            shown = f"reads the slot {name}" if key == "slot" else f"has the server_id {name}"
            message = f"the pipeline {before[reader]} also {shown}; set another `{key}`"
            yield one.problem(f"{one.source.path}.{key}", message)
        before.setdefault(reader, one.name)
