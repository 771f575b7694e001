"""The functions of the compiled core, over Arrow arrays (`core/src/border.rs` is their other side)."""

from __future__ import annotations

import ctypes
import json
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.compiled.library import load

__all__ = [
    "HINT",
    "Converted",
    "Converter",
    "Observed",
    "Observer",
    "check",
    "converter",
    "failures",
    "observer",
    "pick",
]

_ARRAY_BYTES = 80
"""Of a `struct ArrowArray`."""
_Rows = npt.NDArray[np.int64]
_failures: list[str] = []
HINT = "Please report it, with the events if you can. CALVE_CORE=off turns the core off"


class Converted(NamedTuple):
    """What became of events.

    Attributes:
        columns: The rows of those that certainly fit, in order.
        rows: Their positions, ascending; all others are for the exact converter.
        strange: The positions of those of them that have fields without a column.
        sets: Of each of these, the number of its set of such fields.
        fields: All sets, as dotted paths.
    """

    columns: pa.RecordBatch
    rows: _Rows
    strange: _Rows
    sets: _Rows
    fields: list[tuple[str, ...]]


class Observed(NamedTuple):
    """What fields events have.

    Attributes:
        fields: As JSON values, see `Node.from_json`.
        left: The positions of events that it does not tell of: only the exact reader knows whether they are JSON.
        is_all: Whether nothing was forgotten, as happens where a nested value and another one meet.
    """

    fields: Any
    left: _Rows
    is_all: bool


class Converter:
    """Converts events for one table; remembers in which order fields come. For one thread.

    Args:
        handle: The core's converter.
        schema: The Arrow schema of the rows.
    """

    def __init__(self, handle: int, schema: pa.Schema) -> None:
        self._handle = handle
        self._schema = schema
        weakref.finalize(self, _freeing("calve_converter_free"), handle)

    def convert(self, events: pa.Array) -> Converted | None:
        """Convert an array of binary or string; None where the core failed, which is a mistake in it."""
        kinds = (self._schema, pa.int64(), pa.int64(), pa.int64(), pa.large_list(pa.large_string()))
        found = _call("calve_convert", events, kinds, self._handle)
        if found is None:
            return None
        columns, rows, strange, sets, fields = found[1]
        paths = [tuple(each) for each in fields.to_pylist()]
        return Converted(columns, rows.to_numpy(), strange.to_numpy(), sets.to_numpy(), paths)


class Observer:
    """Finds the fields of events, or those that a table has no columns for. For one thread."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        weakref.finalize(self, _freeing("calve_observer_free"), handle)

    def observe(self, events: pa.Array) -> Observed | None:
        """Look at an array of binary or string; None where the core failed, which is a mistake in it."""
        found = _call("calve_observe", events, (pa.large_binary(), pa.int64()), self._handle)
        if found is None:
            return None
        code, (fields, left) = found
        return Observed(json.loads(fields[0].as_py()), left.to_numpy(), code == 0)


def converter(spec: Sequence[str], schema: pa.Schema) -> Converter | None:
    """Make a converter; None without the core, or of a table that it does not convert (see `core/src/spec.rs`)."""
    handle = _made("calve_converter_new", spec)
    return Converter(handle, schema) if handle else None


def observer(spec: Sequence[str]) -> Observer | None:
    """Make an observer; None without the core, or of a table that it does not know."""
    handle = _made("calve_observer_new", spec)
    return Observer(handle) if handle else None


def failures() -> int:
    """Return how often the core failed in this process since this was asked last."""
    count = len(_failures)
    del _failures[:count]
    return count


def check(events: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Say which events are JSON objects that every reader takes for the same; None without the core.

    Their objects repeat no key, and no text is half a surrogate pair. The exact reader knows of the others.
    """
    found = _call("calve_check", events, (pa.bool_(),)) if load() else None
    return None if found is None else found[1][0].to_numpy(zero_copy_only=False)


def pick(events: pa.Array, names: Sequence[str]) -> tuple[pa.Int32Array, pa.Array] | None:
    """Return for each event the number of a text that holds some of its fields alone, and these texts (large string).

    None without the core. Of a field that is repeated the first one counts.
    """
    text = "\0".join(names).encode()
    found = _call("calve_pick", events, (pa.int32(), pa.large_string()), text, len(text)) if load() else None
    return None if found is None else (found[1][0], found[1][1])


def _library() -> Any:
    library = load()
    assert library is not None
    return library


def _freeing(function: str) -> Any:
    free = _library()[function]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    return free


def _made(function: str, spec: Sequence[str]) -> int | None:
    library = load()
    if library is None or any("\0" in text for text in spec):
        return None
    try:
        text = "\0".join(spec).encode()
    except UnicodeEncodeError:
        return None
    make = library[function]
    make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_size_t]
    handle: int | None = make(text, len(text))
    return handle


def _call(
    function: str, events: pa.Array, kinds: Sequence[pa.DataType | pa.Schema], *first: int | bytes
) -> tuple[int, list[Any]] | None:
    """Call a function with events; return its number, and the arrays (of a schema: record batches) that it made."""
    given, out = (ctypes.create_string_buffer(number * _ARRAY_BYTES) for number in (1, len(kinds)))
    start = ctypes.addressof(out)
    events._export_to_c(ctypes.addressof(given))
    is_wide = pa.types.is_large_binary(events.type) or pa.types.is_large_string(events.type)
    call = _library()[function]
    call.argtypes = [*(ctypes.c_void_p for _ in first), ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p]
    code = call(*first, ctypes.addressof(given), is_wide, start)
    if code < 0:
        _failures.append(function)
        if _library().calve_core_is_checked():
            raise RuntimeError(f"The compiled core failed in {function}")
        return None
    makers = [pa.RecordBatch if isinstance(kind, pa.Schema) else pa.Array for kind in kinds]
    return code, [
        maker._import_from_c(start + number * _ARRAY_BYTES, kind)
        for number, (maker, kind) in enumerate(zip(makers, kinds, strict=True))
    ]
