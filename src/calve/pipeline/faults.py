"""What is wrong with pipelines that are right each in their parts: found without asking any server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from calve.event.envelope.shape import SHAPES
from calve.settings import PipelineSettings
from calve.settings.problems import Problem
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sources.file.settings import FileSettings
from calve.sources.http.settings import HttpSettings
from calve.sources.iceberg.settings import IcebergSourceSettings
from calve.sources.kafka.settings import KafkaSettings

__all__ = ["envelope_format", "faults"]

_ANY_HOST = ("", "0.0.0.0", "::")  # read, not listened on


def faults(pipelines: Sequence[PipelineSettings], by_name: Mapping[str, PipelineSettings]) -> Iterator[Problem]:
    """Yield what is wrong with pipelines as wholes, and with several beside one another.

    Args:
        pipelines: Those with a source of their own, with the sinks of all that they feed.
        by_name: All pipelines, as they are written.
    """
    for one in pipelines:
        yield from _keyless(one, by_name)
    yield from _one_port(pipelines)
    yield from _one_group(pipelines)


def envelope_format(settings: PipelineSettings) -> str | None:
    """Return the format of the change stream that a pipeline's source is, a name in `SHAPES`; None: it is none."""
    source = settings.source.value
    name: str | None = None
    if isinstance(source, KafkaSettings):
        name = source.topics[0].serde_format
    elif isinstance(source, FileSettings) and source.codec:
        name = source.codec.name
    return name if name in SHAPES else None


def _keyless(whole: PipelineSettings, by_name: Mapping[str, PipelineSettings]) -> Iterator[Problem]:
    """Find sinks whose new tables would have no key, by which rows are changed; mirrors have that of their source."""
    if isinstance(whole.source.value, IcebergSourceSettings):
        return
    for sink in whole.sinks:
        value = sink.value
        if not isinstance(value, IcebergSettings) or not value.auto_create or value.identifier_columns:
            continue
        why = "operation" if value.operation is not None else "upsert" if value.upsert else envelope_format(whole)
        if why:
            message = (
                f"a table that is created would have no key, which {why} needs: add identifier_columns: [...] with the "
                "columns that say which row an event is about; for tables that exist, remove auto_create"
            )
            yield by_name[sink.pipeline].problem(f"{sink.path}.auto_create", message)


def _one_port(pipelines: Sequence[PipelineSettings]) -> Iterator[Problem]:
    before: list[tuple[str, HttpSettings]] = []
    for one in pipelines:
        http = one.source.value
        if not isinstance(http, HttpSettings) or http.port == 0:
            continue
        for name, other in before:
            hosts = {http.host, other.host}
            if http.port == other.port and (len(hosts) == 1 or hosts.intersection(_ANY_HOST)):
                message = f"the pipeline {name} listens on port {http.port} too; set `port` to another one"
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
                    f"the pipeline {before[group]} reads the topic {topic.name} as the group {topic.group_id} too, and "
                    "each pipeline reads all of it; give each a group of its own"
                )
                yield one.problem(f"source.kafka.topics[{index}].group_id", message)
            before.setdefault(group, one.name)
