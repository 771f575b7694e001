"""The protocol of formats whose values have a schema: a schema becomes a plan, a plan decodes values to columns.

`decoder.Decoder` finds the schema of each value, in the registry or in the settings, and calls the plan of each schema
once for a batch. A format knows nothing of the registry, of Kafka, or of the batches of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from calve.arrays import RowNumbers

__all__ = [
    "DecodePlan",
    "DecodedPart",
    "DecodedValues",
    "Fault",
    "SerdeFormat",
    "UnsupportedSchemaError",
    "WriterSchema",
]


@dataclass(frozen=True)
class WriterSchema:
    """A schema that values were written by.

    Attributes:
        text: As the registry has it: JSON, or a `.proto` file.
        id: Its number in the registry; -1: given in the settings.
        kind: The registry's name of the format: AVRO, JSON, PROTOBUF.
        references: The schemas that it refers to, by the names that it uses, each after those that it refers to itself.
        tags: The registry's metadata of it: patterns of fields, each with their tags.
    """

    text: str
    id: int = -1
    kind: str = "AVRO"
    references: tuple[tuple[str, WriterSchema], ...] = ()
    tags: tuple[tuple[str, tuple[str, ...]], ...] = ()


class UnsupportedSchemaError(Exception):
    """A schema cannot be used; the message is the reason, e.g. which type is recursive. Its events are rejected."""


class Fault(NamedTuple):
    """A value that does not follow its schema: its position, and the reason as a short sentence without values."""

    row: int
    reason: str


class DecodedPart(NamedTuple):
    """Decoded values that share a type.

    Attributes:
        at: Their positions in the input, ascending.
        rows: A struct for each of them, with no null struct; its field names become columns. Or, for a format whose
            values are JSON, their texts (binary).
        declaration: The types of the fields (`event.typed_schema.declaration`); `declared` makes it of a struct.
    """

    at: RowNumbers
    rows: pa.Array
    declaration: str


class DecodedValues(NamedTuple):
    """What became of values: each one is in exactly one part, or has a fault."""

    parts: list[DecodedPart]
    faults: list[Fault]


class DecodePlan(Protocol):
    """Decodes values that were written by one schema. For one thread of an executor."""

    def decode(self, values: pa.Array, start: int) -> DecodedValues:
        """Decode values.

        Args:
            values: Binary, without nulls, each at least `start` bytes long.
            start: The first byte of each value that belongs to the format; those before it are the registry's.
        """
        ...


class SerdeFormat(Protocol):
    """One format."""

    def plan(
        self, schema: WriterSchema, reader: WriterSchema | None, earlier: Callable[[], Sequence[WriterSchema]]
    ) -> DecodePlan:
        """Compile the plan of a schema; called once for each schema in a process.

        Args:
            schema: The schema that the values were written by.
            reader: The schema whose fields are the columns; None: `schema` itself.
            earlier: Returns the earlier versions of the schema's subject, oldest first.

        Raises:
            UnsupportedSchemaError: Calve cannot read values of this schema.
        """
        ...
