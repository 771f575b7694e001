"""Decodes one envelope at a time, strictly: the reference of the compiled core, and its fallback."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from calve.event.envelope.documents import DocumentError, has_document, row_of
from calve.event.envelope.logical import render, whole, with_defaults
from calve.event.envelope.placeholder import Placeholder
from calve.event.envelope.schema import Field, row_schema, schema_of
from calve.event.envelope.shape import EnvelopeShape
from calve.event.exact_json import MalformedError, dump, parse_object
from calve.event.reject import Code, cut
from calve.event.validate_json import without_half_surrogates

__all__ = ["RefusedEnvelopeError", "RequestedAttributes", "RowChange", "decode", "shape_schema", "text_of"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_WHOLE = "set REPLICA IDENTITY FULL, or complete row images (binlog_row_image=FULL)"
_NO_PLACEHOLDER = Placeholder("")


class RefusedEnvelopeError(ValueError):
    """An envelope that cannot be applied; `code` and the message are those of its reject."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class RequestedAttributes:
    """What decoding returns beside the rows.

    Attributes:
        metadata: The requested attributes.
        keys: Columns that may be in a table's key: an update that changes one becomes a delete and an insert.
        full_rows: Whether rows of a table have no key: an update becomes an `update_before` and an `update_after`, and
            a delete has the whole row.
    """

    metadata: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    full_rows: bool = False


@dataclass(frozen=True)
class RowChange:
    """One change: the operation (`insert`, `update` or `delete`), the row, its metadata, its schema or None."""

    operation: str
    row: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    schema: Field | None = None


def decode(shape: EnvelopeShape, event: bytes, key: str | None, wanted: RequestedAttributes) -> list[RowChange]:
    """Decode one envelope; return nothing if it describes no row.

    Args:
        shape: Its format.
        event: Its text.
        key: The record's key, for deletes whose envelope has no row.
        wanted: What to return beside the row.

    Raises:
        RefusedError: It is not an envelope, or cannot be applied.
    """
    if event.strip() == b"null":
        return []
    try:
        envelope, schema = _unwrapped(parse_object(event), shape)
    except MalformedError as error:
        raise RefusedEnvelopeError(Code.MALFORMED, str(error)) from None
    if envelope is None:
        return []
    if shape.is_plain:
        return [RowChange("insert", _payload(envelope, schema), schema=schema)]
    word = _at(envelope, shape.operation)
    if not isinstance(envelope, dict) or type(word) is not str:
        raise RefusedEnvelopeError(Code.MALFORMED, f"not a {shape.title} envelope: it has no text at {shape.operation}")
    if word in shape.silent:
        return []
    if word not in shape.words:
        why = shape.refused.get(word) or f"{cut(word)!r} at {shape.operation} is not an operation of {shape.title}"
        raise RefusedEnvelopeError(Code.UNKNOWN_OPERATION, why)
    metadata = {name: _attribute(envelope, shape, name) for name in sorted(wanted.metadata & shape.metadata.keys())}
    changes = _changes(shape, envelope, schema, (shape.words[word], key), wanted)
    return [RowChange(operation, row, metadata, schema) for operation, row, schema in changes]


def _changes(
    shape: EnvelopeShape,
    envelope: dict[str, Any],
    schema: Field | None,
    operation_and_key: tuple[str, str | None],
    wanted: RequestedAttributes,
) -> list[tuple[str, dict[str, Any], Field | None]]:
    operation, key = operation_and_key
    if shape.wrapped and has_document(envelope, operation):
        if wanted.full_rows and operation != "insert":
            raise RefusedEnvelopeError(Code.NO_KEY, "documents of MongoDB have the key _id: identifier_columns: [_id]")
        try:
            return [(operation, row_of(envelope, operation, _key_values(key)[0]), None)]
        except DocumentError as error:
            raise RefusedEnvelopeError(Code.NO_KEY if operation == "delete" else Code.MALFORMED, str(error)) from None
    before = _row(_at(envelope, shape.before), schema, shape.placeholder)
    if operation == "delete" and shape.whole_before:
        if wanted.full_rows and not _is_whole(before, _at(envelope, shape.before)):
            raise RefusedEnvelopeError(Code.NO_KEY, f"the delete has no whole row at {shape.before}: {_WHOLE}")
        return [(operation, *((before, schema) if before is not None else _key_row(key)))]
    after = _row(_at(envelope, shape.after), schema, shape.placeholder)
    if after is None:
        another = "" if _at(envelope, shape.after) is None else ", but another value"
        raise RefusedEnvelopeError(Code.MALFORMED, f"the {operation} has no row at {shape.after}{another}")
    if operation == "update" and before is not None:
        old = before if shape.whole_before else {**after, **before}
        is_moved = any(name in after and old.get(name) is not None and old[name] != after[name] for name in wanted.keys)
        if wanted.full_rows and _is_whole(before, _at(envelope, shape.before)):
            unsent = {name: old[name] for name in _at(envelope, shape.after) if name not in after and name in old}
            first = "delete" if is_moved else "update_before"
            return [(first, old, schema), ("update_after", {**after, **unsent}, schema)]
        if is_moved:
            return [("delete", old, schema), (operation, after, schema)]
    return [(operation, after, schema)]


def _is_whole(row: Mapping[str, Any] | None, sent: Any) -> bool:
    """Return whether a row has a value for each field that was sent: none is a placeholder."""
    return row is not None and all(name in row for name in sent)


def _payload(payload: Any, schema: Field | None) -> dict[str, Any]:
    row = _row(payload, schema)
    if row is None:
        raise RefusedEnvelopeError(Code.MALFORMED, "its payload is a single value, not a row: no struct, no object")
    return row


def _unwrapped(value: dict[str, Any], shape: EnvelopeShape) -> tuple[Any, Field | None]:
    """Return the envelope, and the schema of its rows if it has one."""
    if not shape.wrapped or "payload" not in value or value.keys() - {"schema", "payload"}:
        if shape.is_plain:
            hint = "read such objects with serde_format: json"
            raise RefusedEnvelopeError(Code.MALFORMED, f"it does not consist of `schema` and `payload`; {hint}")
        return value, None
    return value["payload"], shape_schema(shape, value.get("schema"))


def shape_schema(shape: EnvelopeShape, schema: Any) -> Field | None:
    """Return the schema of the rows of a format, from the schema beside its payload; None if it has none."""
    if not shape.is_plain:
        return row_schema(schema)
    row = schema_of(schema, has_defaults=True)
    return row and with_defaults(row)


def _row(value: Any, schema: Field | None, placeholder: Placeholder = _NO_PLACEHOLDER) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    values = {name: field for name, field in value.items() if not placeholder.is_in_place_of(field)}
    rendered = render(values, schema)
    return rendered if isinstance(rendered, dict) else values


def _key_row(key: str | None) -> tuple[dict[str, Any], Field | None]:
    value, schema = _key_values(key)
    if not value:
        raise RefusedEnvelopeError(Code.NO_KEY, "the delete has neither an old row nor a record key with fields")
    return value, schema


def _key_values(key: str | None) -> tuple[dict[str, Any], Field | None]:
    schema = None
    try:
        value = parse_object(key) if key is not None else {}
    except MalformedError:
        value = {}
    if "payload" in value and not value.keys() - {"schema", "payload"}:
        schema = schema_of(value.get("schema"))
        value = _row(value["payload"], schema) or {}
    return value, schema


def _at(value: Any, path: str) -> Any:
    for name in path[1:].split("/"):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _attribute(envelope: dict[str, Any], shape: EnvelopeShape, name: str) -> Any:
    attribute = shape.metadata[name]
    value = _at(envelope, attribute.path)
    if attribute.kind != pa.int64():
        return None if value is None else without_half_surrogates(value if type(value) is str else dump(value))
    number = whole(value)
    return number if number is not None and -(2**63) <= number < 2**63 else None


def text_of(row: Mapping[str, Any]) -> str:
    """Write a row as JSON; half a surrogate pair, which UTF-8 cannot encode, becomes an escape."""
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", dump(dict(row)))
