"""Fills the metadata attributes of events that are rows of a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.sources.database.attributes import OfTransaction
from calve.sources.database.stream_position import Transaction
from calve.sources.database.table import DatabaseTable

__all__ = ["Stamps", "columns"]

_DELETE = "delete"
_LOADED = "LOAD"


class Stamps(NamedTuple):
    """Where the rows of a batch come from.

    Attributes:
        operations: What a sink does: `insert`, `update` or `delete`.
        words: What happened in the database; None for rows of the load.
        types: What each row is, if it is one of a history.
        transactions: Transactions; None is that of the load.
        numbers: For each row the number of its transaction.
    """

    operations: pa.Array
    words: pa.Array
    types: pa.Array
    transactions: Sequence[Transaction | None]
    numbers: npt.NDArray[np.int64]

    @staticmethod
    def of_load(count: int, operation: str) -> Stamps:
        """Return those of rows that were there before the stream."""
        operations = pa.repeat(pa.scalar(operation, pa.string()), count)
        types = pa.repeat(pa.scalar(_LOADED), count)
        return Stamps(operations, pa.nulls(count, pa.string()), types, [None], np.zeros(count, np.int64))

    def history(self, loaded_at: int) -> list[pa.Array]:
        """Return the columns that a history has before those of its table (`table.HISTORY`).

        Args:
            loaded_at: The position of the rows of the load: they have all changes up to there.
        """
        positions = self.of_transactions(
            pa.int64(), lambda transaction: transaction.commit if transaction else loaded_at
        )
        return [
            self.types,
            positions,
            self.of_transactions(pa.timestamp("us", "UTC"), lambda transaction: transaction and transaction.time),
        ]

    def of_transactions(self, kind: pa.DataType, value: Callable[[Transaction | None], Any]) -> pa.Array:
        """Return a value of the transaction of each row."""
        return pa.array([value(transaction) for transaction in self.transactions], kind).take(pa.array(self.numbers))


def columns(
    wanted: Mapping[str, OfTransaction | None],
    table: DatabaseTable,
    database: str,
    stamps: Stamps,
    values: list[pa.Array],
) -> dict[str, pa.Array]:
    """Return the requested attributes of changes.

    Args:
        wanted: The attributes; those that only this database has with their values.
        table: The table of the changes.
        database: Its database's name.
        stamps: Where they come from.
        values: The values of the table's columns, as texts, or integers or bytes.
    """
    count = len(stamps.operations)
    shared = {"table_name": table.name, "schema_name": table.schema, "database_name": database}
    arrays: dict[str, pa.Array] = {}
    for name, own in wanted.items():
        if own is not None:
            arrays[name] = _own(stamps, *own)
        elif name in shared:
            arrays[name] = pa.repeat(pa.scalar(shared[name], pa.string()), count)
        elif name in ("document_id", "primary_key") and table.appends:
            arrays[name] = pa.nulls(count, pa.string())
        elif name in ("document_id", "primary_key"):
            arrays[name] = _document_id(
                [*(pa.repeat(value, count) for value in table.merged.values()), *(values[i] for i in table.keys)]
            )
        elif name in ("bulk_action", "opensearch_action"):
            is_delete = pc.equal(stamps.operations, _DELETE)
            arrays[name] = pc.if_else(is_delete, _DELETE, "index").cast(pa.string())
        elif name == "ingestion_type":
            arrays[name] = stamps.of_transactions(
                pa.string(), lambda transaction: "EXPORT" if transaction is None else "STREAM"
            )
        elif name == "commit_timestamp":
            times = stamps.of_transactions(pa.timestamp("us"), lambda transaction: transaction and transaction.time)
            arrays[name] = pc.strftime(times, "%Y-%m-%dT%H:%M:%SZ").cast(pa.string())
        else:
            arrays[name] = stamps.operations if name == "operation" else stamps.words
    return arrays


def _own(stamps: Stamps, kind: pa.DataType, value: Callable[[Transaction], Any]) -> pa.Array:
    return stamps.of_transactions(kind, lambda transaction: transaction and value(transaction))


def _document_id(keys: list[pa.Array]) -> pa.Array:
    r"""Return the values of the key joined by `|`, with `|` and `\` escaped by `\`: no two keys are the same.

    A key that is one empty text is `\E`, because a document's id is never empty.
    """
    escaped = [pc.replace_substring(pc.replace_substring(key, "\\", "\\\\"), "|", "\\|") for key in map(_text, keys)]
    joined = pc.binary_join_element_wise(*escaped, "|", null_handling="replace", null_replacement="\\N")
    return pc.if_else(pc.equal(joined, ""), "\\E", joined)


def _text(key: pa.Array) -> pa.Array:
    if pa.types.is_binary(key.type):
        return pa.array(
            [None if key_bytes is None else f"\\x{key_bytes.hex()}" for key_bytes in key.to_pylist()], pa.string()
        )
    return key.cast(pa.string())
