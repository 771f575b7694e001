"""Decodes one message to Python values: the reference and the substitute of the compiled core; it gives all reasons."""

from __future__ import annotations

from typing import Any

from calve.serde.protobuf.leaves import leaf
from calve.serde.protobuf.plan import SCALARS, MessageColumn
from calve.serde.protobuf.wire import ProtobufDecodeError, Raw, fields, packed, payload, scalar

__all__ = ["decode"]

_SCALAR = (*SCALARS, "enum")
_UNNAMED = object()
"""A number of a closed enum that has no name: an unknown field."""


def decode(data: bytes, column: MessageColumn) -> dict[str, Any]:
    """Return the values of a message by the names of its columns.

    Raises:
        ProtobufDecodeError: The bytes are no message of this type. The text names the field.
    """
    values: dict[str, Any] = {}
    _read(column, data, values)
    return _finished(column.of, values)


def _read(message: MessageColumn, data: bytes, values: dict[str, Any]) -> None:
    """Put the fields of a message to those that were found before: the last scalar counts, messages are joined."""
    for raw in fields(data):
        column = message.by_number.get(raw.number)
        if column is None:
            continue
        try:
            is_set = _put(column, raw, values)
        except ProtobufDecodeError as error:
            raise ProtobufDecodeError(error.args[0], (column.name, *error.path)) from None
        others = [field.name for field in message.of if field.oneof == column.oneof >= 0 and field is not column]
        for name in others if is_set else ():
            values.pop(name, None)


def _put(column: MessageColumn, raw: Raw, values: dict[str, Any]) -> bool:
    """Add a field; return whether it had a value."""
    if column.kind == "list":
        values.setdefault(column.name, []).extend(_elements(column.of[0], raw))
        return True
    if column.kind in _SCALAR:
        value = _scalar(column, raw)
        if value is not _UNNAMED:
            values[column.name] = value
        return value is not _UNNAMED
    data = payload(raw)
    if column.kind == "map":
        key, value = _entry(column, data)
        if value is not _UNNAMED:
            values.setdefault(column.name, {})[key] = value
    elif column.kind == "struct":
        _read(column, data, values.setdefault(column.name, {}))
    else:
        values[column.name] = values.get(column.name, b"") + data
    return True


def _elements(element: MessageColumn, raw: Raw) -> list[Any]:
    if element.kind not in _SCALAR:
        return [_whole(element, payload(raw))]
    values = [_scalar(element, item) for item in packed(raw, element.kind)]
    return [value for value in values if value is not _UNNAMED]


def _entry(column: MessageColumn, data: bytes) -> tuple[Any, Any]:
    values: dict[str, Any] = {}
    key, value = column.of
    for raw in fields(data):
        if raw.number == value.number and value.kind == "enum" and _scalar(value, raw) is _UNNAMED:
            return None, _UNNAMED
        if raw.number in (key.number, value.number):
            _put(column.of[raw.number - 1], raw, values)
    finished = _finished(column.of, values)
    return finished["key"], finished["value"]


def _scalar(column: MessageColumn, raw: Raw) -> Any:
    value = scalar(column.kind, raw)
    if column.enum is None:
        return value
    name = column.enum.names.get(int(value))
    return (_UNNAMED if column.enum.is_closed else str(value)) if name is None else name


def _finished(columns: tuple[MessageColumn, ...], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of all columns; fields that are missing have what their columns say."""
    finished = {}
    for column in columns:
        try:
            finished[column.name] = _value(column, values.get(column.name))
        except ProtobufDecodeError as error:
            raise ProtobufDecodeError(error.args[0], (column.name, *error.path)) from None
    return finished


def _value(column: MessageColumn, value: Any) -> Any:
    if column.kind == "list":
        return value or []
    if column.kind == "map":
        return list((value or {}).items())
    if value is None and column.missing == "required":
        raise ProtobufDecodeError("a required field that is missing")
    if value is None and (column.missing == "null" or column.default is not None):
        return column.default
    if column.kind in _SCALAR:
        return value
    if column.kind == "struct":
        return _finished(column.of, value or {})
    return _whole(column, value or b"")


def _whole(column: MessageColumn, data: bytes) -> Any:
    """Return the value of a message that is not continued."""
    if column.kind == "struct":
        return decode(data, column)
    if column.kind == "wrapper":
        return decode(data, column)["value"]
    return leaf(column.kind, data)
