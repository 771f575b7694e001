"""ORC: rows with their types."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
from pyarrow import orc

from calve.event.typed_schema import declaration, without_empty_nanoseconds
from calve.files.temporary import private_folder
from calve.sources.file.rows import FileBatches, repetition, row_numbers

__all__ = ["read_orc"]

_ERRORS = (pa.ArrowException, OSError)  # pyarrow raises OSError for a damaged file, too
_BLOCK_BYTES = 4 << 20
_DAMAGED = "it is damaged in a way that crashes the reader"


class _BrokenError(Exception):
    """The file, or a part of it, cannot be read; the message is the rest of a sentence about it."""


def read_orc(file: pa.NativeFile, rows: FileBatches) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, and one row with the reason for each stripe that cannot be read.

    Raises:
        OSError: The storage does not answer.
    """
    try:
        with _watched(rows.path, file.size()) as has_crashed:
            yield from _rows(file, rows, _crashing(file) if has_crashed else None)
    except _BrokenError as broken:
        yield from rows.broken(str(broken))


def _rows(file: pa.NativeFile, rows: FileBatches, crashing: int | None) -> Iterator[pa.RecordBatch]:
    opened, row = _opened(file), 1
    for index in range(opened.nstripes):
        if index == crashing:  # how many rows it has is unknown
            raise _BrokenError(f"cannot be read after row {row - 1}: {_DAMAGED}")
        try:
            stripe = _stripe(file, opened, index, row)
        except _BrokenError as broken:
            yield from rows.broken(str(broken))
            row += _length(opened, index)
            continue
        declared = declaration(stripe.schema.remove_metadata())
        yield from rows.typed(stripe, row_numbers(row, len(stripe)), declared)
        row += len(stripe)


@contextlib.contextmanager
def _watched(path: str, size_bytes: int) -> Iterator[bool]:
    """Tell whether a task crashed, or was killed, while it read this file; a mark on this machine remembers it."""
    folder = private_folder("calve-orc")
    if folder is None:  # no mark can be trusted; a check first is slower, and safe
        yield True
        return
    mark = folder / hashlib.sha256(f"{path} {size_bytes}".encode()).hexdigest()[:32]
    has_crashed = mark.exists()
    try:
        mark.touch()
        yield has_crashed
    finally:  # a crash does not come here
        mark.unlink(missing_ok=True)


def _crashing(file: pa.NativeFile) -> int | None:
    """Return the first stripe that crashes the reader, found in a process that may crash; None: no stripe does.

    Raises:
        _BrokenError: The description of the file crashes it.
    """
    file.seek(0)
    command = [sys.executable, str(Path(__file__).with_name("orc_check.py"))]
    done = subprocess.run(command, input=file.read(), capture_output=True, check=False)
    if done.returncode >= 0:
        return None
    if not done.stdout:
        raise _BrokenError(f"cannot be read as ORC: {_DAMAGED}")
    return int(done.stdout.split()[-1])


def _opened(file: pa.NativeFile) -> orc.ORCFile:
    try:
        opened = orc.ORCFile(file)
        schema = opened.schema
    except _ERRORS as error:
        _fail(file, f"cannot be read as ORC (cut off?): {error}")
    if repeated := repetition(schema.names):
        raise _BrokenError(f"{repeated}; give them unique names")
    if unions := [field.name for field in schema if _has_union(field.type)]:
        raise _BrokenError(f"has the column {unions[0]} with a union, which no column can hold")
    return opened


def _stripe(file: pa.NativeFile, opened: orc.ORCFile, index: int, row: int) -> pa.RecordBatch:
    try:
        return without_empty_nanoseconds(opened.read_stripe(index))
    except _ERRORS as error:
        names = [name for name in opened.schema.names if not _is_readable(opened, index, name)]
        of = f" in the column {names[0]}" if names else ""
        _fail(file, f"cannot be read after row {row - 1} of its ORC data{of}: {error}")


def _is_readable(opened: orc.ORCFile, index: int, name: str) -> bool:
    try:
        opened.read_stripe(index, columns=[name])
    except _ERRORS:
        return False
    return True


def _length(opened: orc.ORCFile, index: int) -> int:
    """Return the number of rows of a stripe, some columns of which cannot be read.

    Raises:
        _BrokenError: None can be read.
    """
    for name in opened.schema.names:
        if _is_readable(opened, index, name):
            return len(opened.read_stripe(index, columns=[name]))
    raise _BrokenError(f"cannot be read from its stripe {index + 1} of {opened.nstripes} on")


def _fail(file: pa.NativeFile, reason: str) -> NoReturn:
    """Raise the reason, or the error of a storage that does not answer."""
    file.seek(0)
    while file.read(_BLOCK_BYTES):
        pass
    raise _BrokenError(reason)


def _has_union(kind: pa.DataType) -> bool:
    inside = [kind.field(number).type for number in range(kind.num_fields)]
    return pa.types.is_union(kind) or any(map(_has_union, inside))
