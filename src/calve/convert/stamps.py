"""Date-times from the bytes of their JSON texts, all rows of a column at once.

Takes only the usual forms, `"2026-03-01T12:00:00[.fraction][Z]"` and a whole number of seconds or parts of one;
whatever else a row holds is not proven here, and not wrong. Eight characters are read at a time, as one number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.convert.moment import DAYS_BEFORE_1970, LAST_DAY

__all__ = ["read_stamps"]

_Ints = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_Mask = npt.NDArray[np.bool_]
_Cells = npt.NDArray[np.uint8]
_BLOCK = 8192  # rows whose numbers stay in the processor's cache
_SHORT, _DAY_SECONDS, _EPOCH_DAYS = 19, 86_400, DAYS_BEFORE_1970  # characters without a fraction
_FIRST_SECOND, _END_SECOND = -_EPOCH_DAYS * _DAY_SECONDS, (LAST_DAY + 1) * _DAY_SECONDS


class _Form(NamedTuple):
    """What eight characters must look like, as numbers to compare them with."""

    mask: np.uint64
    expected: np.uint64
    sixes: np.uint64
    digits: np.uint64


def _form(text: str) -> _Form:
    """Read a form: `d` is a digit, `?` any character, all others are themselves."""

    def word(digit: int, anything: int, other: int | None) -> np.uint64:
        found = [{"d": digit, "?": anything}.get(each, ord(each) if other is None else other) for each in text]
        return np.uint64(int.from_bytes(bytes(found), "little"))

    return _Form(word(0xF0, 0, 0xFF), word(0x30, 0, None), word(6, 0, 0), word(0x0F, 0, 0))


_DATE, _CLOCK, _SECOND = _form("dddd-dd-"), _form("ddTdd:dd"), _form("?????:dd")  # at 1, 9 and 12
_ENDS = [_form("?" * (8 - size) + "d" * size) for size in range(9)]


def _month_lengths() -> npt.NDArray[np.int64]:
    """Give the days of each month by year * 16 + month, 0 where there is no such month."""
    year = np.arange(10_000)
    lengths = np.zeros((10_000, 16), np.int64)
    lengths[1:, 1:13] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    lengths[1:, 2] += ((year % 4 == 0) & (year % 100 != 0) | (year % 400 == 0))[1:]
    return lengths.ravel()


_LENGTHS = _month_lengths()
_STARTS = np.cumsum(_LENGTHS) - _LENGTHS - _EPOCH_DAYS - 1  # the day before each month


def read_stamps(column: pa.Array, digits: int, scale: int | None = 3) -> tuple[_Ints, _Mask]:
    """Read date-times with up to `digits` (6 or 9) of a second: units since the epoch, and which rows are proven.

    Numbers count parts of a second with `scale` (0, 3 or 6) digits; None: no number is proven.
    """
    values, proven = np.zeros(len(column), np.int64), column.is_null().to_numpy(zero_copy_only=False)
    _, offsets, data = column.buffers()
    if data is None:
        return values, proven
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    read, lengths = np.frombuffer(data, np.uint8), np.diff(ends)
    texts = lengths > 0
    texts[texts] = read[ends[:-1][texts]] == ord('"')
    for length in np.flatnonzero(np.bincount(lengths[texts])).tolist():
        if _SHORT + 2 <= length <= _SHORT + 4 + digits:
            rows = np.flatnonzero(texts & (lengths == length))
            for start in range(0, len(rows), _BLOCK):
                block = rows[start : start + _BLOCK]
                values[block], proven[block] = _iso(_cells(read, ends[block], length), digits)
    numbers = np.flatnonzero(~texts & (lengths > 0))
    if len(numbers) and scale is not None:
        values[numbers], proven[numbers] = _epochs(column.take(pa.array(numbers)), digits, scale)
    return values, proven


def _cells(read: _Cells, starts: _Ints, length: int) -> _Cells:
    """Give the texts' bytes, a row per text."""
    if len(starts) and starts[-1] - starts[0] == length * (len(starts) - 1):
        return read[starts[0] : starts[0] + length * len(starts)].reshape(-1, length)
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(read, length)[starts])


def _iso(cells: _Cells, digits: int) -> tuple[_Ints, _Mask]:
    length = cells.shape[1]
    zulu = cells[:, -2] == ord("Z")
    values, proven = _parse(cells, digits, length - 3)
    if zulu.all():
        return values, proven & zulu
    local, local_proven = _parse(cells, digits, length - 2)
    return np.where(zulu, values, local), np.where(zulu, proven, local_proven)


def _parse(cells: _Cells, digits: int, characters: int) -> tuple[_Ints, _Mask]:
    """Parse texts of so many characters between the quotes, the Z not counted."""
    size = max(characters - _SHORT - 1, 0)
    if characters < _SHORT or characters == _SHORT + 1 or size > digits:
        return np.zeros(len(cells), np.int64), np.zeros(len(cells), bool)
    date, proven = _read(cells, 1, _DATE)
    clock, form = _read(cells, 9, _CLOCK)
    proven &= form
    second, form = _read(cells, 12, _SECOND)
    proven &= form & (cells[:, -1] == ord('"'))
    year, month = _pair(date, 0) * 100 + _pair(date, 2), np.minimum(_pair(date, 5), 13)
    day, hour, minute = _pair(clock, 0), _pair(clock, 3), _pair(clock, 6)
    seconds = _pair(second, 6)
    month = np.where(proven, year * 16 + month, 0)
    proven &= (day > 0) & (day <= _LENGTHS[month]) & (hour < 24) & (minute < 60) & (seconds < 60)
    values = ((_STARTS[month] + day) * _DAY_SECONDS + (hour * 3600 + minute * 60 + seconds)) * 10**digits
    if size:
        fraction, form = _fraction(cells, size)
        proven &= form
        values += fraction * 10 ** (digits - size)
    if digits == 9:
        proven &= (year > 1677) & (year < 2262)
    return values, proven


def _read(cells: _Cells, at: int, form: _Form) -> tuple[_Words, _Mask]:
    """Read eight characters of each text; give the numbers that pairs of digits make, and which texts have the form."""
    words = np.ascontiguousarray(np.ndarray(len(cells), "<u8", cells, at, (cells.shape[1],)))
    proven = (words & form.mask) == form.expected
    proven &= ((words + form.sixes) & form.mask) == form.expected  # `:` to `?` would have become `@` to `E`
    ones = words & form.digits
    return ones * np.uint64(10) + (ones >> np.uint64(8)), proven


def _pair(pairs: _Words, at: int) -> _Ints:
    """Give the number that two digits make, the first of which is at this place."""
    return ((pairs >> np.uint64(8 * at)) & np.uint64(0xFF)).view(np.int64)


def _fraction(cells: _Cells, size: int) -> tuple[_Ints, _Mask]:
    """Read so many digits after the point at 20."""
    proven = cells[:, 20] == ord(".")
    read = min(size, 8)
    pairs, form = _read(cells, 13 + read, _ENDS[read])
    number = _pair(pairs, 6)
    for at in range(4, 7 - read - read % 2, -2):
        number = number + _pair(pairs, at) * 10 ** (6 - at)
    if size > read:
        last = cells[:, 20 + size] - np.uint8(ord("0"))
        number, form = number * 10 + last, form & (last < 10)
    return number, proven & form


def _epochs(texts: pa.Array, digits: int, scale: int) -> tuple[_Ints, _Mask]:
    """Read whole numbers that never overflow 64 bits when they are made finer."""
    most = 18 - digits + scale
    whole = pc.match_substring_regex(texts, f"^-?[0-9]{{1,{most}}}$")
    numbers = pc.if_else(whole, texts, "0").cast(pa.int64()).to_numpy()
    proven = whole.to_numpy(zero_copy_only=False)
    proven &= (numbers >= _FIRST_SECOND * 10**scale) & (numbers < _END_SECOND * 10**scale)
    return numbers * 10 ** (digits - scale), proven
