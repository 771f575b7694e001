"""What is said once about an existing table: options without effect, and other pipelines that write it."""

from __future__ import annotations

from collections.abc import Iterator

from calve.convert.event_time import fault
from calve.observe.humanize import listed
from calve.sinks.iceberg.settings import IcebergSettings
from calve.table.definition import partition_spec_fields, sort_fields
from calve.table.loaded import MARK, Table

__all__ = ["ignored_options", "other_pipelines"]

_REPLAY = ".replay"
_TIMES = ("year", "month", "day", "hour")


def ignored_options(table: Table, settings: IcebergSettings) -> Iterator[str]:
    """Yield sentences about settings that a table does not have (partitions, order, properties), with the remedy."""
    wanted = [f"{transform}({column})" for column, transform in partition_spec_fields(settings.partition_fields)]
    current = [
        f"{field.transform}({table.schema.find_column_name(field.source_id)})"
        for field in table.spec.fields
        if str(field.transform) != "void"
    ]
    if wanted and wanted != current:
        option = "schema.partition_spec" if settings.schema else "partition_by"
        yield (
            f"{option} is only for new tables: {table.identifier} is partitioned by {', '.join(current) or 'nothing'}, "
            f"not by {', '.join(wanted)}. ALTER TABLE … {'REPLACE' if current else 'ADD'} PARTITION FIELD changes that"
        )
    yield from _ignored_order(table, settings)
    if settings.retention is not None and not _has_time(table, settings.event_time):
        yield (
            f"retention does not delete rows of {table.identifier}: set event_time to a column with a time, or "
            "partition the table by one"
        )
    differing = [
        f"{key} is {table.properties.get(key, 'not set')}, not {value}"
        for key, value in settings.table_properties.items()
        if key != "format-version" and table.properties.get(key) != value
    ]
    if (version := settings.table_properties.get("format-version")) and version != str(table.format_version):
        differing.append(f"format-version is {table.format_version}, not {version}")
    if table.format_version < 3 and settings.inferred_types.has_defaults:
        yield f"the defaults of column_types are only for tables of format version 3; {table.identifier} has none"
    if settings.keep_row_ids and table.format_version < 3:
        yield f"keep_row_ids is for tables of format version 3; {table.identifier} has {table.format_version}"
    if differing:
        yield (
            f"table_properties are only for new tables; of {table.identifier} {', '.join(differing)}. "
            "ALTER TABLE … SET TBLPROPERTIES changes that"
        )


def _ignored_order(table: Table, settings: IcebergSettings) -> Iterator[str]:
    wanted = [f"{column} {direction}" for column, direction in sort_fields(settings.sort_by)]
    current = [
        f"{table.schema.find_column_name(field.source_id)} {field.direction.value}" for field in table.sort_order.fields
    ]
    if wanted and wanted != current:
        yield (
            f"sort_by is only for new tables: {table.identifier} is sorted by {', '.join(current) or 'nothing'}, "
            f"not by {', '.join(wanted)}. ALTER TABLE … WRITE ORDERED BY changes that"
        )


def _has_time(table: Table, event_time: str | None) -> bool:
    """Return whether the age of a table's rows is known: by a column, or by the partitions."""
    if event_time:
        return fault(table.schema, event_time) is None
    transforms = [(table.schema.find_column_name(field.source_id), str(field.transform)) for field in table.spec.fields]
    return any(
        transform in _TIMES or (transform == "identity" and fault(table.schema, column or "") is None)
        for column, transform in transforms
    )


def other_pipelines(table: Table, pipeline: str) -> str:
    """Return a sentence about the pipelines that a new one may be the new name of; empty: the table has none.

    Args:
        table: A table that the pipeline has not written yet.
        pipeline: Its name; a replay of dead letters reads no source, so it is no pipeline under a new name.
    """
    marks = (key.removeprefix(MARK).partition("@")[0] for key in table.properties if key.startswith(MARK))
    others = sorted({name.removesuffix(_REPLAY) for name in marks} - {pipeline})
    if not others or pipeline.endswith(_REPLAY):
        return ""
    return (
        f"{table.identifier} has rows of {listed(others, 5)}, and {pipeline} is new. If it is the same pipeline under "
        "a new name, it reads its source from the beginning and duplicates the rows: keep the old name, or choose "
        "where to start (calve state rebuild)"
    )
