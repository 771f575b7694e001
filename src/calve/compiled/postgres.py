"""What the compiled core reads of PostgreSQL (`pgoutput.rs`, `copy.rs`); every function returns None without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.compiled.events import as_array, call
from calve.compiled.library import load

__all__ = ["Messages", "copied", "messages", "rows"]

_LEFT = 1
_BYTES, _NUMBERS = pa.large_binary(), pa.int32()


class Messages(NamedTuple):
    """Messages of replication.

    Attributes:
        size_bytes: What they take in the stream.
        pieces: Changes of one table that follow each other, joined; or another message.
        counts: How many changes each piece has; 0: it is another message.
        lengths: The lengths of all changes, as the log has them.
    """

    size_bytes: int
    pieces: list[bytes]
    counts: list[int]
    lengths: bytes


def copied(received: bytes | memoryview, count: int) -> tuple[int, list[pa.Array]] | None:
    """Return how many of these bytes are rows of COPY, up to the first other message, and the rows as columns of texts.

    None where a row is not as PostgreSQL writes it; the exact reader then finds the reason.

    Args:
        received: What the server sent.
        count: The number of columns.
    """
    schema = _texts(count)
    outcome = call("calve_postgres_copied", as_array(received), [schema], count) if load() else None
    return None if outcome is None or not outcome[0] else (outcome[0], outcome[1][0].columns)


def messages(received: bytes | memoryview) -> Messages | None:
    """Return the messages of replication that are completely there, up to the first other message."""
    kinds = _BYTES, _NUMBERS, _NUMBERS
    outcome = call("calve_postgres_messages", as_array(received), kinds) if load() else None
    if outcome is None:
        return None
    pieces, counts, lengths = outcome[1]
    return Messages(outcome[0], pieces.to_pylist(), counts.to_pylist(), lengths.to_numpy().astype("<u4").tobytes())


def rows(
    changes: pa.Array, keys: Sequence[bool]
) -> tuple[list[pa.Array], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Return the rows of changes of one table (binary): columns of texts, the change of each row, and its kind.

    None where something is not as `pgoutput` has it, or left out; the exact reader knows of these.

    Args:
        changes: The messages `I`, `U` and `D`.
        keys: For each column, whether it is of the key.
    """
    kinds = _texts(len(keys)), _NUMBERS, _NUMBERS
    outcome = call("calve_postgres_rows", changes, kinds, bytes(keys), len(keys)) if load() else None
    if outcome is None or outcome[0] == _LEFT:
        return None
    texts, numbers, operations = outcome[1]
    return texts.columns, numbers.to_numpy().astype(np.int64), operations.to_numpy().astype(np.int64)


def _texts(count: int) -> pa.Schema:
    return pa.schema([(str(number), pa.string()) for number in range(count)])
