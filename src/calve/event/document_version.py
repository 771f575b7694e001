"""The version of an event: one number that orders the events of a source, across tasks, batches and replays.

    34 bits: the batch's moment, in tenths of a second since 2025, until 2079
    29 bits: the event's place in its batch: its split, in the order of the plan, and its row in it

A batch's moment is in the ledger, so that a replay gives each event the same number, and two pipelines, or a pipeline
that lost its state, are in the order of time. More rows than a split has numbers share its last one.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

__all__ = ["PLACE_BITS", "versions"]

PLACE_BITS = 29
"""536 million rows a batch."""
_EPOCH = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp()) * 10


def versions(moment: int, place: tuple[int, int], first: int, count: int) -> pa.Int64Array:
    """Return the versions of events that follow each other in a split.

    Args:
        moment: The batch's, in tenths of a second since the epoch.
        place: The split's number in the plan, and how many splits there are.
        first: How many events of the split came before.
        count: How many events there are.
    """
    split, splits = place
    row_bits = PLACE_BITS - (splits - 1).bit_length()
    start = (max(moment - _EPOCH, 0) << PLACE_BITS) + (split << row_bits)
    rows = np.minimum(np.arange(first, first + count, dtype=np.int64), (1 << row_bits) - 1)
    return pa.array(rows + start)
