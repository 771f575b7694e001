"""The format `avro_key`: keys of records as text. A record is JSON; any other type is its value, without quotes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa

from calve.event.duckdb_session import one_array
from calve.event.envelope.schema import field_of, text_of
from calve.event.json_text import to_json
from calve.serde.avro.format import AvroPlan
from calve.serde.avro.plan import compiled
from calve.serde.avro.schema import RecordField, Type, parse_schema
from calve.serde.format import DecodedValues, DecodePlan, WriterSchema

__all__ = ["FORMAT"]

_NAME = "key"
_BEFORE, _AFTER = len(f'{{"{_NAME}":'), -len("}")


class _KeyPlan:
    """Decodes keys to texts.

    Args:
        keys: Decodes them to columns.
        is_wrapped: Whether a record was put around the value: Avro has no bytes for it.
    """

    def __init__(self, keys: AvroPlan, is_wrapped: bool) -> None:
        self._keys = keys
        self._is_wrapped = is_wrapped
        self._declaration = text_of(field_of(keys.declaration).fields[0]) if is_wrapped else keys.declaration

    def decode(self, values: pa.Array, start: int) -> DecodedValues:
        """Decode keys; see `calve.serde.format.DecodePlan`."""
        decoded = self._keys.decode(values, start)
        parts = [part._replace(rows=self._texts(part.rows), declaration=self._declaration) for part in decoded.parts]
        return decoded._replace(parts=parts)

    def _texts(self, rows: pa.StructArray) -> pa.Array:
        texts = one_array(to_json(pa.Table.from_struct_array(rows)))
        return pa.array(map(_value, texts.to_pylist()), pa.binary()) if self._is_wrapped else texts


def _value(text: bytes) -> bytes | None:
    """Return the text of the only field of an object: a string without quotes, None for null."""
    value = text[_BEFORE:_AFTER]
    if value.startswith(b'"'):
        return msgspec.json.decode(value, type=str).encode()
    return None if value == b"null" else value


class _AvroKey:
    def plan(
        self, schema: WriterSchema, reader: WriterSchema | None, earlier: Callable[[], Sequence[WriterSchema]]
    ) -> DecodePlan:
        key_type = parse_schema(schema)
        is_wrapped = key_type.kind != "record"
        kind = Type("record", fields=(RecordField(_NAME, key_type),)) if is_wrapped else key_type
        return _KeyPlan(AvroPlan(compiled(kind, kind)), is_wrapped)


FORMAT = _AvroKey()
