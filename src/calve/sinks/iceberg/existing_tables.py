"""Loads the existing tables of one Iceberg sink, as its events need them; runs on the driver."""

from __future__ import annotations

from calve.catalog.catalog import Catalog
from calve.commit.mirror_schema import follow
from calve.observe.log import Log
from calve.record.target import EQUALITY_DELETE
from calve.reduce.key import Key
from calve.sinks.iceberg.check_table import check_has_deletes
from calve.sinks.iceberg.metadata_columns import MetadataColumns
from calve.sinks.iceberg.mirrors import Mirrors
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sources.source import SourceTable
from calve.table.loaded import Table

__all__ = ["ExistingTables"]


class ExistingTables:
    """Loads tables, and changes them first where the sink's settings or a mirror's source want it.

    Args:
        catalog: The sink's catalog.
        settings: The sink's settings.
        mirrors: The source tables of the sink's mirrors.
        metadata: The columns that get the metadata of events.
        log: Logs changes.
    """

    def __init__(
        self, catalog: Catalog, settings: IcebergSettings, mirrors: Mirrors, metadata: MetadataColumns, log: Log
    ) -> None:
        self._catalog = catalog
        self._settings = settings
        self._mirrors = mirrors
        self._metadata = metadata
        self._log = log
        self._followed: dict[str, list[SourceTable]] = {}

    def forget(self, name: str) -> None:
        """Let a table follow its source tables again when it is loaded: it may be another one."""
        self._followed.pop(name, None)

    def has_followed(self, name: str) -> None:
        """Note that a table is as its source tables want it."""
        self._followed[name] = self._mirrors.of(name)

    def is_as_followed(self, name: str) -> bool:
        """Return whether a table has followed its source tables as they are now."""
        return self._followed.get(name) == self._mirrors.of(name)

    def load(self, name: str) -> Table | None:
        """Return a table, ready to be written; None: it does not exist."""
        table = self._catalog.load(name)
        return None if table is None else self.ready(table)

    def find(self, name: str) -> Table | None:
        """Load an existing table, after it has followed its source tables."""
        table = self.load(name)
        return self.load(name) if table is not None and self.follow(name) else table

    def follow(self, name: str) -> bool:
        """Let a table follow its source tables; return whether it has changed."""
        sources = self._mirrors.of(name)
        if not sources or self.is_as_followed(name):
            return False
        own = self._settings.of(name)
        key, evolves = own.key_columns, own.schema_evolution
        how = own.changes and own.write_mode == EQUALITY_DELETE, own.on_dropped_column or "optional"
        done = [step for source in sources if evolves for step in follow(self._catalog, name, source, key, *how)]
        self._followed[name] = sources
        if done:
            self._log.info(f"the table {name} follows its source: {', '.join(done[:5])}")
        return bool(done)

    def ready(self, table: Table) -> Table:
        """Prepare a table for metadata columns and row changes.

        Raises:
            SchemaConflictError: Its format version has no deletes.
        """
        lacking, own = self._metadata.lacking(table.schema), self._settings.of(table.identifier)
        if lacking.add and own.schema_evolution:
            table = self._catalog.evolve(table.identifier, lacking)
            self._log.info(f"added to the table {table.identifier}: {', '.join(column.name for column in lacking.add)}")
        if not own.changes:
            return table
        check_has_deletes(table)
        if own.write_mode != EQUALITY_DELETE or table.unpartitioned_spec_id is not None:
            return table
        if Key(table, own.key_columns).names_partition:
            return table
        return self._catalog.add_unpartitioned_spec(table.identifier)
