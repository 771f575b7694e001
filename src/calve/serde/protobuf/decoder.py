"""Decodes the messages of one type to columns: with the compiled core, and what it leaves with the exact decoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.compiled import events as core
from calve.event.typed_schema import described
from calve.serde.format import DecodedPart, DecodedValues, Fault
from calve.serde.protobuf import exact
from calve.serde.protobuf.core_spec import message_spec
from calve.serde.protobuf.plan import MessageColumn, arrow_type, with_text_timestamps
from calve.serde.protobuf.wire import ProtobufDecodeError

__all__ = ["MessageDecoder"]


class MessageDecoder:
    """Decodes messages of one type. For one thread.

    Timestamps are microseconds. Messages with a timestamp that has parts of one become a part of their own, whose
    timestamps are texts, so that no digit is lost before the table's column decides.

    Args:
        message: The columns.
    """

    def __init__(self, message: MessageColumn) -> None:
        texts = with_text_timestamps(message)
        self._types = [_Type(message)] if texts == message else [_Type(message), _Type(texts)]

    def decode(self, values: pa.Array, start: int) -> DecodedValues:
        """Decode binary values, whose messages begin at the byte `start`."""
        decoded, waiting = DecodedValues([], []), np.arange(len(values))
        for kind, decode in [(message_type, message_type.fast) for message_type in self._types] + [
            (message_type, message_type.exact) for message_type in self._types
        ]:
            if not len(waiting):
                break
            some = values if len(waiting) == len(values) else values.take(pa.array(waiting))
            rows, at, reasons = decode(some, start)
            if len(at):
                decoded.parts.append(DecodedPart(waiting[at], rows, kind.declaration))
            waiting = np.delete(waiting, at)
        if len(waiting):
            decoded.faults.extend(map(Fault, waiting.tolist(), reasons))
        return decoded


_Decoded = tuple[pa.StructArray, RowNumbers, Sequence[str]]
"""Messages, their positions, and the reasons of the others."""


class _Type:
    """The columns of messages, with one of the types that timestamps can have."""

    def __init__(self, message: MessageColumn) -> None:
        self._message = message
        self._kind = arrow_type(message)
        schema = pa.schema(list(self._kind))
        self.declaration = described(self._kind)
        self._core = core.values("protobuf", message_spec(message), schema)

    def fast(self, values: pa.Array, start: int) -> _Decoded:
        """Decode what the core decodes."""
        decoded = self._core.decode(values, start) if self._core else None
        if decoded is None:
            return pa.array([], self._kind), np.zeros(0, np.int64), ()
        return decoded[1].to_struct_array(), decoded[0], ()

    def exact(self, values: pa.Array, start: int) -> _Decoded:
        """Decode messages one by one."""
        rows, at, reasons = [], [], []
        for number, value in enumerate(values):
            try:
                rows.append(exact.decode(value.as_py()[start:], self._message))
                at.append(number)
            except ProtobufDecodeError as error:
                reasons.append(str(error))
        return pa.array(rows, self._kind), np.array(at, np.int64), reasons
