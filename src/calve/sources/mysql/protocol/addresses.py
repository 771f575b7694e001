"""Values of MariaDB's types `uuid`, `inet4` and `inet6`, which its log has as bytes, as the texts that it writes."""

from __future__ import annotations

import itertools
import struct
import uuid

__all__ = ["ADDRESSES", "inet4_text", "inet6_text", "uuid_text"]

_GROUPS = struct.Struct(">8H")
_MAPPED = 0xFFFF


def uuid_text(data: bytes) -> str:
    """Return a UUID; those of versions with a time are stored from their last part to the first.

    Then the seventh byte begins with the bit of the variant, and the ninth with the version, from 1 to 5.
    """
    if data[6] & 0x80 and 0 < data[8] < 0x80:
        data = data[12:16] + data[10:12] + data[8:10] + data[6:8] + data[:6]
    return str(uuid.UUID(bytes=data))


def inet4_text(data: bytes) -> str:
    """Return an address of IPv4."""
    return ".".join(map(str, data))


def inet6_text(data: bytes) -> str:
    """Return an address of IPv6: the first longest run of zeros is `::`, and one of IPv4 in it has points."""
    groups = _GROUPS.unpack(data)
    start, size = _longest_zeros(groups)
    if start == 0 and (size == 6 or (size == 5 and groups[5] == _MAPPED)):
        return f"::{'ffff:' if size == 5 else ''}{inet4_text(data[12:])}"
    texts = [f"{group:x}" for group in groups]
    if not size:
        return ":".join(texts)
    return f"{':'.join(texts[:start])}::{':'.join(texts[start + size :])}"


def _longest_zeros(groups: tuple[int, ...]) -> tuple[int, int]:
    """Return where the longest run of zeros begins, and its size."""
    longest, at = (0, 0), 0
    for is_zero, run in itertools.groupby(groups, lambda group: group == 0):
        size = len(list(run))
        if is_zero and size > longest[1]:
            longest = at, size
        at += size
    return longest


ADDRESSES = {"uuid": (16, uuid_text), "inet4": (4, inet4_text), "inet6": (16, inet6_text)}
"""The size of each type, and what makes a text of its bytes."""
