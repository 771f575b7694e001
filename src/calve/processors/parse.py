"""Processors that parse JSON and CSV texts in a field."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import msgspec

from calve.processors.events import copied_event
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, compact_json_of, decode_event, keys, opened
from calve.processors.key_names import normalized_key, replace_keys
from calve.processors.step import ChangeStep, ProcessorError, ProcessorStep, SplitStep
from calve.settings.option import option

__all__ = ["DEPTH", "ParseCsv", "ParseJson", "ParseText", "with_text_below"]

DEPTH = "Objects that are nested deeper than so many levels stay JSON text; 0: all levels are parsed."
"""The meaning of the option `depth`."""
_WHEN = "A condition; only events for which it is true are parsed."
_TAGS = "Tags of events that cannot be parsed; they continue. Without tags they become dead letters."
_SKIP: Literal["skip", "skip_silently"] | None = None


@dataclass(frozen=True)
class ParseText:
    """Parses an object in a string; its entries become entries of the event."""

    makes_fields: ClassVar[bool] = True

    source: str = option("message", "The key of the string.", check=FieldKey.checked)
    destination: str | None = option(None, "The key of the parsed object; without it its entries go to the root.")
    pointer: str | None = option(
        None,
        "Only the value at this JSON pointer is taken, under its last name (`items/0` as `items.0`), or under the "
        "whole pointer with dots if the root has that name already.",
    )
    overwrite_if_destination_exists: bool = option(True, "Replace existing entries.")
    delete_source: bool = option(False, "Delete the string after it was parsed.")
    tags_on_failure: list[str] = option([], _TAGS)
    handle_failed_events: Literal["skip", "skip_silently"] | None = option(
        _SKIP, "With either value, events that cannot be parsed continue unchanged instead of becoming dead letters."
    )
    parse_when: str | None = option(None, _WHEN, check=condition)

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_failure

    def check(self) -> Iterator[tuple[str, str]]:
        """Require a valid destination."""
        if self.destination is not None and not self.destination.strip(" /"):
            yield "destination", "must not be empty or a slash; leave it out for the root"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        target = None if self.destination is None else FieldKey(self.destination)
        return [
            ChangeStep(
                partial(self._parse, FieldKey(self.source), target),
                compiler.condition(self.parse_when),
                tuple(self.tags_on_failure),
            )
        ]

    def parsed(self, text: str) -> Event:
        """Return the entries of the object in a text; runs in tasks.

        Raises:
            ProcessorError: It is not such a text.
        """
        raise NotImplementedError

    def _parse(self, source: FieldKey, target: FieldKey | None, event: Event) -> bool:
        text = opened(source.get(event))
        if text is MISSING or text is None:
            return False
        try:
            parsed = self.parsed(text if type(text) is str else "")
        except ProcessorError:
            if self.handle_failed_events:
                return False
            raise
        value = self._pointed_at(parsed, event, target is None)
        if self.delete_source:
            source.pop(event)
        if self._put(target, event, value) or target is None:
            return True
        if self.delete_source:
            source.put(event, text)
        if self.handle_failed_events:
            return False
        raise ProcessorError("a value on the way to this key is not an object", target.dotted)

    def _pointed_at(self, parsed: Event, event: Event, is_root: bool) -> Event:
        """Return the value at the pointer with its name; all, if there is no pointer or nothing there."""
        if self.pointer is None or not self.pointer.strip("/"):
            return parsed
        pointer = FieldKey(self.pointer)
        value = pointer.get(parsed)
        if value is MISSING:
            return parsed
        name = ".".join(pointer.parts[-2:] if pointer.parts[-1].isdecimal() else pointer.parts[-1:])
        return {pointer.dotted if is_root and name in event else name: value}

    def _put(self, target: FieldKey | None, event: Event, value: Event) -> bool:
        if target is not None:
            is_kept = not self.overwrite_if_destination_exists and target.get(event) is not MISSING
            return is_kept or target.put(event, value)
        for name, item in value.items():
            if self.overwrite_if_destination_exists or name not in event:
                event[name] = item
        return True


@dataclass(frozen=True)
class ParseJson(ParseText):
    """Parses the JSON object in a string; its entries become entries of the event. Values keep their text."""

    depth: int = option(0, DEPTH, minimum=0, maximum=10)
    normalize_keys: bool = option(False, "Replace characters of keys that Data Prepper does not allow by `_`.")

    def parsed(self, text: str) -> Event:
        """Return the entries of the object."""
        try:
            entries = decode_event(text)
            if self.normalize_keys:
                replace_keys(normalized_key, entries)
            return with_text_below(entries, self.depth) if self.depth else entries
        except (msgspec.DecodeError, RecursionError):
            raise ProcessorError("not the text of a JSON object", FieldKey(self.source).dotted) from None


def with_text_below(entries: Event, depth: int) -> Event:
    """Return entries whose objects below some levels are JSON text without white space; lists stay as they are."""
    for name, value in entries.items():
        if type(value) is dict or (type(value) is msgspec.Raw and bytes(value).startswith(b"{")):
            if depth == 1:
                entries[name] = compact_json_of(value)
            else:
                entries[name] = with_text_below(opened(value), depth - 1)
    return entries


@dataclass(frozen=True)
class ParseCsv:
    """Parses the comma-separated values in a string; each becomes an entry of the event, as text."""

    makes_fields: ClassVar[bool] = True

    source: str = option("message", "The key of the string.", check=FieldKey.checked)
    delimiter: str = option(",", "What separates the values.", minimum=1, maximum=1)
    quote_character: str = option('"', "What surrounds a value that contains the delimiter.", minimum=1, maximum=1)
    column_names: list[str] = option([], "The keys of the values; further ones are `column3`, `column4`, …")
    column_names_source_key: str | None = option(None, "The key of a string with the keys, in the same format.")
    delete_header: bool = option(True, "Delete the string with the keys.")
    delete_source: bool = option(False, "Delete the string after it was parsed.")
    multiline: bool = option(
        False,
        "The string has a line with the keys, and lines with values, each of which becomes an event of its own; a "
        "string of one line stays.",
    )
    normalize_keys: bool = option(False, "Replace characters of keys that Data Prepper does not allow by `_`.")
    csv_when: str | None = option(None, _WHEN, check=condition)

    def check(self) -> Iterator[tuple[str, str]]:
        """Require different characters."""
        if self.delimiter == self.quote_character:
            yield "quote_character", "delimiter and quote_character must differ"
        if self.multiline and (self.column_names or self.column_names_source_key):
            yield "multiline", "takes the keys from the first line; leave column_names and column_names_source_key out"
        keys([self.column_names_source_key] if self.column_names_source_key is not None else [])

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        if self.multiline:
            return [SplitStep(partial(self._rows, FieldKey(self.source)), compiler.condition(self.csv_when))]
        header = FieldKey(self.column_names_source_key) if self.column_names_source_key else None
        return [ChangeStep(partial(self._parse, FieldKey(self.source), header), compiler.condition(self.csv_when))]

    def _parse(self, source: FieldKey, header: FieldKey | None, event: Event) -> bool:
        text = opened(source.get(event))
        if type(text) is not str or not text:
            return False
        values, names = self._values(text, source), self.column_names
        if header is not None and type(title := opened(header.get(event))) is str:
            names = self._values(title, header)
        if self.delete_source:
            source.pop(event)
        if self.delete_header and header is not None:
            header.pop(event)
        self._put(event, names, values)
        return True

    def _rows(self, source: FieldKey, event: Event) -> list[Event] | None:
        text = opened(source.get(event))
        names, *rows = self._read(io.StringIO(text if type(text) is str else "", newline=""), source) or [[]]
        if not rows:
            return None
        if self.delete_source:
            source.pop(event)
        parts = [*(copied_event(event) for _ in rows[1:]), event]
        for part, values in zip(parts, rows, strict=True):
            self._put(part, names, values)
        return parts

    def _put(self, event: Event, names: list[str], values: list[str]) -> None:
        entries: Event = {}
        for number, value in enumerate(values):
            name = names[number] if number < len(names) else f"column{number + 1}"
            key = normalized_key(name) if self.normalize_keys else name
            if key in entries:
                raise ProcessorError("two columns have this key", key)
            entries[key] = value
        event.update(entries)

    def _values(self, text: str, key: FieldKey) -> list[str]:
        return [value for row in self._read([text], key) for value in row]

    def _read(self, lines: Iterable[str], key: FieldKey) -> list[list[str]]:
        """Return the values of each line that is not empty."""
        try:
            rows = csv.reader(lines, delimiter=self.delimiter, quotechar=self.quote_character, strict=True)
            return [row for row in rows if row]
        except csv.Error as error:
            raise ProcessorError(f"not comma-separated values: {error}", key.dotted) from None
