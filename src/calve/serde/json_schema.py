"""The format `json_schema`: JSON after the registry's header, and the types of its fields from a JSON Schema.

The values are read as any JSON: strictly, and exactly as the table's columns say. The schema declares the columns of
new tables and new fields (https://json-schema.org, drafts 4 to 2020-12, as far as it describes types).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from calve.arrays import pack_texts, text_buffers
from calve.event.envelope.schema import text_of
from calve.serde.format import DecodedPart, DecodedValues, DecodePlan, Fault, UnsupportedSchemaError, WriterSchema
from calve.serde.json_schema_check import SchemaCheck
from calve.serde.json_schema_types import row_of

__all__ = ["CHECKED_FORMAT", "FORMAT"]


class _JsonPlan:
    """Takes the text of values, with the declaration of a schema.

    Args:
        declaration: The types of the fields.
        check: The constraints of the schema; None: they are not checked.
    """

    def __init__(self, declaration: str, check: SchemaCheck | None) -> None:
        self._declaration = declaration
        self._check = check

    def decode(self, values: pa.Array, start: int) -> DecodedValues:
        """Return the values without their first bytes; see `calve.serde.format.DecodePlan`."""
        texts, faults = _without_header(values, start), list[Fault]()
        at = np.arange(len(values), dtype=np.int64)
        if self._check:
            reasons = map(self._check.fault, texts.to_pylist())
            faults = [Fault(row, reason) for row, reason in enumerate(reasons) if reason is not None]
        if faults:
            at = np.delete(at, [fault.row for fault in faults])
            texts = texts.take(pa.array(at))
        return DecodedValues([DecodedPart(at, texts, self._declaration)], faults)


def _without_header(values: pa.Array, start: int) -> pa.Array:
    """Cut the first bytes off, with one copy of all bytes."""
    if not start or not len(values):
        return values.cast(pa.binary())
    offsets, data = text_buffers(values)
    first, last = int(offsets[0]), int(offsets[-1])
    keep = np.ones(last - first, bool)
    for number in range(start):
        keep[offsets[:-1] - first + number] = False
    texts = np.frombuffer(data, np.uint8)[first:last][keep].tobytes()
    ends = offsets - first - start * np.arange(len(offsets))
    return pack_texts(ends.astype(np.int32), texts)


class _JsonSchema:
    def __init__(self, is_checked: bool = False) -> None:
        self._is_checked = is_checked

    def plan(
        self, schema: WriterSchema, reader: WriterSchema | None, earlier: Callable[[], Sequence[WriterSchema]]
    ) -> DecodePlan:
        chosen = reader or schema
        try:
            documents = {name: json.loads(reference.text) for name, reference in chosen.references}
            field = row_of(json.loads(chosen.text), documents)
            check = SchemaCheck(chosen) if self._is_checked else None
        except ValueError:
            raise UnsupportedSchemaError("it is not JSON") from None
        except RecursionError:
            raise UnsupportedSchemaError("it is nested too deeply") from None
        return _JsonPlan(text_of(field), check)


FORMAT = _JsonSchema()
CHECKED_FORMAT = _JsonSchema(is_checked=True)
"""Rejects values that break a constraint of their schema."""
