"""Packed values become the texts that MySQL writes for them."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from calve.sources.mysql.protocol.packed import decimal_bytes, decimal_text, timestamp_text

BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def packed(digits: str, scale: int, is_negative: bool) -> bytes:
    """Write a decimal by the documentation: nine digits in four bytes, the rest of both ends in fewer."""
    whole = len(digits) - scale
    sizes = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    found, at = b"", 0
    for size in sizes:
        found += int(digits[at : at + size] or 0).to_bytes(BYTES[size], "big")
        at += size
    found = bytes([found[0] ^ 0x80]) + found[1:]
    return bytes(byte ^ 0xFF for byte in found) if is_negative else found


@given(st.text("0123456789", min_size=1, max_size=65), st.integers(0, 30), st.booleans())
def test_a_decimal_has_its_digits_and_its_sign(digits: str, scale: int, is_negative: bool) -> None:
    scale = min(scale, len(digits))
    data = packed(digits, scale, is_negative)
    assert len(data) == decimal_bytes(len(digits), scale)
    whole, part = digits[: len(digits) - scale].lstrip("0") or "0", digits[len(digits) - scale :]
    expected = ("-" if is_negative else "") + (f"{whole}.{part}" if scale else whole)
    assert decimal_text(data, len(digits), scale) == expected


@given(st.integers(1, (1 << 32) - 1), st.integers(0, 999_999))
def test_a_timestamp_is_in_utc(seconds: int, microseconds: int) -> None:
    at = datetime.fromtimestamp(seconds, UTC)
    assert timestamp_text(seconds, microseconds, 0) == f"{at:%Y-%m-%d %H:%M:%S}+00"
    assert timestamp_text(seconds, microseconds, 6) == f"{at:%Y-%m-%d %H:%M:%S}.{microseconds:06d}+00"
