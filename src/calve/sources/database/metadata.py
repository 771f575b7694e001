"""Fills the metadata attributes of events that are rows of a database."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from calve.sources.database.attributes import OfTransaction
from calve.sources.database.stream_position import Transaction
from calve.sources.database.table import Table

__all__ = ["Stamps", "columns"]

_DELETE = "delete"


class Stamps:
    """Where changes come from: columns, filled change by change or at once.

    Attributes:
        operations: What a sink does: `insert`, `update` or `delete`.
        words: What happened in the database; None for rows of the load.
        transactions: Their transactions; None for rows of the load.
    """

    def __init__(self) -> None:
        self.operations: list[str] = []
        self.words: list[str | None] = []
        self.transactions: list[Transaction | None] = []

    @staticmethod
    def of_load(count: int, operation: str) -> Stamps:
        """Return those of rows that were there before the stream."""
        stamps = Stamps()
        stamps.operations = [operation] * count
        stamps.words = stamps.transactions = [None] * count  # type: ignore[assignment]
        return stamps


def columns(
    wanted: Mapping[str, OfTransaction | None], table: Table, database: str, stamps: Stamps, values: list[pa.Array]
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
    found: dict[str, pa.Array] = {}
    for name, own in wanted.items():
        if own is not None:
            kind, value = own
            found[name] = pa.array([one and value(one) for one in stamps.transactions], kind)
        elif name in shared:
            found[name] = pa.repeat(pa.scalar(shared[name], pa.string()), count)
        elif name in ("document_id", "primary_key"):
            found[name] = _document_id([values[index] for index in table.keys])
        elif name in ("bulk_action", "opensearch_action"):
            is_delete = pc.equal(pa.array(stamps.operations, pa.string()), _DELETE)
            found[name] = pc.if_else(is_delete, _DELETE, "index").cast(pa.string())
        elif name == "ingestion_type":
            kinds = ["EXPORT" if one is None else "STREAM" for one in stamps.transactions]
            found[name] = pa.array(kinds, pa.string())
        elif name == "commit_timestamp":
            times = pa.array([one and one.time for one in stamps.transactions], pa.timestamp("us"))
            found[name] = pc.strftime(times, "%Y-%m-%dT%H:%M:%SZ").cast(pa.string())
        else:
            found[name] = pa.array(stamps.operations if name == "operation" else stamps.words, pa.string())
    return found


def _document_id(keys: list[pa.Array]) -> pa.Array:
    r"""Return the values of the key joined by `|`, with `|` and `\` escaped by `\`: no two keys are the same."""
    escaped = [pc.replace_substring(pc.replace_substring(key, "\\", "\\\\"), "|", "\\|") for key in map(_text, keys)]
    return pc.binary_join_element_wise(*escaped, "|", null_handling="replace", null_replacement="\\N")


def _text(key: pa.Array) -> pa.Array:
    if pa.types.is_binary(key.type):
        return pa.array([None if one is None else f"\\x{one.hex()}" for one in key.to_pylist()], pa.string())
    return key.cast(pa.string())
