"""Options of the Iceberg sink that cannot work with the source of its pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from calve.settings.problems import unknown
from calve.sinks.iceberg.table_options import RECORD_KEY

if TYPE_CHECKING:
    import pyarrow as pa

    from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["source_faults"]

OF_BATCH = ("ingestion_time", "batch")
"""The metadata attributes that all events of a batch share; every source has them."""


def source_faults(
    settings: IcebergSettings, stream: str | None, has_keys: bool, metadata: Mapping[str, pa.DataType]
) -> Iterator[tuple[str, str]]:
    """Yield new tables without a key, if rows are changed by key, and what the source does not have; each with its key.

    Args:
        settings: The settings of the sink.
        stream: The format of the source's change stream; None: events are rows.
        has_keys: Whether events are rows of tables, which have keys.
        metadata: The metadata attributes of the events, and their types.
    """
    attributes = [*OF_BATCH, *(name for name, kind in metadata.items() if not kind.num_fields)]
    for column, attribute in settings.metadata_columns.items():
        if attribute not in attributes:
            yield f"metadata_columns.{column}", unknown("metadata attribute", attribute, attributes)
    if settings.adds_keys and RECORD_KEY not in metadata:
        yield "identifier_columns", "from_key is for records of Kafka, which have keys; name the columns"
    for index, own in enumerate(settings.by_table.values()):
        place = f"tables[{index - 1}]" if index else ""
        if own.on_dropped_column == "drop" and not has_keys:
            yield (
                f"{place}.on_dropped_column".lstrip("."),
                "drop is for copies of databases and Iceberg tables: events of several versions of a schema may "
                "alternate, so a field that one lacks is not gone. Use optional, and ALTER TABLE … DROP COLUMN later",
            )
        if not index and settings.tables:
            continue  # events of other tables may be rejected
        why = "operation" if own.operation is not None else "upsert" if own.upsert else stream
        if why and settings.auto_create and not own.identifier_columns and not has_keys:
            yield (
                place or "auto_create",
                f"a table that is created would have no key, which {why} needs: add identifier_columns: [...] with "
                "the columns that identify an event's row; for existing tables, remove auto_create",
            )
