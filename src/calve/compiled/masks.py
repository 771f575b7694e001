"""Masks of top-level fields of JSON texts by the compiled core (`core/src/masks.rs`)."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from calve.compiled.events import call, new_handle, releaser

__all__ = ["KEPT", "MAY_HAVE_INSIDE", "MaskedFields", "masked_fields"]

KEPT = -2
MAY_HAVE_INSIDE = -3
"""In place of the number of a mask: a key has none; it has none, but fields inside of its value may have one."""


class MaskedFields:
    """Takes the values of masked fields out of events, and writes others in their places. For one thread.

    Args:
        handle: Of the core.
        masks: How many masks there are.
    """

    def __init__(self, handle: int, masks: int) -> None:
        self._handle = handle
        self._masks = masks
        weakref.finalize(self, releaser("calve_masks_free"), handle)

    def read(self, events: pa.Array) -> tuple[pa.Array, list[pa.Array]] | None:
        """Read an array of binary or string; None where the core failed, which is a mistake in it.

        Returns:
            The keys to learn before some of the events can be read (large string), and the values of each mask, in the
            order of the events, as a column of strings has them.
        """
        kinds = (pa.large_string(), *[pa.string()] * self._masks)
        outcome = call("calve_masks_read", events, kinds, self._handle)
        return None if outcome is None else (outcome[1][0], outcome[1][1:])

    def learn(self, keys: pa.Array, numbers: Sequence[int]) -> None:
        """Remember for each key the number of its mask, `KEPT` or `MAY_HAVE_INSIDE`."""
        call("calve_masks_learn", keys, (), self._handle, np.array(numbers, np.int32).tobytes())

    def write(self, values: pa.Array) -> pa.Array | None:
        """Return the events that were read last (binary) with other values; null where only the exact way is certain.

        Args:
            values: Those of the first mask, then those of the second one, and so on (string).
        """
        outcome = call("calve_masks_write", values, (pa.binary(),), self._handle)
        return None if outcome is None else outcome[1][0]


def masked_fields(masks: Sequence[Sequence[str]]) -> MaskedFields | None:
    """Make what reads and writes events; None without the core.

    Args:
        masks: Each `drop`; `put` and JSON, for all values but null; or `change` and `1` if numbers become texts.
    """
    handle = new_handle("calve_masks_new", [str(len(masks)), *(text for mask in masks for text in mask)])
    return MaskedFields(handle, len(masks)) if handle else None
