"""Reads and changes events field by field; values that nobody reads stay as they were written, byte for byte.

An event is a dict. A value of it is `msgspec.Raw` (JSON text), until a processor reads it: then an object or array is
opened one level, so that numbers never lose digits. New values are `Raw`, str, bool, None, int, dict or list.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import Any, Final

import msgspec

from calve.errors import SettingsError
from calve.event.exact_json import Number

__all__ = [
    "MISSING",
    "Event",
    "FieldKey",
    "compact_json_of",
    "decode_event",
    "decode_list",
    "encode",
    "encoded",
    "json_of",
    "key_of",
    "keys",
    "number",
    "opened",
    "text_of",
]

Event = dict[str, Any]


class _Missing(enum.Enum):
    MISSING = "missing"


MISSING: Final[Any] = _Missing.MISSING
"""Stands for the value of a field that an event lacks."""
decode_event = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
encode = msgspec.json.Encoder().encode
_SPACE = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', re.DOTALL)
"""A string, or white space outside of strings."""
_WORDS: dict[bytes, bool | None] = {b"true": True, b"false": False, b"null": None}


def opened(value: Any) -> Any:
    """Return a value one level open: dict or list of values, str, `Number`, bool, None, or `MISSING`."""
    if type(value) is int:
        return Number(value)
    if type(value) is not msgspec.Raw:
        return value
    text = bytes(value)
    match text[:1]:
        case b'"':
            return _decode_text(text)
        case b"{":
            return decode_event(text)
        case b"[":
            return decode_list(text)
        case b"t" | b"f" | b"n":
            return _WORDS[text]
    return Number(text.decode())


def number(text: str) -> msgspec.Raw:
    """Return a number with exactly these digits, valid as JSON."""
    return msgspec.Raw(text.encode())


def json_of(value: Any) -> str:
    """Return a value as JSON text."""
    return value if type(value) is Number else encode(value).decode()


def compact_json_of(value: Any) -> str:
    """Return a value as JSON text without white space; numbers and strings stay as they are written."""
    return _SPACE.sub(lambda match: match[1] or "", json_of(value))


def text_of(value: Any) -> str:
    """Return a value as text: a string itself, null as nothing, anything else as JSON."""
    value = opened(value)
    if value is None or value is MISSING:
        return ""
    return str(value) if isinstance(value, str) else json_of(value)


@functools.lru_cache(4096)
def key_of(text: str) -> FieldKey:
    """Return the key of a text of an event; the last ones are remembered."""
    return FieldKey(text)


def encoded(name: str) -> str:
    """Return the text of a key that is one name, whatever characters it has."""
    return name.replace("~", "~0").replace("/", "~1")


class FieldKey:
    """The key of a field, as in Data Prepper: `name`, `/name`, `object/name`, `list/0`; `~1` stands for a slash.

    Attributes:
        text: As it is written.
        parts: The names on the way to the field.
    """

    __slots__ = ("parts", "text")

    def __init__(self, text: str) -> None:
        inner = text.removeprefix("/").removesuffix("/")
        self.text = text
        self.parts = tuple(part.replace("~1", "/").replace("~0", "~") for part in inner.split("/"))

    @staticmethod
    def checked(text: str) -> FieldKey:
        """Return a key of the settings.

        Raises:
            SettingsError: It is empty.
        """
        if not text.strip(" /"):
            raise SettingsError("a key must not be empty", step="settings", hint="Write the name of a field")
        return FieldKey(text)

    @property
    def flat(self) -> str | None:
        """The name of a top-level field; None if the field is inside of another one."""
        return self.parts[0] if len(self.parts) == 1 else None

    @property
    def dotted(self) -> str:
        """The field for messages: its names joined by dots."""
        return ".".join(self.parts)

    def get(self, event: Event) -> Any:
        """Return the value of the field, or `MISSING`."""
        if len(self.parts) == 1:
            return event.get(self.parts[0], MISSING)
        holder = self._holder(event)
        return MISSING if holder is None else _item(holder, self.parts[-1])

    def put(self, event: Event, value: Any) -> bool:
        """Set the field; objects on the way are created. Return False if a value on the way is no object."""
        holder: Any = event
        for part in self.parts[:-1]:
            inside = _open_item(holder, part)
            if inside is MISSING or inside is None:
                inside = {}
                if not _set(holder, part, inside):
                    return False
            holder = inside
        return _set(holder, self.parts[-1], value)

    def pop(self, event: Event) -> Any:
        """Remove the field; return its value, or `MISSING`."""
        holder = self._holder(event)
        if type(holder) is dict:
            return holder.pop(self.parts[-1], MISSING)
        value = MISSING if holder is None else _item(holder, self.parts[-1])
        if value is not MISSING:
            del holder[int(self.parts[-1])]
        return value

    def _holder(self, event: Event) -> Any:
        """Return the object or array that has the field, opened in its place; None if there is none."""
        holder: Any = event
        for part in self.parts[:-1]:
            holder = _open_item(holder, part)
            if type(holder) is not dict and type(holder) is not list:
                return None
        return holder


def keys(texts: list[str] | tuple[str, ...] | None) -> list[FieldKey]:
    """Return the keys of a list in the settings.

    Raises:
        SettingsError: One is empty.
    """
    return [FieldKey.checked(text) for text in texts or ()]


def _item(holder: Any, part: str) -> Any:
    if type(holder) is dict:
        return holder.get(part, MISSING)
    if type(holder) is list and part.isdecimal() and part.isascii() and len(part) < 10 and int(part) < len(holder):
        return holder[int(part)]
    return MISSING


def _open_item(holder: Any, part: str) -> Any:
    """Return a value one level open, and keep it so in its object or array."""
    value = holder.get(part, MISSING) if type(holder) is dict else _item(holder, part)
    if type(value) is not msgspec.Raw:
        return value
    item = opened(value)
    if type(item) is dict or type(item) is list:
        _set(holder, part, item)
    return item


def _set(holder: Any, part: str, value: Any) -> bool:
    if type(holder) is dict:
        holder[part] = value
        return True
    if _item(holder, part) is MISSING:
        return False
    holder[int(part)] = value
    return True
