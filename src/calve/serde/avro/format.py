"""The format `avro`: the plan of a schema, with the compiled core and the reference decoder behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from calve.arrays import RowNumbers, storage_type, with_extensions
from calve.event.typed_schema import described
from calve.serde.avro.core_spec import Core, core_of
from calve.serde.avro.names import renamed
from calve.serde.avro.plan import Compiled, compiled
from calve.serde.avro.reference import MOST_EMPTY, AvroDecodeError, decode, decode_next
from calve.serde.avro.schema import parse_schema
from calve.serde.format import DecodedPart, DecodedValues, DecodePlan, Fault, WriterSchema

__all__ = ["FORMAT", "AvroPlan"]

_NONE = np.zeros(0, np.int64)


class AvroPlan:
    """Decodes values of one Avro schema: the core those that certainly follow it, the reference decoder the others.

    Args:
        how: The steps, and the type of the rows.
    """

    def __init__(self, how: Compiled) -> None:
        self.kind = how.kind
        self._how = how
        self._core: Core | None = core_of(how)
        self.declaration = described(how.kind)

    def decode(self, values: pa.Array, start: int) -> DecodedValues:
        """Decode values; see `calve.serde.format.DecodePlan`."""
        done, rows = self._core.decode(values, start) if self._core else (_NONE, None)
        waiting = np.ones(len(values), bool)
        waiting[done] = False
        slow, faults = self._slow(values, np.flatnonzero(waiting), start)
        parts = [] if rows is None or not len(done) else [DecodedPart(done, rows, self.declaration)]
        return DecodedValues(_merged(parts + slow), faults)

    def block(self, data: bytes, count: int) -> tuple[pa.Array, str]:
        """Decode values that follow each other, as in a file; return the rows, and why they end early (empty: not)."""
        done, at, rows = self._core.block(data, count) if self._core else (0, 0, None)
        parts = [] if rows is None else [rows]
        slow: list[dict[str, Any]] = []
        reason, empty = "", 0
        while done + len(slow) < count and not reason:
            try:
                row, end = decode_next(data, at, self._how.step, self.kind)
                empty += end == at
                reason = "it has too many rows without bytes" if empty > MOST_EMPTY else ""
            except AvroDecodeError as fault:
                reason = str(fault)
            else:
                slow.append(row)
                at = end
        if not reason and at < len(data):
            reason = f"a block has {len(data) - at} bytes more than its rows"
        parts += [self._made(slow)] if slow or not parts else []
        return pa.concat_arrays(parts), reason

    def _made(self, rows: list[dict[str, Any]]) -> pa.Array:
        return with_extensions(pa.array(rows, storage_type(self.kind)), self.kind)

    def _slow(self, values: pa.Array, at: RowNumbers, start: int) -> tuple[list[DecodedPart], list[Fault]]:
        rows: list[dict[str, Any]] = []
        numbers, faults = [], []
        for row in at.tolist():
            try:
                rows.append(decode(values[row].as_py(), start, self._how.step, self.kind))
                numbers.append(row)
            except AvroDecodeError as fault:
                faults.append(Fault(row, str(fault)))
        if not rows:
            return [], faults
        return [DecodedPart(np.array(numbers, np.int64), self._made(rows), self.declaration)], faults


def _merged(parts: list[DecodedPart]) -> list[DecodedPart]:
    """Join the rows of both decoders, in order."""
    if len(parts) < 2:
        return parts
    at = np.concatenate([part.at for part in parts])
    order = np.argsort(at, kind="stable")
    rows = pa.concat_arrays([part.rows for part in parts]).take(pa.array(order))
    return [DecodedPart(at[order], rows, parts[0].declaration)]


class _Avro:
    def plan(
        self, schema: WriterSchema, reader: WriterSchema | None, earlier: Callable[[], Sequence[WriterSchema]]
    ) -> DecodePlan:
        writer = parse_schema(schema)
        if reader is not None:
            return AvroPlan(compiled(writer, parse_schema(reader)))
        written = renamed(writer, lambda: [parse_schema(schema_text) for schema_text in earlier()])
        return AvroPlan(compiled(written, written))


FORMAT = _Avro()
