"""The format of Protobuf: values are messages of a `.proto` file, with the message's indexes before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from calve.serde.format import DecodedPart, DecodedValues, Fault, UnsupportedSchemaError, WriterSchema
from calve.serde.protobuf.decoder import MessageDecoder
from calve.serde.protobuf.indexes import by_message
from calve.serde.protobuf.plan import plan
from calve.serde.protobuf.schema import Schema
from calve.serde.protobuf.tokens import ProtoError

__all__ = ["FORMAT", "Protobuf", "parsed"]

_FIRST = (0,)


class Protobuf:
    """Compiles `.proto` files (`serde.format.Format`)."""

    def plan(
        self, schema: WriterSchema, reader: WriterSchema | None, earlier: Callable[[], Sequence[WriterSchema]]
    ) -> _Plan:
        """Compile the plan of a schema; `earlier` is not needed, because fields have numbers.

        Raises:
            UnsupportedSchemaError: It is not proto2 or proto3.
        """
        try:
            return _Plan(parsed(schema), parsed(reader) if reader else None, has_indexes=schema.id >= 0)
        except ProtoError as error:
            raise UnsupportedSchemaError(str(error)) from error


FORMAT = Protobuf()


class _Plan:
    """Decodes the messages of one file.

    Args:
        writer: The file that the indexes count in.
        reader: The file whose messages of the same names are the columns; None: the same.
        has_indexes: Whether indexes are before each message; without them it is the first of the file.
    """

    def __init__(self, writer: Schema, reader: Schema | None, has_indexes: bool) -> None:
        self._writer = writer
        self._reader = reader
        self._has_indexes = has_indexes
        self._decoders: dict[tuple[int, ...], MessageDecoder] = {}

    def decode(self, values: pa.Array, start: int) -> DecodedValues:
        """Decode values (`serde.format.Plan`); each message of the file is one part, or several."""
        decoded = DecodedValues([], [])
        if self._has_indexes:
            groups = by_message(values, start, decoded.faults)
        else:
            groups = {(_FIRST, start): np.arange(len(values))}
        for (indexes, first), at in groups.items():
            try:
                decoder = self._decoder(indexes)
            except ProtoError as error:
                decoded.faults.extend(Fault(row, str(error)) for row in at.tolist())
                continue
            some = decoder.decode(values if len(at) == len(values) else values.take(pa.array(at)), first)
            decoded.parts.extend(DecodedPart(at[part.at], part.rows, part.declaration) for part in some.parts)
            decoded.faults.extend(Fault(int(at[fault.row]), fault.reason) for fault in some.faults)
        return decoded

    def _decoder(self, indexes: tuple[int, ...]) -> MessageDecoder:
        if indexes not in self._decoders:
            message, schema = self._writer.message(indexes), self._reader or self._writer
            self._decoders[indexes] = MessageDecoder(plan(schema, schema.named(message.name)))
        return self._decoders[indexes]


def parsed(schema: WriterSchema) -> Schema:
    """Return a schema with all that it refers to.

    Raises:
        ProtoError: A file is not proto2 or proto3.
    """
    files: dict[str, str] = {}
    waiting = list(schema.references)
    while waiting:
        path, file = waiting.pop()
        if files.setdefault(path, file.text) is file.text:
            waiting.extend(file.references)
    return Schema(schema.text, files)
