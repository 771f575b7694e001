"""Reads JSON exactly: numbers keep their text, NaN and infinities are refused, the last of duplicate keys wins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["DEEPEST", "MalformedError", "Number", "decoder", "dump", "parse_object"]

DEEPEST = 250
"""The most levels of objects and arrays in an event: code that visits values is recursive (three calls a level)."""
_TOO_DEEP = f"nested deeper than {DEEPEST} levels"


class Number(str):
    """A JSON number, as it was written."""

    __slots__ = ()


class MalformedError(ValueError):
    """A text that is not a JSON object; the message is a readable reason."""


def _refuse(literal: str) -> NoReturn:
    raise MalformedError(f"{literal} is not JSON")


def decoder(build_object: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None) -> Any:
    """Create a decoder that reads JSON exactly; `build_object` builds objects from their pairs, instead of `dict`."""
    return json.JSONDecoder(
        parse_float=Number, parse_int=Number, parse_constant=_refuse, object_pairs_hook=build_object
    )


_decoder = decoder()
_quote = json.JSONEncoder(ensure_ascii=False).encode


def parse_object(text: bytes | str | None, reads: Any = _decoder) -> dict[str, Any]:
    """Read one event; values are None, bool, str, `Number`, list and dict.

    Args:
        text: The event.
        reads: A decoder from `decoder`.

    Raises:
        MalformedError: With the reason.
    """
    if text is None:
        raise MalformedError("the event has no value")
    try:
        value = _parsed(text.decode() if isinstance(text, bytes) else text, reads)
    except json.JSONDecodeError as error:
        raise MalformedError(f"not JSON: {error.msg} at character {error.pos}{_likely_format(text)}") from None
    except UnicodeDecodeError as error:
        raise MalformedError(f"not UTF-8 at byte {error.start}{_likely_format(text)}") from None
    except RecursionError:
        raise MalformedError(_TOO_DEEP) from None
    if type(value) is not dict:
        raise MalformedError(f"JSON, but {_NOUNS.get(type(value), 'null')} and not an object")
    if _brackets(text) > DEEPEST and _is_deeper(value, DEEPEST):
        raise MalformedError(_TOO_DEEP)
    return value


def _likely_format(text: bytes | str) -> str:
    """Return a hint for a value whose first bytes are those of another format; empty if they are not."""
    start = text if isinstance(text, bytes) else text[:_LONGEST_MAGIC].encode("utf-8", "replace")
    if _UTF_16.match(start):
        return "; this looks like UTF-16, and only UTF-8 is read: convert it, e.g. with iconv -f UTF-16 -t UTF-8"
    return next((f"; {hint}" for magic, hint in _MAGIC if start.startswith(magic)), "")


def _brackets(text: bytes | str) -> int:
    return text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether objects and arrays are nested deeper than a number of levels."""
    level = [value]
    for _ in range(levels):
        below = [item for container in level for item in (container.values() if type(container) is dict else container)]
        level = [item for item in below if type(item) is dict or type(item) is list]
        if not level:
            return False
    return True


def _parsed(text: str, reads: Any) -> Any:
    try:
        value, end = reads.scan_once(text, 0)
    except StopIteration:
        end = -1
    return value if end == len(text) else reads.decode(text)  # spaces around it, or not JSON


_MAGIC = (
    (
        b"\0",
        "this looks like a value with a schema id, which only topics of Kafka may have: their serde_format is then "
        "avro, protobuf or json_schema, or debezium with `schema`",
    ),
    (b"\x1f\x8b", "this looks like gzip"),
    (b"\x28\xb5\x2f\xfd", "this looks like zstd"),
    (b"BZh", "this looks like bzip2, which is not read: use gzip or zstd"),
    (b"\xfd7zX", "this looks like xz, which is not read: use gzip or zstd"),
    (b"Obj\x01", "this looks like an Avro file"),
    (b"PAR1", "this looks like a Parquet file"),
)
"""The first bytes of other formats, with the hint of a value that begins with them."""
_LONGEST_MAGIC = 4
_UTF_16 = re.compile(rb"\xff\xfe([\[{\s]|\Z)|\xfe\xff\0|[\[{]\0|\0(\Z|[\[{}\]\s](\0|\Z))")
"""The start of JSON in UTF-16, or of a line of it, which was cut after the first byte of a line end."""
_NOUNS = {list: "an array", str: "a string", Number: "a number", bool: "a boolean"}


def dump(value: Any) -> str:
    """Write a parsed value as compact JSON; numbers keep their text."""
    kind = type(value)
    if kind is Number:
        return str(value)
    if kind is dict:
        return "{" + ",".join(f"{_quote(key)}:{dump(item)}" for key, item in value.items()) + "}"
    if kind is list:
        return "[" + ",".join(map(dump, value)) + "]"
    return _quote(value)
