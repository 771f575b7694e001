"""A slow converter written from design section 4 alone; it shares no code with `calve`.

A row becomes `("row", {column: value}, nulled)` or `("reject", code)`. Times are whole units since the epoch, binary
values bytes, maps lists of pairs, structs dicts.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from pyiceberg import types as t

from convert.reference_names import Ambiguous, folded, impossible, paths, renamed

FIRST_DAY, LAST_DAY = -719162, 2932896  # of the years 1 to 9999, since 1970


class Text(str):
    """The text of a JSON number."""


class NotCoercible(Exception):
    pass


def no_constant(_):
    raise ValueError("constant")


def convert(event, schema, mismatch="null", case_insensitive=False, include=(), exclude=(), evolves=False):
    try:
        value = json.loads(event.decode("utf-8"), parse_int=Text, parse_float=Text, parse_constant=no_constant)
    except (ValueError, AttributeError):
        return ("reject", "MALFORMED")
    if not isinstance(value, dict):
        return ("reject", "MALFORMED")
    value = {k: v for k, v in value.items() if k not in exclude and (not include or k in include)}
    try:
        whole, value = value, renamed(value, [f.name for f in schema.fields], case_insensitive)
        columns = schema.as_struct()
        ambiguous = evolves and impossible(
            [whole], columns, case_insensitive, {folded(each) for each in paths(columns)}
        )
        if not any(f.name in value for f in schema.fields):
            return ("reject", "AMBIGUOUS_FIELD" if ambiguous else "NO_MATCHING_FIELDS")
        row, nulled = {}, set()
        for f in schema.fields:
            found = value.get(f.name)
            if found is None:
                if f.required:
                    return ("reject", "REQUIRED_MISSING")
                row[f.name] = None
                continue
            try:
                row[f.name] = one(found, f.field_type, case_insensitive)
            except NotCoercible:
                if f.required or mismatch == "dlq":
                    return ("reject", "NOT_COERCIBLE")
                row[f.name] = None
                nulled.add(f.name)
    except Ambiguous:
        return ("reject", "AMBIGUOUS_FIELD")
    return ("reject", "AMBIGUOUS_FIELD") if ambiguous else ("row", row, nulled)


def ignored(event, schema, case_insensitive=False, include=(), exclude=()):
    """Name the fields of an event without a column, as dotted paths."""
    value = {k: v for k, v in json.loads(event).items() if k not in exclude and (not include or k in include)}
    return set(strangers(value, schema.as_struct(), case_insensitive, ""))


class Pairs(list):
    pass


def repeated(event, include=(), exclude=()):
    """Name the keys that an event itself repeats, and those that any object in it repeats."""
    top = json.loads(event, object_pairs_hook=Pairs)
    kept = Pairs((k, v) for k, v in top if k not in exclude and (not include or k in include))
    return set(doubles(kept, deep=False)), set(doubles(top, deep=True))


def doubles(value, deep):
    names = [k for k, _ in value] if isinstance(value, Pairs) else []
    shown = {name: name.encode(errors="backslashreplace").decode() for name in names}
    yield from (f"{shown[name]} (repeated)" for name in names if names.count(name) > 1)
    for item in value if deep and isinstance(value, list) else ():
        yield from doubles(item[1] if isinstance(value, Pairs) else item, deep)


def strangers(value, kind, ci, path):
    if isinstance(kind, t.ListType) and isinstance(value, list):
        for item in value:
            yield from strangers(item, kind.element_type, ci, f"{path}element.")
    if isinstance(kind, t.MapType) and isinstance(value, dict):
        for item in value.values():
            yield from strangers(item, kind.value_type, ci, f"{path}value.")
    if isinstance(kind, t.StructType) and isinstance(value, dict):
        for key, item in value.items():
            same = [f for f in kind.fields if f.name == key]
            alike = [f for f in kind.fields if ci and folded(f.name) == folded(key)]
            for column in (same or alike)[:1]:
                yield from strangers(item, column.field_type, ci, f"{path}{column.name}.")
            if not same and not alike:
                yield path + key


class Times(NamedTuple):
    """The unit of numbers, if it is declared, and whether offsets are refused in `timestamp`."""

    unit: str | None = None
    is_local: bool = False


PLAIN_TIMES = Times()


def one(v, kind, ci, times=PLAIN_TIMES):
    if isinstance(kind, t.StructType):
        if not isinstance(v, dict):
            raise NotCoercible
        v = renamed(v, [f.name for f in kind.fields], ci)
        out = {}
        for f in kind.fields:
            item = v.get(f.name)
            if item is None and f.required:
                raise NotCoercible
            out[f.name] = None if item is None else one(item, f.field_type, ci, times)
        return out
    if isinstance(kind, t.ListType):
        if not isinstance(v, list) or (kind.element_required and any(x is None for x in v)):
            raise NotCoercible
        return [None if x is None else one(x, kind.element_type, ci, times) for x in v]
    if isinstance(kind, t.MapType):
        if not isinstance(v, dict) or (kind.value_required and any(x is None for x in v.values())):
            raise NotCoercible
        pairs = [
            (one(k, kind.key_type, ci, times), None if x is None else one(x, kind.value_type, ci, times))
            for k, x in v.items()
        ]
        if len({k for k, _ in pairs}) != len(pairs):
            raise NotCoercible
        return pairs
    return primitive(v, kind, times)


def primitive(v, kind, times):
    name = str(kind)
    text = isinstance(v, str) and not isinstance(v, Text)
    if name in ("int", "long"):
        bits = 32 if name == "int" else 64
        return whole(numeric(v), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if name in ("float", "double"):
        return floating(v, name, text)
    if name.startswith("decimal"):
        scaled = numeric(v) * 10**kind.scale
        limit = 10**kind.precision - 1
        return whole(scaled, -limit, limit)
    if name == "boolean":
        if isinstance(v, bool):
            return v
        if text and v.lower() in ("true", "false"):
            return v.lower() == "true"
        raise NotCoercible
    if name == "string":
        result = v if isinstance(v, str) else write(v)
        if any(0xD800 <= ord(c) <= 0xDFFF for c in result):
            raise NotCoercible
        return str(result)
    if name in ("binary", "uuid") or name.startswith("fixed"):
        if not text:
            raise NotCoercible
        return uuid_bytes(v) if name == "uuid" else base64_bytes(v, kind)
    if name == "variant":
        if not in_variant(v):
            raise NotCoercible
        return v
    return temporal(v, name, text, times)


def floating(v, name, text):
    if text and v in ("NaN", "Infinity", "+Infinity", "-Infinity"):
        return float(v)
    numeric(v)
    result = float(v)
    whole = int(v.partition(".")[0]) if re.fullmatch(r"[+-]?[0-9]+(\.0*)?", v) else None
    if whole is not None and not math.isinf(result) and int(result) != whole:
        raise NotCoercible
    if name == "float" and not math.isinf(result):
        try:
            result = struct.unpack("f", struct.pack("f", result))[0]
        except OverflowError:
            raise NotCoercible from None
        if whole is not None and result != whole:
            raise NotCoercible
    if math.isinf(result):
        raise NotCoercible
    return result


def base64_bytes(v, kind):
    if not re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", v) or len(v) % 4 or v.rstrip("=") == "" != v:
        raise NotCoercible
    result = base64.b64decode(v)
    if str(kind) != "binary" and len(result) != len(kind):
        raise NotCoercible
    return result


def uuid_bytes(v):
    if not re.fullmatch(r"[0-9a-fA-F-]+", v) or len(v.replace("-", "")) != 32:
        raise NotCoercible
    if "-" in v and [len(p) for p in v.split("-")] != [8, 4, 4, 4, 12]:
        raise NotCoercible
    return bytes.fromhex(v.replace("-", ""))


def numeric(v):
    if not isinstance(v, str) or not re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", v):
        raise NotCoercible
    exponent = re.search(r"[eE]([-+]?[0-9]+)$", v)
    if exponent and abs(int(exponent[1])) > 5000:
        raise NotCoercible
    return Fraction(re.sub(r"^([-+]?)\.", r"\g<1>0.", re.sub(r"\.(?=$|[eE])", "", v)))


def whole(number, low, high):
    if number.denominator != 1 or not low <= number <= high:
        raise NotCoercible
    return int(number)


def temporal(v, name, text, times):
    per_second = 10**9 if name.endswith("_ns") else 10**6
    if name == "date":
        if not text:
            return whole(numeric(v), FIRST_DAY, LAST_DAY)
        return whole(instant(v) / 86400, FIRST_DAY, LAST_DAY)
    if name == "time":
        if not text:
            return whole(numeric(v) * 1000, 0, 86400 * 10**6 - 1)
        found = re.fullmatch(r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?", v, re.ASCII)
        if not found:
            raise NotCoercible
        return whole(clock(*found.groups()) * 10**6, 0, 86400 * 10**6 - 1)
    if text and times.is_local and "tz" not in name and re.search(r"[0-9]{2}:.*([Zz]|[+-][0-9:]{2,6})$", v):
        raise NotCoercible
    try:
        seconds = instant(v) if text else epoch_seconds(numeric(v), times.unit or "ms")
    except NotCoercible:
        if not text or not times.unit:
            raise
        text, seconds = False, epoch_seconds(numeric(v), times.unit)
    if not text and times.unit and not v.lstrip("+-").isdigit() and Decimal(repr(float(v))) == Decimal(v):
        seconds = Fraction(round(seconds * per_second), per_second)
    if not FIRST_DAY * 86400 <= seconds < (LAST_DAY + 1) * 86400:
        raise NotCoercible
    return whole(seconds * per_second, -(2**63), 2**63 - 1)


def epoch_seconds(number, unit):
    if unit == "auto":
        unit = next((name for name, limit in (("s", 11), ("ms", 14), ("us", 17)) if abs(number) < 10**limit), "ns")
    return number / {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]


def in_variant(v):
    """Whether each text is one, and each number a decimal of 38 digits or a double that is it, or is written so."""
    if isinstance(v, dict | list):
        return all(map(in_variant, [*v, *v.values()] if isinstance(v, dict) else v))
    if not isinstance(v, Text):
        return not isinstance(v, str) or not any(0xD800 <= ord(c) <= 0xDFFF for c in v)
    exact = Decimal(v)
    digits, exponent = "".join(map(str, exact.as_tuple().digits)), exact.as_tuple().exponent
    short = digits.rstrip("0")
    for found, scale in ((digits, -exponent), (short, len(short) - len(digits) - exponent)):
        if not exact or (max(len(found), scale) if scale > 0 else len(found) - scale) <= 38:
            return True
    return not math.isinf(float(v)) and exact in (Decimal(float(v)), Decimal(repr(float(v))))


def clock(hour, minute, second, fraction):
    h, m, s = int(hour), int(minute), int(second or 0)
    if h > 23 or m > 59 or s > 59:
        raise NotCoercible
    return Fraction(h * 3600 + m * 60 + s) + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else 0)


def instant(v):
    found = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(?: ?([Zz]|[-+]\d\d(?::?\d\d)?))?)?",
        v,
        re.ASCII,
    )
    if not found:
        raise NotCoercible
    try:
        day = (datetime.date.fromisoformat(found[1]) - datetime.date(1970, 1, 1)).days
    except ValueError:
        raise NotCoercible from None
    seconds = Fraction(day * 86400)
    if found[2]:
        seconds += clock(*found.groups()[1:5])
    zone = found[6]
    if zone and zone not in "Zz":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        if int(digits[2:]) > 59 or int(digits[:2]) * 60 + int(digits[2:]) > 18 * 60:
            raise NotCoercible
        shift = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        seconds -= shift if zone[0] == "+" else -shift
    return seconds


def write(v):
    if isinstance(v, Text):
        return str(v)
    if isinstance(v, dict):
        return "{" + ",".join(json.dumps(k, ensure_ascii=False) + ":" + write(x) for k, x in v.items()) + "}"
    if isinstance(v, list):
        return "[" + ",".join(write(x) for x in v) + "]"
    return json.dumps(v, ensure_ascii=False)
