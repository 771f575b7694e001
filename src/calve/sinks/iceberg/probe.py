"""Checks the systems of an Iceberg sink: its catalog, its table, and the location of new files (driver)."""

from __future__ import annotations

import uuid
from pathlib import Path

from calve.catalog.catalog import Catalog, embedded
from calve.catalog.probe import TableStorage
from calve.catalog.sqlite import sqlite_file
from calve.dead_letters.open_table import check_letters
from calve.engine.engine import Engine
from calve.errors import NoTargetError
from calve.settings.catalog import EMBEDDED
from calve.sinks.iceberg.check_table import missing
from calve.sinks.iceberg.settings import IcebergSettings
from calve.state.durable import try_folder
from calve.write.parquet import try_writing

__all__ = ["probe"]


def probe(settings: IcebergSettings, spark: Engine) -> None:
    """Load the table, and write a temporary file to its location; nothing remains of the check.

    A missing catalog in a local file is not created: then only its folders are checked.

    Raises:
        CalveError: The catalog does not answer, a table is missing that Calve may not create, the table of dead letters
            has other columns, or files cannot be written.
    """
    for folder in settings.local_folders:
        try_folder(folder)
    properties = settings.catalog or embedded(Path(EMBEDDED))
    file = sqlite_file(properties)
    if file is not None and not file.is_file():
        if not settings.dynamic and not settings.auto_create:
            raise missing(settings.table_identifier, properties.get("name", "iceberg"))
        return
    catalog = Catalog(spark, properties)
    table = None if settings.dynamic else catalog.load(settings.table_identifier)
    if letters := catalog.load(settings.dlq_table) if settings.dlq_table else None:
        check_letters(letters)
    if table is not None:
        _try_writing(TableStorage(table.location, table.io_properties, catalog.load_java(table.identifier).io()))
    elif settings.auto_create:
        _try_creating(catalog, settings)
    elif not settings.dynamic:
        raise missing(settings.table_identifier, catalog.name)
    else:
        catalog.load(f"{_namespace(settings) or 'calve_probe'}.calve_probe")


def _namespace(settings: IcebergSettings) -> str:
    """Return the static part of the namespace."""
    return settings.table_identifier.partition("${")[0].rpartition(".")[0]


def _try_creating(catalog: Catalog, settings: IcebergSettings) -> None:
    """Check that a table could be created; a missing namespace is created if necessary, and removed again."""
    namespace = _namespace(settings) or f"calve_probe_{uuid.uuid4().hex}"
    table = settings.table_properties, settings.table_location
    try:
        _try_writing(catalog.try_storing(namespace, *table))
    except NoTargetError:
        with catalog.namespace(namespace):
            _try_writing(catalog.try_storing(namespace, *table))


def _try_writing(storage: TableStorage) -> None:
    try_writing(storage.location, storage.io_properties, storage.delete)
