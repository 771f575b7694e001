"""What the compiled core reads of MySQL and MariaDB (`core/src/mysql.rs`); every function returns None without it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.compiled.events import call
from calve.compiled.library import load

__all__ = ["rows"]

_LEFT = 1
_NUMBERS = pa.int32()


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
    found = call("calve_mysql_rows", messages, kinds, text, len(text)) if load() else None
    if found is None or found[0] == _LEFT:
        return None
    values, numbers, operations = found[1]
    return values.columns, numbers.to_numpy().astype(np.int64), operations.to_numpy().astype(np.int64)
