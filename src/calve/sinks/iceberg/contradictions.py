"""Options of the Iceberg sink that exclude each other, or cannot work with the source of its pipeline.

The module with Iceberg's types (`declared`) is imported only if a configuration has types or partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from calve.columns.row_rule import FAILED_RULES
from calve.settings.catalog import catalog_faults
from calve.settings.problems import unknown
from calve.sinks.iceberg.table_options import RECORD_KEY

if TYPE_CHECKING:
    import pyarrow as pa

    from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["contradictions", "source_faults", "unused_tables"]

OF_BATCH = ("ingestion_time", "batch")
"""The metadata attributes that all events of a batch share; every source has them."""
_ORDER = re.compile(r"\S+(\s+(asc|desc))?", re.IGNORECASE)


def contradictions(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    """Yield contradictions in the settings of a sink and of its single tables, each with its key."""
    plain, *own = settings.by_table.values()
    general = list(_of_all(plain))
    yield from general
    for index, one_table in enumerate(own):
        given = settings.tables[index].given
        for key, why in _of_all(one_table):
            if (key, why) not in general:
                name = re.split(r"[.\[]", key)[0]
                yield f"tables[{index}]{f'.{key}' if name in given else ''}", why


def unused_tables(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    """Yield the entries of `tables` that can never be used, each with its key."""
    for index, (pattern, _) in enumerate(settings.by_table.own):
        earlier = [other for other, _ in settings.by_table.own[:index] if other == pattern or other.text == "*"]
        if pattern.is_name:
            earlier += [other for other, _ in settings.by_table.own[:index] if other.matches(pattern.text)]
        if earlier:
            yield f"tables[{index}]", f"has no effect: {earlier[0].text} above it matches first"
        elif not settings.dynamic and not pattern.matches(settings.table_identifier):
            yield f"tables[{index}]", f"has no effect: the sink's only table is {settings.table_identifier}"


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
    attributes += [FAILED_RULES] * any(own.expect for own in settings.by_table.values())
    for column, attribute in settings.metadata_columns.items():
        if attribute not in attributes:
            yield f"metadata_columns.{column}", unknown("metadata attribute", attribute, attributes)
    if settings.adds_keys and RECORD_KEY not in metadata:
        yield "identifier_columns", "from_key is for records of Kafka, which have keys; name the columns"
    for index, own in enumerate(settings.by_table.values()):
        place = f"tables[{index - 1}]" if index else ""
        for number in [number for number, rule in enumerate(own.expect) if rule.unique]:
            if settings.changes or stream or has_keys:
                yield (
                    f"{place}.expect[{number}].unique".lstrip("."),
                    "is for sinks whose tables only get new rows: a later change of a row has its values again. "
                    "upsert: true with identifier_columns keeps one row for each key",
                )
        if own.on_dropped_column == "drop" and not has_keys:
            yield (
                f"{place}.on_dropped_column".lstrip("."),
                "drop is for copies of databases and Iceberg tables: events of several versions of a schema may "
                "alternate, so a field that one lacks is not gone. Use optional, and ALTER TABLE … DROP COLUMN later",
            )
        if own.full_row and own.operation is None and stream is None:
            yield (
                f"{place}.identifier_columns".lstrip("."),
                "full_row is for rows that are deleted: set operation, or leave identifier_columns out",
            )
        if not index and settings.tables:
            continue  # events of other tables may be rejected
        why = "operation" if own.operation is not None else "upsert" if own.upsert else stream
        if why and settings.auto_create and not own.identifier_columns and not has_keys:
            yield (
                place or "auto_create",
                f"a table that is created would have no key, which {why} needs: add identifier_columns: [...] with "
                "the columns that identify an event's row, or identifier_columns: full_row if none do; for existing "
                "tables, remove auto_create",
            )


def _of_all(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    yield from catalog_faults(settings.catalog)
    if settings.schema and settings.dynamic:
        why = "needs a table_identifier without ${…}: tables named by events are created from their events"
        yield "schema", why
    if settings.schema or settings.column_types or settings.partition_by:
        yield from _of_declared(settings)
    yield from _of_format_version(settings)
    if settings.schema and settings.partition_by:
        yield "partition_by", "is for tables without a schema here; use schema.partition_spec"
    for index, text in enumerate(settings.sort_by):
        if not _ORDER.fullmatch(text.strip()):
            yield f"sort_by[{index}]", f"expected a column, perhaps with asc or desc behind it, found {text!r}"
    if settings.retention is not None and not settings.maintenance:
        yield "retention", "is a part of maintenance, which is switched off"
    if settings.partial_updates == "keep" and settings.write_mode == "equality-delete":
        why = "keep needs the older row, which equality deletes never read"
        yield "partial_updates", f"{why}; remove write_mode: equality-delete"
    if settings.on_dropped_column and not settings.schema_evolution:
        yield "on_dropped_column", "needs schema_evolution: true; without it no column of a table changes"
    if settings.metadata_columns:
        from calve.sinks.schema_faults import metadata_faults

        for name, why in metadata_faults(settings.metadata_columns):
            yield f"metadata_columns.{name}", why
    if settings.overflow:
        yield from _of_overflow(settings)
    if settings.expect:
        from calve.sinks.iceberg.expect_faults import expect_faults

        yield from expect_faults(settings)
    if settings.publish:
        from calve.sinks.iceberg.publish_faults import publish_faults

        yield from publish_faults(settings)
    yield from _of_key(settings)
    if settings.dlq == "":
        yield "dlq", "needs a location; leave it out for <state>/<pipeline>/dlq"
    if settings.dlq_table == settings.table_identifier:
        yield "dlq.table", "is the table of the events; set another one"


def _of_key(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    if settings.from_key and settings.operation is not None:
        yield "operation", "from_key decides it: a record with a value replaces the row of its key, others delete it"
    if settings.from_key and settings.key_column in settings.metadata_columns:
        yield "key_column", f"{settings.key_column} is in metadata_columns; choose another column"
    if settings.full_row:
        yield from _of_full_row(settings)
    if settings.keep_row_ids and settings.write_mode != "merge-on-read":
        yield "keep_row_ids", "needs the place of the older row: set write_mode: merge-on-read"
    columns = {column.name: column.type for column in settings.schema.columns} if settings.schema else None
    for index, name in enumerate(settings.key_columns):
        if columns is not None and not {name, name.partition(".")[0]} & columns.keys():
            yield f"identifier_columns[{index}]", f"schema.columns has no column {name}"
        elif columns is not None and columns.get(name, "").strip().lower() == "variant":
            yield f"identifier_columns[{index}]", f"{name} is a variant, which cannot be a key"
        if name in settings.metadata_columns:
            yield f"identifier_columns[{index}]", f"{name} is in metadata_columns; a key consists of fields"


def _of_full_row(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    if settings.upsert:
        yield "upsert", "replaces the row of a key, and full_row has none: set upsert: false"
    if settings.write_mode != "merge-on-read":
        yield "write_mode", "rows of full_row are deleted by position: set write_mode: merge-on-read"
    if settings.partial_updates == "keep":
        yield "partial_updates", "keep finds an older row by its key, and full_row has none"


def _of_declared(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    from calve.sinks.schema_faults import partition_faults, time_fault, type_fault

    if settings.schema and settings.event_time and (bad := time_fault(settings.columns, settings.event_time)):
        yield "event_time", bad
    for name, kind in settings.column_types.items():
        if bad := type_fault(kind):
            yield f"column_types.{name}", bad
    yield from partition_faults("partition_by", settings.partition_by)


def _of_format_version(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    version = settings.table_properties.get("format-version", "2")
    if version not in ("1", "2", "3"):
        yield "table_properties.format-version", f"must be 1, 2 or 3, found {version}"
    elif version == "1" and settings.changes:
        yield "table_properties.format-version", "must be 2 or 3: version 1 has no row-level deletes"
    if version != "3" and settings.auto_create:
        yield from _variants(settings)
        if settings.keep_row_ids:
            yield "keep_row_ids", "rows have ids from format version 3: add table_properties: {format-version: 3}"
    if version != "3" and settings.auto_create and (settings.schema or settings.column_types or settings.schemas):
        yield from _of_defaults(settings)


def _variants(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    why = "needs format version 3 for a variant: add table_properties: {format-version: 3}"
    objects = settings.objects if isinstance(settings.objects, dict) else {"": settings.objects}
    for name, word in objects.items():
        if word == "variant":
            yield f"objects.{name}".rstrip("."), why
    if settings.overflow and settings.overflow.type == "variant":
        yield "overflow.type", why


def _of_overflow(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    from calve.sinks.schema_faults import metadata_faults

    column = settings.overflow.column if settings.overflow else ""
    others = {"metadata_columns": settings.metadata_columns, "identifier_columns": settings.key_columns}
    for option, names in others.items():
        if column in names:
            yield "overflow.column", f"{column} is in {option}; set another name"
    for _, why in metadata_faults([column]):
        yield "overflow.column", why
    if settings.partial_updates == "keep":
        yield "overflow", "does not go with partial_updates: keep, which would keep an older row's overflow"


def _of_defaults(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    from calve.sinks.schema_faults import has_default

    types = {f"column_types.{name}": kind for name, kind in settings.column_types.items()}
    declared = {"schema": settings.schema} if settings.schema else {}
    for place, schema in [*declared.items(), *((f"schemas[{at}]", own) for at, own in enumerate(settings.schemas))]:
        types |= {f"{place}.columns[{at}].type": column.type for at, column in enumerate(schema.columns)}
    for place, kind in types.items():
        if has_default(kind):
            yield (
                place,
                "has a default, which a new table of version 2 cannot have: add table_properties: {format-version: 3}",
            )
