"""Takes the values of a topic with schemas from a binary sample, for a dry run."""

from __future__ import annotations

__all__ = ["values_of"]

_LENGTH_BYTES, _HEADER_BYTES = 4, 5


def values_of(data: bytes, has_ids: bool) -> list[bytes | None] | None:
    """Return the values of a sample; None: it is text.

    Several values have their lengths before them, in four bytes with the highest first; -1 is a record without a value
    (`kcat -f '%R%s'`). Otherwise the sample is one value.

    Args:
        data: The content of the file.
        has_ids: Whether each value begins with the magic byte and the id of its schema.
    """
    if several := _with_lengths(data, has_ids):
        return several
    is_value = data[:1] == b"\0" if has_ids else data.strip()[:1] not in (b"", b"{")
    return [data] if is_value else None


def _with_lengths(data: bytes, has_ids: bool) -> list[bytes | None]:
    """Return values with lengths; none if the sample does not consist of them up to its last byte."""
    values: list[bytes | None] = []
    at = 0
    while at < len(data):
        start = at + _LENGTH_BYTES
        length = int.from_bytes(data[at:start], "big", signed=True)
        at = start + max(length, 0)
        value = data[start:at]
        is_value = length >= 0 and (not has_ids or (length >= _HEADER_BYTES and value[:1] == b"\0"))
        if at > len(data) or not (is_value or length == -1):
            return []
        values.append(value if is_value else None)
    return values
