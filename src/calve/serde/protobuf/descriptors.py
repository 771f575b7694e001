"""What a `.proto` file declares: messages, their fields, and enums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["Enum", "File", "MessageField", "MessageType"]


@dataclass(frozen=True)
class MessageField:
    """A field of a message.

    Attributes:
        name: Its name in the file.
        number: Its number on the wire.
        kind: A scalar type's name, `group`, or the name of a message or an enum as it is written.
        label: `optional`, `required`, `repeated` or empty. A map has `repeated`.
        default: What `[default = …]` says: a number, a boolean, bytes, or the name of an enum's value; None: nothing.
        oneof: The oneof that it belongs to, or empty.
        key: The type of a map's keys; empty for all other fields.
        doc: The comment before it, or behind it in its line.
        tags: Those of Confluent's option `field_meta`.
    """

    name: str
    number: int
    kind: str
    label: str = ""
    default: int | float | bytes | str | None = None
    oneof: str = ""
    key: str = ""
    doc: str = field(default="", compare=False)
    tags: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Enum:
    """An enum.

    Attributes:
        name: Its full name.
        values: Names and numbers in the order of the file, where several names may have one number.
        is_closed: Whether a number without a name counts as an unknown field (proto2).
    """

    name: str
    values: tuple[tuple[str, int], ...]
    is_closed: bool

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The first name of each number."""
        return {number: name for name, number in reversed(self.values)}


@dataclass(frozen=True)
class MessageType:
    """A message.

    Attributes:
        name: Its full name.
        fields: Its fields in the order of the file.
        messages: The messages that are declared in it, in the order of the file, which the wire format's indexes count.
        enums: The enums that are declared in it.
        is_proto3: Whether a field without a label has a default instead of a presence.
    """

    name: str
    fields: tuple[MessageField, ...]
    messages: tuple[MessageType, ...]
    enums: tuple[Enum, ...]
    is_proto3: bool


@dataclass
class File:
    """A file; the parser fills it.

    Attributes:
        package: The prefix of its full names, or empty.
        is_proto3: Its syntax.
        imports: The paths that it imports.
        messages: Its messages in the order of the file.
        enums: Its enums.
    """

    package: str = ""
    is_proto3: bool = False
    imports: list[str] = field(default_factory=list)
    messages: list[MessageType] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
