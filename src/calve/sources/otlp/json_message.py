"""OTLP's JSON as the same message of Protobuf, so that there is one decoder (OTLP 1, "JSON Protobuf Encoding").

Ids are hexadecimal, other bytes Base64; numbers of 64 bits are texts or numbers; unknown fields are passed over.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

__all__ = ["NotOtlpError", "encode"]

_DEEPEST = 100
_BITS_32, _BITS_64 = 32, 64
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_BYTES = [bytes([byte]) for byte in range(256)]
_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class NotOtlpError(ValueError):
    """A body is not such a message; the text says where."""


def encode(signal: str, body: bytes) -> bytes:
    """Return a request as Protobuf.

    Args:
        signal: `traces`, `logs` or `metrics`.
        body: The request as JSON.

    Raises:
        NotOtlpError: It is not JSON, or not this message.
    """
    try:
        request = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotOtlpError(f"{error}") from error
    return _message(signal, request, 0)


class _Field(NamedTuple):
    """A field of a message.

    Attributes:
        tag: The bytes before a value.
        form: The form of its values in `_FORMS`, or the message that they are.
        write: Writes a value; None: it is a message.
    """

    tag: bytes
    form: str
    is_repeated: bool
    has_length: bool
    write: Callable[[Any], bytes] | None


def _message(kind: str, value: Any, depth: int) -> bytes:
    if type(value) is not dict:
        raise NotOtlpError("is not an object")
    if depth > _DEEPEST:
        raise NotOtlpError(f"is nested more than {_DEEPEST} times")
    parts: list[bytes] = []
    fields = _FIELDS[kind]
    for name, given in value.items():
        field = fields.get(name)
        if given is None or field is None:
            continue
        if field.is_repeated and type(given) is not list:
            raise NotOtlpError(f"{name} is not an array")
        try:
            for element in given if field.is_repeated else (given,):
                _write(field, element, depth, parts)
        except NotOtlpError as error:
            raise NotOtlpError(f"{name}{' ' if str(error).startswith('is ') else '.'}{error}") from None
    return b"".join(parts)


def _write(field: _Field, value: Any, depth: int, parts: list[bytes]) -> None:
    """Append a value with its tag."""
    if field.write is None:
        content = _message(field.form, value, depth + 1)
    else:
        try:
            content = field.write(value)
        except (ValueError, TypeError, AttributeError, OverflowError, struct.error) as error:
            raise NotOtlpError(f"is not {_NAMES[field.form]}") from error
    parts += (field.tag, _varint(len(content)), content) if field.has_length else (field.tag, content)


def _varint(number: int) -> bytes:
    if number <= 0x7F:
        return _BYTES[number]
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _integer(value: Any, bits: int, is_signed: bool) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value) and len(value) <= _BITS_64:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    if not least <= value <= most:
        raise ValueError
    return value


def _whole(bits: int, is_signed: bool) -> Callable[[Any], bytes]:
    return lambda value: _varint(_integer(value, bits, is_signed) & ((1 << _BITS_64) - 1))


def _zigzag(value: Any) -> bytes:
    number = _integer(value, _BITS_32, is_signed=True)
    return _varint((number << 1 ^ number >> (_BITS_32 - 1)) & ((1 << _BITS_32) - 1))


def _fixed(form: str, bits: int, is_signed: bool) -> Callable[[Any], bytes]:
    return lambda value: struct.pack(form, _integer(value, bits, is_signed))


def _double(value: Any) -> bytes:
    if isinstance(value, str):
        if value in _NOT_FINITE:
            return struct.pack("<d", _NOT_FINITE[value])
        if not _NUMBER.fullmatch(value):
            raise ValueError
        value = float(value)
    if isinstance(value, bool) or not math.isfinite(value):
        raise ValueError
    return struct.pack("<d", value)


def _bool(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise TypeError
    return b"\1" if value else b"\0"


def _base64(value: Any) -> bytes:
    text = value.replace("-", "+").replace("_", "/").rstrip("=")
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


_FORMS: dict[str, tuple[int, Callable[[Any], bytes]]] = {
    "text": (_LENGTH, lambda value: str.encode(value)),
    "id": (_LENGTH, bytes.fromhex),
    "bytes": (_LENGTH, _base64),
    "bool": (_VARINT, _bool),
    "int64": (_VARINT, _whole(_BITS_64, is_signed=True)),
    "uint64": (_VARINT, _whole(_BITS_64, is_signed=False)),
    "uint32": (_VARINT, _whole(_BITS_32, is_signed=False)),
    "enum": (_VARINT, _whole(_BITS_32, is_signed=True)),
    "sint32": (_VARINT, _zigzag),
    "fixed64": (_FIXED64, _fixed("<Q", _BITS_64, is_signed=False)),
    "sfixed64": (_FIXED64, _fixed("<q", _BITS_64, is_signed=True)),
    "fixed32": (_FIXED32, _fixed("<I", _BITS_32, is_signed=False)),
    "double": (_FIXED64, _double),
}
"""For each form of a field: its wire type, and what writes a value."""
_NAMES = {
    **dict.fromkeys(("int64", "sfixed64"), "a whole number of 64 bits"),
    **dict.fromkeys(("uint64", "fixed64"), "a whole number of 64 bits without a sign"),
    **dict.fromkeys(("uint32", "fixed32"), "a whole number of 32 bits without a sign"),
    **dict.fromkeys(("enum", "sint32"), "a whole number of 32 bits"),
    "text": "a text", "id": "a hexadecimal id", "bytes": "Base64", "bool": "true or false", "double": "a number",
}  # fmt: skip

_POINT = "startTimeUnixNano:2:fixed64 timeUnixNano:3:fixed64"
_MESSAGES = {
    "traces": "resourceSpans:1:*ResourceSpans",
    "ResourceSpans": "resource:1:Resource scopeSpans:2:*ScopeSpans schemaUrl:3:text",
    "ScopeSpans": "scope:1:Scope spans:2:*Span schemaUrl:3:text",
    "logs": "resourceLogs:1:*ResourceLogs",
    "ResourceLogs": "resource:1:Resource scopeLogs:2:*ScopeLogs schemaUrl:3:text",
    "ScopeLogs": "scope:1:Scope logRecords:2:*LogRecord schemaUrl:3:text",
    "metrics": "resourceMetrics:1:*ResourceMetrics",
    "ResourceMetrics": "resource:1:Resource scopeMetrics:2:*ScopeMetrics schemaUrl:3:text",
    "ScopeMetrics": "scope:1:Scope metrics:2:*Metric schemaUrl:3:text",
    "Resource": "attributes:1:*KeyValue droppedAttributesCount:2:uint32",
    "Scope": "name:1:text version:2:text attributes:3:*KeyValue droppedAttributesCount:4:uint32",
    "KeyValue": "key:1:text value:2:AnyValue",
    "AnyValue": "stringValue:1:text boolValue:2:bool intValue:3:int64 doubleValue:4:double arrayValue:5:ArrayValue "
    "kvlistValue:6:KeyValueList bytesValue:7:bytes",
    "ArrayValue": "values:1:*AnyValue",
    "KeyValueList": "values:1:*KeyValue",
    "Span": "traceId:1:id spanId:2:id traceState:3:text parentSpanId:4:id flags:16:fixed32 name:5:text kind:6:enum "
    "startTimeUnixNano:7:fixed64 endTimeUnixNano:8:fixed64 attributes:9:*KeyValue droppedAttributesCount:10:uint32 "
    "events:11:*Event droppedEventsCount:12:uint32 links:13:*Link droppedLinksCount:14:uint32 status:15:Status",
    "Event": "timeUnixNano:1:fixed64 name:2:text attributes:3:*KeyValue droppedAttributesCount:4:uint32",
    "Link": "traceId:1:id spanId:2:id traceState:3:text attributes:4:*KeyValue droppedAttributesCount:5:uint32 "
    "flags:6:fixed32",
    "Status": "message:2:text code:3:enum",
    "LogRecord": "timeUnixNano:1:fixed64 observedTimeUnixNano:11:fixed64 severityNumber:2:enum severityText:3:text "
    "body:5:AnyValue attributes:6:*KeyValue droppedAttributesCount:7:uint32 flags:8:fixed32 traceId:9:id spanId:10:id "
    "eventName:12:text",
    "Metric": "name:1:text description:2:text unit:3:text gauge:5:Gauge sum:7:Sum histogram:9:Histogram "
    "exponentialHistogram:10:ExponentialHistogram summary:11:Summary metadata:12:*KeyValue",
    "Gauge": "dataPoints:1:*NumberPoint",
    "Sum": "dataPoints:1:*NumberPoint aggregationTemporality:2:enum isMonotonic:3:bool",
    "Histogram": "dataPoints:1:*HistogramPoint aggregationTemporality:2:enum",
    "ExponentialHistogram": "dataPoints:1:*ExponentialPoint aggregationTemporality:2:enum",
    "Summary": "dataPoints:1:*SummaryPoint",
    "NumberPoint": f"attributes:7:*KeyValue {_POINT} asDouble:4:double asInt:6:sfixed64 exemplars:5:*Exemplar "
    "flags:8:uint32",
    "HistogramPoint": f"attributes:9:*KeyValue {_POINT} count:4:fixed64 sum:5:double bucketCounts:6:*fixed64 "
    "explicitBounds:7:*double exemplars:8:*Exemplar flags:10:uint32 min:11:double max:12:double",
    "ExponentialPoint": f"attributes:1:*KeyValue {_POINT} count:4:fixed64 sum:5:double scale:6:sint32 "
    "zeroCount:7:fixed64 positive:8:Buckets negative:9:Buckets flags:10:uint32 exemplars:11:*Exemplar min:12:double "
    "max:13:double zeroThreshold:14:double",
    "Buckets": "offset:1:sint32 bucketCounts:2:*uint64",
    "SummaryPoint": f"attributes:7:*KeyValue {_POINT} count:4:fixed64 sum:5:double quantileValues:6:*Quantile "
    "flags:8:uint32",
    "Quantile": "quantile:1:double value:2:double",
    "Exemplar": "filteredAttributes:7:*KeyValue timeUnixNano:2:fixed64 asDouble:3:double asInt:6:sfixed64 spanId:4:id "
    "traceId:5:id",
}
"""The fields of each message: `<name>:<number>:<form>`, with `*` a list."""


def _declared(texts: Iterable[str]) -> dict[str, _Field]:
    """Return the fields of a message by their names in JSON and in Protobuf."""
    fields = {}
    for name, number, text in (text.split(":") for text in texts):
        form = text.removeprefix("*")
        wire, write = _FORMS.get(form, (_LENGTH, None))
        field = _Field(_varint(int(number) << 3 | wire), form, text.startswith("*"), wire == _LENGTH, write)
        fields[name] = fields[re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)] = field
    return fields


_FIELDS = {kind: _declared(text.split()) for kind, text in _MESSAGES.items()}
