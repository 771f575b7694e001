"""Changes of a table without a key: a row is inserted, or one of the rows that are equal to it is deleted.

The rows of such a table are a multiset: which of several equal rows goes is the same, and so is the order of changes
of a table that never has less than no rows. So nothing must be brought together by key. Deletes are staged as whole
rows, each with the number of copies that go; the commit finds them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from calve.convert.converter import ConvertedEvents, Converter, ConvertOptions
from calve.event.columns import OPERATION
from calve.event.operation import Operation
from calve.event.reject import Code, reject_rows
from calve.record.content_file import ContentFile
from calve.reduce.key import ABSENT_ID
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table

__all__ = ["COPIES", "COPIES_ID", "DeletedRows", "FullRows", "full_row_ids", "is_of_full_rows"]

COPIES = "_calve_copies"
"""A column of staged deletes: how many of the rows that are equal to it go."""
COPIES_ID = ABSENT_ID + 10
"""Its field id, which is also one of the file's equality ids: so a file is known as one of whole rows."""
_WHY = "an UPDATE of a table without a key does not say which row it changes"


class DeletedRows:
    """The staged form of deletes of whole rows.

    Args:
        table: The table.
        without: Columns that do not identify rows.

    Attributes:
        table: The table for writing them: all columns optional, and `COPIES`.
        ids: The equality ids of their files: the field ids of the columns, and `COPIES_ID`.
    """

    def __init__(self, table: Table, without: frozenset[str] = frozenset()) -> None:
        columns = [field for field in table.schema.fields if field.name not in without]
        fields = [field.model_copy(update={"required": False}) for field in columns]
        schema = Schema(*fields, NestedField(COPIES_ID, COPIES, LongType(), required=True))
        self.table = replace(
            table,
            schema_json=schema.model_dump_json(),
            spec_json='{"spec-id":0,"fields":[]}',
            sort_order_json='{"order-id":0,"fields":[]}',
        )
        self.ids = [*(field.field_id for field in fields), COPIES_ID]

    def of(self, rows: pa.Table) -> pa.Table:
        """Return rows of the table as deletes of one copy each."""
        schema = arrow_schema(self.table.schema)
        columns = [rows.column(name) for name in schema.names[:-1]]
        return pa.table([*columns, pa.repeat(pa.scalar(1, pa.int64()), len(rows))], schema=schema)


def full_row_ids(equality_ids: list[int]) -> list[int]:
    """Return the field ids of the columns by which whole rows are found; empty: the deletes are of keys."""
    return [number for number in equality_ids if number != COPIES_ID] if COPIES_ID in equality_ids else []


def is_of_full_rows(file: ContentFile) -> bool:
    """Return whether a staged file has deletes of whole rows."""
    return COPIES_ID in file.equality_ids


class FullRows:
    """Turns the events of one table in one task into rows and deletes of rows; runs on an executor.

    Args:
        table: The table.
        options: How events are converted.
        deletes: The staged form of deletes.
    """

    def __init__(self, table: Table, options: ConvertOptions, deletes: DeletedRows) -> None:
        self._rows = Converter(table, options)
        nulls = tuple(rule for rule in options.rules if rule.on_failure == "null")  # a deleted row is as it was written
        self._gone = Converter(table, replace(options, look_for_unknown=False, count_ignored=False, rules=nulls))
        self._deleted: list[pa.Table] = []
        self.deletes = deletes

    def convert(self, events: pa.Table) -> ConvertedEvents:
        """Convert events with `_operation`, unless all are INSERTs; this object keeps the deleted rows.

        Returns:
            The rows of the INSERTs; the positions of these, and then of the deletes; rejects.
        """
        if OPERATION not in events.column_names:
            return self._rows.convert(events)
        operations = events.column(OPERATION).to_numpy()
        inserts, deletes, updates = (
            np.flatnonzero(operations == kind) for kind in (Operation.INSERT, Operation.DELETE, Operation.UPDATE)
        )
        written = _placed(self._rows.convert(events.take(pa.array(inserts))), inserts)
        rejects = [written.rejects, reject_rows(pa.array(updates), Code.NO_KEY, "", _WHY)]
        row = [written.row]
        if len(deletes):
            gone = _placed(self._gone.convert(events.take(pa.array(deletes))), deletes)
            self._deleted.append(self.deletes.of(gone.rows))
            rejects.append(gone.rejects)
            row.append(gone.row)
        return replace(written, row=pa.concat_arrays(row), rejects=pa.concat_tables(rejects))

    def deleted(self) -> pa.Table | None:
        """Return the deletes so far, as they are staged; None: there are none."""
        return pa.concat_tables(self._deleted) if self._deleted else None


def _placed(converted: ConvertedEvents, positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> ConvertedEvents:
    """Return positions among all events instead of those that were converted."""
    places = pa.array(positions)
    at = converted.rejects.schema.get_field_index("row")
    rejects = converted.rejects.set_column(at, "row", places.take(converted.rejects["row"]))
    return replace(converted, row=pc.take(places, converted.row), rejects=rejects)
