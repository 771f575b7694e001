"""The cheap processors on typed rows, column by column: no row needs a text where its columns tell all.

What depends on more, such as a condition or a type that would have to be converted, is left to the events' texts
(`processors.program`), which are the reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from calve.processors.step import ProcessorStep

__all__ = ["TypedProgram"]

_BLANKS = "".join(map(chr, range(0x21)))
_LONG = 1 << 63
_PLAIN = frozenset(("put", "copy", "rename", "point", "delete", "select", "lower", "upper", "trim", "convert"))
_SAME: dict[str, tuple[pa.DataType, Callable[[pa.DataType], bool]]] = {
    "integer": (pa.int32(), lambda kind: kind in (pa.int8(), pa.int16(), pa.int32())),
    "long": (pa.int64(), pa.types.is_signed_integer),
    "double": (pa.float64(), pa.types.is_float64),
    "boolean": (pa.bool_(), pa.types.is_boolean),
    "string": (pa.string(), pa.types.is_string),
}
"""What a conversion makes of a column, and of which types no value can change or fail."""


class _UnknownError(Exception):
    """The columns do not tell what becomes of the rows."""


class TypedProgram:
    """All processors of a pipeline, as far as they are known to need only columns.

    Args:
        steps: Their steps.

    Attributes:
        is_known: Whether rows can be processed at all.
    """

    def __init__(self, steps: Sequence[ProcessorStep]) -> None:
        self._steps: list[tuple[Any, ...]] = [getattr(step, "core_step", ()) for step in steps]
        has_condition = any(getattr(step, "when", None) is not None for step in steps)
        self.is_known = not has_condition and all(step and step[0] in _PLAIN for step in self._steps)

    def run(self, rows: pa.StructArray) -> pa.StructArray | None:
        """Return processed rows; None if their texts must be processed."""
        columns = {field.name: (field, array) for field, array in zip(rows.type, rows.flatten(), strict=True)}
        if len(columns) != rows.type.num_fields:
            return None
        processed = _Columns(columns, len(rows))
        try:
            for name, *parts in self._steps:
                getattr(processed, name)(*parts)
        except (_UnknownError, pa.ArrowException, UnicodeError):  # such as a text that is no UTF-8
            return None
        if not processed.by_name:
            return None
        fields = [field.with_name(name) for name, (field, _) in processed.by_name.items()]
        return pa.StructArray.from_arrays([array for _, array in processed.by_name.values()], fields=fields)


class _Columns:
    """Columns while the steps, one method each, change them."""

    def __init__(self, by_name: dict[str, tuple[pa.Field, pa.Array]], rows: int) -> None:
        self.by_name = by_name
        self._rows = rows

    def put(self, key: Any, overwrites: bool, text: str) -> None:
        if self._is_free(key, overwrites):
            value = json.loads(text)
            if type(value) not in (str, int, float, bool) or (type(value) is int and not -_LONG <= value < _LONG):
                raise _UnknownError
            array = pa.repeat(pa.scalar(value), self._rows)
            self.by_name[key.flat] = pa.field(key.flat, array.type), array

    def copy(self, source: Any, key: Any, overwrites: bool) -> None:
        if source.flat in self.by_name and self._is_free(key, overwrites):
            self.by_name[key.flat] = self.by_name[source.flat]

    def rename(self, source: Any, key: Any, overwrites: bool) -> None:
        if source.flat in self.by_name and self._is_free(key, overwrites):
            self.by_name[key.flat] = self.by_name.pop(source.flat)

    def point(self, source: Any, key: Any, overwrites: bool) -> None:
        if source.flat not in self.by_name:
            raise _UnknownError
        self.copy(source, key, overwrites)

    def delete(self, keys: Sequence[Any]) -> None:
        for key in keys:
            self.by_name.pop(key.flat, None)

    def select(self, keys: Sequence[Any]) -> None:
        self.by_name = {key.flat: self.by_name[key.flat] for key in keys if key.flat in self.by_name}

    def lower(self, keys: Sequence[Any]) -> None:
        self._change(keys, lambda array: _cased(array, pc.ascii_lower, str.lower))

    def upper(self, keys: Sequence[Any]) -> None:
        self._change(keys, lambda array: _cased(array, pc.ascii_upper, str.upper))

    def trim(self, keys: Sequence[Any]) -> None:
        self._change(keys, lambda array: pc.utf8_trim(array, characters=_BLANKS))

    def convert(self, key: Any, kind: str) -> None:
        if key.flat in self.by_name:
            field, array = self.by_name[key.flat]
            target, is_same = _SAME[kind]
            if not is_same(array.type):
                raise _UnknownError
            self.by_name[key.flat] = field.with_type(target), array.cast(target)

    def _is_free(self, key: Any, overwrites: bool) -> bool:
        return overwrites or key.flat not in self.by_name

    def _change(self, keys: Sequence[Any], change: Callable[[pa.Array], pa.Array]) -> None:
        for key in keys:
            if key.flat in self.by_name:
                field, array = self.by_name[key.flat]
                if not pa.types.is_string(array.type):
                    raise _UnknownError
                self.by_name[key.flat] = field, change(array)


def _cased(texts: pa.Array, of_ascii: Callable[[pa.Array], pa.Array], of_any: Callable[[str], str]) -> pa.Array:
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return of_ascii(texts)
    encoded = texts.dictionary_encode()
    changed = [of_any(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(changed, pa.string()).take(encoded.indices)
