"""Decodes envelopes with the compiled core, as far as it is certain; `exact` decodes all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.compiled import events as core
from calve.event.columns import SCHEMA
from calve.event.envelope.core_spec import OPERATIONS, format_spec, meaning_spec
from calve.event.envelope.exact import RequestedAttributes, shape_schema
from calve.event.envelope.schema import Field
from calve.event.envelope.shape import OPERATION_ATTRIBUTE, EnvelopeShape
from calve.event.exact_json import parse_object

__all__ = ["FastDecoded", "FastDecoder"]

_REMEMBERED = 1_000
"""The most schemas; then all are forgotten."""


class FastDecoded(NamedTuple):
    """The envelopes that the core decoded.

    Attributes:
        parts: The rows: `at` (the envelope's position), `event` and `json` (the row), `_schema`, and the metadata.
        silent: The positions of envelopes that describe no row.
        left: The positions of all other envelopes.
    """

    parts: list[pa.Table]
    silent: RowNumbers
    left: RowNumbers


class FastDecoder:
    """Decodes the envelopes of one task.

    Args:
        shape: Their format.
        wanted: What to return beside the rows.
        number: Returns the number of a row's schema.
    """

    def __init__(
        self, shape: EnvelopeShape, wanted: RequestedAttributes, number: Callable[[Field | None], int | None]
    ) -> None:
        names = sorted(wanted.metadata & shape.metadata.keys())
        self._spec = format_spec(shape, names, sorted(wanted.keys), wanted.full_rows)
        self._metadata = pa.schema([(name, shape.metadata[name].kind) for name in names])
        self._number = number
        self._shape = shape
        self._numbers: list[int | None] = []
        self._core = core.envelopes(self._spec, self._metadata)

    def decode(self, events: pa.Array, rows: RowNumbers) -> FastDecoded:
        """Decode the events (binary or string) at some positions."""
        parts, silent = [], [np.zeros(0, np.int64)]
        if len(self._numbers) >= _REMEMBERED:
            self._numbers, self._core = [], core.envelopes(self._spec, self._metadata)
        for _ in range(2):  # the second time with the schemas that the first one found
            texts = events if len(rows) == len(events) else events.take(pa.array(rows))
            decoded = self._core.decode(texts) if self._core and len(rows) else None
            if decoded is None:
                break
            parts += [self._part(rows[decoded.rows], decoded)] if len(decoded.rows) else []
            silent.append(rows[decoded.silent])
            rows = np.delete(rows, np.concatenate([decoded.rows, decoded.silent]))
            if not sum(map(self._learn, decoded.unknown)):
                break
        return FastDecoded(parts, np.concatenate(silent), rows)

    def _part(self, at: RowNumbers, decoded: core.EnvelopeOutcome) -> pa.Table:
        operations = pa.DictionaryArray.from_arrays(decoded.operations, OPERATIONS).cast(pa.string())
        numbers = pa.array([*self._numbers, None], pa.int32())  # -1, for none, becomes the last one
        schemas = numbers.take(pa.array(decoded.schemas % len(numbers)))
        columns = {"at": pa.array(at), "event": decoded.texts, "json": decoded.texts, SCHEMA: schemas}
        metadata = dict(zip(self._metadata.names, decoded.metadata, strict=True))
        return pa.table({**columns, OPERATION_ATTRIBUTE: operations, **metadata})

    def _learn(self, schema: bytes) -> bool:
        """Add a row schema to the core; return False if that is impossible."""
        assert self._core is not None
        field = shape_schema(self._shape, parse_object(schema))
        if self._core.learn(schema, meaning_spec(field)) < 0:
            return False
        self._numbers.append(self._number(field))
        return True
