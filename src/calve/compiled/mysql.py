"""What the compiled core reads of MySQL and MariaDB (`core/src/mysql.rs`); every function returns None without it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.compiled.events import as_array, call
from calve.compiled.library import load

__all__ = ["packets", "results", "rows"]

_LEFT = 1
_BYTES, _NUMBERS = pa.large_binary(), pa.int32()


def rows(
    messages: pa.Array, columns: pa.Schema, spec: Sequence[str]
) -> tuple[list[pa.Array], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Return the rows of messages of one table (binary): columns, the message of each row, and its kind.

    None where something is not as the log has it, or is only known to the exact reader.

    Args:
        messages: Rows of the binary log, with their layout.
        columns: The Arrow types of the values.
        spec: What the core must know of each column (`Declared` in `core/src/mysql/column.rs`).
    """
    text = "\0".join(spec).encode()
    kinds = columns, _NUMBERS, _NUMBERS
    outcome = call("calve_mysql_rows", messages, kinds, text, len(text)) if load() else None
    if outcome is None or outcome[0] == _LEFT:
        return None
    values, numbers, operations = outcome[1]
    return values.columns, numbers.to_numpy().astype(np.int64), operations.to_numpy().astype(np.int64)


def packets(received: bytes | memoryview) -> tuple[int, bytes, bytes] | None:
    """Return how many of these bytes are complete packets, up to one that may be an end, an error or a part of one.

    And these packets without their heads, joined, and their lengths (uint32 each).
    """
    outcome = call("calve_mysql_packets", as_array(received), (_BYTES, _NUMBERS)) if load() else None
    if outcome is None:
        return None
    joined, lengths = outcome[1]
    return outcome[0], joined[0].as_py(), lengths.to_numpy().astype("<u4").tobytes()


def results(rows: pa.Array, described: bytes, columns: pa.Schema, spec: Sequence[str]) -> list[pa.Array] | None:
    """Return rows of a prepared statement (binary) as columns; None where only the exact reader knows one.

    Args:
        rows: The packets.
        described: Type, flags, length and digits of each column, in eight bytes.
        columns: The Arrow types of the values.
        spec: As for `rows`.
    """
    text = "\0".join(spec).encode()
    given = text, len(text), described, len(described)
    outcome = call("calve_mysql_results", rows, (columns,), *given) if load() else None
    if outcome is None or outcome[0] == _LEFT:
        return None
    values: list[pa.Array] = outcome[1][0].columns
    return values
