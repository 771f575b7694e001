"""The option `schema` of the Iceberg sink: columns and partitions of a table that is created.

The module with Iceberg's types (`declared`) is imported only if a configuration has types or partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from calve.settings import option
from calve.sinks.declared_columns import ColumnList

__all__ = ["ObjectType", "OverflowColumn", "PartitionField", "SchemaOf", "TableSchema"]

ObjectType: TypeAlias = Literal["struct", "map", "variant", "string"]
"""What objects become in a column."""


def _check_transform(text: str) -> None:
    from calve.sinks.schema_faults import check_transform

    check_transform(text)


@dataclass(frozen=True)
class PartitionField:
    """One field of a partition spec."""

    column: str = option(doc="The source column.", minimum=1)
    transform: str = option(
        "identity",
        "`identity`, `year`, `month`, `day`, `hour`, `bucket[16]`, `truncate[4]` or `void`.",
        check=_check_transform,
    )


@dataclass(frozen=True)
class TableSchema(ColumnList):
    """The table to create when it does not exist."""

    partition_spec: list[PartitionField] = option([], "The partition fields.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse duplicate columns, and partitions that the columns do not allow."""
        from calve.sinks.schema_faults import schema_faults

        yield from schema_faults(list(map(asdict, self.columns)), list(map(asdict, self.partition_spec)))


@dataclass(frozen=True)
class OverflowColumn:
    """A column for fields that have no column and get none."""

    column: str = option(doc="The name of the column; new tables and, with `schema_evolution`, older ones get it.")
    type: Literal["map", "variant", "string"] = option(
        "map",
        "`map` (`map<string, string>`: names and values, JSON where they are no texts), `variant` or `string` (JSON).",
    )


@dataclass(frozen=True)
class SchemaOf(TableSchema):
    """The schema of tables that are named by events."""

    tables: str = option(doc="A table name, or a pattern with `*` and `?`, e.g. `shop.order*`.", minimum=1)
