"""Encodes a JSON value as a variant, exactly or not at all (Parquet specification, "Variant Binary Encoding").

Integers get the smallest type that can hold them. Fractions become decimals with all written digits, or a double if
no decimal can hold them and the double is the same number. A JSON null becomes the variant's null.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from functools import lru_cache
from itertools import accumulate
from math import isinf
from typing import Any

from calve.convert.iso8601 import MismatchError
from calve.event.exact_json import Number
from calve.event.reject import cut
from calve.table.kinds import METADATA, VALUE

__all__ = ["MOST_BYTES", "NULL", "encode"]

MOST_BYTES = 16 << 20
"""The lowest known limit of a reader for one value or its names: Spark 4.0's."""

_OBJECT, _ARRAY = 2, 3
_NULL, _TRUE, _FALSE, _DOUBLE, _STRING = (kind << 2 for kind in (0, 1, 2, 7, 16))
_INTEGERS = ((3 << 2, 1), (4 << 2, 2), (5 << 2, 4), (6 << 2, 8))
_DECIMALS = ((8 << 2, 9, 4), (9 << 2, 18, 8), (10 << 2, 38, 16))  # type, most digits, bytes
_MOST_DIGITS = 38
_LONGEST = 2_000
"""The most characters of a double with all digits."""
_WIDE = Context(prec=_LONGEST, Emax=MAX_EMAX, Emin=MIN_EMIN)
_FEW_CHARACTERS = 8_192
_Ids = dict[str, int]


def encode(value: Any) -> dict[str, bytes]:
    """Encode a parsed JSON value (`calve.event.exact_json`) for an array of the Arrow type of variants.

    Raises:
        MismatchError: A number is neither a decimal of 38 digits nor a double, a text is not UTF-8, or it is too large.
    """
    try:
        names = _names(value)
        metadata, ids = (_known if sum(map(len, names)) < _FEW_CHARACTERS else _dictionary)(names)
        encoded = _encode(value, ids)
    except RecursionError:
        raise MismatchError("nested too deeply for a variant") from None
    except UnicodeEncodeError:
        raise MismatchError("half a surrogate pair is not valid text") from None
    if max(len(metadata), len(encoded)) > MOST_BYTES:
        raise MismatchError(f"{max(len(metadata), len(encoded))} bytes are too many for a variant")
    return {METADATA: metadata, VALUE: encoded}


def _names(value: Any) -> tuple[str, ...]:
    """Return the names of all objects, sorted."""
    names: set[str] = set()
    rest = [value]
    while rest:
        inner = rest.pop()
        if type(inner) is dict:
            names.update(inner)
            rest += inner.values()
        elif type(inner) is list:
            rest += inner
    return tuple(sorted(names))


def _dictionary(names: tuple[str, ...]) -> tuple[bytes, _Ids]:
    """Return the metadata of sorted names; code points sort like their UTF-8 bytes."""
    texts = [name.encode() for name in names]
    size = _size(max(sum(map(len, texts)), len(texts)))
    header = 1 | 1 << 4 | (size - 1) << 6  # version 1, sorted
    whole = [bytes([header]), len(texts).to_bytes(size, "little"), _offsets(texts, size), *texts]
    return b"".join(whole), {name: number for number, name in enumerate(names)}


_known = lru_cache(maxsize=256)(_dictionary)


def _encode(value: Any, ids: _Ids) -> bytes:
    kind = type(value)
    if kind is str:
        return _text(value.encode())
    if kind is Number:
        return _number(value)
    if kind is dict:
        return _object(value, ids)
    if kind is list:
        return _array([_encode(item, ids) for item in value])
    return bytes([_NULL if value is None else _TRUE if value else _FALSE])


def _text(text: bytes) -> bytes:
    if len(text) < 64:
        return bytes([len(text) << 2 | 1]) + text
    return bytes([_STRING]) + len(text).to_bytes(4, "little") + text


def _object(value: dict[str, Any], ids: _Ids) -> bytes:
    names = sorted(value)
    items = [_encode(value[name], ids) for name in names]
    count, large = _count(len(items))
    id_size, size = _size(len(ids) - 1), _size(sum(map(len, items)))
    header = _OBJECT | (large << 4 | (id_size - 1) << 2 | (size - 1)) << 2
    keys = _list([ids[name] for name in names], id_size)
    return b"".join([bytes([header]), count, keys, _offsets(items, size), *items])


def _array(items: list[bytes]) -> bytes:
    count, large = _count(len(items))
    size = _size(sum(map(len, items)))
    header = _ARRAY | (large << 2 | (size - 1)) << 2
    return b"".join([bytes([header]), count, _offsets(items, size), *items])


def _count(items: int) -> tuple[bytes, int]:
    large = int(items > 255)
    return items.to_bytes(4 if large else 1, "little"), large


def _size(largest: int) -> int:
    """Return how many bytes each number of a list needs, if this is the largest."""
    return max(1, (largest.bit_length() + 7) // 8)


def _list(numbers: Iterable[int], size: int) -> bytes:
    return bytes(numbers) if size == 1 else b"".join([number.to_bytes(size, "little") for number in numbers])


def _offsets(parts: list[bytes], size: int) -> bytes:
    """Return the start of each part, and the end of the last one."""
    return _list(accumulate(map(len, parts), initial=0), size)


@lru_cache(maxsize=4096)
def _number(text: Number) -> bytes:
    if len(text) < 19 and "e" not in text and "E" not in text:
        whole, point, fraction = text.partition(".")
        digits = int(whole + fraction)
        if digits or text[0] != "-":
            return _decimal(digits, len(fraction)) if point else _integer(digits)
    return _exact(text)


def _exact(text: Number) -> bytes:
    if len(text) > _LONGEST:
        raise _bad(text)
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise _bad(text) from None
    if not exact and exact.is_signed():
        return _double(-0.0)  # integers and decimals have no negative zero
    scale, digits = _scaled(exact)
    if digits is None:
        return _as_double(text, exact)
    if scale or not -(2**63) <= digits < 2**63:
        return _decimal(digits, scale)
    return _integer(digits)


def _scaled(exact: Decimal) -> tuple[int, int | None]:
    """Return scale and digits of a decimal, None for more than 38 digits; trailing zeros are kept if they fit."""
    for candidate in (exact, exact.normalize(_WIDE)):
        scale = -int(candidate.as_tuple().exponent)
        needed = max(candidate.adjusted() + 1 + max(scale, 0), scale)
        if needed <= _MOST_DIGITS:
            return max(scale, 0), int(candidate.scaleb(max(scale, 0), _WIDE))
    return 0, None


def _integer(number: int) -> bytes:
    bits = (number if number >= 0 else ~number).bit_length()
    kind, size = next(entry for entry in _INTEGERS if bits < entry[1] * 8)
    return bytes([kind]) + number.to_bytes(size, "little", signed=True)


def _decimal(digits: int, scale: int) -> bytes:
    needed = max(len(str(abs(digits))), scale)
    kind, _, size = next(entry for entry in _DECIMALS if needed <= entry[1])
    return bytes([kind, scale]) + digits.to_bytes(size, "little", signed=True)


def _as_double(text: Number, exact: Decimal) -> bytes:
    """Return the double that equals the number, or that programs print like this, e.g. `1e300`."""
    number = float(text)
    if isinf(number) or exact not in (Decimal(number), Decimal(repr(number))):
        raise _bad(text)
    return _double(number)


def _double(number: float) -> bytes:
    return bytes([_DOUBLE]) + struct.pack("<d", number)


def _bad(text: Number) -> MismatchError:
    return MismatchError(f"{cut(text)} is neither a decimal of {_MOST_DIGITS} digits nor a double")


NULL = encode(None)
"""A JSON null."""
