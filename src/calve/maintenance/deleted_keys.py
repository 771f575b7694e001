"""The rows of data files that equality deletes leave, for rewrites without Spark's SQL; runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from calve.catalog.data_files import opened
from calve.catalog.nested_columns import id_of
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.write.stored import stored_schema

__all__ = ["Delete", "DeletedKeys"]

Delete = tuple[str, Sequence[int]]
"""An equality delete file: its path, and the field ids of its key."""


class DeletedKeys:
    """The keys of the equality deletes of one table; each delete file is read once.

    Two keys are equal as Iceberg's readers have it (specification, "Equality Delete Files"): a null equals a null.

    Args:
        table: The table, whose types the keys get.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._schema = stored_schema(arrow_schema(table.schema))
        self._known: dict[tuple[str, tuple[int, ...]], pa.Table] = {}

    def kept(self, path: str, deletes: Iterable[Delete]) -> pa.ChunkedArray:
        """Mask the rows of a data file to which none of these deletes applies; they are those of Iceberg's planning.

        Raises:
            ArrowInvalid: The columns need Iceberg's own comparison: parts of structs, and floating-point numbers.
            OSError: A file cannot be read.
        """
        by_key: dict[tuple[int, ...], list[str]] = {}
        for delete, ids in deletes:
            by_key.setdefault(tuple(ids), []).append(delete)
        masks = [self._matches(path, ids, deletes_of_key) for ids, deletes_of_key in by_key.items()]
        kept = pc.invert(masks[0])
        for mask in masks[1:]:
            kept = pc.and_not(kept, mask)
        return kept

    def _matches(self, path: str, ids: tuple[int, ...], deletes: Iterable[str]) -> pa.ChunkedArray:
        keys = pa.concat_tables([self._keys(delete, ids) for delete in deletes])
        rows = self._read(path, ids)
        if len(ids) == 1:
            return pc.is_in(rows.column(0), value_set=keys.column(0).combine_chunks(), skip_nulls=False)
        if any(column.null_count for column in keys.columns):
            raise pa.ArrowInvalid("a key of several columns, one of which is null")
        mask = np.zeros(len(rows), bool)
        numbered = rows.append_column("", pa.array(np.arange(len(rows))))
        mask[numbered.join(keys, keys.column_names, join_type="left semi", use_threads=False)[""].to_numpy()] = True
        return pa.chunked_array([pa.array(mask)])

    def _keys(self, delete: str, ids: tuple[int, ...]) -> pa.Table:
        if (delete, ids) not in self._known:
            self._known[delete, ids] = self._read(delete, ids)
        return self._known[delete, ids]

    def _read(self, path: str, ids: tuple[int, ...]) -> pa.Table:
        """Read the columns with these field ids, in the table's types."""
        fields = [self._field(number) for number in ids]
        with opened(path, self._table) as source, parquet.ParquetFile(source) as file:
            names = {id_of(field): field.name for field in file.schema_arrow}
            if not all(id_of(field) in names for field in fields):
                raise pa.ArrowInvalid(f"{path} lacks a column of the key")
            rows = file.read([names[id_of(field)] for field in fields], use_threads=False)
        columns = [rows[names[id_of(field)]].cast(_compared(field.type)) for field in fields]
        return pa.table(columns, [str(number) for number in ids])

    def _field(self, number: int) -> pa.Field:
        name = self._table.schema.find_column_name(number)
        if name is None or name not in self._schema.names:
            raise pa.ArrowInvalid("a key in a struct, or of a dropped column")
        field = self._schema.field(name)
        if pa.types.is_floating(field.type) or pa.types.is_nested(field.type):
            raise pa.ArrowInvalid(f"a key of type {field.type}")
        return field


def _compared(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values are compared: Arrow cannot compare UUIDs as such."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
