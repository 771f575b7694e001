"""Describes envelope formats and schemas to the compiled core, as texts (`core/src/spec.rs` reads them)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from calve.event.envelope.logical import DECIMAL, EPOCHS, UTC_TEXTS, VARIABLE_DECIMAL, needs_care
from calve.event.envelope.schema import Field
from calve.event.envelope.shape import EnvelopeShape

__all__ = ["OPERATIONS", "format_spec", "meaning_spec"]

OPERATIONS = ("insert", "update", "delete")
"""Operations; the core uses their indexes."""


def format_spec(shape: EnvelopeShape, metadata: Sequence[str], keys: Sequence[str], full_rows: bool) -> list[str]:
    """Return the specification of a format, the requested metadata, and the key columns.

    Where rows have no key (`full_rows`), the core gets inserts only.
    """
    words = {
        word: str(OPERATIONS.index(operation))
        for word, operation in shape.words.items()
        if operation == "insert" or not full_rows
    } | dict.fromkeys(shape.silent, "silent")
    attributes = [shape.metadata[name] for name in metadata]
    return [
        _flag(shape.wrapped),
        _flag(shape.whole_before),
        *_counted(shape.placeholder.texts),
        *_counted(shape.placeholder.firsts),
        str(shape.placeholder.digits),
        *_counted(shape.placeholder.geometries),
        *(shape.before, shape.after, shape.operation),
        str(len(words)),
        *(text for word in words.items() for text in word),
        str(len(attributes)),
        *(text for attribute in attributes for text in (attribute.path, _flag(attribute.kind == pa.int64()))),
        *_counted(keys),
    ]


def meaning_spec(schema: Field | None) -> list[str]:
    """Return the rendering of values by a schema, in the order of `logical.render`."""
    return list(_meaning(schema))


def _meaning(schema: Field | None) -> Iterator[str]:
    if schema is None or not needs_care(schema):
        yield "as-is"
    elif schema.logical == DECIMAL:
        yield from ("decimal", str(schema.scale))
    elif schema.logical == VARIABLE_DECIMAL:
        yield "free-decimal"
    elif schema.logical in EPOCHS:
        logical, unit = EPOCHS[schema.logical]
        yield logical
        if logical != "date":
            yield str(len(str(unit)) - 1)
    elif schema.logical in UTC_TEXTS:
        yield "utc"
    elif schema.kind == "struct":
        fields = {field.name: field for field in schema.fields}
        has_defaults = any(field.default is not None for field in schema.fields)
        yield from ("struct", _flag(has_defaults), str(len(fields)))
        for name, field in fields.items():
            yield name
            yield from _meaning(field)
    elif schema.kind == "array" or (schema.kind == "map" and not schema.pairs):
        yield schema.kind
        yield from _meaning(schema.fields[0])
    else:
        yield "left"


def _counted(texts: Sequence[str]) -> list[str]:
    return [str(len(texts)), *texts]


def _flag(value: bool) -> str:
    return "1" if value else "0"
