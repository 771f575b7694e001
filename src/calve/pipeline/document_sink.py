"""An OpenSearch sink on the driver: its cluster, and its part of a job. Tasks write; nothing is left to commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from calve.convert.fields import Fields
from calve.convert.infer import Inferred
from calve.expression import Format, compile_format
from calve.pipeline.gates import gates
from calve.pipeline.job import DocumentJob
from calve.route.route import SinkRoute, names_by_table
from calve.settings import SinkEntry
from calve.sinks.opensearch.client import Client, access_of
from calve.sinks.opensearch.documents import Writing
from calve.sinks.opensearch.index_name import dated, fault, normal, normal_sql
from calve.sinks.opensearch.lines import compile_shape
from calve.sinks.opensearch.mapping import make_index, mapping_of
from calve.sinks.opensearch.settings import OpenSearchSettings
from calve.sinks.opensearch.template import prepare
from calve.sources.source import SourceTable
from calve.write.dead_letters import DeadLetterPlace

__all__ = ["DocumentSink"]


class DocumentSink:
    """What a pipeline asks of a sink of documents; runs on the driver.

    Args:
        entry: The sink, as parsed.
        label: Its name in dead letters.
        metadata: The attributes that events have.
        place: Where its dead letters go.

    Attributes:
        one_task: Whether one task must take the whole of a batch: documents are read, changed and written again.
    """

    def __init__(self, entry: SinkEntry, label: str, metadata: Collection[str], place: str) -> None:
        settings: OpenSearchSettings = entry.value
        self._settings = settings
        self._label = label
        self._names = metadata
        self._gates = gates(entry, metadata)
        self._fields = Fields(frozenset(entry.include_keys), frozenset(entry.exclude_keys))
        self.dead_letters = DeadLetterPlace(place)
        self._made: dict[str, SourceTable] = {}
        self.one_task = compile_shape(settings, metadata, "").reads
        self.flush_seconds = settings.flush_seconds
        self.max_batch_bytes = int(settings.max_batch_bytes)

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes that it asks for."""
        route = SinkRoute(self._index(0), self._gates)
        return route.metadata | compile_shape(self._settings, self._names, "").metadata

    def open(self) -> None:
        """Reach the cluster, and put its template."""
        prepare(Client(access_of(self._settings)), self._settings)

    def begin_batch(self, tables: Sequence[SourceTable]) -> None:
        """Make the indexes of tables whose rows come, by the tables' types; others come into being with documents.

        Raises:
            SinkUnavailableError: The cluster does not answer.
            SinkRefusedError: It refuses an index.
        """
        settings = self._settings
        if settings.index_type == "management_disabled" or "%{" in settings.index or _has_mapping(settings):
            return
        names = names_by_table(self._index(0), [table.name for table in tables])
        for table in tables:
            index = names.get(table.name, "")
            if index and not fault(index) and self._made.get(index) != table:
                mapping = mapping_of(table.schema_json, self._fields)
                make_index(Client(access_of(settings)), index, mapping, settings.counts)
                self._made[index] = table

    def refresh(self, catalog: str, table: str) -> None:
        """Do nothing: it has no tables."""

    def fit(self, table: str, inferred: Inferred | None) -> None:
        """Do nothing: no task asks for it."""

    def job(self, moment: int, prefix: str, replays: bool) -> DocumentJob:
        """Give its part of the job of a batch.

        Args:
            moment: The batch's, which gives the date in the index's name.
            prefix: Begins the ids of documents that have none of their own.
            replays: Whether dead letters are sent again, which have their versions with them.
        """
        settings = self._settings
        writing = Writing(
            access=access_of(settings),
            shape=compile_shape(settings, self._names, prefix),
            bulk_bytes=settings.bulk_bytes,
            version_type=settings.document_version_type,
            max_retries=settings.max_retries,
        )
        route = SinkRoute(self._index(moment), self._gates, field="index", fault=fault)
        return DocumentJob(self._label, route, self.dead_letters, writing, self._fields)

    def _index(self, moment: int) -> Format:
        text = dated(self._settings.index, moment)
        found = compile_format(text, self._names)
        if not self._settings.normalize_index:
            return found
        if found.static is not None:
            return compile_format(normal(found.static))
        return dataclasses.replace(found, sql=normal_sql(found.sql))


def _has_mapping(settings: OpenSearchSettings) -> bool:
    """Whether the sink's own template says what the fields are."""
    template = settings.template or {}
    return "mappings" in template or "mappings" in template.get("template", {})
