"""A `.proto` file with all that it imports: finds messages by index, and types by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calve.serde.protobuf.descriptors import Enum, File, MessageType
from calve.serde.protobuf.syntax import parse
from calve.serde.protobuf.tokens import ProtoError
from calve.serde.protobuf.well_known import WELL_KNOWN

__all__ = ["Schema"]

_MOST_INDEXES = 33
"""Of one message: protoc allows 32 levels of messages that are declared in each other."""


class Schema:
    """A file and its imports.

    Args:
        text: The file.
        imports: The texts of the files that it imports, directly or not, by path. Well-known files may be missing.

    Raises:
        ProtoError: A file is not proto2 or proto3.
    """

    def __init__(self, text: str, imports: Mapping[str, str]) -> None:
        self._file = parse(text)
        self._types: dict[str, MessageType | Enum] = {}
        self._add(self._file)
        waiting, seen = list(self._file.imports), set[str]()
        while waiting:
            path = waiting.pop()
            imported = imports.get(path) or WELL_KNOWN.get(path)
            if path in seen or imported is None:
                continue  # a type that is missing then is reported where a field has it
            seen.add(path)
            file = parse(imported)
            self._add(file)
            waiting += file.imports

    def message(self, indexes: Sequence[int]) -> MessageType:
        """Return a message by Confluent's indexes: its place in the file, then in the message around it.

        Raises:
            ProtoError: There is none.
        """
        message: MessageType | None = None
        for index in indexes[:_MOST_INDEXES]:
            messages = self._file.messages if message is None else message.messages
            if not 0 <= index < len(messages):
                message = None
                break
            message = messages[index]
        if message is None or len(indexes) > _MOST_INDEXES:
            index_text = ", ".join(map(str, indexes[:_MOST_INDEXES]))
            raise ProtoError(f"The schema has no message with the indexes [{index_text}]")
        return message

    def indexes(self, name: str) -> tuple[int, ...]:
        """Return Confluent's indexes of a message of the file by its full name; empty: the first message.

        Raises:
            ProtoError: The file declares none of this name.
        """
        if not name and self._file.messages:
            return (0,)
        messages, path = tuple(self._file.messages), list[int]()
        while outer := [at for at, message in enumerate(messages) if f"{name}.".startswith(f"{message.name}.")]:
            path.append(outer[0])
            if messages[outer[0]].name == name:
                return tuple(path)
            messages = messages[outer[0]].messages
        raise ProtoError(f"The file declares no message {name}" if name else "The file declares no message")

    def named(self, name: str) -> MessageType:
        """Return a message by its full name.

        Raises:
            ProtoError: There is none.
        """
        message = self._types.get(name)
        if not isinstance(message, MessageType):
            raise ProtoError(f"The schema has no message {name}")
        return message

    def resolve(self, name: str, scope: str) -> MessageType | Enum:
        """Return the type that a name means within a message: the innermost one, as in C++.

        Raises:
            ProtoError: No file that was imported declares it.
        """
        if name.startswith("."):
            resolved = self._types.get(name[1:])
        else:
            parts = scope.split(".")
            scopes = (".".join([*parts[:count], name]) for count in range(len(parts), -1, -1))
            resolved = next((self._types[full] for full in scopes if full in self._types), None)
        if resolved is None:
            raise ProtoError(f"Message {scope} has a field of type {name}, which no imported file declares")
        return resolved

    def _add(self, file: File) -> None:
        waiting: list[MessageType] = list(file.messages)
        for enum in file.enums:
            self._types.setdefault(enum.name, enum)
        while waiting:
            message = waiting.pop()
            self._types.setdefault(message.name, message)
            self._types.update((enum.name, enum) for enum in message.enums)
            waiting += message.messages
