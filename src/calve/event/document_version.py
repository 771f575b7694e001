"""The version of an event: one number that orders the events of a source, across tasks, batches and replays.

    34 bits: the batch's time, in tenths of a second since 2025, until 2079
    29 bits: the event's position in its batch: its split, in the order of the plan, and its row in the split

The ledger has a batch's time, so each event has the same number in a replay, and two pipelines, or a pipeline that lost
its state, are ordered by time. If a split has more rows than numbers, the last rows share the last number.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

__all__ = ["POSITION_BITS", "versions"]

POSITION_BITS = 29
"""536 million rows per batch."""
_EPOCH = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp()) * 10


def versions(time_tenths: int, split: tuple[int, int], first: int, count: int) -> pa.Int64Array:
    """Return the versions of consecutive events of a split.

    Args:
        time_tenths: The batch's time, in tenths of a second since the epoch.
        split: The split's number in the plan, and the number of splits.
        first: How many events of the split came before these.
        count: How many events there are.
    """
    number, splits = split
    row_bits = POSITION_BITS - (splits - 1).bit_length()
    start = (max(time_tenths - _EPOCH, 0) << POSITION_BITS) + (number << row_bits)
    rows = np.minimum(np.arange(first, first + count, dtype=np.int64), (1 << row_bits) - 1)
    return pa.array(rows + start)
