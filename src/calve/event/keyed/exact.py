"""Reads the key of one record, and adds its columns to the record's row: the reference of the fast way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from calve.event.envelope.exact import text_of
from calve.event.envelope.logical import render, text_of_scalar
from calve.event.envelope.schema import Field, schema_of
from calve.event.exact_json import MalformedError, Number, parse_object
from calve.event.reject import Code, cut

__all__ = ["ANY", "NUMBERS", "RecordKey", "RefusedKeyError", "read_key", "with_key"]

ANY = ""
"""The kind of a field of a key that no schema declares: its values decide."""
NUMBERS = frozenset({"int8", "int16", "int32", "int64", "float", "double", "decimal", "boolean"})
"""Kinds whose text is that of their JSON."""
_LONGEST_NUMBER = 1_000


class RefusedKeyError(ValueError):
    """A record whose key is of no use; `code`, `field` and the message are those of its reject."""

    def __init__(self, code: Code, field: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.field = field


@dataclass(frozen=True)
class RecordKey:
    """The key of a record.

    Attributes:
        row: Its columns: strings, numbers, booleans and nulls, as `parse_object` returns them.
        schema: A struct of these columns; those that no schema declares are of kind `ANY`.
    """

    row: Mapping[str, Any]
    schema: Field


def read_key(text: str | None, declared: Field | None, column: str) -> RecordKey:
    """Read a key.

    Args:
        text: The key: a JSON object, perhaps with its schema as Kafka Connect writes it, or the text of a single value.
        declared: Its schema, if it was decoded by one: dates and times are texts already.
        column: The column for a single value.

    Raises:
        RefusedKeyError: There is none, or it has no columns.
    """
    if text is None:
        raise RefusedKeyError(Code.NO_KEY, "", "the record has no key, or the topic has key_mode: discard")
    value: Any = text
    if declared is not None and declared.kind in NUMBERS:
        value = {"true": True, "false": False}.get(text, Number(text))
    elif declared.kind == "struct" if declared else text.lstrip().startswith("{"):
        value, declared = _of_object(text, declared)
    if isinstance(value, dict):
        return _of_fields(value, declared)
    if value is None or isinstance(value, list) or (declared and declared.kind in ("array", "map")):
        raise RefusedKeyError(Code.NO_KEY, "", "the record's key is null or an array, and not a value or an object")
    kind = declared or Field("", ANY)
    return RecordKey({column: value}, Field("", "struct", fields=(replace(kind, name=column),)))


def _of_object(text: str, declared: Field | None) -> tuple[Any, Field | None]:
    try:
        value: Any = parse_object(text)
    except MalformedError as error:
        raise RefusedKeyError(Code.NO_KEY, "", f"the record's key is not a JSON object: {error}") from None
    if declared is None and "payload" in value and not value.keys() - {"schema", "payload"}:
        declared = schema_of(value.get("schema"))
        return render(value["payload"], declared), declared
    return value, declared


def _of_fields(row: dict[str, Any], declared: Field | None) -> RecordKey:
    nested = next((name for name, value in row.items() if isinstance(value, (dict, list))), None)
    if nested is not None or not row:
        why = f"the field {cut(nested)} of the record's key is no single value" if row else "the record's key is empty"
        raise RefusedKeyError(Code.NO_KEY, "" if nested is None else nested, why)
    kinds = {field.name: field for field in declared.fields} if declared else {}
    return RecordKey(row, Field("", "struct", fields=tuple(kinds.get(name, Field(name, ANY)) for name in row)))


def with_key(event: bytes | None, key: RecordKey) -> bytes:
    """Return the row of a record with its key's columns; those that it has already are of the same value.

    Args:
        event: A JSON object; anything else is returned as it is. None: a record without a value.
        key: Its key.

    Raises:
        RefusedKeyError: A column has another value in the row.
    """
    try:
        row = {} if event is None else parse_object(event)
    except MalformedError:
        return event or b""
    for name, value in key.row.items():
        if row.get(name) is not None and not _is_same(row[name], value):
            why = f"the record's key and its value differ in {cut(name)}"
            raise RefusedKeyError(Code.KEY_MISMATCH, name, why)
    own = {name: value for name, value in row.items() if value is not None or name not in key.row}
    return text_of({**key.row, **own}).encode()


def _is_same(value: Any, key: Any) -> bool:
    """Return whether two parsed values are the same; a text may be that of a number or boolean."""
    first, second = text_of_scalar(value), text_of_scalar(key)
    if first is None or first == second:
        return first is not None
    if type(value) is not Number or type(key) is not Number or max(len(value), len(key)) > _LONGEST_NUMBER:
        return False
    try:
        return Decimal(value) == Decimal(key)
    except InvalidOperation:  # an exponent of more than 18 digits
        return False
