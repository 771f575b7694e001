"""An OpenSearch sink on the driver: its cluster, and its part of a job. Tasks write; nothing is left to commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from calve.columns.fields import Fields
from calve.dead_letters.rejects import DeadLetterLocation
from calve.engine.engine import Engine
from calve.expression import Format, compile_format
from calve.observe.humanize import listed
from calve.route.gates import gates
from calve.route.sink_route import SinkRoute
from calve.route.source_tables import names_by_table
from calve.sinks.opensearch.client import Client, access_of
from calve.sinks.opensearch.documents import Writing
from calve.sinks.opensearch.index_name import dated, fault, normal, normal_sql
from calve.sinks.opensearch.job import DocumentJob
from calve.sinks.opensearch.lines import compile_shape
from calve.sinks.opensearch.mapping import make_index, mapping_of
from calve.sinks.opensearch.settings import OpenSearchSettings
from calve.sinks.opensearch.template import check_cluster, prepare
from calve.sinks.sink import Opening, Order, Sink
from calve.sources.source import SourceTable

__all__ = ["OpenSearchSink", "open", "probe"]


class OpenSearchSink:
    """The OpenSearch sink (`Sink`); runs on the driver.

    Args:
        opening: Its settings and tools.
    """

    tables = None

    def __init__(self, opening: Opening) -> None:
        entry, metadata = opening.entry, opening.metadata
        settings: OpenSearchSettings = entry.value
        self._settings = settings
        self._label = opening.label
        self._log = opening.log
        self._names = metadata
        self._gates = gates(entry, metadata)
        self._fields = Fields(frozenset(entry.include_keys), frozenset(entry.exclude_keys))
        self.dead_letters = DeadLetterLocation(
            opening.dead_letters, opening.letters_storage({}), limits=opening.letters_limits
        )
        self._made: dict[str, SourceTable] = {}
        reads = compile_shape(settings, metadata, "").reads  # documents are read, changed and written again
        self.order = Order.ONE_TASK if reads else Order.ANY
        self.flush_seconds = settings.flush_seconds
        self.max_batch_bytes = int(settings.max_batch_bytes)

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes that it reads."""
        route = SinkRoute(self._index(0), self._gates)
        return route.metadata | compile_shape(self._settings, self._names, "").metadata

    def open(self) -> None:
        """Connect to the cluster, and create the template."""
        prepare(Client(access_of(self._settings)), self._settings)

    def begin_batch(self, tables: Sequence[SourceTable]) -> None:
        """Create the indexes for rows of tables, with the tables' types; documents create all other indexes.

        Raises:
            SinkUnavailableError: The cluster does not answer.
            SinkRefusedError: It refuses an index.
        """
        settings = self._settings
        if settings.index_type == "management_disabled" or "%{" in settings.index or _has_mapping(settings):
            return
        names = names_by_table(self._index(0), tables)
        for table in tables:
            index = names.get(table.name, "")
            if index and not fault(index) and self._made.get(index) != table:
                mapping = mapping_of(table, self._fields)
                older = make_index(Client(access_of(settings)), index, mapping, settings.counts)
                self._made[index] = table
                if older:
                    self._log.warning(
                        f"documents of the index {index} that were written before still have the columns of then: "
                        f"{listed(older, 5)}",
                        table=table.name,
                        hint="To write all documents again: calve source reload (databases), or start with a "
                        "new --state (the iceberg source)",
                    )

    def job(self, batch: int, time_tenths: int, prefix: str, replays: bool) -> DocumentJob:
        """Return its part of the job of a batch.

        Args:
            batch: The batch's number.
            time_tenths: The batch's time, for the date in the index's name.
            prefix: The prefix of ids for documents without their own.
            replays: Whether this is a replay of dead letters, which already have versions.
        """
        settings, index = self._settings, self._index(time_tenths)
        writing = Writing(
            access=access_of(settings),
            shape=compile_shape(settings, self._names, prefix),
            bulk_bytes=settings.bulk_bytes,
            version_type=settings.document_version_type,
            max_retries=settings.max_retries,
            is_one_index=index.static is not None,
        )
        route = SinkRoute(index, self._gates, field="index", fault=fault)
        return DocumentJob(self._label, route, self.dead_letters, writing, self._fields)

    def _index(self, time_tenths: int) -> Format:
        text = dated(self._settings.index, time_tenths)
        compiled = compile_format(text, self._names)
        if not self._settings.normalize_index:
            return compiled
        if compiled.static is not None:
            return compile_format(normal(compiled.static))
        return dataclasses.replace(compiled, sql=normal_sql(compiled.sql), is_joined=False)


def open(opening: Opening) -> Sink:
    """Create an OpenSearch sink; it connects in `Sink.open`."""
    return OpenSearchSink(opening)


def probe(settings: OpenSearchSettings, spark: Engine | None) -> None:
    """Check that the cluster answers and accepts the user.

    Raises:
        CalveError: It does not.
    """
    check_cluster(Client(access_of(settings)))


def _has_mapping(settings: OpenSearchSettings) -> bool:
    """Return whether the sink's own template has a mapping."""
    template = settings.template or {}
    return "mappings" in template or "mappings" in template.get("template", {})
