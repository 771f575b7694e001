"""Options for new tables that an existing table does not have: they have no effect, which is said once."""

from __future__ import annotations

from collections.abc import Iterator

from calve.sinks.iceberg.settings import IcebergSettings
from calve.table.definition import partition_spec_fields
from calve.table.loaded import Table

__all__ = ["ignored_options"]


def ignored_options(table: Table, settings: IcebergSettings) -> Iterator[str]:
    """Yield sentences about partitions and properties of the settings that a table does not have, with the remedy."""
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
            f"not by {', '.join(wanted)}. ALTER TABLE … REPLACE PARTITION FIELD changes that"
        )
    differing = [
        f"{key} is {table.properties.get(key, 'not set')}, not {value}"
        for key, value in settings.table_properties.items()
        if key != "format-version" and table.properties.get(key) != value
    ]
    if (version := settings.table_properties.get("format-version")) and version != str(table.format_version):
        differing.append(f"format-version is {table.format_version}, not {version}")
    if differing:
        yield (
            f"table_properties are only for new tables; of {table.identifier} {', '.join(differing)}. "
            "ALTER TABLE … SET TBLPROPERTIES changes that"
        )
