"""Values as the binary log packs them, as the texts that MySQL writes for them.

https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html; the forms of times: `my_time.cc`'s description.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal

__all__ = [
    "date_text",
    "date_time_text",
    "decimal_bytes",
    "decimal_text",
    "decimal_texts",
    "double_text",
    "fraction",
    "time_text",
    "timestamp_text",
]

_DIGITS_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_GROUP = 9
_SMALLEST_POWER, _LARGEST_POWER = -15, 15
_EPOCH = datetime(1970, 1, 1)  # in UTC
_NO_TIMESTAMP = "0000-00-00 00:00:00"


def decimal_bytes(precision: int, scale: int) -> int:
    """Return the size of a packed decimal."""
    whole = precision - scale
    groups = whole // _GROUP + scale // _GROUP
    return 4 * groups + _DIGITS_BYTES[whole % _GROUP] + _DIGITS_BYTES[scale % _GROUP]


def decimal_text(data: bytes, precision: int, scale: int) -> str:
    """Return a packed decimal."""
    return decimal_texts(precision, scale)(data)


@functools.cache
def decimal_texts(precision: int, scale: int) -> Callable[[bytes], str]:
    """Return what reads packed decimals: groups of nine digits in four bytes, the sign in the first bit."""
    whole = precision - scale
    digits = [whole % _GROUP, *[_GROUP] * (whole // _GROUP), *[_GROUP] * (scale // _GROUP), scale % _GROUP]
    bits = 8 * decimal_bytes(precision, scale)
    positive, every, unit = 1 << bits - 1, (1 << bits) - 1, 10**scale
    groups, shift = [], bits
    for size in digits:
        shift -= 8 * _DIGITS_BYTES[size]
        groups.append((shift, (1 << 8 * _DIGITS_BYTES[size]) - 1, 10**size))

    def text(data: bytes) -> str:
        number = int.from_bytes(data, "big") ^ positive
        sign = ""
        if number & positive:
            sign, number = "-", number ^ every
        value = 0
        for shift, mask, power in groups:
            value = value * power + (number >> shift & mask)
        return f"{sign}{value // unit}.{value % unit:0{scale}d}" if scale else f"{sign}{value}"

    return text


def date_text(packed: int) -> str:
    """Return a DATE of three bytes."""
    return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}"


def date_time_text(packed: int, microseconds: int, digits: int) -> str:
    """Return a DATETIME: 17 bits of months, then day, hour, minute and second."""
    months, day = packed >> 22, packed >> 17 & 31
    hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
    text = f"{months // 13:04d}-{months % 13:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}"
    return text + fraction(microseconds, digits)


def timestamp_text(seconds: int, microseconds: int, digits: int) -> str:
    """Return a TIMESTAMP in UTC, with its offset; 0 is MySQL's zero."""
    if not seconds and not microseconds:
        return f"{_NO_TIMESTAMP}{fraction(0, digits)}+00"
    hours, seconds = divmod(seconds, 3600)
    return f"{_hour(hours)}:{seconds // 60:02d}:{seconds % 60:02d}{fraction(microseconds, digits)}+00"


@functools.lru_cache
def _hour(hours: int) -> str:
    """Return date and hour of a number of hours since 1970; many timestamps share them."""
    return f"{_EPOCH + timedelta(hours=hours):%Y-%m-%d %H}"


def time_text(packed: int, digits: int) -> str:
    """Return a TIME: its sign, ten bits of hours, six of minutes and seconds, 24 of microseconds."""
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    whole = packed >> 24
    text = f"{sign}{whole >> 12 & 0x3FF:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}"
    return text + fraction(packed & 0xFFFFFF, digits)


def double_text(value: float) -> str:
    """Return a double as MySQL writes it: the shortest digits, with an exponent below 1e-15 and from 1e15 on."""
    sign, numbers, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits, power = "".join(map(str, numbers)), len(numbers) + int(exponent) - 1
    mark = "-" if sign else ""
    if not _SMALLEST_POWER <= power < _LARGEST_POWER:
        return f"{mark}{digits[0]}{'.' if len(digits) > 1 else ''}{digits[1:]}e{power}"
    if power < 0:
        return f"{mark}0.{'0' * (-power - 1)}{digits}"
    whole = digits[: power + 1].ljust(power + 1, "0")
    return f"{mark}{whole}.{digits[power + 1 :]}" if len(digits) > power + 1 else mark + whole


def fraction(microseconds: int, digits: int) -> str:
    """Return a fraction of a second with so many digits, and its point."""
    return f".{microseconds:06d}"[: digits + 1] if digits else ""
