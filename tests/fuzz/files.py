"""Events as the contents of a file, in each format that the source reads."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from convert.reference import Text
from fuzz.event import as_text, deeply, parse_quietly

TYPED = ("csv", "parquet")
"""Formats that declare their columns: an event is a row, and not the text that was written."""
MOST_CELLS = 12
QUOTE = '"'
LONGS = range(-(2**63), 2**63)


def content_of(suffix: str, events: Sequence[bytes]) -> tuple[list[bytes], bytes]:
    """Return the events that a file of a format can hold, and the file."""
    taken = list(events)
    if suffix in TYPED:
        with deeply():
            return as_csv(taken) if suffix == "csv" else as_parquet(taken)
    if suffix == "json":
        taken = [event for event in taken if parse_quietly(event) is not None]
        return taken, b"[" + b",\n".join(taken) + b"]"
    text = b"".join(event + b"\n" for event in taken)
    return taken, gzip.compress(text, 1) if suffix.endswith(".gz") else text


def as_csv(events: Sequence[bytes]) -> tuple[list[bytes], bytes]:
    """Return events as the rows of a CSV file whose cells are all text, and the file.

    An empty cell is null, and a column without a name has its number's."""
    names, objects = _table(events)
    rows = [{name or f"column{at}": as_text(each.get(name)) for at, name in enumerate(names, 1)} for each in objects]
    cells = [[f'"{name.replace(QUOTE, QUOTE * 2)}"' for name in names]]
    cells += [["" if cell is None else f'"{cell.replace(QUOTE, QUOTE * 2)}"' for cell in row.values()] for row in rows]
    return [json.dumps(row).encode() for row in rows], "\n".join(map(",".join, cells)).encode() + b"\n"


def as_parquet(events: Sequence[bytes]) -> tuple[list[bytes], bytes]:
    """Return events as the rows of a Parquet file whose columns are booleans, longs or else text, and the file."""
    names, objects = _table(events)
    table = pa.table([_column([each.get(name) for each in objects]) for name in names], names)
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=20)
    return [json.dumps(row).encode() for row in table.to_pylist()], file.getvalue()


def _table(events: Sequence[bytes]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns and the rows of a file; one without an id could not be told from another one."""
    parsed = [value for event in events if (value := parse_quietly(event)) is not None]
    objects = [value for value in parsed if isinstance(value.get("id"), str)]
    names = [name for name in dict.fromkeys(name for each in objects for name in each) if as_text(name) is not None]
    return names[:MOST_CELLS], objects


def _column(values: list[Any]) -> pa.Array:
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, bool) for value in present):
        return pa.array(values, pa.bool_())
    if present and all(isinstance(value, Text) and value.lstrip("-").isdigit() for value in present):
        numbers = [None if value is None else int(value) for value in values]
        if all(number is None or number in LONGS for number in numbers):
            return pa.array(numbers, pa.int64())
    return pa.array([as_text(value) for value in values], pa.string())
