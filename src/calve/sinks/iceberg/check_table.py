"""Checks that a table exists and can be written as the options of its sink say; runs on the driver."""

from __future__ import annotations

from calve.errors import NoTargetError, SchemaConflictError, UnsupportedError
from calve.record.target import COPY_ON_WRITE, EQUALITY_DELETE
from calve.reduce.key import Key
from calve.sinks.iceberg.metadata_columns import MetadataColumns
from calve.sinks.iceberg.mirrors import Mirrors
from calve.sinks.iceberg.settings import IcebergSettings
from calve.table.kinds import Limit, primitive
from calve.table.loaded import Table
from calve.table.spark_types import check_types
from calve.write.properties import PARQUET, format_of

__all__ = ["check_has_deletes", "check_has_key", "check_table", "key_fault", "missing"]

_AS_PARQUET = (
    "ALTER TABLE … SET TBLPROPERTIES ('write.format.default'='parquet'): files of both formats may be in a table"
)


def check_table(table: Table, settings: IcebergSettings, metadata: MetadataColumns) -> None:
    """Check the columns of a table.

    Raises:
        UnsupportedError: They do not allow what the settings ask for.
    """
    if bad := metadata.fault(table.schema):
        raise UnsupportedError(
            f"The table {table.identifier} cannot have the metadata_columns: {bad}",
            step="start",
            target=table.identifier,
            hint="Set schema_evolution: true, which adds columns, or choose other columns",
        )
    if settings.expect and not table.is_inferred:  # of inferred columns events decided the types
        _check_rules(table, settings)
    if settings.publish:
        _check_gate(table, settings)
    kind = format_of({**table.properties, **settings.write_properties})
    if kind != PARQUET:
        _check_format(table, kind)
    if settings.changes and settings.write_mode == EQUALITY_DELETE:
        _check_key(table, Key(table, settings.key_columns))
    elif settings.changes and (settings.write_mode == COPY_ON_WRITE or kind != PARQUET):
        option, way_out = f"write_mode: {settings.write_mode}", f"Remove write_mode: {settings.write_mode}"
        if kind != PARQUET:
            option, way_out = f"changes of {kind} files", _AS_PARQUET
        check_types(table, option, Limit.NO_MERGE, "start", way_out)


def _check_rules(table: Table, settings: IcebergSettings) -> None:
    """Check that the rules of `expect` can be checked.

    Raises:
        UnsupportedError: One cannot.
    """
    from calve.sinks.iceberg.expect_faults import table_faults

    for fault in table_faults(table.schema, settings):
        raise UnsupportedError(
            f"The table {table.identifier} cannot have the rule {fault}",
            step="start",
            target=table.identifier,
            hint="Correct the rule in expect, or the table; tables with other rules are entries of `tables`",
        )


def _check_gate(table: Table, settings: IcebergSettings) -> None:
    """Check that the rules of `publish` can be judged.

    Raises:
        UnsupportedError: One cannot.
    """
    from calve.sinks.iceberg.publish_faults import gate_faults

    for fault in gate_faults(table.schema, settings):
        raise UnsupportedError(
            f"The commits of {table.identifier} cannot be judged by {fault}",
            step="start",
            target=table.identifier,
            hint="Correct publish.when; tables with other rules are entries of `tables`",
        )


def check_has_key(table: Table, settings: IcebergSettings) -> None:
    """Check that rows without a key can be found by all their columns.

    Raises:
        UnsupportedError: Only Spark reads the files.
    """
    if (kind := format_of({**table.properties, **settings.write_properties})) != PARQUET:
        raise UnsupportedError(
            f"The table {table.identifier} has {kind} files and no key, so its rows cannot be found",
            step="start",
            target=table.identifier,
            hint=_AS_PARQUET,
        )


def _check_format(table: Table, kind: str) -> None:
    """Check that files of a format can have all columns.

    Raises:
        UnsupportedError: They cannot.
    """
    for name in table.schema.column_names:
        if Limit.PARQUET_ONLY in primitive(column := table.schema.find_type(name)).limits:
            raise UnsupportedError(
                f"The table {table.identifier} is to have {kind} files, which cannot hold {name} ({column})",
                step="start",
                target=table.identifier,
                hint=_AS_PARQUET,
            )


def key_fault(table: Table, settings: IcebergSettings, mirrors: Mirrors) -> str:
    """Return why changes cannot be applied to rows of a table as the settings say; empty if they can."""
    if not settings.full_row:
        key = Key(table, settings.key_columns)
        return key.fault or ("" if settings.key_columns else mirrors.key_fault(table.identifier, key))
    names = sorted(table.schema.identifier_field_names())
    return f"{table.identifier} has the key {', '.join(names)}, and full_row is for tables without one" if names else ""


def check_has_deletes(table: Table) -> None:
    """Check that rows of a table can be deleted.

    Raises:
        SchemaConflictError: Its format version has no deletes.
    """
    if table.format_version < 2:
        raise SchemaConflictError(
            f"The table {table.identifier} has format version 1, which has no row-level deletes",
            step="start",
            target=table.identifier,
            hint="Set its property `format-version` to 2, e.g. with ALTER TABLE … SET TBLPROPERTIES",
        )


def _check_key(table: Table, key: Key) -> None:
    """Check that Java's readers can apply deletes by all columns of the key.

    Raises:
        UnsupportedError: It cannot handle one.
    """
    for name in key.names:
        kind = table.schema.find_type(name)
        if Limit.NO_DELETE_KEY in primitive(kind).limits:
            raise UnsupportedError(
                f"Spark and Flink do not find rows that are deleted by their key where {name} is a {kind}",
                step="start",
                target=table.identifier,
                hint="Remove write_mode: equality-delete",
            )


def missing(table: str, catalog: str) -> NoTargetError:
    """Return the error of a missing static table that may not be created."""
    return NoTargetError(
        f"The table {table} does not exist in the catalog {catalog}",
        step="start",
        target=table,
        hint="Create it, correct table_identifier, or set auto_create: true",
    )
