"""The functions of the compiled core, over Arrow arrays (`core/src/ffi.rs` is their other side)."""

from __future__ import annotations

import ctypes
import json
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.compiled.library import load

__all__ = [
    "HINT",
    "Deferred",
    "EnvelopeOutcome",
    "FastConverted",
    "FastConverter",
    "FastEnvelopes",
    "Observed",
    "Observer",
    "Program",
    "Ran",
    "Values",
    "as_array",
    "call",
    "converter",
    "envelopes",
    "failures",
    "new_handle",
    "observer",
    "pick",
    "program",
    "releaser",
    "values",
]

_ARRAY_BYTES = 80
"""Of a `struct ArrowArray`."""
_LONG = pa.int64()
_CONVERTED = (_LONG, _LONG, _LONG, pa.large_list(pa.large_string()), _LONG, _LONG, pa.large_binary(), pa.large_binary())
_failures: list[str] = []
HINT = "Please report it, with the events if you can. CALVE_CORE=off turns the core off"


class Deferred(NamedTuple):
    """Values that the core did not take, in columns where that decides nothing else: the exact converter decides them.

    Attributes:
        rows: Their rows in `FastConverted.columns`, where they are null.
        columns: The numbers of their columns.
        texts: The values as JSON (large binary).
    """

    rows: RowNumbers
    columns: RowNumbers
    texts: pa.Array


class FastConverted(NamedTuple):
    """What became of events.

    Attributes:
        columns: The rows of those that certainly fit, in order.
        rows: Their positions, ascending; all others are for the exact converter.
        unknown_rows: The positions of those of them that have fields without a column.
        sets: Of each of these, the number of its set of such fields.
        fields: All sets, as dotted paths.
        deferred: The values of these rows that are still to be decided.
        new: What the fields without a column hold, as JSON values (`Node.from_json`); None where it was not read,
            or where the observer would find more in these rows.
    """

    columns: pa.RecordBatch
    rows: RowNumbers
    unknown_rows: RowNumbers
    sets: RowNumbers
    fields: list[tuple[str, ...]]
    deferred: Deferred
    new: Any


class Observed(NamedTuple):
    """What fields events have.

    Attributes:
        fields: As JSON values, see `Node.from_json`.
        left: The positions of events that need the exact reader: only it knows whether they are JSON.
        is_all: Whether nothing was forgotten, as happens where a nested value and another one meet.
    """

    fields: Any
    left: RowNumbers
    is_all: bool


class EnvelopeOutcome(NamedTuple):
    """What became of envelopes of changes.

    Attributes:
        rows: The positions of those that certainly say what is to be done, ascending.
        texts: Their rows, as JSON (string).
        operations: The numbers of their operations (int32).
        schemas: The numbers of their schemas; -1: none.
        metadata: What was asked for.
        silent: The positions of those that are about no row.
        unknown: The texts of schemas to learn; their envelopes are left.
    """

    rows: RowNumbers
    texts: pa.Array
    operations: pa.Array
    schemas: npt.NDArray[np.int32]
    metadata: pa.RecordBatch
    silent: RowNumbers
    unknown: list[bytes]


class FastEnvelopes:
    """Decodes envelopes of one format; remembers schemas. For one thread.

    Args:
        handle: The core's decoder.
        metadata: The Arrow schema of the metadata.
    """

    def __init__(self, handle: int, metadata: pa.Schema) -> None:
        self._handle = handle
        self._metadata = metadata
        weakref.finalize(self, releaser("calve_envelopes_free"), handle)

    def decode(self, events: pa.Array) -> EnvelopeOutcome | None:
        """Decode an array of binary or string; None where the core failed, which is a mistake in it."""
        kinds = (pa.int64(), pa.string(), pa.int32(), pa.int32(), self._metadata, pa.int64(), pa.large_binary())
        outcome = call("calve_envelopes_decode", events, kinds, self._handle)
        if outcome is None:
            return None
        rows, texts, operations, schemas, metadata, silent, unknown = outcome[1]
        numbers = schemas.to_numpy(), metadata, silent.to_numpy(), unknown.to_pylist()
        return EnvelopeOutcome(rows.to_numpy(), texts, operations, *numbers)

    def learn(self, schema: bytes, meaning: Sequence[str]) -> int:
        """Remember what a schema says of rows; return its number, less than 0 if it cannot be remembered."""
        text = _joined(meaning) or b""
        learn = _library().calve_envelopes_learn
        learn.argtypes = [ctypes.c_void_p, *(ctypes.c_char_p, ctypes.c_size_t) * 2]
        number: int = learn(self._handle, schema, len(schema), text, len(text))
        return number


class FastConverter:
    """Converts events for one table; remembers in which order fields come. For one thread.

    Args:
        handle: The core's converter.
        schema: The Arrow schema of the rows.
    """

    def __init__(self, handle: int, schema: pa.Schema) -> None:
        self._handle = handle
        self._schema = schema
        weakref.finalize(self, releaser("calve_converter_free"), handle)

    def convert(self, events: pa.Array, order: RowNumbers | None = None) -> FastConverted | None:
        """Convert an array of binary or string; None where the core failed, which is a mistake in it.

        Args:
            events: The array.
            order: Convert the events at these positions, in this order; all positions in the result are those in it.
        """
        kinds = (self._schema, *_CONVERTED)
        order = None if order is None else np.ascontiguousarray(order, np.int64)
        given = (0, 0) if order is None else (order.ctypes.data, len(order))
        outcome = call("calve_convert", events, kinds, self._handle, *given)
        if outcome is None:
            return None
        columns, rows, unknown_rows, sets, fields, positions, numbers, texts, new = outcome[1]
        paths = [tuple(path) for path in fields.to_pylist()]
        deferred = Deferred(positions.to_numpy(), numbers.to_numpy(), texts)
        tree = json.loads(new[0].as_py()) if len(new) else None
        return FastConverted(columns, rows.to_numpy(), unknown_rows.to_numpy(), sets.to_numpy(), paths, deferred, tree)


class Observer:
    """Finds the fields of events, or those that a table has no columns for. For one thread."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        weakref.finalize(self, releaser("calve_observer_free"), handle)

    def observe(self, events: pa.Array) -> Observed | None:
        """Look at an array of binary or string; None where the core failed, which is a mistake in it."""
        outcome = call("calve_observe", events, (pa.large_binary(), pa.int64()), self._handle)
        if outcome is None:
            return None
        code, (fields, unread) = outcome
        return Observed(json.loads(fields[0].as_py()), unread.to_numpy(), code == 0)


class Ran(NamedTuple):
    """What became of events.

    Attributes:
        ends: Of each event 0: it has the bytes that it had, 1: it is changed, 2: it is dropped, 3: it is left (int32).
        texts: What the first two kinds are now (binary).
        conditions: The conditions whose values are needed before some of the remaining events can be processed (int64).
        choices: The fields for which they are asked for, as JSON objects (large string).
    """

    ends: pa.Array
    texts: pa.Array
    conditions: pa.Array
    choices: pa.Array


class Program:
    """Processes events by steps that the core knows; remembers the values of conditions. For one thread."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        weakref.finalize(self, releaser("calve_program_free"), handle)

    def run(self, events: pa.Array) -> Ran | None:
        """Process an array of binary or string; None where the core failed, which is a mistake in it."""
        kinds = (pa.int32(), pa.binary(), pa.int64(), pa.large_string())
        outcome = call("calve_program_run", events, kinds, self._handle)
        return None if outcome is None else Ran(*outcome[1])

    def learn(self, condition: int, choices: pa.Array, values: Sequence[bool]) -> None:
        """Tell the values of a condition for some choices of its fields."""
        call("calve_program_learn", choices, (), self._handle, condition, bytes(values))


class Values:
    """Decodes values of one schema of a binary format. For one thread.

    Args:
        handle: The core's decoder.
        format: The format, as in the names of its functions: `calve_<format>_decode`.
        schema: The Arrow schema of the rows.
    """

    def __init__(self, handle: int, format: str, schema: pa.Schema) -> None:
        self._handle = handle
        self._format = format
        self._schema = schema
        weakref.finalize(self, releaser(f"calve_{format}_free"), handle)

    def decode(self, values: pa.Array, start: int) -> tuple[RowNumbers, pa.RecordBatch] | None:
        """Decode an array of binary from the byte `start` of each value on.

        Returns:
            The positions of the values that certainly follow the schema, ascending, and their rows. None where the core
            failed, which is a mistake in it.
        """
        return self._called("decode", values, start)

    def block(self, data: bytes, count: int) -> tuple[RowNumbers, pa.RecordBatch] | None:
        """Decode so many values that follow each other, up to the first that the core leaves.

        Returns:
            Where each value ends, and their rows. None as for `decode`.
        """
        return self._called("block", pa.array([data], pa.large_binary()), count)

    def _called(self, name: str, values: pa.Array, number: int) -> tuple[RowNumbers, pa.RecordBatch] | None:
        kinds = self._schema, pa.int64()
        outcome = call(f"calve_{self._format}_{name}", values, kinds, self._handle, number)
        return None if outcome is None else (outcome[1][1].to_numpy(), outcome[1][0])


def converter(spec: Sequence[str], schema: pa.Schema) -> FastConverter | None:
    """Make a converter; None without the core, or of a table that it does not convert (see `core/src/spec.rs`)."""
    handle = new_handle("calve_converter_new", spec)
    return FastConverter(handle, schema) if handle else None


def observer(spec: Sequence[str]) -> Observer | None:
    """Make an observer; None without the core, or of a table that it does not know."""
    handle = new_handle("calve_observer_new", spec)
    return Observer(handle) if handle else None


def envelopes(spec: Sequence[str], metadata: pa.Schema) -> FastEnvelopes | None:
    """Make a decoder of envelopes; None without the core, or of a format that it does not know."""
    handle = new_handle("calve_envelopes_new", spec)
    return FastEnvelopes(handle, metadata) if handle else None


def values(format: str, spec: Sequence[str], schema: pa.Schema) -> Values | None:
    """Make a decoder of values; None without the core, or of steps that it does not know."""
    handle = new_handle(f"calve_{format}_new", spec)
    return Values(handle, format, schema) if handle else None


def program(spec: Sequence[str]) -> Program | None:
    """Make a program; None without the core, or of steps that it does not know (see `core/src/program.rs`)."""
    handle = new_handle("calve_program_new", spec)
    return Program(handle) if handle else None


def failures() -> int:
    """Return how often the core failed in this process since this was asked last."""
    count = len(_failures)
    del _failures[:count]
    return count


def pick(events: pa.Array, names: Sequence[str] = (), is_whole: bool = True) -> tuple[pa.Int32Array, pa.Array] | None:
    """Return for each event the number of a text that holds some of its fields alone, and these texts (large string).

    The number is -1 where the event is not a JSON object that every reader takes for the same: an object of it repeats
    a key, or a text is half a surrogate pair. The exact reader knows of these. None without the core.

    Args:
        events: An array of binary or string.
        names: The fields.
        is_whole: Whether events are read to their ends. Else they are not checked behind the last of the fields: it is
            the reader of the rest finds those that are not such objects, or repeat one of the fields.
    """
    text = "".join(f"{name}\0" for name in names).encode()
    outcome = call("calve_pick", events, (pa.int32(), pa.large_string()), text, len(text), is_whole) if load() else None
    return None if outcome is None else (outcome[1][0], outcome[1][1])


def as_array(data: bytes | memoryview) -> pa.Array:
    """Return bytes as an array of one large binary, without a copy."""
    ends = pa.py_buffer(np.array([0, len(data)], np.int64))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(data)])


def _library() -> Any:
    library = load()
    assert library is not None
    return library


def releaser(function: str) -> Any:
    """Return the function of the core that frees what a handle stands for."""
    free = _library()[function]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    return free


def new_handle(function: str, spec: Sequence[str]) -> int | None:
    """Make something of the core by texts (`core/src/spec.rs`); None without the core, or if it does not know them."""
    library, text = load(), _joined(spec)
    if library is None or text is None:
        return None
    make = library[function]
    make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_size_t]
    handle: int | None = make(text, len(text))
    return handle


def _joined(spec: Sequence[str]) -> bytes | None:
    try:
        return None if any("\0" in text for text in spec) else "\0".join(spec).encode()
    except UnicodeEncodeError:
        return None


def call(
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
