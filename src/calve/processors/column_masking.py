"""Masks the values of one column, in tasks: in one step over a column, or each by itself, with equal results."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.compiled.hmac import hmac_texts
from calve.event.exact_json import Number
from calve.event.json_text import plain_texts
from calve.processors.fields import json_of, number, opened
from calve.processors.mask import TEXT_ACTIONS, ColumnMask, MaskColumns, UnmaskableError

__all__ = ["ColumnMasking"]

_REMEMBERED = 4096
"""The masked values that each mask remembers: keys and names come again."""
_PLAIN_DATE = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_EPOCH = datetime.date(1970, 1, 1)
_DAYS = (datetime.date.min - _EPOCH).days, (datetime.date.max - _EPOCH).days
_LEAST = -(1 << 63)
"""The earliest time of a unit; the year of the first nanoseconds begins before it."""
_PER_DAY = {unit: 86_400 * 1000**power for power, unit in enumerate(("s", "ms", "us", "ns"))}


class ColumnMasking:
    """What happens to one column."""

    def __init__(self, entry: ColumnMask, processor: MaskColumns) -> None:
        self.action = entry.action
        self._entry = entry
        self._key, self._is_hex = (processor.key or "").encode(), processor.encoding == "hex"
        self._is_text = entry.action in TEXT_ACTIONS
        self._function = entry.function(processor)
        self._remembered = functools.lru_cache(_REMEMBERED)(self._function)

    def of(self, value: Any) -> Any:
        """Return a masked value, as `processors.fields` has values.

        Raises:
            UnmaskableError: The action does not apply to the value.
        """
        value = opened(value)
        if value is None or self.action == "null":
            return None
        text = self._remembered(_text_of(value) or "")
        return number(text) if type(value) is Number and not self._is_text else text

    def of_each(self, values: Sequence[Any]) -> tuple[list[Any], dict[int, str]]:
        """Return masked values, as `of` masks each, and by position why the action does not apply: these are None."""
        if self._is_text and (texts := self._at_once(pa.array(map(_text_of, values), pa.string()))) is not None:
            return texts.to_pylist(), {}
        masked, reasons = list[Any](), dict[int, str]()
        for value in values:
            try:
                masked.append(self.of(value))
            except UnmaskableError as error:
                reasons[len(masked)] = str(error)
                masked.append(None)
        return masked, reasons

    def column(self, column: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """Return the masked values of a column, and by row why the action does not apply: there they are null.

        Raises:
            ArrowInvalid, ArrowNotImplementedError: The type has no text that can be converted back.
        """
        if self.action == "null":
            return pa.nulls(len(column), column.type), {}
        if (masked := self._at_once(column)) is not None:
            return masked, {}
        encoded = plain_texts(column).dictionary_encode()
        values, reasons = list[str | None](), dict[int, str]()
        for text in encoded.dictionary.to_pylist():
            try:
                values.append(self._function(text.decode()))
            except (UnmaskableError, UnicodeDecodeError) as error:
                reasons[len(values)] = str(error) if isinstance(error, UnmaskableError) else "it is no UTF-8"
                values.append(None)
        codes = encoded.indices.fill_null(-1).to_numpy() if reasons else np.zeros(0, np.int32)
        failed = np.flatnonzero(np.isin(codes, list(reasons))).tolist()
        masked = pa.array(values, pa.string()).take(encoded.indices)
        return masked if self._is_text else masked.cast(column.type), {row: reasons[codes[row]] for row in failed}

    def _at_once(self, column: pa.Array) -> pa.Array | None:
        """Return the masked values by one step over the column; None: each different value must be masked by itself."""
        match self.action:
            case "hash":
                texts = plain_texts(column)
                hashed = hmac_texts(self._key, texts, self._is_hex)
                return hashed if hashed is not None and hashed.null_count == texts.null_count else None
            case "fixed":
                return pc.if_else(column.is_valid(), pa.scalar(self._entry.value), pa.scalar(None, pa.string()))
            case "format":
                return _formatted(plain_texts(column), self._entry)
            case "year" | "month":
                return _truncated(column, self.action)
        return None


def _text_of(value: Any) -> str | None:
    """Return the text that a column of strings would have."""
    value = opened(value)
    return None if value is None else str(value) if isinstance(value, str) else json_of(value)


def _formatted(encoded: pa.Array, entry: ColumnMask) -> pa.Array | None:
    """Return texts (binary) as `ColumnMask` formats each; None if one is no UTF-8."""
    try:
        texts = encoded.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    lengths, kept = pc.utf8_length(texts), entry.keep_first + entry.keep_last
    if not kept:
        return pc.binary_repeat(entry.character, lengths)
    is_short = pc.less_equal(lengths, kept)
    hidden = pc.binary_repeat(entry.character, pc.if_else(is_short, lengths, pc.subtract(lengths, kept)))
    first = pc.utf8_slice_codeunits(texts, 0, entry.keep_first)
    last = pc.utf8_slice_codeunits(texts, -entry.keep_last) if entry.keep_last else ""
    return pc.if_else(is_short, hidden, pc.binary_join_element_wise(first, hidden, last, ""))


def _truncated(column: pa.Array, unit: str) -> pa.Array | None:
    """Return the beginnings of the years or months of dates or times; None: they are not all plain ones of UTC."""
    kind = column.type
    if pa.types.is_string(kind):
        if not pc.all(pc.match_substring_regex(column, _PLAIN_DATE), min_count=0).as_py():
            return None
        kept, rest = (4, "-01-01") if unit == "year" else (7, "-01")
        return pc.binary_join_element_wise(pc.utf8_slice_codeunits(column, 0, kept), rest, "")
    if pa.types.is_date32(kind):
        return pc.floor_temporal(column, unit=unit) if _are_within(column.view(pa.int32()), 1) else None
    if not pa.types.is_timestamp(kind) or kind.tz not in (None, "UTC"):
        return None
    if not _are_within(column.view(pa.int64()), _PER_DAY[kind.unit]):
        return None
    return pc.floor_temporal(column.view(pa.timestamp(kind.unit)), unit=unit).view(kind)  # needs no time zones


def _are_within(numbers: pa.Array, per_day: int) -> bool:
    """Return whether times and their years' beginnings have years of four digits, given as so many units a day."""
    first, last = pc.min_max(numbers).as_py().values()
    earliest = max(_DAYS[0], _LEAST // per_day + 366)
    return first is None or (first // per_day >= earliest and last // per_day <= _DAYS[1])
