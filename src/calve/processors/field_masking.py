"""Masks the top-level fields of JSON texts by the compiled core, whose values are masked as columns. Runs in tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from calve.compiled.masks import KEPT, MAY_HAVE_INSIDE, masked_fields
from calve.processors.column_masking import ColumnMasking
from calve.processors.fields import encode
from calve.processors.mask import TEXT_ACTIONS, ColumnMask, MaskColumns

__all__ = ["FieldMasking"]


class FieldMasking:
    """Masks the events of one task.

    Args:
        masks: The masks; the first one that has a field counts.
        of: Returns the mask of a field.
        reaches_inside: Whether fields of objects may have masks; those of values that are objects or lists are left.
    """

    def __init__(
        self,
        masks: Sequence[tuple[ColumnMask, MaskColumns]],
        of: Callable[[str], tuple[ColumnMask, MaskColumns] | None],
        reaches_inside: bool,
    ) -> None:
        self._entries = [entry for entry, _ in masks]
        self._of = of
        self._none = MAY_HAVE_INSIDE if reaches_inside else KEPT
        self._columns = [ColumnMasking(*mask) for mask in masks]
        self._core = masked_fields([_core_mask(entry) for entry in self._entries])

    def mask(self, events: pa.Array) -> pa.Array | None:
        """Return masked events (binary); null where an event must be masked by itself, None if all of them must.

        Args:
            events: Binary or string.
        """
        values = self._read(events)
        if values is None or self._core is None:
            return None
        masked = []
        for column, texts in zip(self._columns, values, strict=True):
            texts, reasons = column.column(texts) if len(texts) else (texts, {})
            if reasons:
                return None
            masked.append(texts)
        return self._core.write(pa.concat_arrays(masked))

    def _read(self, events: pa.Array) -> list[pa.Array] | None:
        for has_learnt in (False, True):
            if self._core is None or (outcome := self._core.read(events)) is None:
                break
            keys, values = outcome
            if has_learnt or not len(keys):
                return values
            self._core.learn(keys, [self._number(name) for name in keys.to_pylist()])
        return None

    def _number(self, name: str) -> int:
        mask = self._of(name)
        return self._none if mask is None else [entry is mask[0] for entry in self._entries].index(True)


def _core_mask(entry: ColumnMask) -> tuple[str, ...]:
    match entry.action:
        case "drop":
            return ("drop",)
        case "null":
            return "put", "null"
        case "fixed":
            return "put", encode(entry.value).decode()
    return "change", "1" if entry.action in TEXT_ACTIONS else ""
