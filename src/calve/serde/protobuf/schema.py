"""A `.proto` file with all that it imports: finds messages by index, and types by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calve.serde.protobuf.descriptors import Enum, File, Message
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
        self._types: dict[str, Message | Enum] = {}
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

    def message(self, indexes: Sequence[int]) -> Message:
        """Return a message by Confluent's indexes: its place in the file, then in the message around it.

        Raises:
            ProtoError: There is none.
        """
        found: Message | None = None
        for index in indexes[:_MOST_INDEXES]:
            messages = self._file.messages if found is None else found.messages
            if not 0 <= index < len(messages):
                found = None
                break
            found = messages[index]
        if found is None or len(indexes) > _MOST_INDEXES:
            shown = ", ".join(map(str, indexes[:_MOST_INDEXES]))
            raise ProtoError(f"The schema has no message with the indexes [{shown}]")
        return found

    def named(self, name: str) -> Message:
        """Return a message by its full name.

        Raises:
            ProtoError: There is none.
        """
        found = self._types.get(name)
        if not isinstance(found, Message):
            raise ProtoError(f"The schema has no message {name}")
        return found

    def resolve(self, name: str, scope: str) -> Message | Enum:
        """Return the type that a name means within a message: the innermost one, as in C++.

        Raises:
            ProtoError: No file that was imported declares it.
        """
        if name.startswith("."):
            found = self._types.get(name[1:])
        else:
            parts = scope.split(".")
            scopes = (".".join([*parts[:count], name]) for count in range(len(parts), -1, -1))
            found = next((self._types[full] for full in scopes if full in self._types), None)
        if found is None:
            raise ProtoError(f"Message {scope} has a field of type {name}, which no imported file declares")
        return found

    def _add(self, file: File) -> None:
        waiting: list[Message] = list(file.messages)
        for enum in file.enums:
            self._types.setdefault(enum.name, enum)
        while waiting:
            message = waiting.pop()
            self._types.setdefault(message.name, message)
            self._types.update((enum.name, enum) for enum in message.enums)
            waiting += message.messages
