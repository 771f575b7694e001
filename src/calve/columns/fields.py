"""Which top-level fields of an event a sink writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec
import pyarrow as pa

__all__ = ["ALL_FIELDS", "Fields"]

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Fields:
    """The fields to write, by their exact names in the event (`include_keys`, `exclude_keys`).

    Attributes:
        include: If not empty, only these.
        exclude: All but these.
    """

    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether a field may be left out."""
        return bool(self.include or self.exclude)

    def __contains__(self, name: str) -> bool:
        return name not in self.exclude and (not self.include or name in self.include)

    def of(self, event: dict[str, _Value]) -> dict[str, _Value]:
        """Return the fields of an event to write, in its order."""
        return {name: value for name, value in event.items() if name in self} if self else event

    def texts(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return JSON objects without the other fields; the values stay unchanged, byte for byte."""
        if not self:
            return texts
        events = (msgspec.json.decode(text, type=dict[str, msgspec.Raw]) for text in texts.to_pylist())
        return pa.chunked_array(
            [pa.array([msgspec.json.encode(self.of(event)).decode() for event in events], pa.string())]
        )


ALL_FIELDS = Fields()
