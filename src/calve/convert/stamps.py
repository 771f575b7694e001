"""Date-times from the bytes of their JSON texts, all rows of a column at once.

Takes only the usual forms, `"2026-03-01T12:00:00[.fraction][Z]"` and a whole number of milliseconds; whatever else a
row holds is not proven here, and not wrong.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["read_stamps"]

_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_Cells = npt.NDArray[np.uint8]
_SEPARATORS = {0: '"', 5: "-", 8: "-", 11: "T", 14: ":", 17: ":"}
_MONTH_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] + [0] * 87)
_MONTH_STARTS = np.concatenate([[0, 0], np.cumsum(_MONTH_DAYS[1:])])[:100]
_SHORT, _DAY_SECONDS, _EPOCH_DAYS = 19, 86_400, 719_162  # characters without a fraction; days from year 1 to 1970


def read_stamps(column: pa.Array, digits: int) -> tuple[_Ints, _Mask]:
    """Read date-times with up to `digits` (6 or 9) of a second: units since the epoch, and which rows are proven."""
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
            cells = _cells(read, ends[rows], length)
            values[rows], proven[rows] = _iso(cells, digits)
    numbers = np.flatnonzero(~texts & (lengths > 0))
    if len(numbers):
        values[numbers], proven[numbers] = _millis(column.take(pa.array(numbers)), digits)
    return values, proven


def _cells(read: _Cells, starts: _Ints, length: int) -> _Cells:
    """Give the texts' bytes, one row per character."""
    if len(starts) and starts[-1] - starts[0] == length * (len(starts) - 1):
        flat = read[starts[0] : starts[0] + length * len(starts)].reshape(-1, length)
    else:
        flat = np.lib.stride_tricks.sliding_window_view(read, length)[starts]
    return np.ascontiguousarray(flat.T)


def _iso(cells: _Cells, digits: int) -> tuple[_Ints, _Mask]:
    zulu = cells[-2] == ord("Z")
    values, proven = _parse(cells, digits, len(cells) - 3)
    if zulu.all():
        return values, proven & zulu
    local, local_proven = _parse(cells, digits, len(cells) - 2)
    return np.where(zulu, values, local), np.where(zulu, proven, local_proven)


def _parse(cells: _Cells, digits: int, characters: int) -> tuple[_Ints, _Mask]:
    """Parse texts of so many characters between the quotes, the Z not counted."""
    size = max(characters - _SHORT - 1, 0)
    if characters < _SHORT or characters == _SHORT + 1 or size > digits:
        return np.zeros(cells.shape[1], np.int64), np.zeros(cells.shape[1], bool)
    proven = cells[-1] == ord('"')
    for at, separator in _SEPARATORS.items():
        proven &= cells[at] == ord(separator)
    if size:
        proven &= cells[20] == ord(".")
    places = (range(1, 5), range(6, 8), range(9, 11), range(12, 14), range(15, 17), range(18, 20), range(21, 21 + size))
    parts = []
    for place in places:
        part = np.zeros(cells.shape[1], np.int32)
        for at in place:
            digit = cells[at] - np.uint8(ord("0"))
            proven &= digit < 10
            part = part * 10 + digit
        parts.append(part)
    year, month, day, hour, minute, second, fraction = parts
    proven &= (year > 0) & (month > 0) & (month < 13) & (hour < 24) & (minute < 60) & (second < 60)
    days, possible = _days(year, np.where(proven, month, 1), day)
    seconds = days * _DAY_SECONDS + (hour * 3600 + minute * 60 + second)
    values = seconds * 10**digits + fraction.astype(np.int64) * 10 ** (digits - size)
    proven &= possible
    if digits == 9:
        proven &= (year > 1677) & (year < 2262)
    return values, proven


def _days(year: npt.NDArray[np.int32], month: npt.NDArray[np.int32], day: npt.NDArray[np.int32]) -> tuple[_Ints, _Mask]:
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    before = year.astype(np.int64) - 1
    days = before * 365 + before // 4 - before // 100 + before // 400 - _EPOCH_DAYS
    days += _MONTH_STARTS[month] + (leap & (month > 2)) + day - 1
    return days, (day > 0) & (day <= _MONTH_DAYS[month] + (leap & (month == 2)))


def _millis(texts: pa.Array, digits: int) -> tuple[_Ints, _Mask]:
    most = 12 if digits == 9 else 15
    whole = pc.match_substring_regex(texts, f"^-?[0-9]{{1,{most}}}$")
    numbers = pc.if_else(whole, texts, "0").cast(pa.int64()).to_numpy()
    return numbers * 10 ** (digits - 3), whole.to_numpy(zero_copy_only=False)
