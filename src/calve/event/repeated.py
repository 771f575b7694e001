"""Finds keys that an object of an event repeats: only the last value is written, and users must learn of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from calve.event.exact_json import decoder, parse_object

__all__ = ["RepeatedKeys"]


class RepeatedKeys:
    """Reads events one by one, and reports the repeated keys of the last one. For one thread.

    Attributes:
        top: The keys that the event itself repeats.
    """

    def __init__(self) -> None:
        self.top: list[str] = []
        self._decoder = decoder(self._object)
        self._found: dict[int, tuple[dict[str, Any], list[str]]] = {}

    def parse(self, text: bytes | str | None) -> dict[str, Any]:
        """Read one event as `parse_object` does."""
        self._found.clear()
        return parse_object(text, self._decoder)

    @property
    def has_any(self) -> bool:
        """Whether the last event repeats a key, at any depth."""
        return bool(self._found)

    def within(self, values: Iterable[Any]) -> Iterator[str]:
        """Yield the repeated keys in some values of the event, at any depth."""
        remaining = list(values) if self._found else []
        while remaining:
            value = remaining.pop()
            if type(value) is dict:
                if id(value) in self._found:
                    yield from self._found[id(value)][1]
                remaining += value.values()
            elif type(value) is list:
                remaining += value

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value, self.top = dict(pairs), []  # the event itself is built last
        if len(value) < len(pairs):
            self.top = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
            self._found[id(value)] = (value, self.top)  # the object is kept, so that no other object gets its id
        return value
