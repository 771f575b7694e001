"""Reads an XML element as entries of an event, as Data Prepper does.

Documents with a DTD are refused: their entities could grow without bounds, or name files.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from calve.processors.fields import Event

__all__ = ["InvalidXmlError", "xml_entries"]

_DEEPEST = 200


class InvalidXmlError(ValueError):
    """A text is no XML that is read."""


def xml_entries(text: str) -> Event:
    """Return the attributes and elements inside of the outermost element, by name.

    An element with nothing but text is that text; one with attributes or elements is an object, with its text below
    the empty key. Of attributes and elements with the same name the value is a list. Prefixes of namespaces are
    left out.

    Raises:
        InvalidXmlError: It is no well-formed element, has a DTD, or is nested too deeply.
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise InvalidXmlError(expat.ErrorString(error.code)) from None
    root = reader.result
    return root if isinstance(root, dict) else {"": root} if root else {}


class _Reader:
    """Collects elements, from the outermost to the current one."""

    def __init__(self) -> None:
        self.result: Any = None
        self._open: list[Event] = []
        self._texts: list[list[str]] = []

    def doctype(self, *declaration: object) -> None:
        raise InvalidXmlError("it has a DTD, which is not read")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= _DEEPEST:
            raise InvalidXmlError(f"its elements are nested more than {_DEEPEST} deep")
        entries: Event = {}
        for key, value in attributes.items():
            if key != "xmlns" and not key.startswith("xmlns:"):
                _add(entries, _local(key), value)
        self._open.append(entries)
        self._texts.append([])

    def text(self, text: str) -> None:
        self._texts[-1].append(text)

    def end(self, name: str) -> None:
        entries, text = self._open.pop(), "".join(self._texts.pop())
        value: Any = entries
        if not entries:
            value = text
        elif text.strip():
            entries[""] = text
        if not self._open:
            self.result = value
            return
        _add(self._open[-1], _local(name), value)


def _add(entries: Event, name: str, value: Any) -> None:
    """Add a value; those with the same name become a list."""
    if name not in entries:
        entries[name] = value
    elif type(entries[name]) is list:
        entries[name].append(value)
    else:
        entries[name] = [entries[name], value]


def _local(name: str) -> str:
    return name.rpartition(":")[2]
