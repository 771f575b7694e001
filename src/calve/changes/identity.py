"""Identifies rows over time: by columns, by row id, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as f

from calve.engine.java.errors import java_errors
from calve.errors import SettingsError
from calve.expression.sql import spark_name

__all__ = ["ROW_ID", "RowIdentity", "identity_of", "key_column"]

ROW_ID = "_row_id"
"""Iceberg's column with the id of a row in all its versions (format version 3)."""
_STEP = "changes"


@dataclass(frozen=True)
class RowIdentity:
    """How to identify a row.

    Attributes:
        columns: The identifier columns, in order; a field of a struct is `struct.field`.
        by_row_id: Without columns: use Iceberg's row id.
    """

    columns: tuple[str, ...] = ()
    by_row_id: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key; none: only all values together identify a row."""
        return (ROW_ID,) if self.by_row_id else self.columns

    def __bool__(self) -> bool:
        return bool(self.key)

    def without_row_id(self) -> RowIdentity:
        """Return the identity for files without row ids, written before an upgrade to version 3."""
        return replace(self, by_row_id=False)


def identity_of(identifier: str, java_table: Any, columns: Sequence[str] = ()) -> RowIdentity:
    """Return the identity of a table's rows: these columns, else its identifier fields, else the row id.

    Raises:
        SettingsError: A column does not exist, or cannot be a key.
    """
    with java_errors(_STEP, identifier):
        schema = java_table.schema()
        if columns:
            for name in columns:
                _check(identifier, schema, name)
            return RowIdentity(tuple(columns))
        named = sorted((int(field), str(schema.findColumnName(field))) for field in schema.identifierFieldIds())
        if named:
            return RowIdentity(tuple(name for _, name in named))
        return RowIdentity(by_row_id=java_table.operations().current().formatVersion() >= 3)


def key_column(name: str, columns: Collection[str]) -> Column:
    """Return a key column of a DataFrame with these columns; a dotted name is a field of a struct."""
    return f.col(spark_name(name) if name in columns else spark_name(*name.split(".")))


def _check(identifier: str, schema: Any, name: str) -> None:
    field = schema.findField(name)
    if field is not None and field.type().isPrimitiveType():
        return
    column_names = ", ".join(str(column.name()) for column in schema.columns() if column.type().isPrimitiveType())
    problem = f"is a {field.type().typeId().toString().lower()}" if field is not None else "does not exist"
    raise SettingsError(
        f"The key column {name} of {identifier} {problem}",
        step=_STEP,
        target=identifier,
        hint=f"It has: {column_names}",
    )
