"""Recognizes Debezium's placeholder for a value that Postgres did not send, because it is large and unchanged (TOAST).

The form depends on the column's type and on the connector's settings (Debezium's `UnchangedToastedPlaceholder`): a
text, its bytes in Base64 or hexadecimal, in an array the text, the bytes, a name-based UUID or each byte as a number,
in a map the text as key and value, in a geometry a fixed point.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import uuid
from decimal import Decimal, InvalidOperation
from typing import Any

from calve.errors import SettingsError
from calve.event.exact_json import Number

__all__ = ["UNAVAILABLE", "Placeholder", "check_unavailable_value"]

UNAVAILABLE = "__debezium_unavailable_value"
"""The default of the connector's `unavailable.value.placeholder`."""
_HEX = "hex:"
_GEOMETRY_FIELDS = frozenset({"wkb", "srid", "x", "y"})
_POINT = struct.pack("<BIdd", 1, 1, -99_999_999, -99_999_999)
_GEOMETRIES = (
    _POINT,
    struct.pack("<BIIdd", 1, 0x2000_0001, 4326, -99_999_999, -99_999_999),
    struct.pack("<BIIdd", 1, 0x2000_0001, 4326, 179.999999, 89.999999),
)
"""WKB of the points that stand for a point, a geometry and a geography; no configuration changes them."""


class Placeholder:
    """The forms of one configured placeholder.

    Args:
        configured: The connector's `unavailable.value.placeholder`; empty: the values of a format without one.

    Attributes:
        texts: The texts that stand for a value, also as the only element of an array; the first one also as the key
            and value of a map.
        firsts: Texts with which an array may begin that stands for a value.
        digits: The digits with which such an array of numbers begins, as a number; 0: there is none.
        geometries: The texts of `wkb` in geometries that stand for a value.
    """

    def __init__(self, configured: str) -> None:
        data = _bytes_of(configured)
        text = data.decode("utf-8", "replace")
        self._bytes = struct.unpack(f"{len(data)}b", data)  # Java's bytes have a sign
        self._name = str(uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))
        self._units = [_base64(data[at : at + 1]) for at in range(len(data))]
        as_json = json.dumps({text: text}, ensure_ascii=False, separators=(",", ":"))
        forms = (text, _base64(data), base64.urlsafe_b64encode(data).decode(), data.hex(), as_json)
        self.texts = tuple(dict.fromkeys(forms)) if data else ()
        self.firsts = (self._name, self._units[0]) if data else ()
        self.digits = abs(self._bytes[0]) if data else 0
        self.geometries = tuple(map(_base64, _GEOMETRIES)) if data else ()
        self._map = {text: text} if data else None

    def is_in_place_of(self, value: Any) -> bool:
        """Return whether a parsed value is a form of the placeholder."""
        if type(value) is str:
            return value in self.texts
        if type(value) is dict:
            is_geometry = value.get("wkb") in self.geometries and value.keys() <= _GEOMETRY_FIELDS
            return value == self._map or is_geometry
        return type(value) is list and bool(value) and self._is_array(value)

    def _is_array(self, value: list[Any]) -> bool:
        first = value[0]
        if type(first) is str and len(value) == 1 and first in (*self.texts, self._name):
            return True
        if len(value) != len(self._bytes):
            return False
        if type(first) is Number:
            return self._are_bytes(value)
        return value in (self._units, [{"scale": "0", "value": unit} for unit in self._units])

    def _are_bytes(self, value: list[Any]) -> bool:
        """Return whether numbers are the bytes, as decimals perhaps divided by a power of ten."""
        try:
            numbers = [Decimal(item) for item in value if type(item) is Number]
            scale = self._bytes[0] / numbers[0]
            is_power = scale.is_finite() and scale.normalize().as_tuple().digits == (1,) and scale >= 1
        except (ArithmeticError, InvalidOperation):
            return False
        return is_power and [number * scale for number in numbers] == list(self._bytes)


def check_unavailable_value(configured: str) -> None:
    """Check a configured placeholder.

    Raises:
        SettingsError: It is not hexadecimal, or has a NUL character.
    """
    try:
        has_nul = b"\0" in _bytes_of(configured)
    except ValueError:
        raise SettingsError(f"behind {_HEX} expected hexadecimal digits, two for each byte") from None
    if has_nul:
        raise SettingsError("cannot have a NUL character")


def _bytes_of(configured: str) -> bytes:
    """Return the bytes of a configured placeholder; `hex:` begins one in hexadecimal, as in Debezium."""
    return bytes.fromhex(configured.removeprefix(_HEX)) if configured.startswith(_HEX) else configured.encode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
